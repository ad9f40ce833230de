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
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import aiohttp
from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltContext
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import (
    apology,
    credentials,
    direct,
    doctor,
    events,
    files,
    group,
    sockets,
    threads,
)
from adapters.slack.commands import COMMAND, PENDING, STATUS, TURN
from adapters.slack.environment import without_traps
from adapters.slack.events import SURFACE, Malformed
from adapters.slack.installs import InstalledWorkspaces
from adapters.slack.log import quiet
from adapters.slack.parts import split
from adapters.slack.settings import SlackSettings
from adapters.slack.twins import Twins
from adapters.slack.workspaces import OneWorkspace, Workspace, Workspaces, web_client
from bot import commands
from bot.background import Background
from bot.clock import Clock
from bot.finding import Finding, problem
from bot.surface import Content, Earlier, Entry, Message, Pace, Place, Posted, Status, Together
from storage.database import Database, DatabaseUnavailable

log = logging.getLogger(__name__)

_CALL_SECONDS: Final = 20.0
_LAST_SECONDS: Final = 5.0  # what runs at the end is waited for
_NOT_INSTALLED: Final = (
    "Interlock is not installed in this workspace any more: ask an admin to install it again."
)

Work = Callable[[dict[str, Any], Workspace], Awaitable[dict[str, Any] | None]]
"""Does what a person asked for; returns what Slack is answered."""


