"""What waits for a person, as a card: one that Teams takes, inert, and honest about what lacks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.teams import home as drawing
from adapters.teams import limits
from adapters.teams.elements import size
from bot.card import Argument, Card, CardState, Kind, TaskCard
from bot.field import Choice, Field
from bot.surface import Home, Item, Standing
from tests import hostile
from tests.fakes.teams import button, buttons_of, faults, text_of
from tests.fakes.teams.cards import elements, marked_up
from tests.unit.test_teams_pages import card

THREAD = "https://teams.microsoft.com/l/message/19%3Aops/1699?tenantId=t"
APPROVING = ["Approve", "Decline"]


def item(shown: Card | TaskCard, *, may: bool = True, link: str | None = THREAD) -> Item:
    return Item(card=shown, link=link, since=1_700_000_000.0, may=may)


def task(text: str = "half way", **given: Any) -> TaskCard:
    base: dict[str, Any] = {"nonce": "call_1", "version": 0, "state": CardState.OPEN}
    base |= {"title": text, "agent": text, "tool": text, "status": text, "message": text}
    return TaskCard(**(base | given))


def rule(text: str = "refund runs without asking", **given: Any) -> Standing:
    base: dict[str, Any] = {"id": "rule_1", "sentence": text, "about": text, "link": None}
    return Standing(**({"may": True} | base | given))


def drawn(*cards: Card, **given: Any) -> dict[str, Any]:
    return drawing.draw(Home(waiting=tuple(item(one) for one in cards), **given))


SHORT = card(arguments=(Argument("order", "A1"),))
LONG = card(arguments=(Argument("order", "x" * 3_000),))
FORM = card(Kind.FORM, message="Please say.", fields=(Field("why", choices=(Choice("a", "A"),)),))


def test_what_is_all_there_is_approved_in_the_list_and_the_rest_is_opened() -> None:
    shown = drawn(SHORT, LONG, FORM, card(Kind.PAGE, url="https://login.test/"))
    assert faults(shown) == []
    assert [one for one in buttons_of(shown) if one != "Thread"] == [
        *APPROVING,
        *["Open", "Decline"] * 3,
    ]
    assert "order:\nA1" in text_of(shown)
    assert "xxx" not in text_of(shown)


@pytest.mark.parametrize(
    "given",
    [
        {"complete": False},
        {"exact": (Argument("order", "xoxb-1"),)},
        {"title": "t" * 200},
        {"tool": "t" * 200},
        {"notices": ("n" * 2_000,)},
        {"message": "why"},
        {"arguments": (Argument("order", " "),)},
    ],
)
def test_nothing_is_approved_of_which_a_part_is_missing(given: dict[str, Any]) -> None:
    shown = drawn(card(**({"arguments": (Argument("order", "A1"),)} | given)))
    assert "Approve" not in buttons_of(shown)
    assert "Open" in buttons_of(shown)


@pytest.mark.parametrize("text", hostile.TEXTS)
def test_nothing_in_it_acts(text: str) -> None:
    shown = drawing.draw(
        Home(
            waiting=(item(card(title=text, tool=text, arguments=(Argument(text, text),))),),
            running=(item(task(text)),),
            decided=(item(card(title=text, state=CardState.REFUSED, outcome=text), may=False),),
            rules=(rule(text),),
            maker=True,
        ),
        notice=text,
    )
    assert faults(shown) == []
    assert marked_up(shown) == []
    assert "<at>" not in json.dumps(shown, ensure_ascii=False)
    assert faults(drawing.draw(Home(refusal=text))) == []


@pytest.mark.parametrize("value", ["x", "字", "🚀 ", "\u202e", "a\n"])
def test_however_much_waits_teams_takes_it(value: str) -> None:
    many = tuple(
        item(card(nonce=f"n{n}", title=value * 400, arguments=(Argument("a", value * 280),)))
        for n in range(10)
    )
    full = Home(
        waiting=many,
        decided=tuple(
            item(card(state=CardState.DONE, title=value * 900, outcome=value * 900))
            for _ in range(10)
        ),
        rules=tuple(rule(value * 900) for _ in range(10)),
        more_rules=3,
        maker=True,
        pages=3,
    )
    shown = drawing.draw(full, notice=value * 3_000)
    assert faults(shown) == []
    assert size(shown) <= limits.CARD_BYTES
    assert buttons_of(shown).count("Open") == 10
    assert "More" in buttons_of(shown)


def test_where_there_is_no_room_for_all_the_first_ones_are_still_approved_in_the_list() -> None:
    more: dict[str, Any] = {"remember": "yes", "standing": True, "editable": True}
    one = card(arguments=(Argument("order", "x" * 500),), **more)
    shown = drawn(*[one] * 10)
    assert faults(shown) == []
    assert buttons_of(shown).count("Approve") == 6
    assert buttons_of(shown).count("Open") == 4


def test_every_button_says_that_it_stands_on_a_list() -> None:
    shown = drawing.draw(
        Home(
            waiting=(item(SHORT), item(LONG)), running=(item(task()),), rules=(rule(),), maker=True
        )
    )
    data = [one["data"] for one in elements(shown) if "data" in one]
    assert len(data) == 7
    assert all(one["home"] is True for one in data)
    assert button(shown, "Cancel")["data"]["interlock"] == "call_1"


def test_only_who_may_stops_a_task() -> None:
    shown = drawing.draw(Home(running=(item(task(), may=False),)))
    assert "Cancel" not in buttons_of(shown)
    alone = drawing.running(Home(running=(item(task()),)))
    assert alone is not None
    assert buttons_of(alone) == ["Cancel", "Thread"]
    assert drawing.running(Home()) is None


def test_only_who_may_ends_a_rule_or_makes_one() -> None:
    theirs = drawing.draw(Home(rules=(rule(may=False), rule(id="rule_2"))))
    assert buttons_of(theirs) == ["Revoke"]
    assert button(theirs, "Revoke")["data"]["interlock"] == "rule_2"
    assert buttons_of(drawing.draw(Home(maker=True))) == ["New rule"]


def test_where_nothing_waits_it_says_how_to_begin_and_pages_are_turned() -> None:
    assert text_of(drawing.draw(Home())) == drawing.NOTHING
    middle = drawing.draw(Home(waiting=(item(SHORT),), page=2, pages=3))
    assert button(middle, "Earlier")["data"]["page"] == 1
    assert button(middle, "More")["data"]["page"] == 3
    assert "Page 2 of 3" in text_of(middle)
