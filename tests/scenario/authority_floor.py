"""Where the ways of the matrix (`authority.TABLE`) are tried on a surface: people and questions
that wait, what comes of a try, and what is wrong with it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from bot import rulebook
from bot.core import Core
from bot.surface import Actor, person_of
from storage import schema
from storage.database import Database
from tests.scenario import authority
from tests.scenario.authority import COUNTS, KINDS, SENTENCES, SILENT, rule_of

T = TypeVar("T")

DECIDED = "something was decided"
POLL = 0.03  # seconds
DUMP = [
    *(f"SELECT * FROM {name}" for name in ("questions", "decisions", "tool_calls", "rules")),
    "SELECT id FROM chats WHERE cancelled_by IS NOT NULL",
]
DECISIONS = (
    "decided",
    "stop_chat",
    "cancel_task",
    "rule_made",
    "rule_revoked",
    "asked_again",
)
ON_RECORD = frozenset("nsagboxtmpqve")


@dataclass(frozen=True)
class Asked:
    """A question (or several on one card) that waits in a thread. `card`: the message's id."""

    root: str
    card: str
    chat: str
    calls: tuple[str, ...]
    nonces: tuple[str, ...]


@dataclass(frozen=True)
class Way(Generic[T]):
    """`act` is what a person does, and gives what they are answered in so doing. `asks`: what waits
    (`steps`). `becomes`: what the questions then are that it decides, none where it only opens or
    shows something; `decides`: how many of those on the card. `recorded`: the audit log has a row
    of who was refused."""

    act: Callable[[T], Awaitable[str | None]]
    asks: str = "refund"
    becomes: str = ""
    decides: int = 1
    recorded: bool = True
    policy: str = ""  # of what waits, where it is nothing to who may
    at_home: bool = False  # it is pressed there, and told there
    rule: str = ""  # the scope of the standing rule that comes of it

    def wants(self, kind: str) -> tuple[str, str]:
        """What waits, and of which policy."""
        return self.asks, self.policy or KINDS[kind].policy


async def until(check: Callable[[], bool | Awaitable[bool]]) -> None:
    """Waits for what other tasks do; rarely, for there is much to look at."""
    async with asyncio.timeout(150):
        while True:
            found = check()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(POLL)