class SlackSurface:
    """Implements `bot.surface.Adapter`."""

    name = SURFACE
    pace = Pace(interval=1.1, burst=3)
    together: Together | None = Together(above=4, size=group.MOST)
    keeps_homes = True
    takes_files = True
    statuses = True

    def __init__(
        self, settings: SlackSettings, entry: Entry, clock: Clock, database: Database
    ) -> None:
        self._settings = settings
        self._entry = entry
        self._clock = clock
        self._background = Background()
        self._twins = Twins()
        self._workspaces: Workspaces = (
            OneWorkspace(settings, entry, clock, self._background)
            if settings.oauth is None
            else InstalledWorkspaces(
                settings.oauth, settings, entry, clock, self._background, database
            )
        )
        self._listening = False
        self._socket: sockets.Socket | None = None
        self._app = self._bolt()

    # Out

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        workspace = await self._workspaces.find(place.organisation)
        return await workspace.delivery.post(place, content, nonce)

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        workspace = await self._workspaces.find(place.organisation)
        await workspace.delivery.edit(place, message_id, content)

    async def find(self, place: Place, nonce: str, *, live: bool = False) -> Posted | None:
        workspace = await self._workspaces.find(place.organisation)
        return await workspace.delivery.find(place, nonce, live=live)

    async def whisper(self, place: Place, user: str, text: str) -> None:
        workspace = await self._workspaces.find(place.organisation)
        await workspace.delivery.whisper(place, user, text)

    async def status(self, place: Place, status: Status) -> None:
        workspace = await self._workspaces.find(place.organisation)
        await workspace.sessions.show(place, status)

    async def earlier(self, place: Place, before: str) -> Earlier:
        workspace = await self._workspaces.find(place.organisation)
        return await threads.earlier(
            workspace.client, workspace.people, workspace.me, place, before
        )

    async def fetch(self, place: Place, reference: Mapping[str, Any], most: int) -> bytes:
        workspace = await self._workspaces.find(place.organisation)
        return await files.fetch(workspace.client, reference, most)

    async def show_home(self, organisation: str, user: str) -> None:
        workspace = await self._workspaces.find(organisation)
        await workspace.homes.show(user)

    async def members(self, organisation: str, group: str) -> frozenset[str]:
        workspace = await self._workspaces.find(organisation)
        return await workspace.groups.members(group)

    def split(self, text: str) -> list[str]:
        return split(text)

    def link(self, place: Place) -> str | None:
        workspace = self._workspaces.known(place.organisation)
        return None if workspace is None else events.permalink(workspace.me, place)

    def direct(self, organisation: str, user: str) -> Place | None:
        return direct.place_of(organisation, user)

    # Running

    def routes(self) -> list[web.RouteDef]:
        installing = self._workspaces.routes()
        if self._settings.mode == "socket":
            return installing
        return [web.post(self._settings.path, self._receive), *installing]

    async def ready(self) -> bool:
        if self._settings.mode == "socket":
            return self._socket is not None and await self._socket.ready()
        return self._listening

    async def check(self, places: Sequence[Place], people: Sequence[str]) -> list[Finding]:
        try:
            tokens = await self._workspaces.tokens()
        except DatabaseUnavailable as error:
            return [problem(credentials.TOKEN, str(error))]
        dispatch = self._app.async_dispatch
        return await doctor.examine(self._settings, tokens, dispatch, self._clock, places, people)

    async def run(self, started: asyncio.Event, *, hears: bool = True) -> None:
        """Raises ConfigError when Slack refuses a token."""
        timeout = aiohttp.ClientTimeout(total=_CALL_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            try:
                await self._workspaces.start(session)
                self._listening = hears
                if hears and self._settings.mode == "socket":
                    client = web_client(self._settings.base_url)
                    client.session = session
                    token = self._settings.app_token
                    self._socket = sockets.Socket(self._app, client, token, self._clock)
                    await self._socket.listen(started)
                started.set()
                await asyncio.Event().wait()
            finally:
                self._listening = False
                await self._background.finish(_LAST_SECONDS)
                self._workspaces.stop()

    # In

    async def _receive(self, request: web.Request) -> web.Response:
        """One signed request of Slack."""
        if not self._listening:  # Slack delivers again, and by then we know who we are
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
        async def authorize(
            enterprise_id: str | None, team_id: str | None, context: AsyncBoltContext
        ) -> AuthorizeResult | None:
            whole = bool(context.is_enterprise_install)
            try:
                workspace = await self._workspaces.sent_to(enterprise_id, team_id, whole)
            except Exception:  # `of` fails then, and each listener answers as it does to any fault
                log.exception("A workspace could not be looked up.")
                return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id)
            if workspace is None:
                return None
            context["workspace"] = workspace
            me = workspace.me
            return AuthorizeResult(
                enterprise_id=enterprise_id, team_id=me.team, bot_id=me.bot, bot_user_id=me.user
            )

        def of(context: AsyncBoltContext) -> Workspace:
            """The workspace that `authorize` found."""
            workspace: Workspace = context["workspace"]
            return workspace

        async def on_event(body: dict[str, Any], context: AsyncBoltContext) -> None:
            await self._hear(body, of(context))

        async def on_stop(body: dict[str, Any], context: AsyncBoltContext) -> None:
            self._stop(body, of(context))

        async def on_opening(body: dict[str, Any], context: AsyncBoltContext) -> None:
            self._open(body, of(context))

        async def on_revoked(context: AsyncBoltContext) -> None:
            await self._workspaces.revoked(context.enterprise_id, context.team_id)

        async def on_other_event() -> None:
            """Acknowledged, so that Slack does not repeat what nobody asked for."""

        async def tells(body: dict[str, Any], context: AsyncBoltContext) -> None:
            workspace: Workspace | None = context.get("workspace")
            if workspace is None:
                with contextlib.suppress(Exception):  # it failed before: there may be another way
                    workspace = await self._workspaces.sent_to(
                        context.enterprise_id, context.team_id, bool(context.is_enterprise_install)
                    )
            client = workspace.client if workspace else web_client(self._settings.base_url)
            await apology.tell(client, body)

        def listening(work: Work) -> Callable[..., Awaitable[None]]:
            """The listener of something that Slack never repeats: acknowledged whatever happens,
            last, with nothing after it that could fail."""

            async def listener(
                ack: AsyncAck, body: dict[str, Any], context: AsyncBoltContext
            ) -> None:
                try:
                    answer = await work(body, of(context))
                except Exception:
                    log.exception("What a person did failed.")
                    answer = apology.acknowledgement(body)
                    self._background.start(tells(body, context))
                await (ack(answer) if answer else ack())

            return listener

        async def on_error(error: Exception) -> None:
            """The answer stays the 500 that Bolt prepared: Slack delivers an event again."""
            if isinstance(error, DatabaseUnavailable):
                log.warning("The database is not answering; Slack will deliver again.")
            else:
                log.error("A delivery of Slack failed.", exc_info=error)

        with without_traps():
            app = AsyncApp(
                name="interlock",
                logger=quiet("slack_bolt"),
                client=AsyncWebClient(base_url=self._settings.base_url, retry_handlers=[]),
                authorize=authorize,  # type: ignore[arg-type]  # None: it did not install us
                user_facing_authorize_error_message=_NOT_INSTALLED,
                signing_secret=self._settings.signing_secret,
                process_before_response=True,
                attaching_conversation_kwargs_enabled=False,
                before_authorize=_Shaped(),
            )
        for event in events.HEARD:
            app.event(event)(on_event)
        app.event(events.STOPPED)(on_stop)
        app.event(events.OPENED)(on_opening)
        for event in events.REVOKED:
            app.event(event)(on_revoked)
        app.event(re.compile(".*"))(on_other_event)
        app.command(COMMAND)(listening(self._type))
        for shortcut in (STATUS, PENDING):
            app.shortcut(shortcut)(listening(self._shortcut))
        app.action(re.compile(f"{re.escape(TURN)}.*"))(listening(self._turn))
        app.action(re.compile(".*"))(listening(self._press))
        app.view(re.compile(".*"))(listening(self._send))
        app.error(on_error)
        return app

    async def _hear(self, body: dict[str, Any], workspace: Workspace) -> None:
        try:
            changed = events.changed(body, workspace.me)
            heard = events.heard(body, workspace.me)
        except Malformed as wrong:
            log.warning("An event of Slack was refused: %s", wrong)
            return
        if changed is not None:
            await self._entry.changed(changed)
        if heard is None:
            return
        if (heard.named or heard.direct) and (command := commands.read(heard.text)) is not None:
            workspace.commands.mention(heard, *command)
            return
        if heard.lean:
            await self._twins.wait(heard.keys[-1])
        message = Message(
            keys=heard.keys,
            place=heard.place,
            actor=await workspace.people.actor(heard.person),
            text=heard.text,
            starts=heard.starts,
            source=heard.source,
            files=heard.files,
        )
        await self._entry.message(message)
        if not heard.lean:
            self._twins.taken(heard.keys[-1])

    def _stop(self, body: dict[str, Any], workspace: Workspace) -> None:
        try:
            pressed = events.stopped(body, workspace.me)
        except Malformed as wrong:
            log.warning("A press of the stop button was refused: %s", wrong)
            return
        if pressed is not None:
            workspace.sessions.forget(pressed.place)
            workspace.commands.mention(pressed, pressed.text, "")

    def _open(self, body: dict[str, Any], workspace: Workspace) -> None:
        try:
            opened = events.opened(body, workspace.me)
        except Malformed as wrong:
            log.warning("An opening of the app was refused: %s", wrong)
            return
        if opened is None:
            return
        match opened.tab:
            case "home":
                workspace.homes.open(opened.person)
            case "messages":
                self._background.start(workspace.sessions.suggest(opened.channel))
            case _:
                pass

    async def _press(self, body: dict[str, Any], workspace: Workspace) -> None:
        try:
            click = events.click(body, workspace.me)
        except Malformed as wrong:
            log.warning("A click was refused: %s", wrong)
            return
        await workspace.clicks.press(click)

    async def _send(self, body: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
        try:
            submission = events.submission(body)
        except Malformed as wrong:
            log.warning("A modal was refused: %s", wrong)
            return {}
        return await workspace.clicks.send(submission)

    async def _type(self, body: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
        try:
            typed = events.typed(body, workspace.me)
        except Malformed as wrong:
            log.warning("A command was refused: %s", wrong)
            return {}
        return await workspace.commands.slash(typed)

    async def _shortcut(self, body: dict[str, Any], workspace: Workspace) -> None:
        try:
            used = events.shortcut(body, workspace.me)
        except Malformed as wrong:
            log.warning("A shortcut was refused: %s", wrong)
            return
        workspace.commands.shortcut(used)

    async def _turn(self, body: dict[str, Any], workspace: Workspace) -> None:
        try:
            turned = events.turned(body, workspace.me)
        except Malformed as wrong:
            log.warning("A click was refused: %s", wrong)
            return
        workspace.commands.turn(turned)


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
