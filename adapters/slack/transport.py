"""The Slack surface: one Bolt app behind signed HTTP or Socket Mode, and the way out.

Bolt runs with `process_before_response`: an answer goes out only when the listener returned. An
event is so acknowledged when `entry.message` has committed; an exception is a 500 over HTTP and no
acknowledgement over a socket, and Slack delivers again. It also avoids a defect of slack_bolt
1.30.0, whose other mode loses an acknowledgement when the listener fails within 10 ms after it
(`asyncio_runner.py`: `ack.response = response` in the except branch; gone when it keeps an ack that
is set)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import aiohttp
from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import events, sockets
from adapters.slack.background import Background
from adapters.slack.clicks import Clicks
from adapters.slack.commands import COMMAND, PENDING, STATUS, TURN, Commands
from adapters.slack.delivery import Delivery
from adapters.slack.events import SURFACE, Identity, Malformed
from adapters.slack.log import quiet
from adapters.slack.people import People
from adapters.slack.refusal import code_of
from adapters.slack.settings import SlackSettings
from adapters.slack.text import split
from bot import commands
from bot.clock import Clock
from bot.secrets import ConfigError
from bot.surface import Content, DeliveryError, Entry, Message, Pace, Place
from storage.database import DatabaseUnavailable

log = logging.getLogger(__name__)

SCOPES: Final = frozenset(
    {
        "app_mentions:read",
        "channels:history",
        "chat:write",
        "commands",
        "files:write",
        "groups:history",
        "im:history",
        "mpim:history",
        "users:read",
    }
)
_WRONG_TOKEN: Final = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"}
)
_CALL_SECONDS: Final = 20.0
_LAST_SECONDS: Final = 5.0  # what runs at the end is waited for
_TRAPS: Final = (  # slack_bolt 1.30 reads these by itself: OAuth, another token, another check
    "SLACK_CLIENT_ID",
    "SLACK_CLIENT_SECRET",
    "SLACK_BOT_TOKEN",
    "SLACK_VERIFICATION_TOKEN",
)


class SlackSurface:
    """Implements `bot.surface.Adapter`."""

    name = SURFACE
    pace = Pace(interval=1.1, burst=3)

    def __init__(self, settings: SlackSettings, entry: Entry, clock: Clock) -> None:
        self._settings = settings
        self._entry = entry
        self._clock = clock
        self._client = AsyncWebClient(
            token=settings.bot_token,
            base_url=settings.base_url,
            retry_handlers=[],
            logger=quiet("slack_sdk"),
        )
        self._delivery = Delivery(self._client)
        self._background = Background()
        self._me: Identity | None = None
        self._people: People | None = None
        self._clicks: Clicks | None = None
        self._commands: Commands | None = None
        self._app = self._bolt()

    # Out

    async def post(self, place: Place, content: Content, nonce: str) -> str:
        return await self._delivery.post(self._known(), place, content, nonce)

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        await self._delivery.edit(self._known(), place, message_id, content)

    async def find(self, place: Place, nonce: str) -> str | None:
        return await self._delivery.find(self._known(), place, nonce)

    async def whisper(self, place: Place, user: str, text: str) -> None:
        await self._delivery.whisper(place, user, text)

    def split(self, text: str) -> list[str]:
        return split(text)

    def link(self, place: Place) -> str | None:
        return None if self._me is None else events.permalink(self._me, place)

    def _known(self) -> Identity:
        if self._me is None:
            raise DeliveryError("Slack is not connected yet.")
        return self._me

    # Running

    def routes(self) -> list[web.RouteDef]:
        if self._settings.mode == "socket":
            return []
        return [web.post(self._settings.path, self._receive)]

    async def run(self, started: asyncio.Event) -> None:
        """Raises ConfigError when Slack refuses a token."""
        timeout = aiohttp.ClientTimeout(total=_CALL_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            self._client.session = session
            try:
                self._me = await self._identify()
                self._people = People(self._client, self._clock, self._me.team)
                self._clicks = Clicks(
                    self._entry, self._client, self._delivery, self._people, self._background
                )
                self._commands = Commands(
                    self._entry, self._client, self._people, self._background, self._me.team
                )
                if self._settings.mode == "socket":
                    token = self._settings.app_token
                    await sockets.listen(self._app, self._client, token, self._clock, started)
                started.set()
                await asyncio.Event().wait()
            finally:
                await self._background.finish(_LAST_SECONDS)
                self._me = None
                self._client.session = None

    async def _identify(self) -> Identity:
        """Who we are, asked until Slack answers."""
        pause = 1.0
        while True:
            try:
                answer = await self._client.auth_test()
                break
            except SlackApiError as error:
                if code_of(error) in _WRONG_TOKEN:
                    raise ConfigError(
                        f"SLACK_BOT_TOKEN is refused by Slack ({code_of(error)}): install the app "
                        "in your workspace and set its bot token."
                    ) from None
                log.warning("Slack does not say who we are yet: %s", code_of(error))
            except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
                log.warning("Slack is not reachable: %s", type(error).__name__)
            await self._clock.sleep(pause)
            pause = min(pause * 2, 60.0)
        if not answer.get("bot_id"):
            raise ConfigError("SLACK_BOT_TOKEN is no bot token: set it to the one with xoxb-.")
        granted = answer.headers.get("x-oauth-scopes")
        for scope in sorted(SCOPES - set(granted.split(","))) if granted else ():
            log.warning("The Slack app lacks the scope %s: add it and install it again.", scope)
        return Identity(
            team=str(answer["team_id"]),
            user=str(answer["user_id"]),
            bot=str(answer["bot_id"]),
            url=str(answer.get("url") or ""),
        )

    # In

    async def _receive(self, request: web.Request) -> web.Response:
        """One signed request of Slack."""
        if self._me is None:  # Slack delivers again, and by then we know who we are
            return web.Response(status=503)
        stamp = request.headers.get("x-slack-request-timestamp", "")
        if not (stamp.isascii() and stamp.isdigit()):  # slack_bolt 1.30 answers it with a 500
            return web.Response(status=401)
        try:
            bolt_request = await to_bolt_request(request)
        except (ValueError, LookupError, AttributeError, TypeError):
            log.warning("A request that is none of Slack's was refused.")
            return web.Response(status=400)
        return await to_aiohttp_response(await self._app.async_dispatch(bolt_request))

    def _bolt(self) -> AsyncApp:
        async def authorize() -> AuthorizeResult:
            me = self._known()
            return AuthorizeResult(
                enterprise_id=None, team_id=me.team, bot_id=me.bot, bot_user_id=me.user
            )

        async def on_event(body: dict[str, Any]) -> None:
            await self._hear(body)

        async def on_other_event() -> None:
            """Acknowledged, so that Slack does not repeat what nobody asked for."""

        async def on_click(ack: AsyncAck, body: dict[str, Any]) -> None:
            await self._press(body)
            await ack()

        async def on_submission(ack: AsyncAck, body: dict[str, Any]) -> None:
            await ack(await self._send(body))

        async def on_command(ack: AsyncAck, body: dict[str, Any]) -> None:
            answer = await self._type(body)
            await (ack(answer) if answer else ack())

        async def on_shortcut(ack: AsyncAck, body: dict[str, Any]) -> None:
            self._shortcut(body)
            await ack()

        async def on_turn(ack: AsyncAck, body: dict[str, Any]) -> None:
            self._turn(body)
            await ack()

        async def on_error(error: Exception) -> None:
            """The answer stays the 500 that Bolt prepared: Slack delivers an event again."""
            if isinstance(error, DatabaseUnavailable):
                log.warning("The database is not answering; Slack will deliver again.")
            else:
                log.error("A delivery of Slack failed.", exc_info=error)

        with _without_traps():
            app = AsyncApp(
                name="interlock",
                logger=quiet("slack_bolt"),
                client=AsyncWebClient(base_url=self._settings.base_url, retry_handlers=[]),
                authorize=authorize,
                signing_secret=self._settings.signing_secret,
                process_before_response=True,
                attaching_conversation_kwargs_enabled=False,
                before_authorize=_Shaped(),
            )
        for event in events.EVENTS:
            app.event(event)(on_event)
        app.event(re.compile(".*"))(on_other_event)
        app.command(COMMAND)(on_command)
        for shortcut in (STATUS, PENDING):
            app.shortcut(shortcut)(on_shortcut)
        app.action(re.compile(f"{re.escape(TURN)}.*"))(on_turn)
        app.action(re.compile(".*"))(on_click)
        app.view(re.compile(".*"))(on_submission)
        app.error(on_error)
        return app

    async def _hear(self, body: dict[str, Any]) -> None:
        try:
            heard = events.heard(body, self._known())
        except Malformed as wrong:
            log.warning("An event of Slack was refused: %s", wrong)
            return
        if heard is None:
            return
        if heard.named and (command := commands.read(heard.text)) is not None:
            assert self._commands is not None
            self._commands.mention(heard, *command)
            return
        assert self._people is not None
        message = Message(
            keys=heard.keys,
            place=heard.place,
            actor=await self._people.actor(heard.person),
            text=heard.text,
            starts=heard.starts,
            source=heard.source,
        )
        await self._entry.message(message)

    async def _press(self, body: dict[str, Any]) -> None:
        try:
            click = events.click(body, self._known())
        except Malformed as wrong:
            log.warning("A click was refused: %s", wrong)
            return
        assert self._clicks is not None
        await self._clicks.press(click)

    async def _send(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            submission = events.submission(body)
        except Malformed as wrong:
            log.warning("A modal was refused: %s", wrong)
            return {}
        assert self._clicks is not None
        return await self._clicks.send(submission)

    async def _type(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            typed = events.typed(body, self._known())
        except Malformed as wrong:
            log.warning("A command was refused: %s", wrong)
            return {}
        assert self._commands is not None
        return await self._commands.slash(typed)

    def _shortcut(self, body: dict[str, Any]) -> None:
        try:
            used = events.shortcut(body, self._known())
        except Malformed as wrong:
            log.warning("A shortcut was refused: %s", wrong)
            return
        assert self._commands is not None
        self._commands.shortcut(used)

    def _turn(self, body: dict[str, Any]) -> None:
        try:
            turned = events.turned(body, self._known())
        except Malformed as wrong:
            log.warning("A click was refused: %s", wrong)
            return
        assert self._commands is not None
        self._commands.turn(turned)


class _Shaped(AsyncMiddleware):
    """Refuses a signed payload that Bolt would fail on; a 500 would only bring it again."""

    async def async_process(
        self,
        *,
        req: AsyncBoltRequest,
        resp: BoltResponse,
        next: Callable[[], Awaitable[BoltResponse]],
    ) -> BoltResponse:
        if events.shaped(req.body):
            return await next()
        log.warning("A payload in a shape that Slack does not send was refused.")
        return BoltResponse(status=200, body="")


@contextlib.contextmanager
def _without_traps() -> Iterator[None]:
    hidden = {name: os.environ.pop(name) for name in _TRAPS if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
