"""A no stays a no: what a person declined is not asked again until a person asks anew."""

from __future__ import annotations

import pytest

from bot.scripted import Step
from storage.database import Database
from tests.fakes.model import call
from tests.world import ANA, BEN, World, audited, effect, only_question, returned, world

AGAIN: list[Step] = [call("refund", order="A1"), call("refund", order="A1"), "I may not."]


async def states(w: World) -> list[str]:
    chat = await w.chat()
    await chat.complete()
    await (await only_question(chat)).decline(by=BEN)
    await chat.complete()
    return [one.state for one in await chat.calls()]


@pytest.mark.row("B71")
@pytest.mark.row("B72")
async def test_the_same_call_after_a_decline_is_refused_without_a_card(db: Database) -> None:
    effects: list[str] = []
    w = world(db, *AGAIN, tools=[effect(effects)])
    chat = await w.chat()
    await chat.complete()
    await (await only_question(chat)).decline(by=BEN)
    await chat.complete()
    assert [one.state for one in await chat.calls()] == ["declined", "declined"]
    assert await chat.pending_questions() == []
    assert "a person declined this very call of refund" in (await returned(chat))[-1]
    assert len(await audited(chat, "asked")) == 1
    assert len(await audited(chat, "not_run")) == 1
    assert effects == []


async def test_after_a_person_writes_again_it_is_asked_again(db: Database) -> None:
    steps: list[Step] = [call("refund", order="A1"), "It was declined.", call("refund", order="A1")]
    w = world(db, *steps, tools=[effect([])])
    chat = await w.chat()
    await chat.complete()
    await (await only_question(chat)).decline(by=BEN)
    await chat.complete()
    w.clock.advance(1.0)
    await chat.say("try it again", by=ANA)
    await chat.complete()
    assert (await only_question(chat)).tool == "refund"


@pytest.mark.parametrize(
    "other", [call("refund", order="A2"), call("refund", order="A1 "), call("cancel", order="A1")]
)
async def test_another_call_is_asked(db: Database, other: Step) -> None:
    tools = [effect([]), effect([], name="cancel")]
    w = world(db, call("refund", order="A1"), other, tools=tools)
    assert await states(w) == ["declined", "waiting"]


async def test_what_was_said_before_the_no_is_no_new_request(db: Database) -> None:
    w = world(db, *AGAIN, tools=[effect([])])
    chat = await w.chat()
    await chat.complete()
    await chat.queue("and hurry", by=ANA)
    w.clock.advance(1.0)
    await (await only_question(chat)).decline(by=BEN)
    await chat.complete()
    assert [one.state for one in await chat.calls()] == ["declined", "declined"]


async def test_a_no_in_one_thread_says_nothing_in_another(db: Database) -> None:
    w = world(db, call("refund", order="A1"), "Declined.", tools=[effect([])])
    assert await states(w) == ["declined"]
    other = await w.chat()
    await other.complete()
    assert len(await other.pending_questions()) == 1


async def test_a_call_that_the_tool_itself_refused_is_not_taken_for_a_persons_no(
    db: Database,
) -> None:
    w = world(db, *AGAIN, tools=[effect([], approval=lambda args: False)])
    chat = await w.chat()
    await chat.complete()
    results = await returned(chat)
    assert not any("a person declined" in one for one in results)
