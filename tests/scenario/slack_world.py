"""The world of the Slack scenarios: the fake, a stub of the product, the surface between them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

from adapters.slack import open_surface
from adapters.slack.transport import SlackSurface
from bot.card import Argument, Card, CardState, Kind
from bot.field import AnswerError, Choice, Field, FieldType, coerce
from bot.group import GroupCard
from bot.surface import (
    Actor,
    Changed,
    Command,
    Decision,
    Entry,
    Form,
    GroupDecision,
    Home,
    Item,
    Listing,
    Look,
    Message,
    NewRule,
    Place,
    Response,
    Verb,
)
from storage.database import Database, DatabaseUnavailable
from tests.fakes.clock import FakeClock
from tests.fakes.slack import (
    APP_TOKEN,
    BOT_TOKEN,
    SIGNING_SECRET,
    TEAM,
    FakeSlack,
    text_of,
)
from tests.scenario.serving import serving

SECRETS = {
    "SLACK_BOT_TOKEN": BOT_TOKEN,
    "SLACK_APP_TOKEN": APP_TOKEN,
    "SLACK_SIGNING_SECRET": SIGNING_SECRET,
}
ANYWHERE = Place("slack", TEAM, "", "")  # where a click that stands in no message may be from
NOWHERE = Database("sqlite:///:memory:")  # with one token the surface keeps nothing of its own
Mode = Literal["http", "socket"]
COLOURS = (Choice("r", "Red", "Like a rose"), Choice("g", "Green", "Like grass"))


def card(kind: Kind = Kind.APPROVAL, **given: Any) -> Card:
    base: dict[str, Any] = {
        "nonce": "n0nce",
        "version": 1,
        "state": CardState.OPEN,
        "title": "ops wants to run refund",
        "agent": "ops",
        "tool": "refund",
        "deciders": (f"slack:{TEAM}/U_ANA",),
    }
    return Card(kind=kind, **(base | given))


APPROVAL = card(arguments=(Argument("order", "4711"),), remember="Approve and remember here")
FORM = card(Kind.FORM, fields=(Field("amount", FieldType.INTEGER, maximum=100), Field("why")))
ASK = card(Kind.FORM, choosing=True, fields=(Field("q1", choices=COLOURS, allow_other=True),))
PAGE = card(Kind.PAGE, message="Log in first.", url="https://login.test/auth?x=1")


class StubEntry:
    """The product as the adapter sees it: takes everything, decides by the real coercion."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.changes: list[Changed] = []
        self.decisions: list[Decision] = []
        self.groups: list[GroupDecision] = []
        self.looks: list[tuple[str, Verb, Actor, Place | None]] = []
        self.reads: list[tuple[str, Actor, Place | None]] = []
        self.cancelled: list[tuple[str, Actor, Place | None]] = []
        self.again: list[tuple[str, Actor, Place | None]] = []
        self.commands: list[Command] = []
        self.homes: list[tuple[Actor, str, int | None]] = []
        self.page = Home(waiting=(Item(card=APPROVAL, link=None, since=0.0, may=True),), pages=3)
        self.seen: set[str] = set()
        self.card = APPROVAL
        self.refusal = ""
        self.failing = 0
        self.pause: Callable[[], Awaitable[object]] | None = None
        self.answer: Response | None = None
        self.fields: tuple[Field, ...] = (Field("order"),)
        self.previews: list[Decision] = []
        self.rules: list[NewRule] = []
        self.revoked: list[tuple[str, Actor, str]] = []

    async def message(self, event: Message) -> bool:
        await self._trouble()
        new = not self.seen.intersection(event.keys)
        self.seen.update(event.keys)
        if new:
            self.messages.append(event)
        return new

    async def changed(self, event: Changed) -> bool:
        await self._trouble()
        new = not self.seen.intersection(event.keys)
        self.seen.update(event.keys)
        if new:
            self.changes.append(event)
        return new

    async def decide(self, event: Decision) -> Response:
        await self._trouble()
        self.decisions.append(event)
        if self.answer is not None:
            return self.answer
        if event.verb is Verb.ANSWER:
            try:
                coerce(self.card.fields, event.response, lenient=True)
            except AnswerError as error:
                return Response(done=False, errors=error.errors)
        return Response(done=True)

    async def decide_together(self, event: GroupDecision) -> Response:
        await self._trouble()
        self.groups.append(event)
        return self.answer or Response(done=True)

    async def look(
        self, nonce: str, verb: Verb, actor: Actor, *, place: Place | None = None
    ) -> Look:
        await self._trouble()
        self.looks.append((nonce, verb, actor, place))
        return Look(card=None, refusal=self.refusal) if self.refusal else Look(card=self.card)

    async def shown(self, nonce: str, *, place: Place) -> Card | GroupCard | None:
        await self._trouble()
        return None if self.refusal else self.card

    async def read(self, nonce: str, actor: Actor, *, place: Place | None = None) -> Look:
        await self._trouble()
        self.reads.append((nonce, actor, place))
        return Look(card=None, refusal=self.refusal) if self.refusal else Look(card=self.card)

    async def editing(self, nonce: str, actor: Actor, *, place: Place | None = None) -> Form:
        return await self._form(nonce, actor, place)

    async def remembering(self, nonce: str, actor: Actor, *, place: Place | None = None) -> Form:
        return await self._form(nonce, actor, place)

    async def _form(self, nonce: str, actor: Actor, place: Place | None) -> Form:
        look = await self.look(nonce, Verb.APPROVE, actor, place=place)
        fields = () if look.card is None else self.fields
        return Form(card=look.card, fields=fields, refusal=look.refusal)

    async def preview(self, event: Decision) -> Response:
        await self._trouble()
        self.previews.append(event)
        return self.answer or Response(done=True, sentence="It would have met 3 of 12 calls.")

    async def rule_form(self, actor: Actor, organisation: str) -> Form:
        await self._trouble()
        return Form(card=None, fields=() if self.refusal else self.fields, refusal=self.refusal)

    async def new_rule(self, event: NewRule) -> Response:
        await self._trouble()
        self.rules.append(event)
        return self.answer or Response(done=True, sentence="It would have met 3 of 12 calls.")

    async def revoke_rule(
        self, rule_id: str, actor: Actor, organisation: str, *, via: str
    ) -> Response:
        await self._trouble()
        self.revoked.append((rule_id, actor, organisation))
        return self.answer or Response(done=True, sentence="No longer in force.")

    async def open_cards(self, place: Place) -> list[Card]:
        return []

    async def ask_again(
        self, nonce: str, actor: Actor, *, via: str, place: Place | None = None
    ) -> Response:
        await self._trouble()
        self.again.append((nonce, actor, place))
        return self.answer or Response(done=True)

    async def cancel_task(
        self, nonce: str, actor: Actor, *, via: str, place: Place | None = None
    ) -> Response:
        await self._trouble()
        self.cancelled.append((nonce, actor, place))
        return self.answer or Response(done=True, sentence="The server was asked to stop.")

    async def command(self, event: Command) -> str:
        await self._trouble()
        if event.keys and not self.seen.isdisjoint(event.keys):
            return ""
        self.seen.update(event.keys)
        self.commands.append(event)
        return f"the answer to {event.name}"

    async def inbox(self, actor: Actor, organisation: str, page: int) -> Listing:
        await self._trouble()
        return Listing(f"page {page} for {actor.key} in {organisation}", page, 3)

    async def home(self, actor: Actor, organisation: str, page: int | None = None) -> Home:
        await self._trouble()
        self.homes.append((actor, organisation, page))
        return self.page

    async def _trouble(self) -> None:
        if self.pause is not None:
            await self.pause()
        if self.failing:
            self.failing -= 1
            raise DatabaseUnavailable


