"""What a tool asks: it waits for people without holding anything, and goes on with their answer."""

from __future__ import annotations

from typing import Any

import pytest

from bot.approvers import Policies
from bot.core import Core
from bot.desk import Desk
from bot.field import AnswerError, Field
from bot.question import Kind, Purpose, WrongVerb
from bot.tool import Call, InputRequired, Tool, tool
from storage.database import Database
from storage.questions import QuestionState
from tests.fakes.model import call
from tests.world import ANA, BEN, audited, copies, effect, only_question, returned, world

SEAT = Field("seat", title="Seat", choices=["window", "aisle"])
TWO = (SEAT, Field("meal", title="Meal"))


def asks(answers: list[Any], *fields: Field, message: str = "Where?") -> Tool:
    """A tool that asks once and keeps what it was given."""

    @tool(name="ask", approval="never")
    async def ask(c: Call) -> str:
        answer = await c.ask(message, *fields)
        answers.append(answer)
        return f"got {answer}"

    return ask


@pytest.mark.row("Q1")
async def test_what_a_tool_asks_is_one_question_with_its_message_and_field(db: Database) -> None:
    answers: list[Any] = []
    w = world(db, call("ask"), tools=[asks(answers, SEAT)])
    chat = await w.chat()

    await w.settle()

    question = await only_question(chat)
    (row,) = await chat.calls()
    assert question.kind is Kind.FORM
    assert question.purpose is Purpose.ASK
    assert question.message == "Where?"
    assert question.id == f"{row.id}/{question.nonce}"
    (field,) = question.fields
    assert [choice.value for choice in field.choices] == ["window", "aisle"]
    assert answers == []