@dataclass
class Floor(ABC, Generic[T]):
    """A surface with all kinds of people on it, and questions that wait."""

    core: Core
    effects: list[str]
    going_on: Any
    due: list[str] = field(default_factory=list)  # the effects that there must be

    # What is the surface's own

    @abstractmethod
    def key(self, kind: str) -> str:
        """The key of a person of this kind."""

    @abstractmethod
    async def mention(self, text: str) -> str:
        """Somebody begins a thread; gives its root."""

    @abstractmethod
    def card(self, root: str) -> tuple[str, str] | None:
        """The id of the card in a thread, and all that is in it."""

    @abstractmethod
    def ended(self, root: str) -> bool:
        """Whether the agent has said its last word there."""

    @abstractmethod
    def public(self) -> int:
        """How often the bot has posted or edited where others read it."""

    @abstractmethod
    def forget(self, kind: str) -> None:
        """Nothing of what they were told is before them any more."""

    @abstractmethod
    def heard(self, kind: str, *, at_home: bool) -> str:
        """What only this person reads."""

    @abstractmethod
    def opened(self, kind: str, asked: Asked) -> bool:
        """A form or the whole of a call is before them."""

    @abstractmethod
    async def act(self, way: Way[T], kind: str, asked: Asked, *, has: bool) -> str:
        """They do it; gives what they are answered."""

    # What is the same for all

    @property
    def db(self) -> Database:
        return self.core.db

    async def rows(self, table: sa.Table, *where: Any) -> list[Any]:
        async with self.db.read() as tx:
            return list(await tx.run(sa.select(table).where(*where)))

    async def ask(self, wanted: Sequence[tuple[str, str]]) -> list[Asked]:
        """What waits (of which policy), each in a thread of its own, once its card is there and
        what the clock does to it is done; or a standing rule."""
        ended = [await self._rule() if what == "rule" else None for what, _ in wanted]
        cards = iter(await self._ask([one for one in wanted if one[0] != "rule"]))
        return [next(cards) if one is None else one for one in ended]

    async def _rule(self) -> Asked:
        person = person_of(self.key("mk"))
        assert person is not None
        maker = Actor(person.surface, person.organisation, person.user)
        rule = rule_of(maker)
        await rulebook.make(self.core, rule, by=maker, via="test")
        return Asked("", "", "", (), (rule.id,))

    async def _ask(self, wanted: Sequence[tuple[str, str]]) -> list[Asked]:
        said = [f"run {what} {policy} N{n}" for n, (what, policy) in enumerate(wanted)]
        roots = await asyncio.gather(*map(self.mention, said))
        await until(lambda: all(self.card(root) for root in roots))
        await until(self._on_time)
        brief = [r for r, (_, policy) in zip(roots, wanted, strict=True) if policy == "brief"]
        await until(lambda: all(map(self.ended, brief)))
        asked = await self.rows(schema.questions)
        calls = await self.rows(schema.tool_calls)
        chats = {one.root: one.id for one in await self.rows(schema.chats)}
        found = []
        for root in roots:
            chat, card = chats[root], self.card(root)
            assert card is not None
            mine = tuple(one.id for one in calls if one.chat_id == chat)
            nonces = [one.nonce for one in asked if one.chat_id == chat] or list(mine)
            nonces.sort(key=lambda one: one not in card[1])  # of a shared card it names the first
            found.append(Asked(root, card[0], chat, mine, tuple(nonces)))
        return found

    async def _on_time(self) -> bool:
        """Whether what is due soon is done."""
        for row in await self.rows(schema.questions):
            policy = row.audience["policy"]
            if policy == "brief" and row.state == "open":
                return False
            if policy == "late" and row.escalated_at is None:
                return False
        return True

    async def dump(self) -> list[Any]:
        """All that a decision changes."""
        async with self.db.read() as tx:
            return [list(await tx.run(sa.text(one))) for one in DUMP]

    async def last_audit(self) -> int:
        async with self.db.read() as tx:
            found = await tx.run(sa.select(sa.func.max(schema.audit.c.id)))
            return int(found.scalar() or 0)

    async def quiet(self) -> None:
        """Everything that was on its way has been delivered."""
        waiting = schema.outbox.c.state.in_(("waiting", "sending"))

        async def delivered() -> bool:
            return not await self.rows(schema.outbox, waiting)

        await until(delivered)

    async def new_rules(self, way: Way[T], kind: str) -> list[str]:
        """What is wrong with the standing rule that came of it last."""
        rule = (await self.rows(schema.rules))[-1]
        found, due = (rule.scope, rule.created_by), (way.rule, self.key(kind))
        return [] if found == due else [f"{kind}: a rule {found} came of it"]


async def tries(on: Floor[T], way: Way[T], kind: str, code: str, asked: Asked) -> str:
    """What comes of it, as a code of the table."""
    mark = await on.last_audit()
    on.forget(kind)
    answered = await on.act(way, kind, asked, has=code == COUNTS)
    deadline = asyncio.get_running_loop().time() + (0.2 if code == SILENT else 3.0)
    while asyncio.get_running_loop().time() < deadline:
        if not way.becomes and on.opened(kind, asked):
            return COUNTS
        heard = f"{answered}\n{on.heard(kind, at_home=way.at_home)}"
        for found, sentence in SENTENCES.items():
            if sentence in heard and not ((way.becomes or way.at_home) and found in "l0"):
                return found
        made = await on.rows(schema.audit, schema.audit.c.id > mark)
        if any(row.event in DECISIONS and row.actor == on.key(kind) for row in made):
            return COUNTS
        await asyncio.sleep(POLL)
    return SILENT


