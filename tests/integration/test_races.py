"""Things that happen at once: one of them counts, and everybody is told the same."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bot.approvers import Policy
from bot.chat import Chat
from bot.loop import Loop, _Drive
from bot.question import Question
from bot.surface import Actor, Decision, Message, Place, Response, Verb
from bot.tool import tool
from storage import chats, questions
from storage.calls import CallState
from storage.database import Database, Tx
from storage.questions import DecisionRow, QuestionRow, QuestionState
from tests.fakes.model import call
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, said, until, world

TWO_APPROVERS = Policy(name="ops", approvers=frozenset({BEN.key, CYN.key}))


@pytest.fixture
async def other_db(db: Database) -> AsyncIterator[Database]:
    """The same rows through connections of their own: another process. (SQLite is for one.)"""
    if db.sqlite:
        yield db
        return
    database = Database(db.url.render_as_string(hide_password=False))
    yield database
    await database.close()


def other_process(w: World, other_db: Database) -> World:
    return World(
        other_db, w.tools, w.model, w.policies, w.clock, w.surface, rounds=w.rounds, calls=w.calls
    )


async def decisions(chat: Chat, question: Question) -> list[DecisionRow]:
    async with chat.core.db.read() as tx:
        return await questions.decisions_on(tx, question.id)


def click(chat_place: Place, nonce: str, verb: Verb, by: Actor) -> Decision:
    return Decision(nonce=nonce, verb=verb, actor=by, via="button", place=chat_place)


async def place_of(chat: Chat) -> Place:
    async with chat.core.db.read() as tx:
        row = await chats.get(tx, chat.id)
    assert row is not None
    return row.place


@pytest.mark.row("B11")
@pytest.mark.row("Q24")
async def test_fifty_identical_clicks_make_one_decision_and_one_effect(
    db: Database, other_db: Database
) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    v = other_process(w, other_db)
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)
    event = click(await place_of(chat), question.nonce, Verb.APPROVE, BEN)

    responses: list[Response] = await asyncio.gather(
        *(one.service.decide(event) for one in (w, v) * 25)
    )
    await asyncio.gather(w.settle(), v.settle())

    assert sum(one.done for one in responses) == 1
    late = {one.sentence for one in responses if not one.done}
    assert len(late) == 1
    assert late.pop().startswith("This was settled before. Approved by ben on ")
    assert len(await decisions(chat, question)) == 1
    assert len(await audited(chat, "decided")) == 1
    assert effects == ["refund A1"]
    assert w.surface.replies() == ["Done."]


@pytest.mark.row("B15")
@pytest.mark.row("A21")
async def test_of_an_approval_and_a_decline_at_once_exactly_one_counts_everywhere(
    db: Database, other_db: Database
) -> None:
    for yes_first in (True, False):
        effects: list[str] = []
        w = world(db, call("refund"), "Done.", tools=[effect(effects)], policies=[TWO_APPROVERS])
        v = other_process(w, other_db)
        chat = await w.chat()
        await w.settle()
        question = await only_question(chat)
        place = await place_of(chat)

        clicks = [
            w.service.decide(click(place, question.nonce, Verb.APPROVE, BEN)),
            v.service.decide(click(place, question.nonce, Verb.DECLINE, CYN)),
        ]
        responses = await asyncio.gather(*(clicks if yes_first else reversed(clicks)))
        await w.settle()

        settled = await chat.question(question.id)
        assert settled is not None
        assert sorted(one.done for one in responses) == [False, True]
        (decided,) = await audited(chat, "decided")
        assert (decided.actor, decided.detail["state"]) == (settled.settled_by, settled.state)
        approved = settled.state is QuestionState.APPROVED
        assert effects == (["refund A1"] if approved else [])
        (card,) = w.surface.cards()
        words = "Approved by ben" if approved else "Declined by cyn"
        assert card.outcome.startswith(words)
        assert all(words in one.sentence for one in responses)


@pytest.mark.row("B13")
async def test_two_who_both_read_an_open_question_do_not_both_decide_it(
    db: Database, other_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])], policies=[TWO_APPROVERS])
    v = other_process(w, other_db)
    chat = await w.chat()
    await w.settle()
    mine = await only_question(chat)
    theirs = await only_question(Chat(chat.id, v.core))
    read, both = questions.by_nonce, asyncio.Barrier(2)

    async def read_and_wait(tx: Tx, nonce: str) -> QuestionRow | None:
        found = await read(tx, nonce)
        with contextlib.suppress(TimeoutError, asyncio.BrokenBarrierError):
            async with asyncio.timeout(0.2):  # SQLite lets only one in
                await both.wait()
        return found

    monkeypatch.setattr(questions, "by_nonce", read_and_wait)
    rulings = await asyncio.gather(mine.approve(by=BEN), theirs.decline(by=CYN))

    assert sorted(one.first for one in rulings) == [False, True]
    assert len({one.state for one in rulings}) == 1
    assert len(await audited(chat, "decided")) == 1
    assert len(await decisions(chat, mine)) == 1


@pytest.mark.row("B20")
async def test_one_event_delivered_to_two_processes_at_once_is_taken_in_once(
    db: Database, other_db: Database
) -> None:
    w = world(db, "Hello.")
    v = other_process(w, other_db)
    event = Message(
        keys=("event:1", "post:1"),
        place=Place("slack", "T1", "C1", "b20"),
        actor=ANA,
        text="hello",
        starts=True,
    )
    swapped = Message(
        keys=("post:1", "event:1"), place=event.place, actor=ANA, text="hello", starts=True
    )

    taken = await asyncio.gather(
        *(one.service.message(which) for one in (w, v) for which in (event, swapped) * 5)
    )
    await asyncio.gather(w.settle(), v.settle())

    assert sum(taken) == 1
    assert len(w.model.requests) == 1
    assert w.surface.replies() == ["Hello."]


async def test_two_messages_that_begin_one_thread_at_once_are_in_one_chat(
    db: Database, other_db: Database
) -> None:
    w = world(db, "Hello.", "Hello again.")
    v = other_process(w, other_db)
    place = Place("slack", "T1", "C1", "two")
    one, two = (
        Message(keys=(f"event:{text}",), place=place, actor=ANA, text=text, starts=True)
        for text in ("first", "second")
    )

    assert all(await asyncio.gather(w.service.message(one), v.service.message(two)))

    async with db.read() as tx:
        row = await chats.at_place(tx, place)
    assert row is not None
    chat = Chat(row.id, w.core)
    await w.settle()
    assert len(await said(chat)) == 2


async def test_two_runners_of_one_chat_run_its_call_once(db: Database, other_db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects, approval="never")])
    v = other_process(w, other_db)
    chat = await w.chat()

    await asyncio.gather(*(Chat(chat.id, one.core).complete() for one in (w, v) * 4))
    await asyncio.gather(w.settle(), v.settle())

    assert effects == ["refund A1"]
    assert len(w.model.requests) == 2
    assert await chat.last_reply() == "Done."


async def test_a_chat_that_is_held_is_left_to_its_holder(db: Database, other_db: Database) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @tool(approval="never")
    async def look() -> str:
        started.set()
        await go.wait()
        return "seen"

    w = world(db, call("look"), "Done.", tools=[look])
    v = other_process(w, other_db)
    chat = await w.chat()
    holding = asyncio.create_task(chat.complete())
    await until(started.is_set)

    assert await Chat(chat.id, v.core).complete() is None

    assert [row.state for row in await chat.calls()] == [CallState.RUNNING]
    assert await chat.pending_questions() == []
    go.set()
    await holding
    assert await chat.last_reply() == "Done."


async def test_two_processes_with_many_chats_run_every_call_once(
    db: Database, other_db: Database
) -> None:
    effects: list[str] = []
    refund = effect(effects)
    w = world(db, call("refund"), "Done.", tools=[refund])
    v = other_process(w, other_db)
    started = [await w.chat() for _ in range(6)]
    await asyncio.gather(w.settle(), v.settle())

    for chat in started:
        await (await only_question(chat)).approve(by=BEN)
    for _ in range(2):  # a wake that one engine leaves to the other's running work
        await asyncio.gather(w.settle(), v.settle())

    assert effects == ["refund A1"] * 6
    assert w.surface.replies() == ["Done."] * 6
    for chat in started:
        assert [row.state for row in await chat.calls()] == [CallState.DONE]


async def test_a_decision_that_comes_as_the_runner_lets_go_is_not_lost(
    db: Database, other_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    v = other_process(w, other_db)
    chat = await w.chat()
    release = _Drive._release

    async def decide_first(drive: _Drive, stirs: int | None, wake_at: float | None) -> bool:
        monkeypatch.setattr(_Drive, "_release", release)
        await (await only_question(Chat(chat.id, v.core))).approve(by=BEN)
        return await release(drive, stirs, wake_at)

    monkeypatch.setattr(_Drive, "_release", decide_first)

    await Loop(w.core, "runner").complete(chat.id)

    assert effects == ["refund A1"]
    assert await chat.last_reply() == "Done."


async def test_a_message_that_comes_as_the_runner_lets_go_is_not_lost(
    db: Database, other_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(db, "One.", "Two.")
    v = other_process(w, other_db)
    chat = await w.chat()
    release = _Drive._release

    async def speak_first(drive: _Drive, *args: Any) -> bool:
        monkeypatch.setattr(_Drive, "_release", release)
        await Chat(chat.id, v.core).say("and?", by=ANA)
        return await release(drive, *args)

    monkeypatch.setattr(_Drive, "_release", speak_first)

    await Loop(w.core, "runner").complete(chat.id)

    assert await chat.last_reply() == "Two."
