"""What is left when a process dies, a lease is lost or somebody stops the chat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bot.chat import Chat
from bot.core import Core
from bot.field import Field
from bot.lease import Held
from bot.move import HOLD_SECONDS
from bot.question import NotAllowed, Purpose, Question, WrongVerb
from bot.run import ATTEMPTS
from bot.surface import DeliveryError
from bot.tool import Call, Tool, tool
from storage import chats
from storage.calls import CallState
from storage.chats import ChatRow
from storage.database import Database
from storage.questions import QuestionState
from tests.fakes.model import call, cut, fails, hangs, rate_limited
from tests.world import (
    ANA,
    BEN,
    CYN,
    World,
    audited,
    effect,
    only_question,
    returned,
    said,
    until,
    world,
)

LOST = "refund was interrupted and its result is lost; ben says"


@dataclass
class Slow:
    """A tool whose first runs stay in their effect until they are let go: a process that dies
    there leaves it so for ever."""

    effects: list[str] = field(default_factory=list)
    stays: int = 1
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def tool(self, *, idempotent: bool = False) -> Tool:
        @tool(name="refund", approval="never", idempotent=idempotent)
        async def refund(order: str = "A1") -> str:
            self.effects.append(f"refund {order}")
            number = len(self.effects)
            if number <= self.stays:
                await self.go.wait()
            return f"refund {order} done in run {number}"

        return refund


async def chat_row(chat: Chat) -> ChatRow:
    async with chat.core.db.read() as tx:
        row = await chats.get(tx, chat.id)
    assert row is not None
    return row


@dataclass
class Lost:
    """A call whose process died in it; `old` is the dead process's runner."""

    world: World
    chat: Chat
    slow: Slow
    old: asyncio.Task[float | None]

    @property
    async def question(self) -> Question:
        return await only_question(self.chat)


async def lost_run(db: Database) -> Lost:
    slow = Slow()
    w = world(db, call("refund"), "Done.", tools=[slow.tool()])
    chat = await w.chat()
    old = asyncio.create_task(chat.complete())
    await until(lambda: bool(slow.effects))
    w = await w.restart()
    await w.settle()
    return Lost(w, w.here(chat), slow, old)


@pytest.mark.row("D24")
@pytest.mark.row("B16")
async def test_a_call_whose_process_died_in_it_does_not_run_again_and_a_person_is_asked(
    db: Database,
) -> None:
    lost = await lost_run(db)

    question = await lost.question
    (row,) = await lost.chat.calls()
    assert lost.slow.effects == ["refund A1"]
    assert row.state == CallState.UNKNOWN
    assert question.purpose is Purpose.OUTCOME
    assert question.id.startswith(f"{row.id}/")
    assert [choice.value for choice in question.fields[0].choices] == ["ran", "again", "give_up"]
    assert [card.title for card in lost.world.surface.cards()] == ["What came of refund?"]
    assert len(lost.world.model.requests) == 1


async def test_a_lost_run_that_did_run_is_not_repeated_and_the_model_is_told(db: Database) -> None:
    lost = await lost_run(db)

    await (await lost.question).answer(outcome="ran", note="order A1 is refunded", by=BEN)
    await lost.world.settle()

    assert lost.slow.effects == ["refund A1"]
    assert await returned(lost.chat) == [f"{LOST} it did run. order A1 is refunded"]
    assert await lost.chat.last_reply() == "Done."


async def test_a_lost_run_that_is_run_again_runs_once_more(db: Database) -> None:
    lost = await lost_run(db)

    await (await lost.question).answer(outcome="again", by=BEN)
    await lost.world.settle()

    assert lost.slow.effects == ["refund A1"] * 2
    assert await returned(lost.chat) == ["refund A1 done in run 2"]
    run = (await audited(lost.chat, "run"))[-1]
    assert run.actor == BEN.key
    assert await lost.chat.last_reply() == "Done."


