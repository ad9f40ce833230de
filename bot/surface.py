"""What a surface (Slack, Teams, the console) must do, and what it tells the product.

In: an adapter verifies what arrived and hands one `Event` to `service`, with an actor built only
from authenticated fields. Out: `deliver` gives it cards and texts to post, edit or whisper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web

from bot.card import Card, TaskCard
from bot.question import Verb
from storage.place import Place

__all__ = [
    "Actor",
    "Adapter",
    "Command",
    "Content",
    "Decision",
    "DeliveryError",
    "Entry",
    "File",
    "Listing",
    "Look",
    "Message",
    "Pace",
    "Place",
    "Posted",
    "Reply",
    "Response",
    "Surface",
    "Verb",
]


@dataclass(frozen=True, slots=True)
class Actor:
    """A person (or what claims to be one), as the surface authenticated them at this click."""

    surface: str
    organisation: str
    user: str
    name: str = ""
    is_bot: bool = False
    is_guest: bool = False
    is_external: bool = False
    roles: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """How configuration and rows name this person: `surface:organisation/user`."""
        return f"{self.surface}:{self.organisation}/{self.user}"

    @property
    def label(self) -> str:
        return self.name or self.user


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A person said something to the agent. `keys` are the names under which the platform may
    deliver the same thing again; `starts` is whether it may begin a chat (a mention, a direct
    message) or only go on with one."""

    keys: tuple[str, ...]
    place: Place
    actor: Actor
    text: str
    starts: bool
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person pressed a button or sent a form. Only the nonce names the question; nothing else
    that a client sends back is believed. `place` is where it was pressed, if the surface knows; in
    a modal only the organisation is known, and the place has no channel."""

    nonce: str
    verb: Verb
    actor: Actor
    via: str
    place: Place | None = None
    response: Any = None
    remember: str | None = None
    lenient: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A person typed a command (`bot.commands`); the answer is for them alone. `place` has no root
    where the surface does not say in which thread. `keys` as of a Message."""

    name: str
    actor: Actor
    place: Place
    argument: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list, in Markdown; pages count from 1."""

    text: str
    page: int = 1
    pages: int = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """What the agent says: Markdown of the model, or a sentence of ours."""

    text: str


@dataclass(frozen=True, slots=True)
class File:
    """A file that a call produced. Its name is ours, its content is not: nothing opens it."""

    name: str
    mime_type: str
    data: bytes


Content = Card | TaskCard | Reply | File


@dataclass(frozen=True, slots=True)
class Posted:
    """Where a message stands (a direct message has a channel of its own, which only the surface
    knows), and the id that edits it there."""

    place: Place
    message_id: str


class DeliveryError(Exception):
    """A surface did not take a post or an edit.

    `retry_after`: seconds the platform asked to wait. `maybe_sent`: it may have got through (a
    dropped connection), so its nonce is looked up before a repeat. `permanent`: repeating is of
    no use (the channel is gone, the message was deleted). The text goes to logs and rows: it
    carries no secret."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        maybe_sent: bool = False,
        permanent: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.maybe_sent = maybe_sent
        self.permanent = permanent


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a surface takes posts in one channel: a burst, then one every `interval` seconds."""

    interval: float = 0.0
    burst: int = 1


class Surface(Protocol):
    """One adapter. Every method but `split` and `link` raises DeliveryError."""

    name: str
    pace: Pace

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        """Posts into the thread, or to the person (`direct`). `nonce` travels with it."""

    async def edit(self, place: Place, message_id: str, content: Content) -> None: ...

    async def find(self, place: Place, nonce: str) -> Posted | None:
        """An earlier post with this nonce, if it did get through."""

    async def whisper(self, place: Place, user: str, text: str) -> None:
        """Tells one person only."""

    def split(self, text: str) -> list[str]:
        """A long reply as parts that each fit one message, in order, nothing left out."""

    def link(self, place: Place) -> str | None:
        """The address that opens the thread, or its channel where there is no root; None where
        the surface has no such thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What the person who acted is told at once. `errors` are sentences by field name, for the
    form they sent; `sentence` is for them alone. `settled` is the card as it now stands, to be
    shown where the surface can do that in its answer."""

    done: bool
    sentence: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    settled: Card | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a person may see before deciding: the card as it stands now, or one sentence why not
    (unknown question, not theirs to decide, settled already)."""

    card: Card | None
    refusal: str = ""


class Entry(Protocol):
    """The one entry of the product (`bot.service`), as an adapter sees it."""

    async def message(self, event: Message) -> bool:
        """Takes in what a person said; durable when it returns. False: seen before, or nobody's
        (no chat lives there). Raises storage.database.DatabaseUnavailable: let it be redelivered.
        """

    async def decide(self, event: Decision) -> Response:
        """Decides a question; durable when it returns. Never raises for what a person did."""

    async def open_cards(self, place: Place) -> list[Card]:
        """The cards that wait in a thread, oldest first: for a surface that keeps none."""

    async def command(self, event: Command) -> str:
        """Answers a command, in Markdown, for the person alone; empty when it was answered before
        (a redelivery). Never raises for what they did."""

    async def inbox(self, actor: Actor, organisation: str, page: int) -> Listing:
        """The open questions of an organisation that this person may decide."""

    async def cancel_task(
        self, nonce: str, actor: Actor, *, via: str, place: Place | None = None
    ) -> Response:
        """Asks the server of a background call (`TaskCard.nonce`) to stop."""

    async def look(
        self, nonce: str, verb: Verb, actor: Actor, *, place: Place | None = None
    ) -> Look:
        """The question behind a nonce, if this person may do `verb` to it. Changes nothing."""


class Adapter(Surface, Protocol):
    """What an entry point of the group `interlock.adapters` opens:
    `open_surface(settings: Mapping[str, object], entry: Entry, clock: Clock, database: Database)
    -> Adapter`. The database is for what is the adapter's own, such as tokens."""

    def routes(self) -> list[web.RouteDef]:
        """What the one web server serves for this surface."""

    async def run(self, started: asyncio.Event) -> None:
        """Runs sockets or prompts until cancelled; sets `started` once it can hear people."""
