"""The modal in which a call is approved with other arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from adapters.slack import blocks, edits, home, limits, modals, pages
from bot.argument_form import FormAnswer, arguments_of, form_of
from bot.card import Argument, Card, CardState, Kind
from bot.surface import Home, Item
from bot.text import is_unseen
from storage.database import canonical
from tests.fakes.slack import buttons_of, text_of, validate_view
from tests.fakes.slack.forms import ClientRefused, filled, initial_values
from tests.hostile import TEXTS, faults

SCHEMA: dict[str, Any] = {
    "properties": {
        "text": {"type": "string", "description": "Where to"},
        "long": {"type": "string"},
        "amount": {"type": "integer", "minimum": 1},
        "price": {"type": "number"},
        "dry": {"type": "boolean"},
        "env": {"enum": ["prod", "dev"]},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
        "many": {"enum": [f"value-{n}" for n in range(300)]},
        "mail": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date"},
        "spec": {"type": "object"},
    },
    "required": ["text", "amount", "env", "dry"],
}
ARGS: dict[str, Any] = {
    "text": " north\n",
    "long": "one\ntwo\n",
    "amount": 100,
    "price": 1.5,
    "dry": True,
    "env": "prod",
    "tags": ["c", "a"],
    "many": "value-7",
    "mail": "a@b.test",
    "day": "2026-02-03",
    "spec": {"b": [1, {"c": None}]},
}


def shown(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def card(args: Mapping[str, Any], parameters: Any = SCHEMA, **given: Any) -> Card:
    """The card of a call, with the fields of its form."""
    base: dict[str, Any] = {"title": "ops wants to run pay", "agent": "ops", "tool": "pay"}
    return Card(
        nonce="n0nce",
        version=1,
        kind=Kind.APPROVAL,
        state=CardState.OPEN,
        arguments=tuple(Argument(name, shown(value)) for name, value in args.items()),
        fields=tuple(one.field for one in form_of(parameters, args)),
        editable=True,
        **(base | given),
    )


def after(args: Mapping[str, Any], entered: dict[str, Any], parameters: Any = SCHEMA) -> Any:
    """The arguments after a person filled in the modal that way, through Slack's client."""
    drawn = card(args, parameters)
    view = edits.form(drawn)
    assert validate_view(view) == []
    state = filled(view, initial_values(view, {}), entered)
    answer = FormAnswer(modals.read_state(drawn, state))
    return arguments_of(form_of(parameters, args), args, answer)


def test_a_form_that_is_sent_as_it_is_gives_the_same_arguments() -> None:
    assert canonical(after(ARGS, {})) == canonical(ARGS)


@pytest.mark.parametrize(
    ("name", "entered", "becomes"),
    [
        ("text", "south", " south\n"),
        ("long", "one\nthree", "one\nthree\n"),
        ("amount", "50", 50),
        ("price", "2.25", 2.25),
        ("dry", "No", False),
        ("env", "dev", "dev"),
        ("tags", ["b", "c"], ["c", "b"]),
        ("tags", [], []),
        ("many", "value-299", "value-299"),
        ("mail", "c@d.test", "c@d.test"),
        ("day", "2026-12-31", "2026-12-31"),
        ("spec", '{"b": 2}', {"b": 2}),
    ],
)
def test_what_is_entered_is_what_runs(name: str, entered: Any, becomes: Any) -> None:
    assert after(ARGS, {name: entered}) == {**ARGS, name: becomes}


@pytest.mark.parametrize("name", ["long", "price", "spec", "mail"])
def test_an_optional_value_can_be_taken_out(name: str) -> None:
    assert name not in after(ARGS, {name: ""})


@pytest.mark.parametrize("name", ["many", "dry"])
def test_an_optional_pick_can_be_taken_back(name: str) -> None:
    optional = {**SCHEMA, "required": []}
    assert name not in after(ARGS, {name: "No answer"}, optional)


def test_slack_itself_asks_for_what_is_required() -> None:
    with pytest.raises(ClientRefused):
        after(ARGS, {"text": ""})


def test_the_modal_says_what_is_approved_and_what_stays() -> None:
    args = {**ARGS, "long": "x" * 3_001, "fixed": "staging", "blank": " "}
    view = edits.form(card(args))
    said = text_of(view)
    assert view["submit"]["text"] == "Approve"
    assert "Tool: pay" in said
    assert "Agent: ops" in said
    assert "long stays as it is:" in said
    assert "fixed stays as it is:" in said
    assert "staging" in said
    assert "(nothing but white space" in said
    assert "Cut here: the card shows all of what stays." in said
    assert [b["label"]["text"] for b in view["blocks"] if b["type"] == "input"] == [
        name for name in ARGS if name != "long"
    ]