async def test_a_lost_run_that_is_given_up_does_not_run_and_the_model_is_told(
    db: Database,
) -> None:
    lost = await lost_run(db)

    await (await lost.question).decline("nobody needs it", by=BEN)
    await lost.world.settle()

    assert lost.slow.effects == ["refund A1"]
    assert await returned(lost.chat) == [f"{LOST} to give it up. nobody needs it"]


async def test_only_an_approver_settles_a_lost_run_and_approve_is_no_answer_to_it(
    db: Database,
) -> None:
    lost = await lost_run(db)
    question = await lost.question

    for person in (ANA, CYN):
        with pytest.raises(NotAllowed):
            await question.answer(outcome="again", by=person)
    with pytest.raises(WrongVerb, match="it ran, run it again, or give it up"):
        await question.approve(by=BEN)
    await lost.world.settle()

    assert lost.slow.effects == ["refund A1"]
    assert (await lost.question).id == question.id


async def test_a_late_result_beats_the_question_that_was_asked_about_it(db: Database) -> None:
    lost = await lost_run(db)
    question = await lost.question

    lost.slow.go.set()
    await lost.old
    await lost.world.settle()

    assert lost.slow.effects == ["refund A1"]
    assert await returned(lost.chat) == ["refund A1 done in run 1"]
    assert await lost.chat.last_reply() == "Done."
    closed = await lost.chat.question(question.id)
    assert closed is not None
    assert closed.state is QuestionState.SUPERSEDED
    (card,) = lost.world.surface.cards()
    assert not card.open


async def test_a_late_result_does_not_overrule_what_a_person_decided(db: Database) -> None:
    lost = await lost_run(db)
    await (await lost.question).answer(outcome="give_up", by=BEN)

    lost.slow.go.set()
    await lost.old
    await lost.world.settle()

    assert await returned(lost.chat) == [f"{LOST} to give it up."]


async def test_a_late_result_of_an_earlier_run_is_not_taken_for_the_repeated_one(
    db: Database,
) -> None:
    lost = await lost_run(db)
    lost.slow.stays = 2
    await (await lost.question).answer(outcome="again", by=BEN)
    second = asyncio.create_task(lost.world.settle())
    await until(lambda: len(lost.slow.effects) == 2)
    first_run_done = lost.slow.go
    lost.slow.go = asyncio.Event()  # the second run holds the old event, so both end below

    first_run_done.set()
    await lost.old
    await second

    assert await returned(lost.chat) == ["refund A1 done in run 2"]


async def test_a_runner_that_lost_its_lease_reports_its_result_and_stops(db: Database) -> None:
    lost = await lost_run(db)
    asked = len(lost.world.model.requests)

    lost.slow.go.set()
    await lost.old

    assert len(lost.world.model.requests) == asked  # the new holder goes on, not this one
    assert (await chat_row(lost.chat)).owner is None


async def test_a_lost_idempotent_call_is_repeated_without_asking(db: Database) -> None:
    slow = Slow()
    w = world(db, call("refund"), "Done.", tools=[slow.tool(idempotent=True)])
    chat = await w.chat()
    dead = asyncio.create_task(chat.complete())
    await until(lambda: bool(slow.effects))

    w = await w.restart()
    await w.settle()

    assert slow.effects == ["refund A1"] * 2
    assert await returned(chat) == ["refund A1 done in run 2"]
    assert w.surface.cards() == []
    assert not dead.done()


async def test_an_idempotent_call_that_is_lost_every_time_is_asked_about_in_the_end(
    db: Database,
) -> None:
    slow = Slow(stays=100)
    w = world(db, call("refund"), "Done.", tools=[slow.tool(idempotent=True)])
    chat = await w.chat()
    dead = []
    for _ in range(ATTEMPTS):
        dead.append(asyncio.create_task(w.here(chat).complete()))
        await until(lambda: len(slow.effects) == len(dead))
        w = await w.restart()

    await w.settle()

    assert len(slow.effects) == ATTEMPTS
    assert (await only_question(chat)).purpose is Purpose.OUTCOME
    assert len(dead) == ATTEMPTS


