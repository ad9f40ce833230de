"""What people say while a chat waits (rows Q27, Q28)."""

from __future__ import annotations

import pytest

from storage.database import Database
from tests.fakes.model import call
from tests.world import ANA, BEN, effect, only_question, said, world


@pytest.mark.row("Q27")
@pytest.mark.row("B76")
@pytest.mark.row("B77")
@pytest.mark.parametrize("text", ["yes", "approve", "ok, disallow it"])
async def test_what_people_type_while_the_chat_waits_is_kept_and_never_taken_for_an_answer(
    sqlite_db: Database, text: str
) -> None:
    effects: list[str] = []
    w = world(sqlite_db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)

    await chat.queue(text, by=BEN)
    await w.settle()
    assert effects == []
    assert (await only_question(chat)).id == question.id
    assert len(w.model.requests) == 1

    await question.approve(by=BEN)
    await w.settle()

    assert effects == ["refund A1"]
    assert text in (await said(chat))[-1]
    kinds = [message.kind for message in w.model.requests[-1].messages]
    assert kinds == ["request", "response", "request", "request"]  # the results come first


@pytest.mark.row("B75")
async def test_a_yes_without_anything_pending_reaches_the_model(db: Database) -> None:
    w = world(db, "Hello.", "You are welcome.")
    chat = await w.chat()
    await w.settle()

    await chat.queue("yes", by=ANA)
    await w.settle()

    assert "yes" in (await said(chat))[-1]
    assert await chat.last_reply() == "You are welcome."


@pytest.mark.row("Q28")
async def test_a_queued_message_can_be_withdrawn_once_and_is_then_never_delivered(
    db: Database,
) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])])
    chat = await w.chat()
    await w.settle()
    message = await chat.queue("forget it", by=ANA)

    assert await chat.withdraw(message)
    assert not await chat.withdraw(message)
    await (await only_question(chat)).approve(by=BEN)
    await w.settle()

    assert not any("forget it" in text for text in await said(chat))


@pytest.mark.row("Q28")
async def test_a_message_that_was_taken_up_cannot_be_withdrawn(db: Database) -> None:
    w = world(db, "Hello.")
    chat = await w.chat(None)
    message = await chat.queue("hello", by=ANA)
    await w.settle()

    assert not await chat.withdraw(message)
    assert len(await said(chat)) == 1


async def test_a_chat_withdraws_its_own_messages_only(sqlite_db: Database) -> None:
    w = world(sqlite_db, "Hello.")
    chat, other = await w.chat(None), await w.chat(None)
    message = await chat.queue("hello", by=ANA)

    assert not await other.withdraw(message)
