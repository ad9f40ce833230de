"""ask_user through the loop: who answers it, and what the model reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bot.ask_user import AskedQuestion, Option
from bot.ask_user_tool import ask_user_tool, in_thread, set_handler
from bot.question import Purpose
from bot.tool import Call, NobodyToAsk
from storage import chats
from storage.calls import CallState
from storage.database import Database
from tests.fakes.model import call
from tests.world import ANA, BEN, only_question, returned, world

COLOUR: dict[str, Any] = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [
        {"label": "Red", "description": "warm"},
        {"label": "Blue", "description": "cold"},
    ],
}
SIZES: dict[str, Any] = {
    "question": "Which sizes?",
    "header": "Sizes",
    "options": [
        {"label": "S", "description": "small"},
        {"label": "L", "description": "large"},
    ],
    "multiSelect": True,
}


@pytest.fixture(autouse=True)
def no_handler_of_the_process() -> Iterator[None]:
    set_handler(None)
    yield
    set_handler(None)


def ask(*questions: dict[str, Any]) -> Any:
    return call("ask_user", questions=list(questions))


async def red(questions: tuple[AskedQuestion, ...], _call: Call) -> dict[str, Any]:
    return {f"q{number}": "Red" for number, _ in enumerate(questions, 1)}


async def blue(questions: tuple[AskedQuestion, ...], _call: Call) -> dict[str, Any]:
    return {f"q{number}": "Blue" for number, _ in enumerate(questions, 1)}


async def test_questions_are_a_card_in_the_thread_and_the_model_reads_the_answers(
    db: Database,
) -> None:
    w = world(db, ask(COLOUR), "Blue it is.", tools=[ask_user_tool(in_thread)])
    chat = await w.chat()
    await w.settle()
    (card,) = w.surface.cards()
    assert card.choosing
    assert card.title == "agent asks"
    assert (await only_question(chat)).purpose is Purpose.ASK

    await (await only_question(chat)).answer("Blue", by=ANA)
    await w.settle()

    (result,) = await returned(chat)
    assert json.loads(result)["answers"] == [
        {"question": "Which colour?", "selected": ["Blue"], "other_text": None}
    ]
    assert await chat.last_reply() == "Blue it is."


async def test_own_words_and_several_picks_reach_the_model_in_the_order_of_the_questions(
    db: Database,
) -> None:
    w = world(db, ask(SIZES, COLOUR), "Done.", tools=[ask_user_tool(in_thread)])
    chat = await w.chat()
    await w.settle()

    answers = {"q2": "green, please", "q1": {"selected": ["S", "L"], "other_text": "XXL"}}
    await (await only_question(chat)).answer_form(answers, by=ANA)
    await w.settle()

    assert json.loads((await returned(chat))[0])["answers"] == [
        {"question": "Which sizes?", "selected": ["S", "L"], "other_text": "XXL"},
        {"question": "Which colour?", "selected": [], "other_text": "green, please"},
    ]


async def test_an_approver_may_answer_too_and_a_decline_is_told_to_the_model(
    db: Database,
) -> None:
    w = world(db, ask(COLOUR), "As you like.", tools=[ask_user_tool(in_thread)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).decline("ask me later", by=BEN)
    await w.settle()

    assert await returned(chat) == ["The user declined to answer.\n\nask me later"]


@pytest.mark.row("D1")
@pytest.mark.row("D6")
@pytest.mark.parametrize("questions", [[], [COLOUR] * 5, json.dumps([COLOUR]), "Which?"])
async def test_bad_questions_go_back_to_the_model_and_nobody_sees_them(
    sqlite_db: Database, questions: Any
) -> None:
    bad = call("ask_user", questions=questions)
    w = world(sqlite_db, bad, "I see.", tools=[ask_user_tool(in_thread)])
    chat = await w.chat()

    await w.settle()

    (row,) = await chat.calls()
    assert row.state == CallState.FAILED
    assert "questions" in (await returned(chat))[0]
    assert w.surface.cards() == []
    assert await chat.last_reply() == "I see."


async def test_the_faults_of_a_question_are_told_by_its_number(db: Database) -> None:
    bad = {**COLOUR, "question": "Which one?", "header": "A header too long"}
    w = world(db, ask(COLOUR, bad), "I see.", tools=[ask_user_tool(in_thread)])
    chat = await w.chat()

    await w.settle()

    assert "question 2: header has 17 characters" in (await returned(chat))[0]


@pytest.mark.row("D14")
async def test_without_anybody_to_ask_the_run_stops_with_a_typed_error(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    w = world(db, ask(COLOUR), "I see.", tools=[ask_user_tool()])
    chat = await w.chat()

    with pytest.raises(NobodyToAsk, match="handler"):
        await chat.complete()

    (row,) = await chat.calls()
    assert row.state == CallState.FAILED
    assert len(w.model.requests) == 1
    async with db.read() as tx:
        held = await chats.get(tx, chat.id)
    assert held is not None
    assert held.owner is None


@pytest.mark.row("D15")
async def test_a_handler_that_raises_is_told_to_the_model_and_the_run_goes_on(
    db: Database,
) -> None:
    async def broken(_questions: tuple[AskedQuestion, ...], _call: Call) -> dict[str, Any]:
        raise RuntimeError("the tablet is off")

    w = world(db, ask(COLOUR), "I see.", tools=[ask_user_tool(broken)])
    chat = await w.chat()

    await w.settle()

    assert "the tablet is off" in (await returned(chat))[0]
    assert await chat.last_reply() == "I see."


@pytest.mark.row("D16")
async def test_the_handler_of_the_chat_wins_over_that_of_the_process(db: Database) -> None:
    set_handler(blue)
    w = world(db, ask(COLOUR), "Done.", tools=[ask_user_tool(red)])
    chat = await w.chat()

    await w.settle()

    assert json.loads((await returned(chat))[0])["answers"][0]["selected"] == ["Red"]


async def test_the_handler_of_the_process_answers_where_the_chat_has_none(db: Database) -> None:
    set_handler(blue)
    w = world(db, ask(COLOUR), "Done.", tools=[ask_user_tool()])
    chat = await w.chat()

    await w.settle()

    assert json.loads((await returned(chat))[0])["answers"][0]["selected"] == ["Blue"]


async def test_a_handler_gets_the_checked_questions(db: Database) -> None:
    got: list[tuple[AskedQuestion, ...]] = []

    async def keep(questions: tuple[AskedQuestion, ...], given: Call) -> dict[str, Any]:
        got.append(questions)
        return await red(questions, given)

    padded = {**COLOUR, "question": "  Which colour?  "}
    w = world(db, ask(padded), "Done.", tools=[ask_user_tool(keep)])
    await w.chat()

    await w.settle()

    options = (Option("Red", "warm"), Option("Blue", "cold"))
    assert got == [(AskedQuestion("Which colour?", "Colour", options),)]