async def test_an_approved_call_that_is_run_again_needs_no_second_approval(db: Database) -> None:
    slow = Slow()
    strict = slow.tool()
    w = world(db, call("refund"), "Done.", tools=[_asking(strict)])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN)
    dead = asyncio.create_task(w.settle())
    await until(lambda: bool(slow.effects))
    w = await w.restart()
    await w.settle()

    await (await only_question(chat)).answer(outcome="again", by=BEN)
    await w.settle()

    assert slow.effects == ["refund A1"] * 2
    assert await w.here(chat).last_reply() == "Done."
    assert not dead.done()


def _asking(one: Tool) -> Tool:
    return tool(name="refund")(one.function)


async def test_a_journaled_step_is_not_repeated_when_the_tool_runs_again(db: Database) -> None:
    charged: list[str] = []

    @tool(approval="never")
    async def book(c: Call) -> str:
        async def charge() -> str:
            charged.append("charged")
            return f"receipt {len(charged)}"

        receipt = await c.once("charge", charge)
        seat = await c.ask("Where?", Field("seat"))
        return f"{receipt}, {seat}"

    w = world(db, call("book"), "Done.", tools=[book])
    chat = await w.chat()
    await w.settle()
    w = await w.restart()
    await (await only_question(w.here(chat))).answer("window", by=BEN)
    await w.settle()

    assert charged == ["charged"]
    assert await returned(chat) == ["receipt 1, window"]


async def test_a_step_that_was_journaled_is_kept_when_a_lost_call_is_run_again(
    db: Database,
) -> None:
    charged: list[str] = []
    sent: list[str] = []

    @tool(approval="never")
    async def book(c: Call) -> str:
        async def charge() -> None:
            charged.append("charged")

        await c.once("charge", charge)
        sent.append("sent")
        if len(sent) == 1:
            await asyncio.Event().wait()  # the process dies here
        return "booked"

    w = world(db, call("book"), "Done.", tools=[book])
    chat = await w.chat()
    dead = asyncio.create_task(chat.complete())
    await until(lambda: bool(sent))
    w = await w.restart()
    await w.settle()
    await (await only_question(w.here(chat))).answer(outcome="again", by=BEN)
    await w.settle()

    assert charged == ["charged"]
    assert await returned(chat) == ["booked"]
    assert not dead.done()


async def test_a_step_whose_lease_is_lost_leaves_the_call_unknown(db: Database) -> None:
    charged: list[str] = []
    go = asyncio.Event()

    @tool(approval="never")
    async def book(c: Call) -> str:
        async def charge() -> None:
            charged.append("charged")
            await go.wait()

        try:
            await c.once("charge", charge)
        except Exception:  # what a careless tool does must not turn this into a result
            return "not charged"
        return "charged"

    w = world(db, call("book"), "Done.", tools=[book])
    chat = await w.chat()
    old = asyncio.create_task(chat.complete())
    await until(lambda: bool(charged))
    w = await w.restart()
    await w.settle()
    go.set()
    await old
    await w.settle()

    assert charged == ["charged"]
    (row,) = await chat.calls()
    assert row.state == CallState.UNKNOWN


# Kills at the commits: a process that is dead makes no further commit.


class Killed(BaseException):
    """The process is gone."""


def kill_at(db: Database, point: str) -> None:
    dead = False

    def check(name: str) -> None:
        nonlocal dead
        dead = dead or name == point
        if dead:
            raise Killed

    db.points = check


@pytest.fixture
async def next_db(sqlite_db: Database) -> AsyncIterator[Database]:
    """The same rows, for the process that comes after the dead one."""
    database = Database(f"sqlite:///{Path(str(sqlite_db.url.database))}")
    yield database
    await database.close()