@pytest.mark.row("Q2")
@pytest.mark.row("Q3")
async def test_the_tool_goes_on_with_the_stripped_answer(db: Database) -> None:
    answers: list[Any] = []
    w = world(db, call("ask"), "Done.", tools=[asks(answers, SEAT)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).answer("  window ", by=ANA)
    await w.settle()

    assert answers == ["window"]
    assert await returned(chat) == ["got window"]
    assert await chat.last_reply() == "Done."


@pytest.mark.row("Q4")
@pytest.mark.row("Q5")
@pytest.mark.parametrize(
    ("given", "sentence"),
    [("middle", "window"), ("", "Seat"), (["window"], "Seat"), (None, "Seat")],
)
async def test_a_bad_answer_is_refused_with_a_sentence_and_the_question_stays(
    sqlite_db: Database, given: Any, sentence: str
) -> None:
    answers: list[Any] = []
    w = world(sqlite_db, call("ask"), tools=[asks(answers, SEAT)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)

    with pytest.raises(AnswerError, match=sentence) as refused:
        await question.answer(given, by=ANA)
    await w.settle()

    assert set(refused.value.errors) == {"seat"}
    assert (await only_question(chat)).id == question.id
    assert await audited(chat, "decided") == []
    assert answers == []


@pytest.mark.row("Q6")
async def test_an_answer_left_out_takes_the_default(db: Database) -> None:
    answers: list[Any] = []
    seat = Field("seat", choices=["window", "aisle"], default="aisle")
    w = world(db, call("ask"), "Done.", tools=[asks(answers, seat)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).answer("", by=ANA)
    await w.settle()

    assert answers == ["aisle"]


@pytest.mark.row("Q8")
@pytest.mark.row("Q14")
async def test_no_and_zero_are_answers_and_defaults_like_any_other(db: Database) -> None:
    answers: list[Any] = []
    fields = [
        Field("sure", "boolean"),  # type: ignore[arg-type]
        Field("loud", "boolean", default=False),  # type: ignore[arg-type]
        Field("tip", "number", default=0),  # type: ignore[arg-type]
    ]
    w = world(db, call("ask"), "Done.", tools=[asks(answers, *fields)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).answer({"sure": "false"}, by=ANA)
    await w.settle()

    assert answers == [{"sure": False, "loud": False, "tip": 0}]


@pytest.mark.row("Q8")
@pytest.mark.parametrize("given", [False, "false"])
async def test_a_single_no_reaches_the_tool_as_false(sqlite_db: Database, given: Any) -> None:
    answers: list[Any] = []
    sure = Field("sure", "boolean")  # type: ignore[arg-type]
    w = world(sqlite_db, call("ask"), "Done.", tools=[asks(answers, sure)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).answer(given, by=ANA)
    await w.settle()

    assert answers == [False]


@pytest.mark.row("Q10")
@pytest.mark.parametrize("keywords", [True, False])
async def test_several_fields_are_answered_by_keywords_or_by_a_mapping(
    sqlite_db: Database, keywords: bool
) -> None:
    answers: list[Any] = []
    w = world(sqlite_db, call("ask"), "Done.", tools=[asks(answers, *TWO)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)

    if keywords:
        await question.answer(seat="aisle", meal="fish", by=ANA)
    else:
        await question.answer({"seat": "aisle", "meal": "fish"}, by=ANA)
    await w.settle()

    assert answers == [{"seat": "aisle", "meal": "fish"}]
    settled = await chat.question(question.id)
    assert settled is not None
    assert settled.response == {"answer": {"seat": "aisle", "meal": "fish"}}


@pytest.mark.row("Q11")
@pytest.mark.row("Q12")
@pytest.mark.row("Q13")
async def test_a_key_nobody_asked_for_is_refused_in_code_and_left_aside_from_a_web_form(
    db: Database,
) -> None:
    answers: list[Any] = []
    w = world(db, call("ask"), "Done.", tools=[asks(answers, *TWO)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)
    given = {"seat": "aisle", "meal": "fish", "csrf": "x"}

    with pytest.raises(AnswerError, match="csrf"):
        await question.answer(given, by=ANA)
    with pytest.raises(AnswerError):
        await question.answer("aisle", by=ANA)
    assert await chat.pending_questions() == [question]

    await question.answer_form(given, by=ANA)
    await w.settle()

    assert answers == [{"seat": "aisle", "meal": "fish"}]


@pytest.mark.row("Q15")
@pytest.mark.parametrize("verb", ["decline", "dismiss"])
async def test_a_declined_ask_gives_none_and_the_tool_finishes(db: Database, verb: str) -> None:
    answers: list[Any] = []
    w = world(db, call("ask"), "Done.", tools=[asks(answers, SEAT)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)

    await getattr(question, verb)(by=ANA)
    await w.settle()

    assert answers == [None]
    assert await returned(chat) == ["got None"]


@pytest.mark.row("Q16")
@pytest.mark.row("Q17")
@pytest.mark.parametrize(
    ("note", "follows"),
    [("not by plane", "not by plane"), ({"wants": "train"}, '{"wants":"train"}')],
)
async def test_the_note_of_a_declined_ask_follows_the_result_of_its_tool(
    db: Database, note: Any, follows: str
) -> None:
    w = world(db, call("ask"), "Done.", tools=[asks([], SEAT)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).decline(note, by=ANA)
    await w.settle()

    assert await returned(chat) == [f"got None\n\n{follows}"]


@pytest.mark.row("Q18")
@pytest.mark.row("B14")
async def test_answering_an_answered_question_changes_nothing(db: Database) -> None:
    answers: list[Any] = []
    w = world(db, call("ask"), "Done.", tools=[asks(answers, SEAT)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)

    first = await question.answer("window", by=ANA)
    again = await question.answer("aisle", by=BEN)
    await w.settle()
    after = await question.answer("aisle", by=BEN)

    assert first.first
    assert not again.first
    assert not after.first
    assert again.name == "ana"
    assert answers == ["window"]


@pytest.mark.row("Q19")
async def test_a_tool_that_asks_outside_a_chat_raises_what_it_wants_to_know() -> None:
    ask = asks([], SEAT)

    with pytest.raises(InputRequired) as required:
        await ask()

    (asked,) = required.value.questions
    assert asked.message == "Where?"
    assert asked.fields == (SEAT,)


async def test_a_tool_that_calls_an_asking_tool_by_itself_fails_and_the_chat_goes_on(
    db: Database,
) -> None:
    ask = asks([], SEAT)

    @tool(approval="never")
    async def outer() -> Any:
        return await ask()

    w = world(db, call("outer"), "I see.", tools=[outer])
    chat = await w.chat()

    await w.settle()

    assert "Where?" in (await returned(chat))[0]
    assert await chat.last_reply() == "I see."


@pytest.mark.row("Q20")
async def test_a_tool_that_asks_twice_gets_the_first_answer_again_when_it_is_run_for_the_second(
    db: Database,
) -> None:
    runs: list[list[Any]] = []

    @tool(approval="never")
    async def book(c: Call) -> str:
        got: list[Any] = []
        runs.append(got)
        got.append(await c.ask("Where?", SEAT))
        got.append(await c.ask("What?", Field("meal")))
        return " and ".join(got)

    w = world(db, call("book"), "Done.", tools=[book])
    chat = await w.chat()
    await w.settle()
    first = await only_question(chat)
    await first.answer("window", by=ANA)
    await w.settle()
    second = await only_question(chat)
    assert second.message == "What?"
    assert second.id != first.id

    await second.answer("fish", by=ANA)
    await w.settle()

    assert runs == [[], ["window"], ["window", "fish"]]
    assert await returned(chat) == ["window and fish"]
    assert len(w.surface.cards()) == 2


@pytest.mark.row("Q20")
async def test_two_equal_asks_of_one_call_are_two_questions(db: Database) -> None:
    @tool(approval="never")
    async def pair(c: Call) -> list[Any]:
        return [await c.ask("Name?", Field("name")), await c.ask("Name?", Field("name"))]

    w = world(db, call("pair"), "Done.", tools=[pair])
    chat = await w.chat()
    await w.settle()

    for name in ("Ada", "Bob"):
        await (await only_question(chat)).answer(name, by=ANA)
        await w.settle()

    assert await returned(chat) == ['["Ada","Bob"]']


@pytest.mark.row("Q21")
async def test_two_calls_that_ask_have_a_question_each_under_their_own_id(db: Database) -> None:
    answers: list[Any] = []
    w = world(db, [call("ask"), call("ask")], "Done.", tools=[asks(answers, SEAT)])
    chat = await w.chat()
    await w.settle()

    pending = await chat.pending_questions()
    owners = [row.id for row in await chat.calls()]
    assert sorted(one.id.partition("/")[0] for one in pending) == sorted(owners)
    by_owner = {one.id.partition("/")[0]: one for one in pending}
    await by_owner[owners[1]].answer("aisle", by=ANA)
    await w.settle()
    assert answers == ["aisle"]
    await by_owner[owners[0]].answer("window", by=ANA)
    await w.settle()

    assert await returned(chat) == ["got window", "got aisle"]


@pytest.mark.row("Q22")
@pytest.mark.parametrize("decline", [True, False])
async def test_a_question_is_answered_once_it_is_settled_whatever_was_said(
    sqlite_db: Database, decline: bool
) -> None:
    w = world(sqlite_db, call("ask"), tools=[asks([], SEAT)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)
    assert not question.answered

    await (question.decline(by=ANA) if decline else question.answer("aisle", by=ANA))

    settled = await chat.question(question.id)
    assert settled is not None
    assert settled.answered


@pytest.mark.row("Q23")
async def test_a_process_without_tools_or_models_lists_and_answers_from_rows(
    db: Database,
) -> None:
    answers: list[Any] = []
    tools = [asks(answers, *TWO), effect([])]
    w = world(db, [call("ask"), call("refund")], "Done.", tools=tools)
    chat = await w.chat()
    await w.settle()
    bare = Core(db=db, clock=w.clock, wake=w.engine.wake, policies=Policies(w.policies))

    pending = {one.tool: one for one in await Desk(bare).pending(chat.id)}
    assert pending["ask"].fields == TWO
    assert pending["refund"].arguments == {"order": "A1"}
    await pending["ask"].answer(seat="aisle", meal="fish", by=ANA)
    await pending["refund"].decline(by=BEN)
    await w.settle()

    assert answers == [{"seat": "aisle", "meal": "fish"}]
    assert await chat.last_reply() == "Done."


@pytest.mark.row("Q25")
async def test_an_answer_to_what_is_no_longer_asked_is_not_used(db: Database) -> None:
    gates = iter(["A1", "B2"])
    answers: list[Any] = []

    @tool(approval="never")
    async def book(c: Call) -> str:
        answers.append(await c.ask(f"Gate {next(gates, 'B2')}: which seat?", SEAT))
        return "booked"

    w = world(db, call("book"), "Done.", tools=[book])
    chat = await w.chat()
    await w.settle()
    old = await only_question(chat)
    await old.answer("window", by=ANA)
    await w.settle()

    new = await only_question(chat)
    assert answers == []
    assert new.message == "Gate B2: which seat?"
    superseded = await chat.question(old.id)
    assert superseded is not None
    assert superseded.state is QuestionState.SUPERSEDED
    cards = {card.nonce: card for card in w.surface.cards()}
    assert cards[old.nonce].outcome.startswith("Superseded")
    assert cards[new.nonce].open

    await new.answer("aisle", by=ANA)
    await w.settle()
    assert answers == ["aisle"]


@pytest.mark.row("Q25")
async def test_a_changed_ask_discards_the_answers_after_it_too(db: Database) -> None:
    trips = iter(["air", "air", "rail"])
    got: list[Any] = []

    @tool(approval="never")
    async def book(c: Call) -> str:
        how = next(trips, "rail")
        first = await c.ask(f"By {how}: which seat?", SEAT)
        got.append((first, await c.ask("Which meal?", Field("meal"))))
        return "booked"

    w = world(db, call("book"), "Done.", tools=[book])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).answer("window", by=ANA)
    await w.settle()
    await (await only_question(chat)).answer("fish", by=ANA)
    await w.settle()  # by now it is by rail

    assert got == []
    assert (await only_question(chat)).message == "By rail: which seat?"
    await (await only_question(chat)).answer("aisle", by=ANA)
    await w.settle()
    assert (await only_question(chat)).message == "Which meal?"
    await (await only_question(chat)).answer("soup", by=ANA)
    await w.settle()
    assert got == [("aisle", "soup")]


@pytest.mark.row("Q26")
async def test_completing_a_waiting_chat_calls_no_tool_and_no_model(db: Database) -> None:
    runs: list[str] = []

    @tool(approval="never")
    async def book(c: Call) -> None:
        runs.append("run")
        await c.ask("Where?", SEAT)

    w = world(db, [call("book"), call("refund")], tools=[book, effect(runs)])
    chat = await w.chat()
    await w.settle()
    assert runs == ["run"]

    assert await chat.complete() is None
    assert await chat.step() is None

    assert runs == ["run"]
    assert len(w.model.requests) == 1
    assert len(await chat.pending_questions()) == 2


# Pages


def visits(answers: list[Any]) -> Tool:
    @tool(name="pay", approval="never")
    async def pay(c: Call) -> str:
        answers.append(await c.ask("Pay here", url="https://pay.example/1"))
        return "went on"

    return pay


async def test_a_page_is_finished_without_a_value(db: Database) -> None:
    answers: list[Any] = []
    w = world(db, call("pay"), "Done.", tools=[visits(answers)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)
    assert (question.kind, question.url) == (Kind.PAGE, "https://pay.example/1")

    with pytest.raises(WrongVerb):
        await question.answer("done", by=ANA)
    with pytest.raises(WrongVerb):
        await question.approve(by=ANA)
    await question.answer(by=ANA)
    await w.settle()

    assert answers == [True]


async def test_a_declined_page_gives_none(db: Database) -> None:
    answers: list[Any] = []
    w = world(db, call("pay"), "Done.", tools=[visits(answers)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).decline(by=ANA)
    await w.settle()

    assert answers == [None]


# Many at once


@pytest.mark.row("B34")
async def test_questions_asked_a_moment_apart_are_apart(db: Database) -> None:
    w = world(db, call("ask"), tools=[asks([], SEAT)])
    first = await w.chat()
    second = await w.chat()
    await w.settle()
    one, two = await only_question(first), await only_question(second)

    await one.answer("window", by=ANA)

    assert (await only_question(second)).id == two.id
    assert len(await copies(first, one)) == len(await copies(second, two)) == 1


async def test_notes_on_two_declined_asks_are_both_told_to_the_model(sqlite_db: Database) -> None:
    @tool(approval="never")
    async def book(c: Call) -> str:
        await c.ask("Where?", SEAT)
        await c.ask("What?", Field("meal"))
        return "booked anyhow"

    w = world(sqlite_db, call("book"), "Done.", tools=[book])
    chat = await w.chat()
    await w.settle()
    for note in ("stand", "no food"):
        await (await only_question(chat)).decline(note, by=ANA)
        await w.settle()

    (result,) = await returned(chat)
    assert "stand" in result
    assert "no food" in result
