"""The built-in tool ask_user (spec: ask_user)."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.ask_user import (
    TOOL_DESCRIPTION,
    TOOL_SCHEMA,
    AskedQuestion,
    BadQuestions,
    Option,
    check_questions,
    parse_line,
    render_lines,
    result_json,
    to_fields,
)
from bot.field import AnswerError, Choice, FieldType, Selection, coerce

steady = settings(max_examples=200, derandomize=True)


def asked(**changes: Any) -> dict[str, Any]:
    return {
        "question": "Which database?",
        "header": "Database",
        "options": [
            {"label": "Postgres", "description": "a server"},
            {"label": "SQLite", "description": "a file"},
        ],
        **changes,
    }


def option(label: Any = "Postgres", description: Any = "a server") -> dict[str, Any]:
    return {"label": label, "description": description}


def faults(*questions: Any) -> str:
    with pytest.raises(BadQuestions) as caught:
        check_questions({"questions": list(questions)})
    return str(caught.value)


OPTIONS = (Option("red", "warm"), Option("green", "calm"), Option("yes, both", "a label"))
SINGLE = AskedQuestion("Which colour?", "Colour", OPTIONS)
MULTI = AskedQuestion("Which colours?", "Colours", OPTIONS, multi_select=True)


# --- Questions


def test_good_questions_are_read_and_trimmed() -> None:
    given = asked(question=" Which database? ", multiSelect=True, id=7)
    assert check_questions({"questions": [given], "why": "x"}) == (
        AskedQuestion(
            "Which database?",
            "Database",
            (Option("Postgres", "a server"), Option("SQLite", "a file")),
            multi_select=True,
        ),
    )


@pytest.mark.parametrize("more", [{}, {"multiSelect": False}, {"multiSelect": None}])
def test_one_answer_is_the_default(more: dict[str, Any]) -> None:
    (question,) = check_questions({"questions": [asked(**more)]})
    assert not question.multi_select


@pytest.mark.row("D1")
@pytest.mark.parametrize("count", [0, 5, 1000])
def test_no_question_and_more_than_four_are_sent_back(count: int) -> None:
    text = faults(*(asked(question=f"Question {n}?") for n in range(count)))
    assert text == f"give 1 to 4 questions, not {count}."


def test_of_far_too_many_only_the_first_are_looked_at() -> None:
    assert faults(*[None] * 1000).count("must be an object") == 4
    assert faults(asked(options=[None] * 1000)).count("must be an object") == 4


@pytest.mark.row("D2")
def test_a_header_of_thirteen_characters_is_sent_back_with_the_number_of_its_question() -> None:
    text = faults(asked(header="exactly  12!"), asked(question="Other?", header="thirteen char"))
    assert text == "question 2: header has 13 characters, at most 12 fit."


@pytest.mark.row("D3")
@pytest.mark.parametrize("count", [0, 1, 5])
def test_one_option_and_five_options_are_sent_back(count: int) -> None:
    options = [option(label=str(n)) for n in range(count)]
    assert faults(asked(options=options)) == f"question 1: give 2 to 4 options, not {count}."


@pytest.mark.row("D4")
@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (asked(options=[option(), {"label": "SQLite"}]), "option 2: description is missing"),
        (asked(options=[option(), option(label=" ")]), "option 2: label is empty"),
        (asked(options=[option(), option("SQLite", "")]), "option 2: description is empty"),
        (asked(options=[option(), option("SQLite", 3)]), "option 2: description must be text"),
        (asked(options=[option(), "SQLite"]), "option 2: must be an object"),
        (asked(options="a, b"), "options must be a list"),
        (asked(question="\n"), "question is empty"),
        (asked(question=None), "question is missing"),
        (asked(header=7), "header must be text"),
        (asked(question="a\x00b"), "cannot be kept"),
        (asked(multiSelect="yes"), "multiSelect must be true or false"),
        ("Which database?", "must be an object"),
    ],
)
def test_a_missing_or_empty_text_is_sent_back(bad: object, fault: str) -> None:
    text = faults(bad)
    assert text.startswith("question 1: ")
    assert fault in text


@pytest.mark.row("D5")
def test_two_questions_of_one_text_are_sent_back() -> None:
    text = faults(asked(), asked(question="Why?"), asked(question=" Which database? "))
    assert text == "question 3: asks the same as question 1."


@pytest.mark.row("D5")
def test_two_options_of_one_label_are_sent_back() -> None:
    text = faults(asked(options=[option("a"), option("b"), option(" a")]))
    assert text == "question 1: option 3: has the same label as option 1."


def test_an_option_for_anything_else_is_sent_back() -> None:
    text = faults(asked(options=[option(), option("other")]))
    assert text == "question 1: option 2: leave Other out, the person is always offered it."


@pytest.mark.row("D6")
def test_a_list_written_as_text_is_sent_back() -> None:
    with pytest.raises(BadQuestions, match="not a list written as text"):
        check_questions({"questions": json.dumps([asked()])})


@pytest.mark.parametrize("arguments", [None, [], "x", {}, {"questions": None}, {"questions": {}}])
def test_arguments_without_a_list_are_sent_back(arguments: object) -> None:
    with pytest.raises(BadQuestions, match="must be a list"):
        check_questions(arguments)


def test_all_faults_are_said_at_once() -> None:
    text = faults(asked(header=" "), asked(header="thirteen char", options=[option("a", "")]))
    assert text == (
        "question 1: header is empty; "
        "question 2: header has 13 characters, at most 12 fit; "
        "question 2: give 2 to 4 options, not 1; "
        "question 2: option 1: description is empty; "
        "question 2: asks the same as question 1."
    )


def test_the_schema_the_model_sees_says_the_same_as_the_check() -> None:
    validator = jsonschema.Draft202012Validator(TOOL_SCHEMA)
    assert validator.is_valid({"questions": [asked(), asked(multiSelect=True)]})
    bads: list[dict[str, Any]] = [
        {"questions": []},
        {"questions": [asked()] * 5},
        {"questions": json.dumps([asked()])},
        {"questions": [asked(header="thirteen char")]},
        {"questions": [asked(options=[option()])]},
        {"questions": [asked(options=[option(), {"label": "x"}])]},
    ]
    for bad in bads:
        assert not validator.is_valid(bad)
        with pytest.raises(BadQuestions):
            check_questions(bad)
    assert "other_text" in TOOL_DESCRIPTION


# --- The form


def test_a_question_becomes_a_field_that_allows_other_answers() -> None:
    one, several = to_fields([SINGLE, MULTI])
    assert (one.name, one.type, one.label) == ("q1", FieldType.CHOICE, "Colour")
    assert (several.name, several.type) == ("q2", FieldType.CHOICES)
    assert one.description == "Which colour?"
    assert one.choices[0] == Choice("red", "red", "warm")
    assert one.required
    assert one.allow_other
    assert several.allow_other


# --- The result


def answers_of(text: str) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = json.loads(text)["answers"]
    return answers


@pytest.mark.row("D7")
def test_an_option_chosen() -> None:
    text = result_json([SINGLE], {"q1": "red"})
    assert json.loads(text) == {
        "questions": [
            {
                "question": "Which colour?",
                "header": "Colour",
                "options": [
                    {"label": "red", "description": "warm"},
                    {"label": "green", "description": "calm"},
                    {"label": "yes, both", "description": "a label"},
                ],
                "multiSelect": False,
            }
        ],
        "answers": [{"question": "Which colour?", "selected": ["red"], "other_text": None}],
    }


@pytest.mark.row("D8")
@pytest.mark.parametrize("given", ["blau ü", {"selected": ["red"], "other_text": "blau ü"}])
def test_own_words_stand_alone_in_a_single_choice(given: object) -> None:
    text = result_json([SINGLE], {"q1": given})
    assert answers_of(text) == [
        {"question": "Which colour?", "selected": [], "other_text": "blau ü"}
    ]
    assert "blau ü" in text


@pytest.mark.row("D9")
def test_options_and_own_words_together_in_a_multiple_choice() -> None:
    given = {"selected": ["green", "red"], "other_text": "blue"}
    assert answers_of(result_json([MULTI], {"q1": given})) == [
        {"question": "Which colours?", "selected": ["green", "red"], "other_text": "blue"}
    ]


@pytest.mark.row("D10")
def test_answers_come_in_the_order_of_the_questions() -> None:
    questions = check_questions({"questions": [asked(question=f"{n}?") for n in "cab"]})
    given = {"q3": "three", "q1": "SQLite", "q2": "Postgres"}
    recorded = coerce(to_fields(questions), given)
    text = result_json(questions, recorded)
    assert [answer["question"] for answer in answers_of(text)] == ["c?", "a?", "b?"]
    assert [answer["selected"] for answer in answers_of(text)] == [["SQLite"], ["Postgres"], []]
    assert [question["question"] for question in json.loads(text)["questions"]] == [
        "c?",
        "a?",
        "b?",
    ]


def test_a_result_without_an_answer_is_refused() -> None:
    with pytest.raises(AnswerError, match="Colours needs an answer"):
        result_json([SINGLE, MULTI], {"q1": "red"})


# --- The console


def test_the_prompt_shows_header_question_and_numbered_options() -> None:
    assert render_lines(SINGLE) == [
        "Colour: Which colour?",
        "1. red: warm",
        "2. green: calm",
        "3. yes, both: a label",
        "Other: type a number, or your own answer.",
    ]
    assert render_lines(MULTI)[-1] == "Other: type numbers separated by commas, or your own answer."


def test_no_text_can_pass_for_another_line() -> None:
    forged = AskedQuestion("Sure?\n1. no: safe", "Sure", (Option("yes\r\n2. no", "x\u2028y"),))
    assert render_lines(forged)[:2] == ["Sure: Sure? 1. no: safe", "1. yes 2. no: x y"]


@pytest.mark.row("D11")
@pytest.mark.parametrize("line", ["7", "0", "-1", " 4 ", "9" * 5000, "1, 3", "1, 7"])
def test_a_number_that_picks_no_option_asks_again(line: str) -> None:
    assert parse_line(SINGLE, line) is None


@pytest.mark.row("D11")
@pytest.mark.parametrize("line", ["7", "1, 7", "7, blue", "blue, 0"])
def test_a_number_that_picks_no_option_asks_again_among_several(line: str) -> None:
    assert parse_line(MULTI, line) is None


@pytest.mark.row("D12")
@pytest.mark.parametrize("line", ["", "  \t", "\n", ",", " , ,"])
@pytest.mark.parametrize("question", [SINGLE, MULTI])
def test_a_line_without_an_answer_asks_again(question: AskedQuestion, line: str) -> None:
    assert parse_line(question, line) is None


@pytest.mark.row("D13")
@pytest.mark.parametrize(
    ("line", "selected", "other"),
    [
        ("1, 3", ("red", "yes, both"), None),
        ("3,1,,3", ("yes, both", "red"), None),
        ("2", ("green",), None),
        ("1, blue", ("red",), "blue"),
        ("1, blue, pink and grey", ("red",), "blue, pink and grey"),
        ("red, 2", ("red", "green"), None),
        ("yes, both", ("yes, both",), None),
        ("blue , or so", (), "blue , or so"),
    ],
)
def test_a_multi_select_line(line: str, selected: tuple[str, ...], other: str | None) -> None:
    assert parse_line(MULTI, line) == Selection(selected, other)


@pytest.mark.parametrize(
    ("line", "selected", "other"),
    [
        (" 2 ", ("green",), None),
        ("２", ("green",), None),
        ("green", ("green",), None),
        ("yes, both", ("yes, both",), None),
        ("blue", (), "blue"),
        ("2.5", (), "2.5"),
        ("1, blue", (), "1, blue"),
        ("well, I do not know", (), "well, I do not know"),
    ],
)
def test_a_single_select_line(line: str, selected: tuple[str, ...], other: str | None) -> None:
    assert parse_line(SINGLE, line) == Selection(selected, other)


def test_a_number_is_a_position_before_it_is_a_label() -> None:
    question = AskedQuestion("How many?", "Count", (Option("2", "two"), Option("30", "thirty")))
    assert parse_line(question, "2") == Selection(("30",), None)
    assert parse_line(question, "30") == Selection(("30",), None)
    assert parse_line(question, "3") is None


@steady
@given(st.sampled_from([SINGLE, MULTI]), st.text() | st.text("0123456789,-+ redblu"))
def test_what_a_line_says_is_always_an_answer_to_the_field(
    question: AskedQuestion, line: str
) -> None:
    selection = parse_line(question, line)
    if selection is None:
        return
    (field,) = to_fields([question])
    recorded = coerce([field], selection) if "\x00" not in line else None
    assert recorded in (None, {"q1": selection.to_json()})
    assert question.multi_select or (selection.other is None) == (len(selection.selected) == 1)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=14),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.sampled_from(
                ["question", "header", "options", "label", "description", "multiSelect"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@steady
@given(st.lists(ANY_JSON, max_size=5) | ANY_JSON)
def test_any_arguments_are_read_or_sent_back(questions: object) -> None:
    try:
        good = check_questions({"questions": questions})
    except BadQuestions as bad:
        sentence = str(bad)
    else:
        assert len(to_fields(good)) == len(good)
        return
    assert sentence.endswith(".")