@pytest.mark.row("B16")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "point",
    [
        "lease_chat",
        "claim_call",
        "record_result",
        "send_results",
        "record_turn",
        "release_chat",
        "claim_delivery",
        "record_delivery",
        "finish_work",
    ],
)
async def test_a_kill_at_any_commit_leaves_at_most_one_effect_and_a_chat_that_goes_on(
    sqlite_db: Database, next_db: Database, when: str, point: str
) -> None:
    effects: list[str] = []
    w = world(sqlite_db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN)
    kill_at(sqlite_db, f"{when} {point}")
    with pytest.raises(Killed):
        await w.settle()
    before = list(effects)

    w.db = next_db
    w = await w.restart()
    chat = w.here(chat)
    await w.settle()
    for question in await chat.pending_questions():
        assert question.purpose is Purpose.OUTCOME
        await question.answer(outcome="ran" if before else "again", by=BEN)
    await w.settle()

    assert effects == ["refund A1"]
    assert await chat.last_reply() == "Done."
    assert sorted(w.surface.replies())[-1] == "Done."
    assert len(w.surface.cards()) == len({card.nonce for card in w.surface.cards()})
    assert not any(card.open for card in w.surface.cards())


@pytest.mark.row("B30")
async def test_the_first_click_after_a_restart_counts(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()

    w = await w.restart()
    ruling = await (await only_question(w.here(chat))).approve(by=BEN)
    await w.settle()

    assert ruling.first
    assert effects == ["refund A1"]


@pytest.mark.row("L1")
async def test_after_a_crash_only_the_call_that_did_not_run_runs(
    sqlite_db: Database, next_db: Database
) -> None:
    effects: list[str] = []
    tools = [effect(effects, "look", approval="never"), effect(effects)]
    w = world(sqlite_db, [call("look"), call("refund")], "Done.", tools=tools)
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN)
    kill_at(sqlite_db, "before claim_call")
    with pytest.raises(Killed):
        await w.settle()
    assert effects == ["look A1"]

    w.db = next_db
    w = await w.restart()
    await w.settle()

    assert effects == ["look A1", "refund A1"]
    assert await returned(w.here(chat)) == ["look A1 done", "refund A1 done"]


@pytest.mark.row("L2")
async def test_when_people_move_on_from_a_lost_call_the_model_reads_that_it_did_not_finish(
    db: Database,
) -> None:
    lost = await lost_run(db)

    await lost.chat.cancel(by=ANA)
    await lost.world.settle()
    await lost.chat.say("something else", by=ANA)
    await lost.world.settle()

    assert lost.slow.effects == ["refund A1"]
    (result,) = await returned(lost.chat)
    assert result.startswith("refund did not finish")
    assert await lost.chat.pending_questions() == []


@pytest.mark.row("L3")
async def test_stopping_a_streaming_answer_ends_it_and_the_chat_is_usable(db: Database) -> None:
    w = world(db, hangs("Half an ans", then="Stopped."), "Whole.")
    chat = await w.chat()
    running = asyncio.create_task(chat.complete())
    await until(lambda: bool(w.model.requests))

    await chat.cancel(by=ANA)
    async with asyncio.timeout(10):
        while not running.done():
            w.clock.advance(1)
            await asyncio.sleep(0.01)
    await w.settle()

    assert (await chat_row(chat)).cancelled_by is None
    assert w.surface.replies() == ["Stopped."]
    assert not any("Half" in row.body for row in await chat.transcript())
    await chat.say("go on", by=ANA)
    await w.settle()
    assert await chat.last_reply() == "Whole."


