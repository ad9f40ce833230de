"""What a surface (Slack, Teams, the console) must do, and what it tells the product.

In: an adapter verifies what arrived and hands one `Event` to `service`, with an actor built only
from authenticated fields. Out: `deliver` gives it cards and texts to post, edit or whisper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from aiohttp import web

from bot.card import Card, TaskCard
from bot.field import Field
from bot.finding import Finding
from bot.group import GroupCard
from bot.question import Verb
from bot.remember import Remember
from storage.place import Place

__all__ = [
    "Actor",
    "Adapter",
    "Changed",
    "Command",
    "Content",
    "Decision",
    "DeliveryError",
    "Earlier",
    "Entry",
    "File",
    "FileRef",
    "Form",
    "GroupDecision",
    "Home",
    "Item",
    "Listing",
    "Look",
    "Message",
    "NewRule",
    "Pace",
    "Place",
    "Posted",
    "Quoted",
    "Reply",
    "Response",
    "Standing",
    "Status",
    "Surface",
    "Together",
    "Verb",
    "person_of",
]


@dataclass(frozen=True, slots=True)
class Actor:
    """A person (or what claims to be one), as the surface authenticated them at this click.

    `email`: the address that the surface verified; empty: it has verified none, None: it does not
    say. `also`: the keys of those who may be the same person (bot.identity)."""

    surface: str
    organisation: str
    user: str
    name: str = ""
    is_bot: bool = False
    is_guest: bool = False
    is_external: bool = False
    roles: frozenset[str] = frozenset()
    email: str | None = field(default=None, repr=False)
    also: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """How configuration and rows name this person: `surface:organisation/user`."""
        return f"{self.surface}:{self.organisation}/{self.user}"

    @property
    def by_name_only(self) -> bool:
        """Whether they may do something only where they are named: no member of the organisation
        like any other."""
        return self.is_bot or self.is_guest or self.is_external

    @property
    def keys(self) -> frozenset[str]:
        """Every key that may be this person's, to hold something against them."""
        return self.also | {self.key}

    @property
    def label(self) -> str:
        return self.name or self.user