class World:
    """The fake workspace, the surface running against it, and a thread of the bot."""

    def __init__(self, slack: FakeSlack, entry: StubEntry, clock: FakeClock) -> None:
        self.slack = slack
        self.entry = entry
        self.clock = clock
        self.surface: SlackSurface

    async def thread(self) -> Place:
        """A place where a message of ana is the root."""
        ts = await self.slack.mention("U_ANA", "C_OPS", "refund 4711")
        self.entry.messages.clear()
        return Place("slack", TEAM, "C_OPS", ts)

    async def posted(self, drawn: Card) -> str:
        """A card in a thread; its message id."""
        self.entry.card = drawn
        return (await self.surface.post(await self.thread(), drawn, "post-1")).message_id

    def told(self, user: str = "U_ANA") -> list[str]:
        return [text_of(message) for message in self.slack.ephemerals(user)]


@contextlib.asynccontextmanager
async def running(
    slack: FakeSlack, entry: Entry, mode: Mode, database: Database = NOWHERE, **options: object
) -> AsyncIterator[SlackSurface]:
    given = {"mode": mode, "base_url": slack.base_url} | options
    surface = open_surface(given, entry, slack.clock, database)
    assert isinstance(surface, SlackSurface)

    def at(address: str) -> None:
        slack.bot_address = address
        slack.events_url = f"{address}/slack/events" if mode == "http" else None

    async with serving(surface, at):
        yield surface


async def living(mode: Mode) -> AsyncIterator[World]:
    """A world in one of the two modes; the secrets are in the environment already."""
    clock = FakeClock()
    entry = StubEntry()
    async with FakeSlack(clock=clock) as slack:
        world = World(slack, entry, clock)
        async with running(slack, entry, mode) as world.surface:
            yield world
        entry.pause = None