async def test_a_stop_that_is_heard_as_it_is_carried_out_does_not_stop_what_comes_next(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(Held):
        def __init__(self, core: Core, chat: ChatRow) -> None:
            super().__init__(core, chat)
            self.cancelled.set()  # from a row that was read before the stop was done

    monkeypatch.setattr("bot.loop.Held", Late)
    w = world(db, "Hello.")
    chat = await w.chat()

    async with asyncio.timeout(5):
        await chat.complete()

    assert await chat.last_reply() == "Hello."


async def test_stopping_a_waiting_chat_closes_its_questions_and_runs_nothing(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Go on.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)

    await chat.cancel(by=ANA)
    await w.settle()

    closed = await chat.question(question.id)
    assert closed is not None
    assert closed.state is QuestionState.CANCELLED
    assert not (await question.approve(by=BEN)).first
    await w.settle()
    assert effects == []
    assert await returned(chat) == ["refund did not run: the conversation was stopped."]
    assert not any(card.open for card in w.surface.cards())
    assert "Stopped." in w.surface.replies()
    (row,) = await audited(chat, "stopped")
    assert row.actor == ANA.key


async def test_stopping_lets_a_call_that_runs_finish_and_keeps_its_result(db: Database) -> None:
    slow = Slow()
    w = world(db, [call("refund"), call("cancel")], tools=[slow.tool(), effect([], "cancel")])
    chat = await w.chat()
    running = asyncio.create_task(chat.complete())
    await until(lambda: bool(slow.effects))

    await chat.cancel(by=ANA)
    w.clock.advance(1)
    await until(lambda: has_call(chat, CallState.FAILED))
    slow.go.set()
    await running

    assert await returned(chat) == [
        "refund A1 done in run 1",
        "cancel did not run: the conversation was stopped.",
    ]
    assert len(w.model.requests) == 1
    assert await chat.last_reply() == "Stopped."
    assert (await chat_row(chat)).owner is None


async def has_call(chat: Chat, state: CallState) -> bool:
    return state in [row.state for row in await chat.calls()]


async def test_stopping_an_idle_chat_says_nothing_and_the_next_message_is_answered(
    db: Database,
) -> None:
    w = world(db, "One.", "Two.")
    chat = await w.chat()
    await w.settle()

    await chat.cancel(by=ANA)
    await w.settle()
    await chat.say("more", by=ANA)
    await w.settle()

    assert w.surface.replies() == ["One.", "Two."]


@pytest.mark.row("L4")
async def test_an_unknown_tool_is_told_to_the_model_with_the_names_it_may_call(
    db: Database,
) -> None:
    w = world(db, call("erase"), "I see.", tools=[effect([]), effect([], "look")])
    chat = await w.chat()

    await w.settle()

    assert await returned(chat) == ["There is no tool named erase. The tools are: refund, look."]
    assert await chat.last_reply() == "I see."


@pytest.mark.row("L6")
async def test_a_tool_that_raises_leaves_the_results_of_its_siblings(db: Database) -> None:
    effects: list[str] = []

    @tool(approval="never")
    async def broken() -> str:
        raise LookupError("no such order")

    tools = [effect(effects, approval="never"), broken]
    w = world(db, [call("refund"), call("broken")], "I see.", tools=tools)
    chat = await w.chat()

    await w.settle()

    assert effects == ["refund A1"]
    first, second = await returned(chat)
    assert first == "refund A1 done"
    assert "broken failed: LookupError: no such order" in second
    assert await chat.last_reply() == "I see."


@pytest.mark.row("L7")
@pytest.mark.row("Q26")
async def test_completing_a_finished_chat_does_nothing(db: Database) -> None:
    w = world(db, "Hello.")
    chat = await w.chat()
    await w.settle()
    before = await chat.transcript()

    assert await chat.complete() is None

    assert await chat.transcript() == before
    assert len(w.model.requests) == 1
    assert (await chat_row(chat)).owner is None


async def test_bad_arguments_go_back_to_the_model_and_nobody_is_asked(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund", order=[1], extra=2), "I see.", tools=[effect(effects)])
    chat = await w.chat()

    await w.settle()

    (result,) = await returned(chat)
    assert "order" in result
    assert "extra" in result
    assert effects == []
    assert w.surface.cards() == []


async def test_the_last_call_of_a_response_that_was_cut_off_never_runs(db: Database) -> None:
    effects: list[str] = []
    refund = effect(effects, approval="never")
    two = cut(call("refund", order="A1"), call("refund", order="A2"))
    w = world(db, two, "I see.", tools=[refund])
    chat = await w.chat()

    await w.settle()

    assert effects == ["refund A1"]
    assert "cut off" in (await returned(chat))[1]


async def test_the_same_call_three_times_in_a_row_is_stopped(db: Database) -> None:
    effects: list[str] = []
    same = [call("refund")] * 3
    w = world(db, *same, "I give up.", tools=[effect(effects, approval="never")])
    chat = await w.chat()

    await w.settle()

    assert effects == ["refund A1"] * 2
    assert "3 times in a row" in (await returned(chat))[2]
    assert await chat.last_reply() == "I give up."


async def test_a_turn_is_stopped_after_its_rounds_and_a_person_can_go_on(db: Database) -> None:
    effects: list[str] = []
    steps = [call("look", order=f"A{number}") for number in range(4)]
    tools = [effect(effects, "look", approval="never")]
    w = world(db, *steps, "Done.", tools=tools, rounds=3)
    chat = await w.chat()
    await w.settle()
    assert len(effects) == 3
    assert (await chat.last_reply()).startswith("I stopped after 3 rounds")

    await chat.say("go on", by=ANA)
    await w.settle()

    assert len(w.model.requests) > 3


async def test_a_model_that_wants_to_be_left_alone_is_asked_again_when_it_said(
    db: Database,
) -> None:
    w = world(db, fails(rate_limited(retry_after=300), then="Now."))
    chat = await w.chat()
    await w.settle()
    row = await chat_row(chat)
    assert row.owner is None
    assert row.wake_at is not None
    assert row.wake_at >= w.clock.now() + 300

    w.clock.advance(row.wake_at - w.clock.now())
    await w.settle()

    assert await chat.last_reply() == "Now."


async def test_an_error_of_the_loop_lets_the_chat_go(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects: list[str] = []

    async def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a defect of ours")

    w = world(db, "Hello.", tools=[effect(effects)])
    chat = await w.chat()
    with monkeypatch.context() as patch:
        patch.setattr(w.model, "turn", broken)
        with pytest.raises(ZeroDivisionError):
            await chat.complete()

    assert (await chat_row(chat)).owner is None
    await chat.complete()
    assert await chat.last_reply() == "Hello."


async def test_a_held_call_starts_after_the_hold_also_while_another_runs(db: Database) -> None:
    """The redraw of its card fails; that may hold a call for a while, not as long as others run."""
    slow = Slow()
    effects: list[str] = []
    tools = [slow.tool(), effect(effects, "cancel")]
    w = world(db, [call("refund"), call("cancel")], "Done.", tools=tools)
    chat = await w.chat()
    async with w.serving():
        await until(lambda: bool(w.surface.cards() and slow.effects))
        w.surface.failures.append(DeliveryError("busy", retry_after=1000))
        await (await only_question(chat)).approve(by=BEN)
        await until(lambda: not w.surface.failures)  # the redraw is put off
        w.clock.advance(2)  # the runner hears of the decision
        await asyncio.sleep(0.1)
        assert effects == []

        w.clock.advance(HOLD_SECONDS)
        await until(lambda: bool(effects))
        assert slow.effects == ["refund A1"]  # which still runs
        slow.go.set()


async def test_a_process_that_is_told_to_go_does_not_wait_for_a_tool_for_ever(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.jobs.GRACE_SECONDS", 0.05)
    slow = Slow()
    w = world(db, call("refund"), "Done.", tools=[slow.tool()])
    chat = await w.chat()
    process = asyncio.create_task(w.engine.run(w.handlers))
    await until(lambda: bool(slow.effects))

    process.cancel()
    await asyncio.wait([process], timeout=2)
    assert process.done()

    w = await w.restart()
    await w.settle()
    assert slow.effects == ["refund A1"]
    assert (await only_question(w.here(chat))).purpose is Purpose.OUTCOME


async def test_what_people_said_before_a_crash_is_answered_after_it(db: Database) -> None:
    w = world(db, hangs("Half", then="Hello."))
    chat = await w.chat("good morning")
    dead = asyncio.create_task(chat.complete())
    await until(lambda: bool(w.model.requests))

    w = await w.restart()
    await w.settle()

    assert await w.here(chat).last_reply() == "Hello."
    assert len(await said(chat)) == 1
    assert not dead.done()
