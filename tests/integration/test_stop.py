"""Stopping a chat: what waits does not run, what runs is let finish (rows L2, L3)."""

from __future__ import annotations

import asyncio

import pytest

from bot.chat import Chat
from bot.core import Core
from bot.lease import Held
from storage.calls import CallState
from storage.chats import ChatRow
from storage.database import Database
from storage.questions import QuestionState
from tests.fakes.model import call, hangs
from tests.lost_run import Slow, chat_row, lost_run
from tests.world import (
    ANA,
    BEN,
    audited,
    effect,
    only_question,
    returned,
    until,
    world,
)


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
