"""Several approvals on one card of Teams: within its limits, inert, and honest about what of a call
is not shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.teams import group as drawing
from adapters.teams import limits
from adapters.teams.elements import size
from bot.card import Argument, Card, CardState, Kind
from bot.group import GroupCard
from bot.surface import Place, Verb
from bot.text import reveal
from tests import hostile
from tests.fakes.teams import TENANT, buttons_of, faults, text_of
from tests.fakes.teams.cards import elements, marked_up

PLACE = Place("teams", TENANT, "19:ops@thread.tacv2", "1699")
EVIL = "<at>all</at> [Approve](https://evil.test) **x**"
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)


def card(number: int, state: CardState = CardState.OPEN, **given: Any) -> Card:
    base: dict[str, Any] = {
        "nonce": f"n0nce-{number}-abcdefghijklmno",
        "version": 1,
        "kind": Kind.APPROVAL,
        "state": state,
        "title": "ops wants to run refund",
        "agent": "ops",
        "tool": "refund",
        "arguments": (Argument("order", f"A{number}"),),
        "deciders": (f"teams:{TENANT}/00000000-0000-0000-0000-000000000002",),
        "outcome": "" if state is CardState.OPEN else "Approved by ana on 2026-11-30 at 10:00 UTC.",
    }
    return Card(**(base | given))


def group(*cards: Card, title: str = "") -> GroupCard:
    title = title or f"ops wants to run {len(cards)} calls"
    return GroupCard(
        nonce=cards[0].nonce, version=len(cards), title=title, agent="ops", cards=cards
    )


MOST = drawing.TOGETHER.size
SEVEN = group(*(card(number) for number in range(7)))
LONG = Argument("text", "x&<🚀" * 2_000)
WORST: dict[str, Any] = {
    "outcome": "Declined by somebody: " + "because " * 400,
    "notices": ("It cannot be approved here. " * 30,),
    "tool": "t" * 200,
    "deciders": tuple(f"teams:{TENANT}/{'A' * 28}{number:02}" for number in range(60)),
}
EXAMPLES = {
    "seven": SEVEN,
    "two of seven are settled": group(
        card(0, CardState.DONE),
        *(card(number) for number in range(1, 6)),
        card(6, CardState.CLOSED, again=True),
    ),
    "all settled": group(*(card(number, CardState.REFUSED) for number in range(MOST))),
    "long ones": group(*(card(number, arguments=(LONG,)) for number in range(MOST))),
    "the worst, open": group(
        *(card(number, arguments=(LONG,), **WORST) for number in range(MOST)), title="t " * 400
    ),
    "the worst, settled but one": group(
        card(0, **WORST),
        *(card(number, CardState.DONE, arguments=(LONG,), **WORST) for number in range(1, MOST)),
    ),
    "none can be approved": group(
        *(card(number, complete=False, arguments=()) for number in range(5))
    ),
    "hostile": group(
        *(
            card(number, tool=EVIL, arguments=(Argument(EVIL, EVIL),), deciders=(EVIL,), agent=EVIL)
            for number in range(5)
        ),
        title=EVIL,
    ),
}


def data(shown: dict[str, Any], title: str) -> list[dict[str, Any]]:
    return [one["data"] for one in elements(shown) if one.get("title") == title]


def options(shown: dict[str, Any]) -> list[dict[str, Any]]:
    (menu,) = [one for one in elements(shown) if one["type"] == "Input.ChoiceSet"]
    found: list[dict[str, Any]] = menu["choices"]
    return found


def views(asked: GroupCard) -> list[dict[str, Any]]:
    """The card, and what is asked before all of it is decided."""
    shown = [drawing.draw(asked, PLACE), drawing.draw(asked, PLACE, notice="x" * 5_000)]
    return [*shown, drawing.sure(asked, Verb.APPROVE), drawing.sure(asked, Verb.DECLINE)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_teams_takes_it(name: str) -> None:
    for shown in views(EXAMPLES[name]):
        assert faults(shown) == []
        assert size(shown) <= limits.CARD_BYTES


@pytest.mark.parametrize("text", hostile.TEXTS)
def test_whatever_stands_in_it_is_inert(text: str) -> None:
    asked = group(
        *(
            card(number, tool=text, arguments=(Argument(text, text),), notices=(text,))
            for number in range(2)
        ),
        card(2, CardState.DONE, outcome=text),
        title=text,
    )
    for shown in views(asked):
        assert faults(shown) == []
        assert marked_up(shown) == []
        assert "<at>" not in json.dumps(shown, ensure_ascii=False)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(TEXT, TEXT, st.sampled_from(CardState), st.booleans(), TEXT),
        min_size=1,
        max_size=MOST,
    )
)
def test_teams_takes_whatever_models_and_people_write(
    calls: list[tuple[str, str, CardState, bool, str]],
) -> None:
    asked = group(
        *(
            card(
                number,
                state,
                tool=name,
                arguments=(Argument(name, value), Argument("again", value * 9)) if whole else (),
                complete=whole,
                outcome="" if state is CardState.OPEN else told,
                notices=() if whole else (told,),
            )
            for number, (name, value, state, whole, told) in enumerate(calls)
        )
    )
    for shown in views(asked):
        assert faults(shown) == []
    looks = [one["interlock"] for one in data(drawing.draw(asked, PLACE), "Look")]
    assert looks == [one.nonce for one in asked.waiting]


def test_every_call_is_there_with_its_arguments_and_a_look() -> None:
    shown = drawing.draw(SEVEN, PLACE)
    for number in range(7):
        assert f"{number + 1}. refund\n• order: A{number}" in text_of(shown)
    assert [one["interlock"] for one in data(shown, "Look")] == [one.nonce for one in SEVEN.cards]
    assert "not all of it" not in text_of(shown)


@pytest.mark.parametrize(
    "asked",
    [
        card(0, arguments=(Argument("order", "4" * 500),)),
        card(0, arguments=(Argument("a", "4" * 398), Argument("b", "5"))),
        card(0, complete=False, arguments=()),
        card(0, exact=(Argument("order", "secret"),)),
    ],
)
def test_what_is_not_shown_is_said_to_be_missing(asked: Card) -> None:
    shown = text_of(drawing.draw(group(asked, card(1)), PLACE))
    assert shown.count("not all of it: press Look") == 1


@pytest.mark.parametrize(
    "value", ["A\n2. refund\n• order: B", "A\r\u2028\u2029B", "A\u202eB", "A\u200bB"]
)
def test_an_argument_cannot_look_like_another_call(value: str) -> None:
    asked = group(card(0, arguments=(Argument("order", value),)), card(1))
    shown = text_of(drawing.draw(asked, PLACE))
    line = next(one for one in shown.split("\n") if one.startswith("• order: A"))
    assert line == f"• order: {reveal(value)}"
    assert shown.count("\n2. refund\n") == 1


def test_a_settled_call_shows_its_outcome_and_cannot_be_selected() -> None:
    asked = EXAMPLES["two of seven are settled"]
    shown = drawing.draw(asked, PLACE)
    assert "✅ 1. refund\nApproved by ana on 2026-11-30 at 10:00 UTC.\n• order: A0" in text_of(
        shown
    )
    waiting = [one.nonce for one in asked.waiting]
    assert [one["interlock"] for one in data(shown, "Look")] == waiting
    assert [one["value"] for one in options(shown)] == waiting
    assert "Ask again" in buttons_of(shown)


def test_a_settled_card_has_no_buttons_at_all() -> None:
    assert buttons_of(drawing.draw(EXAMPLES["all settled"], PLACE)) == []


def test_selected_and_all_are_offered_as_far_as_they_can_be_approved() -> None:
    shown = drawing.draw(group(card(0), card(1, complete=False), card(2)), PLACE)
    assert [one for one in buttons_of(shown) if one != "Look"] == [
        "Approve selected",
        "Decline selected",
        "Approve all 2",
        "Decline all 3",
    ]
    none = buttons_of(drawing.draw(EXAMPLES["none can be approved"], PLACE))
    assert [one for one in none if one != "Look"] == ["Decline selected", "Decline all 5"]


def test_whoever_presses_all_sees_which_ones_first() -> None:
    asked = group(card(0), card(1, complete=False), card(2), card(3, CardState.DONE))
    approve = drawing.sure(asked, Verb.APPROVE)
    assert text_of(approve).startswith("Approve 2 calls?\nThey run with exactly these arguments.")
    assert "1 cannot be approved here" in text_of(approve)
    assert buttons_of(approve) == ["Approve 2 calls", "Back"]
    assert "2. refund" not in text_of(approve)
    assert buttons_of(drawing.sure(asked, Verb.DECLINE)) == ["Decline 3 calls", "Back"]
