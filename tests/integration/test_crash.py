"""A process that dies at any point between two commits: nothing runs twice, nothing is lost.

Death here is a signal that no code of ours catches, at every named point in turn; afterwards the
dead process's transactions, posts and edits all fail, and a new one starts on the same rows. Real
`kill -9` on a process of its own is in tests/scenario/test_kill.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa

from bot.approvers import Policy
from bot.card import Card, CardState
from bot.field import Field
from bot.question import Purpose, Question, QuestionError
from bot.rules import Comparison, Condition
from bot.surface import Actor, Content, Place, Posted
from bot.tool import Call, tool
from storage import messages
from storage.database import Database
from storage.questions import QuestionRow, QuestionState
from storage.schema import questions
from tests.fakes.clock import FakeClock
from tests.fakes.model import call, script
from tests.fakes.surface import MemorySurface
from tests.world import ANA, BEN, BEN_APPROVES, CYN, World, audited

ROUNDS = 12  # restarts after which a story that has not ended is stuck


Point = tuple[str, int]  # its name, and n: when it is passed for the nth time


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Grave:
    """Kills at a point when it is passed for the nth time (none: never), and keeps the dead
    from acting."""

    at: Point | None = None
    points: list[str] = field(default_factory=list)
    dead: bool = False

    def pass_point(self, name: str) -> None:
        self.check()
        self.points.append(name)
        if self.at is not None and (name, self.points.count(name)) == self.at:
            self.dead = True
            raise Killed

    def check(self) -> None:
        if self.dead:
            raise Killed


@dataclass
class MortalSurface(MemorySurface):
    """What the people see outlives the process that showed it."""

    grave: Grave = field(default_factory=Grave)

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        self.grave.pass_point("before post")
        posted = await super().post(place, content, nonce)
        self.grave.pass_point("after post")
        return posted

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        self.grave.pass_point("before edit")
        await super().edit(place, message_id, content)
        self.grave.pass_point("after edit")


TWO_OF_A1 = Policy(
    name="two",
    when=(Condition("order", Comparison.ONE_OF, ["A1"]),),
    approvers=frozenset({BEN.key, CYN.key}),
    quorum=2,
)


@dataclass
class Story:
    """A message, an approval, a form, an answer; the people try again until they are heard."""

    db: Database
    surface: MortalSurface
    effects: list[str] = field(default_factory=list)
    asked_about: int = 0
    chat_id: str = ""
    policies: Sequence[Policy] = (BEN_APPROVES,)
    approvers: Sequence[Actor] = (BEN,)

    async def play(self, at: Point | None) -> Grave:
        """Once with a death at that point, then again and again without, until it is over."""
        first = await self._run(Grave(at))
        for _ in range(ROUNDS):
            if await self._run(Grave()) and await self._over():
                return first
        raise AssertionError("the chat is stuck")

    async def _run(self, grave: Grave) -> Grave:
        self.surface.grave = grave
        self.db.points = grave.pass_point
        world = self._world(grave)
        task = asyncio.create_task(self._live(world))
        await asyncio.wait([task])
        grave.dead = True
        await _bury(world)
        self.db.points = lambda name: None
        if not task.cancelled() and (error := task.exception()) is not None:
            assert isinstance(error, Killed), error
        return grave

    def _world(self, grave: Grave) -> World:
        @tool
        async def refund(order: str) -> str:
            """Refunds."""
            self.effects.append("refund")
            grave.pass_point("after refund")
            return f"refunded {order}"

        @tool(approval="never")
        async def ask(c: Call) -> str:
            """Asks."""

            async def effect() -> str:
                self.effects.append("once")
                return "ok"

            await c.once("effect", effect)
            return f"got {await c.ask('Which?', Field('which', choices=['a', 'b']))}"

        model = script(["On it.", call("refund", order="A1")], call("ask"), "All done.")
        return World(self.db, [refund, ask], model, self.policies, FakeClock(), self.surface)

    async def _live(self, world: World) -> None:
        await world.engine.recover()
        chat = await world.chat(None) if not self.chat_id else None
        if chat is not None:
            self.chat_id = chat.id
        chat = world.here_id(self.chat_id)
        if not await chat.transcript() and not await queued(world, self.chat_id):
            await chat.queue("please", by=ANA)
        for _ in range(6):
            await world.settle()
            for question in await chat.pending_questions():
                await self._answer(question)

    async def _answer(self, question: Question) -> None:
        match question.purpose:
            case Purpose.APPROVAL:
                for by in self.approvers:
                    with contextlib.suppress(QuestionError):  # said before the process died
                        await question.approve(by=by)
            case Purpose.ASK:
                await question.answer("a", by=ANA)
            case Purpose.OUTCOME:
                self.asked_about += 1
                effect = {"refund": "refund", "ask": "once"}[question.tool]
                outcome = "ran" if effect in self.effects else "again"  # a person looks
                await question.answer({"outcome": outcome, "note": "I looked"}, by=BEN)

    async def asked(self) -> int:
        """How many questions were ever asked; none may be open."""
        async with self.db.read() as tx:
            found = await tx.rows(
                sa.select(questions).where(questions.c.chat_id == self.chat_id), QuestionRow
            )
        assert all(one.state != QuestionState.OPEN for one in found)
        return len(found)

    async def _over(self) -> bool:
        world = self._world(Grave())
        return await world.here_id(self.chat_id).last_reply() == "All done."


async def queued(world: World, chat_id: str) -> bool:
    async with world.db.read() as tx:
        return bool(await messages.queued(tx, chat_id))


async def _bury(world: World) -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.gather(
        *(asyncio.all_tasks() - {asyncio.current_task()}),
        return_exceptions=True,
    )


async def _check(story: Story, points: list[str]) -> None:
    where = points[-1]
    assert story.effects.count("refund") == 1, where
    assert story.effects.count("once") == 1, where
    cards = [one for one in story.surface.shown.values() if isinstance(one.content, Card)]
    nonces = [one.nonce for one in story.surface.shown.values()]
    assert len(nonces) == len(set(nonces)), f"a card is doubled: {where}"
    assert len(cards) == await story.asked(), f"a card is missing or doubled: {where}"
    assert all(
        isinstance(one.content, Card) and one.content.state is not CardState.OPEN for one in cards
    ), f"a card kept its buttons: {where}"
    assert story.surface.replies().count("All done.") == 1, where


AROUND_EFFECTS = [
    "after claim_call",
    "after refund",
    "before record_result",
    "before record_step",
    "after decide",
    "after claim_delivery",
    "after post",
    "before record_delivery",
]


# What a dead process leaves behind is nobody's to tidy.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
async def test_a_process_may_die_at_any_point(db: Database) -> None:
    whole = Story(db, MortalSurface())
    points = (await whole.play(None)).points
    await _check(whole, points)
    assert whole.asked_about == 0
    assert {"after refund", "after decide", "before record_result", "after post"} <= set(points)

    # Every name once (on PostgreSQL those around an effect) and some more by chance.
    chance = random.Random(7)
    named = {(name, 1) for name in (points if db.sqlite else AROUND_EFFECTS)}
    every = sorted({(name, points[: i + 1].count(name)) for i, name in enumerate(points)})
    places = sorted(named | set(chance.sample(every, 20)))
    asked = 0
    for at in places:
        story = Story(db, MortalSurface())
        died = await story.play(at)
        await _check(story, died.points)
        asked += story.asked_about
    assert asked > 0, "some deaths must have left an unknown outcome"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
async def test_a_process_may_die_between_two_approvals_that_a_condition_asks_for(
    sqlite_db: Database,
) -> None:
    deaths: list[Point] = [
        *(("after decide", 1), ("before decide", 2), ("after decide", 2)),
        *(("before claim_call", 1), ("after refund", 1)),
    ]
    for at in deaths:
        story = Story(
            sqlite_db,
            MortalSurface(),
            policies=(TWO_OF_A1, BEN_APPROVES),
            approvers=(BEN, CYN),
        )
        died = await story.play(at)
        assert died.dead, at
        await _check(story, died.points)
        chat = story._world(Grave()).here_id(story.chat_id)
        decided = [row for row in await audited(chat, "decided") if row.call_id is not None]
        approved = {row.actor for row in decided if row.detail["verb"] == "approve"}
        assert approved == {BEN.key, CYN.key}, at
