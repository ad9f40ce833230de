"""Standing rules on Slack: views that it takes and reads nothing in, and what they bring back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.slack import blocks, home, limits, pages, standing
from adapters.slack.modals import NotOurs, read_state
from bot.card import Argument, Card, CardState, Kind
from bot.field import Choice, Field, FieldType, coerce
from bot.surface import Form, Home, Item, Standing
from tests.fakes.slack import TEAM, buttons_of, text_of, validate_blocks, validate_view
from tests.fakes.slack.blocks import view_too_large
from tests.fakes.slack.forms import filled, initial_values
from tests.hostile import TEXTS, faults

LABEL = "Approve and remember…"
THREAD = "https://t1.slack.test/archives/C_OPS/p1700000000000001"
REVOKED = "until revoked"


def card(text: str = "refund", **given: Any) -> Card:
    base: dict[str, Any] = {"arguments": (Argument("order", "A1"),), "standing": True}
    base |= {"nonce": "n0nce", "state": CardState.OPEN, "title": text, "agent": text, "tool": text}
    return Card(version=1, kind=Kind.APPROVAL, **(base | given))


def fields(text: str = "order") -> tuple[Field, ...]:
    named = text if text.strip() else "x"
    kinds = [Choice("exact", "this exact call"), Choice("fields", text), Choice("tool", text)]
    return (
        Field("what", title="Do not ask again for", choices=kinds, default="exact"),
        Field("fields", FieldType.CHOICES, title=text, required=False, choices=[named, "other"]),
        Field("until", title="For how long", choices=["1 day", REVOKED], default="1 day"),
        Field("uses", FieldType.INTEGER, title=text, description=text, required=False, minimum=1),
        Field("requester", FieldType.BOOLEAN, title=text, required=False),
    )


def rule(text: str = "refund runs without asking", **given: Any) -> Standing:
    base: dict[str, Any] = {"id": "rule_1", "link": THREAD, "may": True}
    return Standing(sentence=text, about=text, **(base | given))


def views(text: str) -> list[dict[str, Any]]:
    said = standing.preview(standing.REMEMBER, "n0nce", {"what": "exact"}, text)
    assert said is not None
    shown = Form(card=card(text), fields=fields(text))
    return [standing.remembering(shown), standing.making(shown), said]


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_in_the_views_of_a_rule_acts_or_hides(text: str) -> None:
    for view in views(text):
        assert faults(view) == []
        assert validate_view(view) == []
    page = home.view(Home(rules=(rule(text), rule(text, link=None, may=False)), maker=True))
    assert faults(page, links=True) == []
    assert validate_view(page) == []


@pytest.mark.row("B69")
def test_the_whole_promise_stands_before_the_button_that_saves_it() -> None:
    said = f"refund runs without asking, in this channel, {'for 1 week, ' * 200}until then."
    view = standing.preview(standing.REMEMBER, "n0nce", {}, said)
    assert view is not None
    assert said in "".join(text_of(block) for block in view["blocks"])
    assert view["submit"]["text"] == "Approve and remember"
    assert "Nothing is saved yet." in text_of(view)


def test_what_was_filled_in_comes_back_as_the_form_gave_it() -> None:
    shown = Form(card=card(), fields=fields())
    view = standing.remembering(shown)
    entered = {"Do not ask again for": "order", "For how long": REVOKED}
    answer = read_state(card(fields=shown.fields), filled(view, initial_values(view, {}), entered))

    second = standing.preview(standing.REMEMBER, "n0nce", answer, "said")
    assert second is not None
    key, carried = standing.carried(second["private_metadata"])

    assert key == "n0nce"
    assert coerce(shown.fields, carried, lenient=True) == {"what": "fields", "until": REVOKED}


def test_an_answer_in_other_letters_goes_along_as_well() -> None:
    answer = {"note": "я" * 300, "when": "\n".join(["город=Киев"] * 50)}
    view = standing.preview(standing.NEW, standing.RULE, answer, "said")
    assert view is not None
    assert standing.carried(view["private_metadata"]) == (standing.RULE, answer)


@pytest.mark.parametrize("size", [0, limits.METADATA // 2, limits.METADATA, 10_000])
def test_an_answer_goes_along_whole_or_not_at_all(size: int) -> None:
    answer = {"note": "ü" * (size // 6)}
    view = standing.preview(standing.NEW, standing.RULE, answer, "said")
    if view is None:
        assert size >= limits.METADATA
    else:
        assert len(view["private_metadata"]) <= limits.METADATA
        assert standing.carried(view["private_metadata"]) == ("rule", answer)


@given(
    st.one_of(
        st.text(max_size=40),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
        ).map(json.dumps),
    )
)
def test_what_comes_back_in_another_shape_is_none_of_ours(metadata: str) -> None:
    try:
        key, answer = standing.carried(metadata)
    except NotOurs:
        return
    assert isinstance(key, str)
    assert isinstance(answer, dict)


def test_the_button_stands_only_where_all_that_would_run_is_read() -> None:
    assert LABEL in buttons_of(blocks.message(card(), TEAM))
    assert LABEL in buttons_of(pages.page(card()))
    assert LABEL in buttons_of(at_home(card()))
    for shown in (
        blocks.message(card(complete=False), TEAM),
        blocks.message(card(standing=False), TEAM),
        blocks.message(card(state=CardState.DONE), TEAM),
        pages.page(card(complete=False)),
        at_home(card(arguments=(Argument("log", "x" * 4_000),))),
    ):
        assert LABEL not in buttons_of(shown)
        assert validate_blocks(shown["blocks"]) == []


def at_home(*cards: Card) -> dict[str, Any]:
    waiting = tuple(Item(card=one, link=THREAD, since=0.0, may=True) for one in cards)
    return home.view(Home(waiting=waiting))


def test_a_rule_at_home_is_revoked_by_who_may_and_made_by_who_makes_rules() -> None:
    page = home.view(Home(rules=(rule(), rule(may=False)), more_rules=3, maker=True))
    assert buttons_of(page) == ["Revoke", "New rule"]
    assert "And 3 more" in text_of(page)
    assert buttons_of(home.view(Home(rules=(rule(may=False),)))) == []
    assert "Standing rules" not in text_of(home.view(Home()))


def test_the_fullest_page_with_rules_is_one_that_slack_takes() -> None:
    asked = [card("<" * 150, nonce=f"n{number}") for number in range(10)]
    items = tuple(Item(card=one, link=THREAD, since=0.0, may=True) for one in asked)
    rules = tuple(rule("<" * 3_000, id=f"rule_{number}") for number in range(8))
    page = home.view(
        Home(
            waiting=items,
            decided=items,
            rules=rules,
            more_rules=90,
            maker=True,
            page=2,
            pages=3,
        ),
        "<" * 3_000,
    )
    assert validate_view(page) == []
    assert not view_too_large(page)
