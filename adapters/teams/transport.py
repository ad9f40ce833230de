"""The Teams surface: one endpoint on the one web server, and the way out.

What a person said is answered once it is durable; Teams delivers again what is not answered well,
at times under another id."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from adapters.teams import doctor, events, files, group, limits
from adapters.teams.botbuilder import NoToken, SafeAdapter
from adapters.teams.clicks import Clicks
from adapters.teams.commands import Commands
from adapters.teams.connector import Connector
from adapters.teams.delivery import Delivery
from adapters.teams.direct import place_of
from adapters.teams.events import (
    CHANNEL,
    PERSONAL,
    SURFACE,
    WHOLE,
    Edited,
    Heard,
    Malformed,
    Present,
    Pressed,
    address_of,
)
from adapters.teams.gate import Gate, tenant_of
from adapters.teams.groups import Groups, place_of_group
from adapters.teams.people import People, Unknown
from adapters.teams.redelivery import Redeliveries
from adapters.teams.settings import TeamsSettings
from adapters.teams.text import split
from adapters.teams.typing import Typing
from bot import commands
from bot.background import Background
from bot.clock import Clock
from bot.finding import Finding
from bot.surface import (
    Content,
    DeliveryError,
    Earlier,
    Entry,
    Message,
    Pace,
    Place,
    Posted,
    Reply,
    Status,
    Together,
)
from storage.conversations import Conversation, Conversations
from storage.database import Database, DatabaseUnavailable

log = logging.getLogger(__name__)

WELCOME: Final = (
    "Hello! Mention me with what you need, and I work on it in that thread. Before I use a tool "
    "that changes something, I show exactly what would run and wait for the people who may approve "
    "it. `help` lists what else I understand."
)
_LAST_SECONDS: Final = 5.0  # what runs at the end is waited for
_MOST: Final = 10_000


class TeamsSurface:
    """Implements `bot.surface.Adapter`."""

    name = SURFACE
    pace = Pace(interval=0.6, burst=5)  # Teams takes 7 posts a second, 8 in two, 60 in 30
    together: Together | None = group.TOGETHER
    statuses = True
    keeps_homes = False
    takes_files = False  # without Graph a bot attaches none in a channel

    def __init__(
        self, settings: TeamsSettings, entry: Entry, clock: Clock, database: Database
    ) -> None:
        self._settings = settings
        self._entry = entry
        self._clock = clock
        self._background = Background()
        gate = Gate(settings.app_id, settings.tenants, settings.cloud, settings.insecure)
        self._adapter = SafeAdapter(settings, gate, clock)
        connector = Connector(self._adapter, gate)
        self._conversations = Conversations(database, SURFACE)
        self._people = People(connector, clock)
        self._groups = Groups(connector, clock)
        self._delivery = Delivery(connector, self._conversations, self._people, clock)
        self._clicks = Clicks(entry, self._delivery, self._people, self._background)
        self._commands = Commands(entry, self._delivery, self._people)
        self._typing = Typing(self._delivery, clock)
        self._redeliveries = Redeliveries(clock)
        self._noted: dict[tuple[str, str], tuple[Conversation, float]] = {}
        self._listening = False

    # Out

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        return await self._delivery.post(place, content, nonce)

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        await self._delivery.edit(place, message_id, content)

    async def find(self, place: Place, nonce: str, *, live: bool = False) -> Posted | None:
        await self._delivery.find(place, nonce)
        return None

    async def whisper(self, place: Place, user: str, text: str) -> None:
        await self._delivery.whisper(place, user, text)

    async def status(self, place: Place, status: Status) -> None:
        self._typing.show(place, status)

    async def earlier(self, place: Place, before: str) -> Earlier:
        """A bot is told nothing of what was written before it was called."""
        if (await self._delivery.conversation(place)).kind == PERSONAL:
            return Earlier(())
        raise DeliveryError("Teams does not let the bot read it", permanent=True)

    async def fetch(self, place: Place, reference: Mapping[str, Any], most: int) -> bytes:
        return await files.fetch(self._settings.cloud, reference, most)

    async def show_home(self, organisation: str, user: str) -> None:
        """No list stays open in Teams: each is drawn when it is asked for."""

    async def members(self, organisation: str, group: str) -> frozenset[str]:
        place = place_of_group(organisation, group)
        return await self._groups.members(await self._delivery.conversation(place))

    def split(self, text: str) -> list[str]:
        return split(text)

    def link(self, place: Place) -> str | None:
        return address_of(place, self._settings.cloud.web)

    def direct(self, organisation: str, user: str) -> Place | None:
        return place_of(organisation, user)

    # Running

    def routes(self) -> list[web.RouteDef]:
        return [web.post(self._settings.path, self._receive)]

    async def ready(self) -> bool:
        return self._listening and (self._settings.insecure or self._adapter.keys.good)

    async def check(self, places: Sequence[Place], people: Sequence[str]) -> list[Finding]:
        return await doctor.examine(self._adapter, self._settings, people)

    async def run(self, started: asyncio.Event, *, hears: bool = True) -> None:
        if self._settings.insecure:
            log.warning("Teams: requests are NOT authenticated (--insecure-local).")
        await self._conversations.create_table()
        await self._adapter.start()
        keys = None
        try:
            if not self._settings.insecure:
                if hears:
                    await self._adapter.keys.refresh()
                    keys = asyncio.create_task(self._adapter.keys.keep_fresh())
                self._background.start(self._try_token())
            self._listening = hears
            started.set()
            await asyncio.Event().wait()
        finally:
            self._listening = False
            if keys is not None:
                keys.cancel()
            await self._typing.stop()
            await self._background.finish(_LAST_SECONDS)
            # Nobody is heard any more, but what runs speaks until it has ended (bot.app): the
            # threads of the adapter end with the process.

    async def _try_token(self) -> None:
        """Says at once what would else be found out at the first answer."""
        try:
            await self._adapter.token()
        except NoToken as error:
            log.error("Teams: Microsoft gives the bot no token (%s): see `doctor`.", error)

    # In

    async def _receive(self, request: web.Request) -> web.Response:
        if not self._listening:  # Teams delivers again
            return web.Response(status=503)
        response: web.Response = await self._adapter.process(request, self._take)
        return response

    async def _take(self, activity: Mapping[str, Any]) -> web.Response:
        """What was let in. Anything that fails is delivered again."""
        try:
            event = events.read(activity, tenant_of(activity))
        except Malformed as wrong:
            log.warning("An activity of Teams was refused: %s", wrong)
            return web.Response(status=400)
        try:
            match event:
                case None:
                    return web.Response(status=400 if activity["type"] == "invoke" else 200)
                case Pressed():
                    # Beside it: nothing of the time that Teams waits is spent on it.
                    self._background.start(self._note_if_possible(event.conversation))
                    body = await self._clicks.press(event)
                    return web.Response() if body is None else web.json_response(body)
                case Heard():
                    await self._note(event.conversation)
                    await self._hear(event)
                case Edited():
                    await self._entry.changed(event.change)
                case Present():
                    await self._attend(event)
        except DatabaseUnavailable:
            log.warning("The database is not answering; Teams will deliver again.")
        except Unknown as unknown:
            log.warning("A message was not taken in: %s", unknown)
            if unknown.final:
                return web.Response(status=403)
        except Exception:
            log.exception("An activity of Teams failed.")
        else:
            return web.Response()
        return web.Response(status=503)

    async def _hear(self, heard: Heard) -> None:
        command = commands.read(heard.text) if heard.starts or heard.private else None
        if heard.private:  # nobody else sees it, so that no chat can live there
            command = command or ("help", "")
        keys = self._redeliveries.begin(heard.content, heard.keys)
        taken = False
        try:
            if command is not None:
                self._background.start(self._commands.answer(heard, keys, *command))
                taken = True
                return
            await self._entry.message(
                Message(
                    keys=keys,
                    place=heard.place,
                    actor=await self._people.actor(heard.person, heard.conversation),
                    text=heard.text,
                    starts=heard.starts,
                    source=heard.source,
                    files=heard.files,
                )
            )
            taken = True
        finally:
            self._redeliveries.end(heard.content, answered=taken)

    async def _attend(self, present: Present) -> None:
        """Remembers where the bot is, and forgets where it is not any more."""
        conversation = present.conversation
        if not present.gone:
            new = await self._note(conversation)
            if new and present.added:
                self._background.start(self._welcome(conversation))
            return
        self._noted.pop((conversation.organisation, conversation.channel), None)
        await self._conversations.forget(conversation.organisation, conversation.channel)
        log.warning("Teams: the bot was removed from a conversation.")

    async def _note_if_possible(self, conversation: Conversation) -> None:
        with contextlib.suppress(DatabaseUnavailable):
            await self._note(conversation)

    async def _welcome(self, conversation: Conversation) -> None:
        """Says once what the bot is for, where it was not before."""
        root = "" if conversation.kind == CHANNEL else WHOLE
        place = Place(SURFACE, conversation.organisation, conversation.channel, root)
        try:
            await self._delivery.post(place, Reply(WELCOME), secrets.token_hex(8))
        except DeliveryError as error:
            log.warning("Teams: nobody could be welcomed: %s", error)

    async def _note(self, conversation: Conversation) -> bool:
        """Keeps where the bot is. Returns whether it was not known before."""
        key, now = (conversation.organisation, conversation.channel), self._clock.now()
        known, noted_at = self._noted.get(key, (None, 0.0))
        if known == conversation and now - noted_at < limits.NOTED_SECONDS:
            return False
        new = await self._conversations.note(conversation, now)
        if len(self._noted) >= _MOST:
            self._noted.clear()
        self._noted[key] = (conversation, now)
        return new