def person_of(key: str) -> Actor | None:
    """The person behind a key of ours (`Actor.key`), without name and flags; None: it is no
    person's (a rule)."""
    surface, colon, rest = key.partition(":")
    organisation, slash, user = rest.partition("/")
    return Actor(surface, organisation, user) if colon and slash else None


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file that came with a message: what its sender claims it to be (`size` in bytes), and by
    what the surface fetches it."""

    name: str
    mime_type: str
    size: int
    reference: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A person said something to the agent. `keys` are the names under which the platform may
    deliver the same thing again; `starts` is whether it may begin a chat (a mention, a direct
    message) or only go on with one. `source` is the id it has on its surface."""

    keys: tuple[str, ...]
    place: Place
    actor: Actor
    text: str
    starts: bool
    source: str = ""
    files: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A person edited or deleted (`text` is none) what they wrote. `keys` and `source` as of a
    Message."""

    keys: tuple[str, ...]
    place: Place
    source: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Quoted:
    """What somebody wrote in a thread (`at`: unix seconds), with the names of its files. `bot`:
    a program wrote it."""

    name: str
    text: str
    at: float
    bot: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Earlier:
    """What stands in a thread, oldest first: its beginning and its end, if it is long.

    `left_out`: how many messages there are between. `missing`: why what came after the last of
    them could not be read; empty if all was."""

    messages: tuple[Quoted, ...]
    left_out: int = 0
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person pressed a button or sent a form. Only the nonce names the question; nothing else
    that a client sends back is believed. `place` is where it was pressed, if the surface knows; in
    a modal only the organisation is known, and the place has no channel. With an approval may come
    `edited`, the answer to `Entry.editing`, or `rule`, the answer to `Entry.remembering`."""

    nonce: str
    verb: Verb
    actor: Actor
    via: str
    place: Place | None = None
    response: Any = None
    remember: Remember | None = None
    edited: Mapping[str, Any] | None = None
    rule: Mapping[str, Any] | None = None
    lenient: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """A person approved or declined several questions of one card. `nonce` names the card
    (`GroupCard.nonce`); `only` are the nonces of those they selected, None: all that are open."""

    nonce: str
    verb: Verb
    actor: Actor
    via: str
    only: tuple[str, ...] | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRule:
    """A person sent the form of a standing rule (`Entry.rule_form`); it is saved if they are
    `sure`, else only looked at."""

    actor: Actor
    organisation: str
    via: str
    answer: Mapping[str, Any]
    sure: bool


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing on a home page. `link` is the address of its thread (None: the surface has none),
    `since` when it opened, began or was settled (unix seconds), `may` whether the person may act
    on it."""

    card: Card | TaskCard
    link: str | None
    since: float
    may: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A standing rule on a home page: all that it says, and what became of it since. `link` is the
    address of its thread or channel (None: it has none), `may` whether the person may revoke it."""

    id: str
    sentence: str
    about: str
    link: str | None
    may: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """One page of a person's home: what waits for them, what runs for them, what was decided
    lately, the standing rules that they made or may revoke. Pages count from 1; `decided` and
    `rules` are the same on each. `more_rules`: how many the page has no room for. `maker`: whether
    they may make rules. `refusal` is a sentence that stands there instead of everything."""

    waiting: tuple[Item, ...] = ()
    running: tuple[Item, ...] = ()
    decided: tuple[Item, ...] = ()
    rules: tuple[Standing, ...] = ()
    more_rules: int = 0
    maker: bool = False
    page: int = 1
    pages: int = 1
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the agent says: Markdown of the model, or a sentence of ours. `live`: it still grows.
    `mentions`: whom it is to reach, as the deciders of a card."""

    text: str
    live: bool = False
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """A file that a call produced. Its name is ours, its content is not: nothing opens it."""

    name: str
    mime_type: str
    data: bytes


Content = Card | GroupCard | TaskCard | Reply | File


@dataclass(frozen=True, slots=True)
class Posted:
    """Where a message stands (a direct message has a channel of its own, which only the surface
    knows), and the id that edits it there."""

    place: Place
    message_id: str


class Status(StrEnum):
    """What a chat is doing, for a surface that shows it beside the thread."""

    PROCESSING = "processing"
    SUSPENDED = "suspended"  # people are asked
    CLOSED = "closed"  # nothing is owed


class DeliveryError(Exception):
    """A surface did not take a post or an edit.

    `retry_after`: seconds the platform asked to wait. `maybe_sent`: it may have got through (a
    dropped connection), so its nonce is looked up before a repeat. `permanent`: repeating is of
    no use (the channel is gone, the message was deleted). `unreachable`: the place itself takes
    nothing, so nothing else gets there either; why, and what to do, as what follows "I cannot go on
    in our thread: ". `locked_out`: nothing of the organisation takes anything from us (a revoked
    token). Both are permanent. The text goes to logs and rows: it carries no secret."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        maybe_sent: bool = False,
        permanent: bool = False,
        unreachable: str = "",
        locked_out: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.maybe_sent = maybe_sent
        self.permanent = permanent or bool(unreachable) or locked_out
        self.unreachable = unreachable
        self.locked_out = locked_out


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a surface takes posts in one channel: a burst, then one every `interval` seconds."""

    interval: float = 0.0
    burst: int = 1


@dataclass(frozen=True, slots=True)
class Together:
    """When the calls of one response are asked for on shared cards: beyond `above` approvals, up
    to `size` of them on each."""

    above: int
    size: int


class Surface(Protocol):
    """One adapter. Every method but `split`, `link` and `direct` raises DeliveryError. `together`:
    None where every approval has a card of its own. `statuses`: whether it shows what a chat is
    doing; `keeps_homes`: whether home pages stay open there, so that they are drawn anew;
    `takes_files`: whether files can be posted."""

    name: str
    pace: Pace
    together: Together | None
    statuses: bool
    keeps_homes: bool
    takes_files: bool

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        """Posts into the thread, or to the person (`direct`). `nonce` travels with it."""

    async def edit(self, place: Place, message_id: str, content: Content) -> None: ...

    async def find(self, place: Place, nonce: str, *, live: bool = False) -> Posted | None:
        """An earlier post with this nonce, if it did get through. `live`: it may have been a reply
        that grows; where such a one carries no nonce, the last post of ours that has none."""

    async def whisper(self, place: Place, user: str, text: str) -> None:
        """Tells one person only."""

    async def status(self, place: Place, status: Status) -> None:
        """Shows what the chat of this thread is doing; asked only where `statuses` is true."""

    async def earlier(self, place: Place, before: str) -> Earlier:
        """What stands in the thread before the message with this id (a `source`)."""

    async def fetch(self, place: Place, reference: Mapping[str, Any], most: int) -> bytes:
        """The content of a file that came with a message (FileRef), of at most so many bytes. The
        text of its DeliveryError ends a sentence for people: "x.png could not be read: ..."."""

    async def show_home(self, organisation: str, user: str) -> None:
        """Draws the home page that this person has open anew (Entry.home), where the surface has
        home pages; whoever is gone is left out."""

    async def members(self, organisation: str, group: str) -> frozenset[str]:
        """The users in a group that a policy names (`@ID`, `#ID`), at most a minute old."""

    def split(self, text: str) -> list[str]:
        """A long reply as parts that each fit one message, in order, nothing left out."""

    def link(self, place: Place) -> str | None:
        """The address that opens the thread, or its channel where there is no root; None where
        the surface has no such thing."""

    def direct(self, organisation: str, user: str) -> Place | None:
        """Where this person is written to alone: a place without a root, for `post` and `find`,
        which say where it came to stand. None where the surface has no such thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What the person who acted is told at once. `errors` are sentences by field name, for the
    form they sent; `sentence` is for them alone. `card` is what now stands where it was decided, to
    be shown where the surface can do that in its answer."""

    done: bool
    sentence: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    card: Card | GroupCard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a person may see before deciding: the card as it stands now, or one sentence why not
    (unknown question, not theirs to decide, settled already)."""

    card: Card | None
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a person fills in: the fields, beside an approval with the card as it stands, or one
    sentence why there is no such form for them."""

    card: Card | None
    fields: tuple[Field, ...] = ()
    refusal: str = ""


class Entry(Protocol):
    """The one entry of the product (`bot.service`), as an adapter sees it."""

    async def message(self, event: Message) -> bool:
        """Takes in what a person said; durable when it returns. False: seen before, or nobody's
        (no chat lives there). Raises storage.database.DatabaseUnavailable: let it be redelivered.
        """

    async def changed(self, event: Changed) -> bool:
        """Takes in that a person edited or deleted what they wrote; durable when it returns.
        False: seen before, or nothing that a chat was told. Raises DatabaseUnavailable."""

    async def decide(self, event: Decision) -> Response:
        """Decides a question; durable when it returns. Never raises for what a person did."""

    async def decide_together(self, event: GroupDecision) -> Response:
        """Decides several questions of one card, each by itself; `done`: all of them as asked.
        Never raises for what a person did."""

    async def shown(self, nonce: str, *, place: Place) -> Card | GroupCard | None:
        """The card of a question as it now stands in a place, for everybody there; None: none does.
        Changes nothing."""

    async def open_cards(self, place: Place) -> list[Card]:
        """The cards that wait in a thread, oldest first: for a surface that keeps none."""

    async def command(self, event: Command) -> str:
        """Answers a command, in Markdown, for the person alone; empty when it was answered before
        (a redelivery). Never raises for what they did."""

    async def inbox(self, actor: Actor, organisation: str, page: int) -> Listing:
        """The open questions of an organisation that this person may decide."""

    async def home(self, actor: Actor, organisation: str, page: int | None = None) -> Home:
        """The home page of this person in an organisation. `page`: they open it there, so that it
        is drawn anew from now on when something changes; None: as it is open, and then it raises
        storage.database.DatabaseUnavailable, so that the page that stands there stays."""

    async def cancel_task(
        self, nonce: str, actor: Actor, *, via: str, place: Place | None = None
    ) -> Response:
        """Asks the server of a background call (`TaskCard.nonce`) to stop."""

    async def ask_again(
        self, nonce: str, actor: Actor, *, via: str, place: Place | None = None
    ) -> Response:
        """Has the agent asked once more for what expired on a card (`Card.again`), on behalf of
        those who asked for it; `nonce` as of the card. Never raises for what a person did."""

    async def rule_form(self, actor: Actor, organisation: str) -> Form:
        """What a standing rule says, to be filled in, for who may make rules (without a card)."""

    async def new_rule(self, event: NewRule) -> Response:
        """What the rule says and which past calls it would have met, or that it is saved; `errors`
        as of `decide`. Never raises for what a person did."""

    async def revoke_rule(
        self, rule_id: str, actor: Actor, organisation: str, *, via: str
    ) -> Response:
        """Ends a standing rule that holds in this organisation, if this person may. Its id is no
        secret."""

    async def look(
        self, nonce: str, verb: Verb, actor: Actor, *, place: Place | None = None
    ) -> Look:
        """The question behind a nonce, if this person may do `verb` to it. Changes nothing."""

    async def editing(self, nonce: str, actor: Actor, *, place: Place | None = None) -> Form:
        """The arguments of the call as a form, for who may approve it with others. Changes
        nothing."""

    async def remembering(self, nonce: str, actor: Actor, *, place: Place | None = None) -> Form:
        """What of the call an approval may stand for, where and until when, for who may have it
        remembered. Changes nothing."""

    async def preview(self, event: Decision) -> Response:
        """What the standing rule of `event.rule` says and which past calls it would have met
        (`sentence`), before anything is saved; `errors` as of `decide`. Changes nothing."""

    async def read(self, nonce: str, actor: Actor, *, place: Place | None = None) -> Look:
        """The question behind a nonce, settled or not, for those who asked and the approvers to
        read in full. Changes nothing."""


class Adapter(Surface, Protocol):
    """What an entry point of the group `interlock.adapters` opens:
    `open_surface(settings: Mapping[str, object], entry: Entry, clock: Clock, database: Database)
    -> Adapter`. The database is for what is the adapter's own, such as tokens."""

    def routes(self) -> list[web.RouteDef]:
        """What the one web server serves for this surface."""

    async def run(self, started: asyncio.Event, *, hears: bool = True) -> None:
        """Runs until cancelled, with sockets or prompts if it `hears` people; else it only speaks.
        Sets `started` once it can."""

    async def ready(self) -> bool:
        """Whether it hears people now: connected, known to the platform and not deaf."""

    async def check(self, places: Sequence[Place], people: Sequence[str]) -> list[Finding]:
        """What `interlock doctor` finds, without `run`: `places` are channels where chats live,
        `people` the approvers of this surface, people and groups. Never raises."""
