"""What is left when a process dies, a lease is lost or somebody stops the chat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.field import Field
from bot.question import NotAllowed, Purpose, WrongVerb
from bot.run import ATTEMPTS
from bot.tool import Call, Tool, tool
from storage.calls import CallState
from storage.database import Database
from storage.questions import QuestionState
from tests.fakes.model import call
from tests.lost_run import Slow, chat_row, lost_run
from tests.world import (
    ANA,
    BEN,
    CYN,
    audited,
    effect,
    only_question,
    returned,
    until,
    world,
)

LOST = "refund was interrupted and its result is lost; ben says"


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