def test_secrets_are_shown_to_the_one_who_decides() -> None:
    secret = "ghp_" + "a1B2" * 10
    drawn = replace(
        card({"text": secret, "fixed": secret}),
        arguments=(Argument("text", "[hidden]"), Argument("fixed", "[hidden]")),
        exact=(Argument("text", secret), Argument("fixed", secret)),
    )
    assert json.dumps(edits.form(drawn)).count(secret) == 2


def test_a_form_that_no_modal_holds_says_so() -> None:
    wide = {
        "properties": {f"a{n}": {"enum": [f"{n}-{c}" * 30 for c in range(99)]} for n in range(40)}
    }
    view = edits.form(card({"a0": "0-0" * 30}, wide))
    assert "too long to be changed in Slack" in text_of(view)
    assert "submit" not in view


def test_a_full_form_is_one_that_slack_takes() -> None:
    full = {
        "properties": {f"a{n}": {"type": "string", "description": "d" * 3_000} for n in range(60)}
    }
    args = {f"a{n}": "ö" * 1_000 for n in range(60)}
    view = edits.form(card(args, full))
    assert validate_view(view) == []
    assert len(view["blocks"]) <= limits.VIEW_BLOCKS
    assert len([b for b in view["blocks"] if b["type"] == "input"]) == 40


def initials(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from initials(one)
    if isinstance(value, dict):
        yield str(value.get("initial_value", ""))
        for one in value.values():
            yield from initials(one)


@pytest.mark.row("B56")
@pytest.mark.row("B57")
@pytest.mark.parametrize("text", TEXTS)
def test_nothing_in_the_modal_acts_or_hides(text: str) -> None:
    word = text.strip() or "x"
    told = {
        word: {"type": "string", "description": text},
        "enum": {"enum": [word, "b"], "description": text},
        "list": {"type": "array", "items": {"enum": [word, "b"]}},
        "json": {"type": "object", "title": text},
    }
    args = {word: text, "enum": word, "list": [word], "json": {text: text}, f"{text}.": text}
    drawn = card(args, {"properties": told}, title=text, agent=text, tool=text)
    view = edits.form(drawn)
    assert faults(view) == []
    assert validate_view(view) == []
    assert not [c for one in initials(view) for c in one if is_unseen(c) and c not in "\n\t"]


# Where the button is


def labels(value: Any) -> list[str]:
    return list(map(str, buttons_of(value)))


APPROVAL = replace(card({"amount": 100}), fields=(), remember="Approve all")


def test_the_button_stands_after_the_approvals_and_before_the_refusals() -> None:
    message = blocks.message(APPROVAL, "T1")
    assert [one["text"]["text"] for one in message["blocks"][-1]["elements"]] == [
        "Approve",
        "Approve for this thread",
        "Edit and approve",
        "Decline",
        "Decline with a note",
    ]


def actions(value: Any) -> list[str]:
    found = json.dumps(value)
    return [name for name in (blocks.APPROVE, blocks.EDIT) if f'"{blocks.ACTION}{name}"' in found]


@pytest.mark.row("B46")
@pytest.mark.parametrize(
    "hidden", [{"editable": False}, {"complete": False}, {"state": CardState.DONE}]
)
def test_there_is_no_button_where_nothing_can_be_changed(hidden: Any) -> None:
    drawn = replace(APPROVAL, **hidden)
    asked = (blocks.message(drawn, "T1"), blocks.minimal(drawn), pages.page(drawn))
    assert not [one for one in asked if blocks.EDIT in actions(one)]


def test_the_button_stands_on_the_pages_of_a_card_and_on_the_home_page() -> None:
    def listed(one: Card) -> Any:
        return home.view(Home(waiting=(Item(card=one, link=None, since=0.0, may=True),)))

    long = replace(APPROVAL, arguments=(Argument("a", "x" * 5_000),))
    assert actions(pages.page(APPROVAL)) == [blocks.APPROVE, blocks.EDIT]
    assert actions(listed(APPROVAL)) == [blocks.APPROVE, blocks.EDIT]
    assert actions(listed(long)) == []  # what is not seen is not approved
