"""Several approvals on one Slack message: within Slack's limits, inert, and honest about what of a
call is not shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.slack import group as drawing
from adapters.slack import limits
from adapters.slack.blocks import message, minimal
from bot.card import Argument, Card, CardState, Kind
from bot.group import GroupCard
from bot.text import reveal
from tests.fakes.slack import buttons_of, text_of
from tests.fakes.slack.blocks import message_error, strings_under
from tests.fakes.slack.pings import pings_in

EVIL = "<!channel> <@U9> <https://evil.test|Approve> *x* ```"
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
        "deciders": ("slack:T1/U_ANA",),
        "outcome": "" if state is CardState.OPEN else "Approved by ana on 2026-11-30 at 10:00 UTC.",
    }
    return Card(**(base | given))


def group(*cards: Card, title: str = "") -> GroupCard:
    title = title or f"ops wants to run {len(cards)} calls"
    return GroupCard(
        nonce=cards[0].nonce, version=len(cards), title=title, agent="ops", cards=cards
    )


SEVEN = group(*(card(number) for number in range(7)))
LONG = Argument("text", "x&<" * 2_600)
WORST: dict[str, Any] = {
    "outcome": "Declined by somebody: " + "because " * 400,
    "notices": ("It cannot be approved here. " * 30,),
    "tool": "t" * 200,
    "deciders": tuple(f"slack:T1/U_{'A' * 28}{number:02}" for number in range(60)),
}
EXAMPLES = {
    "seven": SEVEN,
    "two of seven are settled": group(
        card(0, CardState.DONE),
        *(card(number) for number in range(1, 6)),
        card(6, CardState.CLOSED),
    ),
    "all settled": group(*(card(number, CardState.REFUSED) for number in range(15))),
    "fifteen long ones": group(*(card(number, arguments=(LONG,)) for number in range(15))),
    "the worst, open": group(
        *(card(number, arguments=(LONG,), **WORST) for number in range(15)), title="t " * 400
    ),
    "the worst, settled but one": group(
        card(0, **WORST),
        *(card(number, CardState.DONE, arguments=(LONG,), **WORST) for number in range(1, 15)),
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


def looks(payload: dict[str, Any]) -> list[str]:
    """What the Look buttons name, in order."""
    return [
        block["accessory"]["value"]
        for block in payload["blocks"]
        if block.get("accessory", {}).get("action_id") == "interlock.show"
    ]


def actions(payload: dict[str, Any]) -> list[dict[str, Any]]:
    return [e for block in payload["blocks"] for e in block.get("elements", ())]


def options(payload: dict[str, Any]) -> list[dict[str, Any]]:
    (menu,) = [
        block["accessory"]
        for block in payload["blocks"]
        if block.get("accessory", {}).get("type") == "multi_static_select"
    ]
    found: list[dict[str, Any]] = menu["options"]
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_slack_takes_it_and_there_is_room_left(name: str) -> None:
    for payload in (message(EXAMPLES[name], "T1"), minimal(EXAMPLES[name])):
        assert message_error(payload["text"], payload["blocks"], None) is None
        assert sum(map(len, strings_under(payload["blocks"]))) <= limits.MESSAGE_TEXT
        tokens = [ping.token for ping in pings_in({"ts": "1", **payload}, "C1")]
        assert all(token.startswith("<@U_A") for token in tokens)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(TEXT, TEXT, st.sampled_from(CardState), st.booleans(), TEXT),
        min_size=1,
        max_size=drawing.MOST,
    )
)
def test_slack_takes_whatever_models_and_people_write(
    calls: list[tuple[str, str, CardState, bool, str]],
) -> None:
    drawn = group(
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
    for payload in (message(drawn, "T2"), minimal(drawn)):
        assert message_error(payload["text"], payload["blocks"], None) is None
        assert pings_in({"ts": "1", **payload}, "C1") == []
        assert looks(payload) == [one.nonce for one in drawn.waiting]


def test_every_call_is_there_with_its_arguments_and_a_look() -> None:
    shown = message(SEVEN, "T1")
    for number in range(7):
        assert f"{number + 1}. refund\n• order: A{number}\nLook" in text_of(shown)
    assert looks(shown) == [one.nonce for one in SEVEN.cards]
    assert "*Who may decide:* <@U_ANA>" in text_of(shown)
    assert "not all of it" not in text_of(shown)


def test_what_is_not_shown_is_said_to_be_missing() -> None:
    long = group(card(0, arguments=(Argument("order", "4" * 500),)), card(1))
    shown = text_of(message(long, "T1"))
    assert shown.count("not all of it: press Look") == 1
    incomplete = group(card(0, complete=False, arguments=(), notices=("Too long.",)), card(1))
    shown = text_of(message(incomplete, "T1"))
    assert "1. refund\nToo long.\n… (not all of it: press Look)" in shown


@pytest.mark.parametrize(
    "value", ["A\n2. refund\n• order: B", "A\r\u2028\u2029B", "A\u202eB", "A\u200bB"]
)
def test_an_argument_cannot_look_like_another_call(value: str) -> None:
    shown = text_of(message(group(card(0, arguments=(Argument("order", value),)), card(1)), "T1"))
    line = next(one for one in shown.split("\n") if one.startswith("• order: A"))
    assert line == f"• order: {reveal(value)}"
    assert line.isprintable()
    assert shown.count("2. refund\n") == 1


def test_a_settled_call_shows_its_outcome_and_no_button() -> None:
    drawn = EXAMPLES["two of seven are settled"]
    shown = message(drawn, "T1")
    assert "✅ 1. refund\nApproved by ana on 2026-11-30 at 10:00 UTC.\n• order: A0" in text_of(
        shown
    )
    waiting = [one.nonce for one in drawn.waiting]
    assert looks(shown) == waiting
    assert [one["value"] for one in options(shown)] == waiting


def test_a_settled_card_has_no_buttons_at_all() -> None:
    for payload in (message(EXAMPLES["all settled"], "T1"), minimal(EXAMPLES["all settled"])):
        assert buttons_of(payload) == []
        assert all(block["type"] in ("header", "section") for block in payload["blocks"])


def test_selected_and_all_are_offered_and_all_asks_again() -> None:
    shown = message(SEVEN, "T1")
    assert [one["text"]["text"] for one in actions(shown)] == [
        "Approve selected",
        "Decline selected",
        "Approve all 7",
        "Decline all 7",
    ]
    assert {one["value"] for one in actions(shown)} == {SEVEN.nonce}
    asked = [one.get("confirm", {}).get("title", {}).get("text") for one in actions(shown)]
    assert asked == [None, None, "Approve 7 calls?", "Decline 7 calls?"]
    assert options(shown)[0]["text"]["text"] == "1. refund A0"


def test_a_call_that_cannot_be_approved_is_not_counted_among_those_that_are() -> None:
    drawn = group(card(0, complete=False, arguments=()), card(1), card(2))
    shown = message(drawn, "T1")
    assert "Approve all 2" in buttons_of(shown)
    assert "Decline all 3" in buttons_of(shown)
    assert "1 cannot be approved here." in actions(shown)[2]["confirm"]["text"]["text"]
    assert buttons_of(message(EXAMPLES["none can be approved"], "T1"))[-2:] == [
        "Decline selected",
        "Decline all 5",
    ]


def test_the_deciders_of_different_policies_are_all_named_and_that_they_differ() -> None:
    drawn = group(card(0), card(1, deciders=("slack:T1/U_BEN",)))
    shown = text_of(message(drawn, "T1"))
    assert "<@U_ANA>, <@U_BEN> (not all of them for every call)" in shown


def test_the_plain_fallback_approves_all_only_if_it_shows_every_argument() -> None:
    assert buttons_of(minimal(SEVEN)) == ["Look"] * 7 + ["Approve all 7", "Decline all 7"]
    long = group(card(0), card(1, arguments=(Argument("order", "4" * 600),)))
    assert buttons_of(minimal(long)) == ["Look", "Look", "Decline all 2"]
    incomplete = group(card(0), card(1, complete=False, arguments=()))
    assert buttons_of(minimal(incomplete)) == ["Look", "Look", "Decline all 2"]
    settled = group(card(0), card(1, CardState.DONE, arguments=(LONG,)))
    assert buttons_of(minimal(settled)) == ["Look", "Approve all 1", "Decline all 1"]
