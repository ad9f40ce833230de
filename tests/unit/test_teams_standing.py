"""Standing rules in Teams: views that it takes and reads nothing in, and what they bring back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.teams import actions, cards, forms, limits, pages, standing
from adapters.teams.elements import adaptive
from adapters.teams.events import Person, Pressed
from adapters.teams.outcome import Outcome
from bot.card import Argument, Card, CardState, Kind
from bot.field import Choice, Field, FieldType
from bot.surface import Actor, Decision, Form, Home, NewRule, Place, Response, Standing
from storage.conversations import Conversation
from tests import hostile
from tests.fakes.teams import TENANT, button, buttons_of, faults, text_of
from tests.fakes.teams.cards import elements, marked_up
from tests.scenario.slack_world import StubEntry

LABEL = "Approve and remember…"
PLACE = Place("teams", TENANT, "19:ops@thread.tacv2", "1699")
THERE = Conversation("teams", TENANT, PLACE.channel, "channel", "https://smba.test/", "28:b")
BEN = Actor("teams", TENANT, "ben")


def card(text: str = "refund", **given: Any) -> Card:
    base: dict[str, Any] = {"arguments": (Argument("order", "A1"),), "standing": True}
    base |= {"nonce": "n0nce", "state": CardState.OPEN, "title": text, "agent": text, "tool": text}
    return Card(version=1, kind=Kind.APPROVAL, **(base | given))


def fields(text: str = "order") -> tuple[Field, ...]:
    named = text if text.strip() else "x"
    kinds = [Choice("exact", "this exact call"), Choice("tool", text)]
    return (
        Field("what", title="Do not ask again for", choices=kinds, default="exact"),
        Field("fields", FieldType.CHOICES, title=text, required=False, choices=[named, "other"]),
        Field("uses", FieldType.INTEGER, title=text, description=text, required=False, minimum=1),
        Field("requester", FieldType.BOOLEAN, title=text, required=False),
    )


class Product(StubEntry):
    """Takes every rule that is about more than nothing."""

    form = Form(card=card(), fields=fields())
    refusal_of_form = ""
    said = "refund runs without asking"

    async def remembering(self, nonce: str, actor: Actor, *, place: Place | None = None) -> Form:
        return Form(card=None, refusal="You may not.") if self.refusal else self.form

    async def rule_form(self, actor: Actor, organisation: str) -> Form:
        return Form(card=None, refusal="You may not.") if self.refusal else self.form

    async def preview(self, event: Decision) -> Response:
        self.previews.append(event)
        return self.answer or Response(done=True, sentence=self.said)

    async def new_rule(self, event: NewRule) -> Response:
        self.rules.append(event)
        return self.answer or Response(done=True, sentence=self.said)


async def press(
    entry: StubEntry, verb: str, inputs: Mapping[str, Any] | None = None, *, home: bool = False
) -> Outcome:
    pressed = Pressed(
        verb=verb,
        nonce=standing.RULE if home else "n0nce",
        inputs=inputs or {},
        conversation=THERE,
        place=PLACE,
        person=Person("ben", "29:ben", TENANT),
        message="1",
        invoked=True,
        home=home,
    )
    return await standing.HANDLERS[verb](entry, pressed, BEN)


FORMS = {actions.CHOOSE: False, actions.NEW_RULE: True}
PREVIEWS = {actions.CHOOSE_PREVIEW: False, actions.RULE_PREVIEW: True}
SAVES = {actions.CHOOSE_SAVE: False, actions.RULE_SAVE: True}


@pytest.mark.parametrize("text", hostile.TEXTS)
async def test_nothing_in_the_views_of_a_rule_acts(text: str) -> None:
    entry = Product()
    entry.form = Form(card=card(text), fields=fields(text))
    entry.said = text
    for verb, home in (FORMS | PREVIEWS).items():
        outcome = await press(entry, verb, {"f0": "0"}, home=home)
        if outcome.view is None:
            assert "too long for a card" in outcome.sentence
            continue
        view = outcome.view
        assert faults(dict(view)) == []
        assert marked_up(dict(view)) == []


@pytest.mark.parametrize(("verb", "home"), PREVIEWS.items())
async def test_what_it_means_comes_before_it_is_saved_and_what_was_filled_in_is_carried(
    verb: str, home: bool
) -> None:
    entry = Product()
    view = dict(
        (await press(entry, verb, {"f0": "1", "f1": "0,1", "f2": "3"}, home=home)).view or {}
    )
    assert "refund runs without asking" in text_of(view)
    assert "Nothing is saved yet." in text_of(view)
    carried = button(view, buttons_of(view)[0])["data"][standing.CARRIED]
    assert carried == {"what": "tool", "fields": ["order", "other"], "uses": "3"}
    save = actions.RULE_SAVE if home else actions.CHOOSE_SAVE
    entry.answer = Response(done=True, sentence="Saved.")
    assert (await press(entry, save, {standing.CARRIED: carried}, home=home)).sentence == "Saved."
    if home:
        assert [(one.sure, one.answer) for one in entry.rules] == [
            (False, carried),
            (True, carried),
        ]
        assert {one.organisation for one in entry.rules} == {TENANT}
    else:
        assert [one.rule for one in entry.decisions] == [carried]
        assert [one.place for one in entry.previews] == [PLACE]


@pytest.mark.parametrize(("verb", "home"), (FORMS | PREVIEWS).items())
async def test_who_may_not_is_told_and_shown_nothing(verb: str, home: bool) -> None:
    entry = Product()
    entry.refusal = "x"
    outcome = await press(entry, verb, home=home)
    assert (outcome.sentence, outcome.view, outcome.refused) == ("You may not.", None, True)
    assert not entry.previews
    assert not entry.rules


@pytest.mark.parametrize(("verb", "home"), PREVIEWS.items())
async def test_what_is_wrong_names_its_field(verb: str, home: bool) -> None:
    entry = Product()
    entry.answer = Response(done=False, errors={"uses": "must be at least 1.", "": "No."})
    outcome = await press(entry, verb, {"f0": "0"}, home=home)
    assert outcome.refused
    assert outcome.sentence == "order: must be at least 1. No."


async def test_more_than_a_card_carries_is_not_carried() -> None:
    entry = Product()
    entry.form = Form(card=card(), fields=(Field("what"), Field("when")))
    outcome = await press(
        entry, actions.CHOOSE_PREVIEW, {"f0": "x" * limits.CARRIED_BYTES, "f1": "y"}
    )
    assert outcome.refused
    assert "more than Teams carries" in outcome.sentence
    entry.form = Form(card=card(), fields=tuple(Field(f"n{n}", title="t" * 900) for n in range(20)))
    long = await press(entry, actions.CHOOSE)
    assert "too long for a card of Teams" in long.sentence


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda some: (
        st.lists(some, max_size=4) | st.dictionaries(st.text(max_size=9), some, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_a_client_brings_back_is_an_answer_or_none_of_ours(value: Any) -> None:
    try:
        answer = standing.carried({standing.CARRIED: value})
    except forms.NotOurs:
        return
    assert answer == value
    json.dumps(answer, allow_nan=False)


@pytest.mark.parametrize(
    "value", [None, "x", [], 7, {"a": {}}, {"a": None}, {"\x00": "b"}, {"a": "\ud800"}]
)
def test_garbage_is_not_carried(value: Any) -> None:
    with pytest.raises(forms.NotOurs):
        standing.carried({standing.CARRIED: value})


@pytest.mark.parametrize("value", [{f"k{n}": 1 for n in range(99)}, {"a": "x" * 9_000}])
def test_too_much_is_not_carried(value: Any) -> None:
    with pytest.raises(forms.NotOurs):
        standing.carried({standing.CARRIED: value})


def test_an_approval_offers_it_where_all_of_it_is_read_and_it_may_be() -> None:
    assert LABEL in buttons_of(cards.draw(card(), PLACE))
    assert LABEL in buttons_of(pages.page(card()))
    for without in (card(standing=False), card(complete=False), card(state=CardState.DONE)):
        assert LABEL not in buttons_of(cards.draw(without, PLACE))
        assert LABEL not in buttons_of(pages.page(without))


# The rules of a list


def rule(text: str = "refund runs without asking", **given: Any) -> Standing:
    base: dict[str, Any] = {"id": "rule_1", "link": "https://teams.test/x", "may": True}
    return Standing(sentence=text, about=text, **(base | given))


def listed(*rules: Standing, **given: Any) -> dict[str, Any]:
    return adaptive(standing.rules(Home(rules=rules, **given)))


def test_who_may_ends_a_rule_and_who_makes_some_makes_more() -> None:
    assert buttons_of(listed(rule(), maker=True)) == ["Open", "Revoke", "New rule"]
    assert buttons_of(listed(rule(may=False, link=None))) == []
    assert standing.rules(Home()) == []
    assert "And 4 more" in text_of(listed(rule(), more_rules=4))
    data = [one["data"] for one in elements(listed(rule(), maker=True)) if "data" in one]
    assert [one["interlock"] for one in data] == ["rule_1", standing.RULE]
    assert all(one["home"] is True for one in data)


@pytest.mark.parametrize("text", hostile.TEXTS)
def test_nothing_in_a_list_of_rules_acts(text: str) -> None:
    shown = listed(rule(text), maker=True)
    assert faults(shown) == []
    assert marked_up(shown) == []


async def test_a_rule_is_ended_only_once_it_was_confirmed() -> None:
    entry = Product()
    asked = await press(entry, actions.REVOKE, home=True)
    assert asked.view is not None
    assert faults(dict(asked.view)) == []
    assert "It ends now, for everybody." in text_of(dict(asked.view))
    assert entry.revoked == []
    await press(entry, actions.REVOKE_SURE, home=True)
    assert [(one[0], one[2]) for one in entry.revoked] == [(standing.RULE, TENANT)]
