"""What the loop makes of what the model proposes, and of its own failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bot.loop import FAILURES
from bot.move import HOLD_SECONDS
from bot.question import Purpose
from bot.surface import DeliveryError
from bot.tool import tool
from storage.database import Database
from tests.fakes.model import call, cut, fails, hangs, rate_limited
from tests.lost_run import Slow, chat_row
from tests.world import (
    ANA,
    BEN,
    effect,
    only_question,
    returned,
    said,
    until,
    world,
)


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
    monkeypatch.setattr("bot.embedded.GRACE_SECONDS", 0.05)
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


async def test_a_turn_that_fails_again_and_again_is_given_up_in_words(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a reason that nobody foresaw; else it would be tried, and paid for, for ever."""
    w = world(sqlite_db, "Hello.", "Hello again.")
    chat = await w.chat()

    async def breaks(*_args: Any, **_named: Any) -> None:
        raise LookupError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr("storage.messages.record_turn", breaks)
        for _ in range(FAILURES):
            await w.settle()
            w.clock.advance(400)
    assert len(w.model.requests) == FAILURES
    assert "fault on my side" in await chat.last_reply()
    await w.settle()
    assert len(w.model.requests) == FAILURES
    await chat.say("again", by=ANA)
    await w.settle()
    assert await chat.last_reply() == "Hello again."


async def test_what_a_model_says_is_kept_whatever_characters_it_has(db: Database) -> None:
    w = world(db, "a\x00b", tools=[])
    chat = await w.chat()
    await w.settle()
    assert not await chat.waiting()
    assert [text.replace("\ufffd", "") for text in w.surface.replies()] == ["ab"]