async def is_refused(
    on: Floor[T], way: Way[T], kind: str, code: str, asked: Asked, before: list[Any]
) -> list[str]:
    """What is wrong with a try that must change nothing of `before`."""
    shown, mark = on.public(), await on.last_audit()
    done = len(on.effects), len(on.going_on.cancelled)
    found = await tries(on, way, kind, code, asked)
    wrong = [] if found == code else [f"{kind}: {found} instead of {code}"]
    if await on.dump() != before:
        wrong.append(f"{kind}: {DECIDED}")
    if on.public() != shown:
        wrong.append(f"{kind}: something was posted or edited in public")
    if (len(on.effects), len(on.going_on.cancelled)) != done:
        wrong.append(f"{kind}: something ran or was stopped")
    made = await on.rows(schema.audit, schema.audit.c.id > mark)
    refused = [row.actor for row in made if row.event == "refused"]
    due = way.decides if way.recorded and code in ON_RECORD else 0
    if refused != [on.key(kind)] * due:
        wrong.append(f"{kind}: {len(refused)} of {due} refusals are on record")
    return wrong


async def counts(on: Floor[T], way: Way[T], kind: str, asked: Asked) -> list[str]:
    """What is wrong with a try that must count."""
    found = await tries(on, way, kind, COUNTS, asked)
    if found != COUNTS:
        return [f"{kind}: {found} instead of {COUNTS}"]
    key, wrong = on.key(kind), [] if not way.rule else await on.new_rules(way, kind)
    match way.becomes:
        case "asked to stop":
            return [] if on.going_on.cancelled.pop() else ["no task was stopped"]
        case "made":
            return wrong
        case "revoked":
            rules = await on.rows(schema.rules, schema.rules.c.revoked_by == key)
            ended = asked.nonces[0] in [row.id for row in rules]
            return [] if ended else [f"{kind}: nothing was revoked"]
        case "asked again":
            made = await on.rows(schema.audit, schema.audit.c.event == "asked_again")
            askers = [row.detail["askers"] for row in made if row.actor == key]
            return [] if askers == [[on.key("rq")]] else [f"{kind}: it is asked for by {askers}"]
    theirs = schema.questions.c.nonce.in_(asked.nonces), schema.questions.c.state == way.becomes

    async def is_settled() -> bool:
        return len(await on.rows(schema.questions, *theirs)) >= way.decides

    await until(is_settled)
    settled = await on.rows(schema.questions, *theirs)
    if len(settled) != way.decides:
        return [f"{kind}: {len(settled)} are {way.becomes}"]
    by = {row.settled_by for row in settled}
    stopped = way.becomes == "cancelled"
    if by != ({None} if stopped else {key}):
        return [f"{kind}: settled by {by}"]
    if way.becomes in ("approved", "answered"):
        calls = await on.rows(schema.tool_calls, schema.tool_calls.c.id.in_(asked.calls))
        by_call = {row.id: row.args["order"] for row in calls}
        on.due += [by_call[row.call_id] for row in settled]
    return wrong


async def hold(
    on: Floor[T],
    ways: Mapping[str, Way[T]],
    removed: Callable[[], None],
) -> None:
    """Every line of the table that is about one of these ways holds. `removed`: who was an approver
    is none any more, once the cards are there."""
    expected = authority.read()
    cells = [(name, kind, code) for name in ways for kind, code in expected[name].items()]
    deciding = [cell for cell in cells if cell[2] == COUNTS and ways[cell[0]].becomes]
    others = [cell for cell in cells if cell not in deciding]
    needed = [ways[name].wants(kind) for name, kind, _ in others]
    asking = [*dict.fromkeys(needed)]  # what nobody decides is asked once
    asking += [ways[name].wants(kind) for name, kind, _ in deciding]
    asked = await on.ask(asking)
    apart = len(asking) - len(deciding)
    shared = dict(zip(asking[:apart], asked[:apart], strict=True))
    await on.quiet()
    removed()
    wrong, before = [], await on.dump()
    for (name, kind, code), what in zip(others, needed, strict=True):
        found = await is_refused(on, ways[name], kind, code, shared[what], before)
        async with on.db.transaction("close_homes") as tx:  # else each is drawn ever anew
            await tx.run(sa.delete(schema.homes))
        wrong += [f"{name}, {one}" for one in found]
        assert DECIDED not in str(wrong), "\n".join(wrong)  # the rest would mean nothing
    for (name, kind, _), own in zip(deciding, asked[apart:], strict=True):
        wrong += [f"{name}, {one}" for one in await counts(on, ways[name], kind, own)]
    assert not wrong, "\n".join(wrong)
    await until(lambda: len(on.effects) >= len(on.due))
    await on.quiet()
    assert sorted(on.effects) == sorted(on.due)
