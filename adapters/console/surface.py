"""The console as a surface: prints what it is given, and listens while a person is there."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from prompt_toolkit import PromptSession
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from adapters.console.screen import Screen
from adapters.console.session import Interrupted, Session
from bot.card import Card, TaskCard
from bot.finding import Finding
from bot.group import GroupCard
from bot.surface import (
    Actor,
    Content,
    DeliveryError,
    Earlier,
    Entry,
    File,
    Pace,
    Place,
    Posted,
    Reply,
    Status,
    Together,
)


class ConsoleSurface:
    """Implements bot.surface.Adapter for one terminal. Its threads are those of the organisation
    "local" and the channel "console"; whoever sits there is `console:local/<user>`."""

    name = "console"
    pace = Pace()
    together: Together | None = None
    statuses = False
    keeps_homes = False
    takes_files = True

    def __init__(self, entry: Entry, *, user: str, thread: str, console: Console) -> None:
        self._entry = entry
        self.actor = Actor(self.name, "local", user)
        self.place = Place(self.name, "local", "console", thread)
        self.screen = Screen(console, thread)

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        if isinstance(content, File):  # a terminal cannot show it
            path = Path(tempfile.gettempdir()) / f"interlock-{nonce}-{content.name}"
            await asyncio.to_thread(path.write_bytes, content.data)
        self._show(place, nonce, content)
        return Posted(place, nonce)

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        self._show(place, message_id, content)

    async def find(self, place: Place, nonce: str, *, live: bool = False) -> Posted | None:
        """None: a terminal cannot be searched, and after a restart it is another terminal. What
        may have been printed before is printed again, which is better than not at all."""
        return None

    async def whisper(self, place: Place, user: str, text: str) -> None:
        to = "" if user == self.actor.user else f"(to {user}) "
        self.screen.say(f"{to}{text}")

    async def status(self, place: Place, status: Status) -> None:
        """Never asked: a terminal shows nothing beside its thread."""

    async def earlier(self, place: Place, before: str) -> Earlier:
        return Earlier(())

    async def fetch(self, place: Place, reference: Mapping[str, Any], most: int) -> bytes:
        raise DeliveryError("a terminal has no files", permanent=True)

    async def show_home(self, organisation: str, user: str) -> None:
        """A terminal has no home pages."""

    async def members(self, organisation: str, group: str) -> frozenset[str]:
        raise DeliveryError("a terminal has no groups", permanent=True)

    def split(self, text: str) -> list[str]:
        return [text]

    def link(self, place: Place) -> str | None:
        return None

    def direct(self, organisation: str, user: str) -> Place | None:
        return None

    def routes(self) -> list[web.RouteDef]:
        return []

    async def run(self, started: asyncio.Event, *, hears: bool = True) -> None:
        """Returns when the person leaves; without a terminal it only prints, for ever."""
        started.set()
        if not hears or sys.stdin is None or not sys.stdin.isatty():
            await asyncio.Event().wait()
        prompts: PromptSession[str] = PromptSession(interrupt_exception=Interrupted)

        async def read(prompt: str) -> str:
            # SIGINT is the program's own; Ctrl-C is a key while a prompt is shown.
            return await prompts.prompt_async(prompt, handle_sigint=False)

        # raw: the colours are ours; whatever others wrote has gone through `safe`.
        with patch_stdout(raw=True):
            for card in await self._entry.open_cards(self.place):  # asked before this start
                self.screen.card(self.place, card)
            await Session(self.screen, self._entry, read, actor=self.actor, place=self.place).run()

    async def ready(self) -> bool:
        return True

    async def check(self, places: Sequence[Place], people: Sequence[str]) -> list[Finding]:
        return []

    def _show(self, place: Place, message_id: str, content: Content) -> None:
        match content:
            case Card():
                self.screen.card(place, content)
            case GroupCard():
                for card in content.cards:
                    self.screen.card(place, card)
            case TaskCard():
                self.screen.task(place, content)
            case File():
                path = Path(tempfile.gettempdir()) / f"interlock-{message_id}-{content.name}"
                self.screen.say(f"{content.name} ({content.mime_type}) is in {path}")
            case Reply():
                self.screen.reply(place, message_id, content.text)
