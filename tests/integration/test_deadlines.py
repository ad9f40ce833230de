"""A question that nobody decides ends at its deadline, by itself and in one way. Nothing is ever
approved by silence."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest

from bot.card import CardState
from bot.chat import Chat
from bot.core import Job
from bot.field import Field
from bot.question import Verb
from bot.timers import Expired, Timers
from bot.tool import Call, tool
from storage import calls, chats, outbox, questions, wakes
from storage.calls import CallState
from storage.database import Database, Tx
from storage.questions import QuestionRow, QuestionState
from tests.deadline_world import (
    HOUR,
    NOT_A_NO,
    OPS,
    STRANGER,
    again,
    decided,
    later,
    only_call,
    state_of,
    waiting,
)
from tests.fakes.model import call
from tests.group_world import asks, decide, group_world, states
from tests.integration.test_races import other_db, other_process
from tests.lost_run import Slow, chat_row
from tests.world import (
    ANA,
    BEN,
    CYN,
    World,
    audited,
    effect,
    only_question,
    returned,
    until,
    world,
)

__all__ = ["other_db"]

# The deadline


@pytest.mark.row("B40")
@pytest.mark.parametrize("seconds", [1.0, 7 * 86_400.0])
async def test_it_waits_until_its_deadline_and_no_longer(
    sqlite_db: Database, seconds: float
) -> None:
    w, chat, effects = await waiting(sqlite_db, policy=replace(OPS, expires_after=seconds))
    question = await only_question(chat)

    await later(w, seconds - 0.5)
    assert await chat.pending_questions() == [question]
    await later(w, 0.5)

    assert await state_of(chat, question) is QuestionState.EXPIRED
    assert effects == []


@pytest.mark.row("B40")
async def test_without_a_deadline_it_waits_for_ever(sqlite_db: Database) -> None:
    w, chat, effects = await waiting(sqlite_db, policy=replace(OPS, expires_after=None))
    question = await only_question(chat)

    await later(w, 366 * 86_400.0)

    assert await chat.pending_questions() == [question]
    assert w.surface.cards()[0].open
    await question.approve(by=BEN)
    await w.settle()
    assert effects == ["refund A1"]


@pytest.mark.row("B36")
async def test_every_copy_of_an_expired_card_loses_its_buttons_without_a_click(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    w = world(sqlite_db, call("refund"), "Too bad.", tools=[effect(effects)], policies=[OPS])
    w.surface.directs = True
    chat = await w.chat()
    await w.settle()
    assert [card.state for card in w.surface.cards()] == [CardState.OPEN] * 3  # thread, ben, cyn
    assert w.surface.cards()[0].notices[-1].startswith("It expires on 2027-01-15 at 09:00 UTC")

    await later(w, HOUR)

    assert [(card.state, card.again) for card in w.surface.cards()] == [
        (CardState.CLOSED, True)
    ] * 3
    assert w.surface.cards()[0].outcome == "Expired on 2027-01-15 at 09:00 UTC without an answer."
    assert await chat.last_reply() == "Too bad."
    (row,) = await audited(chat, "expired")
    assert (row.actor, row.detail["purpose"]) == (None, "approval")


async def test_the_model_reads_that_it_was_no_no_and_the_call_has_not_failed_as_declined(
    sqlite_db: Database,
) -> None:
    w, chat, effects = await waiting(sqlite_db)

    await later(w, HOUR)

    row = await only_call(chat)
    assert (row.state, row.outcome) == (CallState.FAILED, "expired")
    assert (await returned(chat))[0].startswith(f"{NOT_A_NO} That is not a no.")
    async with w.db.read() as tx:
        assert await calls.digests_declined(tx, chat.id) == set()
    assert effects == []


async def test_a_deadline_that_passed_while_the_bot_was_down_counts_at_its_next_start(
    sqlite_db: Database,
) -> None:
    policy = replace(OPS, remind_after=60.0, escalate_after=600.0)
    policy = replace(policy, escalate_to=frozenset({STRANGER.key}))
    w, chat, effects = await waiting(sqlite_db, policy=policy)
    question = await only_question(chat)
    shown = len(w.surface.shown)

    w.clock.advance(30 * HOUR)
    w = await w.restart()
    await w.settle()

    assert await state_of(w.here(chat), question) is QuestionState.EXPIRED
    assert w.surface.cards()[0].outcome == "Expired on 2027-01-15 at 09:00 UTC without an answer."
    # Nobody is reminded of it, or called to it, any more.
    assert w.surface.replies() == ["Nobody decided."]
    assert len(w.surface.shown) == shown + 1
    assert await audited(chat, "escalated") == []
    assert effects == []


async def test_a_second_wake_is_harmless(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db)
    question = await only_question(chat)
    w.clock.advance(HOUR)

    assert [await Timers(w.core).due(question.id) for _ in range(3)] == [None] * 3
    await w.settle()

    assert len(await audited(chat, "expired")) == 1
    assert len(w.model.requests) == 2


async def test_an_early_wake_says_when_to_come_back(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db)
    question = await only_question(chat)
    began = w.clock.now()
    w.clock.advance(60)

    assert await Timers(w.core).due(question.id) == began + HOUR
    assert await Timers(w.core).due("no question") is None
    assert await state_of(chat, question) is QuestionState.OPEN


async def test_the_sweep_finds_a_deadline_that_no_wake_told_of(db: Database) -> None:
    w, chat, _ = await waiting(db)
    question = await only_question(chat)
    async with w.db.transaction("lose_the_wake") as tx:
        (lost,) = [
            one
            for one in await wakes.claim(
                tx, now=w.clock.now() + HOUR, until=w.clock.now() + 2 * HOUR, limit=10
            )
            if one.job == Job.DUE
        ]
        await wakes.finish(tx, lost, again_at=None, now=w.clock.now())
    await later(w, HOUR)
    assert await state_of(chat, question) is QuestionState.OPEN

    sweeping = asyncio.create_task(w.engine._sweep())
    await asyncio.sleep(0.01)
    w.clock.advance(31)
    async with w.db.read() as tx:
        assert await questions.late(tx, w.clock.now() - 30) == [question.id]

    async def expired() -> bool:
        await w.settle()
        return await state_of(chat, question) is QuestionState.EXPIRED

    await until(expired)
    sweeping.cancel()


async def test_a_program_without_an_engine_settles_it_when_it_goes_on(sqlite_db: Database) -> None:
    w, chat, effects = await waiting(sqlite_db)
    w.clock.advance(HOUR)

    await chat.complete()

    assert await chat.last_reply() == "Nobody decided."
    assert effects == []


async def test_what_was_approved_in_time_runs_although_its_deadline_has_passed(
    sqlite_db: Database,
) -> None:
    w, chat, effects = await waiting(sqlite_db, call("refund"), "Done.")
    await (await only_question(chat)).approve(by=BEN)

    await later(w, 30 * HOUR)

    assert effects == ["refund A1"]
    assert await audited(chat, "expired") == []


async def test_one_of_two_approvals_is_not_enough_at_the_deadline(sqlite_db: Database) -> None:
    w, chat, effects = await waiting(sqlite_db, policy=replace(OPS, quorum=2))
    question = await only_question(chat)
    await question.approve(by=BEN)

    await later(w, HOUR)

    assert await state_of(chat, question) is QuestionState.EXPIRED
    with contextlib.suppress(Exception):
        await question.approve(by=CYN)
    await w.settle()
    assert effects == []


async def test_calls_of_a_shared_card_expire_and_those_decided_before_do_not(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    w = group_world(sqlite_db, asks(6), [effect(effects)], policies=[OPS])
    chat = await w.chat()
    await w.settle()
    await decide(w, w.surface.groups()[0], only=[0, 3])
    await w.settle()

    await later(w, HOUR)

    (group,) = w.surface.groups()
    closed = CardState.CLOSED
    assert states(group) == [CardState.DONE, closed, closed, CardState.DONE, closed, closed]
    assert (group.open, group.again) == (False, True)
    assert sorted(effects) == ["refund A0", "refund A3"]
    assert sum(NOT_A_NO in one for one in await returned(chat)) == 4


@pytest.mark.row("B34")
async def test_two_questions_have_each_their_own_deadline(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db)
    w.clock.advance(HOUR / 2)
    other = await w.chat()
    await w.settle()

    await later(w, HOUR / 2)

    assert await chat.pending_questions() == []
    await later(w, HOUR / 2 - 1)
    assert len(await other.pending_questions()) == 1


async def test_what_a_tool_asks_expires_and_the_tool_goes_on_without_an_answer(
    sqlite_db: Database,
) -> None:
    answers: list[Any] = []

    @tool(name="ask", approval="never")
    async def ask(c: Call) -> str:
        answers.append(await c.ask("Where?", Field("seat")))
        return "went on"

    w, chat, _ = await waiting(sqlite_db, call("ask"), "Done.", tools=[ask])
    question = await only_question(chat)
    assert "goes on without an answer" in w.surface.cards()[0].notices[-1]

    await later(w, HOUR)

    assert answers == [None]
    assert await returned(chat) == ["went on"]
    (card,) = w.surface.cards()
    assert (card.state, card.again) == (CardState.CLOSED, False)
    told = await again(w, question.nonce, ANA)
    assert told.sentence.startswith("Nothing on this card has expired")


async def test_what_came_of_a_lost_run_never_expires(sqlite_db: Database) -> None:
    slow = Slow()
    w = world(sqlite_db, call("refund"), "Done.", tools=[slow.tool()], policies=[OPS])
    chat = await w.chat()
    running = asyncio.create_task(w.settle())
    await until(lambda: bool(slow.effects))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    w = await w.restart()
    w.clock.advance(120)
    await w.settle()
    assert (await chat_row(chat)).owner is None
    question = await only_question(w.here(chat))

    await later(w, 366 * 86_400.0)

    assert await w.here(chat).pending_questions() == [question]


# A decision that races the deadline


@pytest.mark.parametrize("verb", [Verb.APPROVE, Verb.DECLINE])
async def test_whoever_decides_after_the_deadline_is_told_so_although_nobody_woke_it(
    sqlite_db: Database, verb: Verb
) -> None:
    w, chat, effects = await waiting(sqlite_db)
    question = await only_question(chat)
    w.clock.advance(HOUR)

    look = await w.service.look(question.nonce, verb, BEN)
    told = await decided(w, question, verb)
    await w.settle()

    sentence = (
        "This expired on 2027-01-15 at 09:00 UTC, before you decided, so refund does not run; its "
        "card can ask again."
    )
    assert (look.card, look.refusal) == (None, sentence)
    assert (told.done, told.sentence) == (False, sentence)
    assert await state_of(chat, question) is QuestionState.EXPIRED
    assert w.surface.cards()[0].again
    assert effects == []
    assert await audited(chat, "decided") == []
    assert len(await audited(chat, "expired")) == 1


async def test_who_may_not_decide_is_told_that_and_expires_nothing(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db)
    question = await only_question(chat)
    w.clock.advance(HOUR)

    told = await decided(w, question, Verb.APPROVE, by=STRANGER)

    assert "not among the approvers" in told.sentence
    assert await audited(chat, "expired") == []


async def test_a_decision_at_the_last_moment_counts_and_the_deadline_changes_nothing(
    sqlite_db: Database,
) -> None:
    w, chat, effects = await waiting(sqlite_db, call("refund"), "Done.")
    question = await only_question(chat)
    w.clock.advance(HOUR - 0.001)

    assert (await decided(w, question, Verb.APPROVE)).done
    await later(w, 0.001)

    assert effects == ["refund A1"]
    assert await audited(chat, "expired") == []


async def test_a_decision_and_the_deadline_at_once_have_one_outcome(
    db: Database, other_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read that it is open, one of them at a clock that is a moment behind."""
    w, chat, effects = await waiting(db, call("refund"), "Done.")
    behind = other_process(w, other_db)
    question = await only_question(Chat(chat.id, behind.core))
    early = replace_clock(behind, w.clock.now() + HOUR - 0.5)
    w.clock.advance(HOUR)
    both = asyncio.Barrier(2)
    read = questions.get

    async def read_and_wait(tx: Tx, key: str) -> QuestionRow | None:
        found = await read(tx, key)
        with contextlib.suppress(TimeoutError, asyncio.BrokenBarrierError):
            async with asyncio.timeout(0.2):
                await both.wait()
        return found

    monkeypatch.setattr(questions, "get", read_and_wait)
    ruling, _ = await asyncio.gather(
        decided(early, question, Verb.APPROVE), Timers(w.core).due(question.id)
    )
    monkeypatch.setattr(questions, "get", read)
    await w.settle()

    expired = await audited(chat, "expired")
    assert len(expired) + len(await audited(chat, "decided")) == 1
    assert ruling.done is (not expired)
    assert effects == ([] if expired else ["refund A1"])


def replace_clock(w: World, now: float) -> World:
    """The same process with a clock of its own."""
    clock = type(w.clock)(now)
    w.core.clock = clock
    w.engine.clock = clock
    w.clock = clock
    return w


async def test_a_program_is_told_with_a_typed_error(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db)
    question = await only_question(chat)
    w.clock.advance(HOUR)

    with pytest.raises(Expired):
        await question.approve(by=BEN)

    assert await state_of(chat, question) is QuestionState.EXPIRED


async def test_what_expired_on_a_channel_that_takes_nothing_is_settled_all_the_same(
    sqlite_db: Database,
) -> None:
    """The card cannot be edited; the call does not wait for it."""
    w, chat, effects = await waiting(sqlite_db)
    async with w.db.read() as tx:
        row = await chats.get(tx, chat.id)
        question = (await questions.open_in_chat(tx, chat.id))[0]
        assert row is not None
        assert len(await outbox.postings_of(tx, outbox.card_of(question))) == 1
    w.surface.shown.clear()  # an edit raises

    await later(w, HOUR)

    assert (await only_call(chat)).outcome == "expired"
    assert effects == []
