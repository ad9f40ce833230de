"""A card is a view of rows: what it shows, what it offers and how it says what happened."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from bot.card import (
    ARGUMENTS_BUDGET,
    FILE_LIMIT,
    PAGES_BUDGET,
    Argument,
    Attached,
    Card,
    CardState,
    draw,
    file_name,
)
from bot.field import Choice, Field, FieldType, coerce
from bot.outcome import outcome_question
from bot.question import Asked, Kind, Purpose
from storage.calls import CallRow
from storage.questions import QuestionRow, QuestionState

SEAT = Field("seat", title="Seat", choices=[Choice("w", "Window"), Choice("a", "Aisle")])
NOON = 1_767_268_800.0  # 2026-01-01 12:00 UTC
ON = "on 2026-01-01 at 12:00 UTC"


def the_call(**args: Any) -> CallRow:
    return CallRow(
        id="call",
        chat_id="chat",
        message_id=1,
        position=0,
        provider_id="p",
        server="",
        name="refund",
        args=args,
        digest="d",
        schema_digest="s",
        state="waiting",
        created_at=0.0,
    )


def approval(state: QuestionState = QuestionState.OPEN, **values: Any) -> QuestionRow:
    given: dict[str, Any] = {
        "id": "call",
        "nonce": "nonce",
        "chat_id": "chat",
        "call_id": "call",
        "purpose": Purpose.APPROVAL,
        "kind": Kind.APPROVAL,
        "body": {},
        "audience": {"policy": "ops", "deciders": ["slack:T1/BEN"], "remember": True},
        "state": state,
        "opened_at": 0.0,
    }
    if state is not QuestionState.OPEN:
        given |= {"settled_at": NOON, "settled_name": "ben", "settled_by": "slack:T1/BEN"}
    return QuestionRow(**{**given, **values})


def asked(
    asks: Asked,
    state: QuestionState = QuestionState.OPEN,
    purpose: Purpose = Purpose.ASK,
    **more: Any,
) -> QuestionRow:
    return approval(state, purpose=purpose, kind=asks.kind, body=asks.body(), **more)


def drawn(row: QuestionRow, **args: Any) -> Card:
    return draw(row, the_call(**args), "desk")


def test_an_approval_shows_the_call_and_who_decides() -> None:
    card = drawn(approval(version=3), order="A1", amount=5)

    assert card.title == "desk wants to run refund"
    assert (card.kind, card.state, card.tool) == (Kind.APPROVAL, CardState.OPEN, "refund")
    assert (card.nonce, card.version) == ("nonce", 3)
    assert card.arguments == (Argument("order", "A1"), Argument("amount", "5"))
    assert card.deciders == ("slack:T1/BEN",)
    assert card.complete
    assert card.outcome == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        ("", ""),
        ("line\nline", "line\nline"),
        ("\u202ecod", "\u202ecod"),  # made visible where it is drawn, not here
        (5, "5"),
        (True, "true"),
        (None, "null"),
        ({"b": 1, "a": ["é"]}, '{"a":["é"],"b":1}'),
    ],
)
def test_an_argument_is_the_exact_value_that_will_run(value: Any, shown: str) -> None:
    assert drawn(approval(), order=value).arguments == (Argument("order", shown),)


def of_size(size: int) -> CallRow:
    return the_call(order="x" * (size - len("order")))


@pytest.mark.row("B46")
@pytest.mark.parametrize(
    ("size", "attached", "complete"),
    [
        (ARGUMENTS_BUDGET, Attached.FAILED, True),
        (ARGUMENTS_BUDGET + 1, Attached.FAILED, True),  # in pages
        (PAGES_BUDGET, Attached.FAILED, True),
        (PAGES_BUDGET + 1, Attached.FAILED, False),
        (PAGES_BUDGET + 1, Attached.COMING, False),
        (PAGES_BUDGET + 1, Attached.THERE, True),
        (FILE_LIMIT + 1, Attached.THERE, False),
    ],
)
def test_a_card_is_complete_once_every_byte_can_be_reached_from_it(
    size: int, attached: Attached, complete: bool
) -> None:
    call = of_size(size)
    card = draw(approval(), call, "desk", attached)

    assert card.complete is complete
    assert card.arguments == (Argument("order", call.args["order"]),)
    assert any("approved" in notice for notice in card.notices) is not complete


def test_a_card_names_the_file_that_has_all_arguments() -> None:
    card = draw(approval(), of_size(PAGES_BUDGET + 1), "desk", Attached.THERE)

    assert card.file == "refund-arguments.json"
    assert card.notices == ("All arguments are in the file refund-arguments.json in this thread.",)
    assert draw(approval(), of_size(PAGES_BUDGET), "desk", Attached.THERE).file == ""


def test_the_arguments_of_a_call_do_not_make_what_its_tool_asks_incomplete() -> None:
    card = draw(asked(Asked("Where?", (SEAT,))), of_size(FILE_LIMIT + 1), "desk")

    assert (card.complete, card.notices) == (True, ())


def test_a_settled_card_does_not_say_when_it_can_be_approved() -> None:
    row = approval(QuestionState.APPROVED)

    assert draw(row, of_size(PAGES_BUDGET + 1), "desk", Attached.FAILED).notices == ()


@pytest.mark.parametrize("name", ["../../etc/passwd", "a b|c", "x" * 200, "<!here>"])
def test_a_file_has_a_name_of_ours_whatever_the_tool_is_called(name: str) -> None:
    named = file_name(replace(the_call(), name=name))

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,60}-arguments\.json", named)


@pytest.mark.row("B69")
def test_the_label_of_a_standing_approval_says_what_and_where_and_only_where_allowed() -> None:
    label = "Approve, and do not ask again for refund in this thread, until it is revoked"
    strict = {"policy": "ops", "deciders": [], "remember": False}

    assert drawn(approval()).remember == label
    assert drawn(approval(audience=strict)).remember is None
    assert drawn(asked(Asked("Where?", (SEAT,)))).remember is None


def test_a_form_shows_what_is_asked_and_not_the_arguments_of_its_tool() -> None:
    card = drawn(asked(Asked("Where?", (SEAT,))), order="A1")

    assert (card.kind, card.title, card.message) == (Kind.FORM, "refund asks", "Where?")
    assert card.fields == (SEAT,)
    assert card.arguments == ()


def test_what_the_agent_asks_is_in_its_own_name() -> None:
    card = drawn(asked(Asked("Which?", (SEAT,), choosing=True)))

    assert (card.title, card.choosing) == ("desk asks", True)


def test_a_page_shows_its_address() -> None:
    card = drawn(asked(Asked("Pay.", url="https://pay.example/")))

    assert (card.kind, card.url) == (Kind.PAGE, "https://pay.example/")
    assert card.title == "refund asks you to visit a page"


def test_the_question_about_a_lost_run_shows_what_was_to_run() -> None:
    card = drawn(asked(outcome_question("refund"), purpose=Purpose.OUTCOME), order="A1")

    assert card.title == "What came of refund?"
    assert card.arguments == (Argument("order", "A1"),)


@pytest.mark.parametrize(
    ("fields", "quick"),
    [
        ((SEAT,), True),
        ((Field("n", choices=[1, 2, 3, 4]),), True),
        ((Field("n", choices=[1, 2, 3, 4, 5]),), False),
        ((SEAT, SEAT), False),
        ((Field("n"),), False),
        ((Field("n", FieldType.CHOICES, choices=[1, 2]),), False),
        ((Field("n", FieldType.BOOLEAN),), False),
    ],
)
def test_one_pick_of_up_to_four_can_be_buttons(fields: tuple[Field, ...], quick: bool) -> None:
    card = drawn(asked(Asked("Which?", fields)))

    assert card.quick == (fields[0] if quick else None)


def test_an_approval_has_no_buttons_of_choices() -> None:
    assert drawn(approval()).quick is None


# How it ended


@pytest.mark.parametrize(
    ("state", "card_state", "response", "sentence"),
    [
        (QuestionState.APPROVED, CardState.DONE, None, f"Approved by ben {ON}."),
        (QuestionState.DECLINED, CardState.REFUSED, {"note": None}, f"Declined by ben {ON}."),
        (QuestionState.DECLINED, CardState.REFUSED, {"note": "no"}, f"Declined by ben {ON}: no"),
        (
            QuestionState.DECLINED,
            CardState.REFUSED,
            {"note": {"a": 1}},
            f'Declined by ben {ON}: {{"a":1}}',
        ),
        (QuestionState.DISMISSED, CardState.REFUSED, {"note": None}, f"Dismissed by ben {ON}."),
    ],
)
def test_a_decided_card_says_who_decided_what_and_when(
    state: QuestionState, card_state: CardState, response: Any, sentence: str
) -> None:
    card = drawn(approval(state, response=response))

    assert (card.state, card.outcome) == (card_state, sentence)
    assert not card.open


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (QuestionState.SUPERSEDED, f"Superseded {ON}: something else is asked now."),
        (QuestionState.CANCELLED, f"Closed {ON}."),
        (QuestionState.EXPIRED, f"Expired {ON} without an answer."),
    ],
)
def test_a_card_that_nobody_decided_says_so(state: QuestionState, sentence: str) -> None:
    card = drawn(approval(state, settled_name=None, settled_by=None))

    assert (card.state, card.outcome) == (CardState.CLOSED, sentence)


@pytest.mark.parametrize(
    ("field", "answer", "words"),
    [
        (SEAT, "w", "Seat: Window"),
        (Field("n", title="Nights"), "two", "Nights: two"),
        (Field("n", FieldType.INTEGER), 0, "n: 0"),
        (Field("b", FieldType.BOOLEAN), False, "b: no"),
        (Field("b", FieldType.BOOLEAN), True, "b: yes"),
        (
            Field("c", FieldType.CHOICES, choices=[Choice(1, "One"), Choice(2, "Two")]),
            [2, 1],
            "c: Two, One",
        ),
        (
            Field("c", choices=[Choice("r", "Red")], allow_other=True),
            {"selected": [], "other_text": "green"},
            "c: green",
        ),
    ],
)
def test_an_answered_card_says_what_was_answered_in_the_words_it_offered(
    field: Field, answer: Any, words: str
) -> None:
    response = {"answer": coerce([field], {field.name: answer})}
    row = asked(Asked("Which?", (field,)), QuestionState.ANSWERED, response=response)

    assert drawn(row).outcome == f"Answered by ben {ON}: {words}"


def test_a_page_that_was_visited_is_finished() -> None:
    page = Asked("Pay.", url="https://pay.example/")
    row = asked(page, QuestionState.ANSWERED, response={"answer": True})

    assert drawn(row).outcome == f"Finished by ben {ON}."


@pytest.mark.row("B59")
def test_a_secret_is_masked_in_every_text_of_a_card_and_nowhere_else() -> None:
    token = "gh" + "p_" + "a1B2" * 9
    choice = Choice(token, f"use {token}", token)
    field = Field("f", title=token, description=token, choices=[choice, "other"])
    form = asked(Asked(message=f"with {token}", fields=(field,)))
    for card in (
        drawn(approval(), token=token),
        drawn(approval(QuestionState.DECLINED, response={"note": token}), inner={"a": [token]}),
        draw(form, the_call(), "ops"),
    ):
        shown = str(replace(card, fields=(), exact=())) + str([one.title for one in card.fields])
        assert token not in shown
        assert "GitHub token hidden: 40 characters" in shown
    [one] = draw(form, the_call(), "ops").fields
    assert one.choices[0].value == token  # what is chosen
    assert token not in one.choices[0].title + one.choices[0].description


def test_who_decides_can_read_what_a_mark_hides() -> None:
    token = "gh" + "p_" + "a1B2" * 9
    card = drawn(approval(), header=f"token {token}")
    assert card.for_one().arguments == (Argument("header", f"token {token}"),)
    assert card.complete
    plain = drawn(approval(), order="4711")
    assert plain.exact == ()
    assert plain.for_one() is plain


def test_secrets_that_only_a_file_could_hold_are_not_approved_blind() -> None:
    token = "gh" + "p_" + "a1B2" * 9
    call = replace(the_call(), args={"log": "x" * PAGES_BUDGET + f" {token}"})
    card = draw(approval(), call, "ops", Attached.THERE)
    assert not card.complete
    assert "hold secrets that no file may have" in " ".join(card.notices)
