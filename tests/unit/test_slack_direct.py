"""What a card says outside of its thread, and who can be written to alone."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.slack import blocks
from adapters.slack.direct import is_person, place_of, placed
from adapters.slack.events import Identity
from bot.card import Card, CardState, Kind
from bot.surface import Content, Place, Reply
from tests.fakes.slack import text_of, validate_blocks

ME = Identity("T1", "U_BOT", "B_BOT", "https://t1.slack.test/")
THREAD = Place("slack", "T1", "C_OPS", "1700000000.000100")
DIRECT = Place("slack", "T1", "D0001", "1700000001.000100")


def card(**given: Any) -> Card:
    base: dict[str, Any] = {"thread": THREAD, "askers": ("slack:T1/U_ANA",)}
    return Card(
        nonce="n",
        version=1,
        kind=Kind.APPROVAL,
        state=CardState.OPEN,
        title="ops wants to run refund",
        agent="ops",
        **(base | given),
    )


def line(content: Content, place: Place = DIRECT) -> str:
    """What the message says more than in its thread."""
    plain = blocks.message(content, "T1")
    shown = placed(plain, content, place, ME)
    assert validate_blocks(shown["blocks"]) == []
    more = [block for block in shown["blocks"] if block not in plain["blocks"]]
    return text_of({"blocks": more})


def test_it_says_who_asked_and_links_to_the_thread() -> None:
    assert line(card()) == (
        "Requested by <@U_ANA> in <#C_OPS> · "
        "<https://t1.slack.test/archives/C_OPS/p1700000000000100|Open the thread>"
    )


def test_it_says_so_in_the_plain_version_too() -> None:
    shown = placed(blocks.minimal(card()), card(), Place("slack", "T1", "U_BEN", ""), ME)
    assert "Open the thread" in text_of(shown)


@pytest.mark.parametrize(
    ("content", "place"),
    [(card(), THREAD), (card(thread=None), DIRECT), (Reply("Hello."), DIRECT)],
    ids=["in the thread", "of no thread", "no card"],
)
def test_nothing_is_added_to_what_is_no_copy(content: Content, place: Place) -> None:
    assert line(content, place) == ""


def test_a_thread_that_only_two_people_can_open_is_not_linked() -> None:
    asked = card(thread=Place("slack", "T1", "D0002", THREAD.root))
    assert line(asked) == "Requested by <@U_ANA> in a direct message"


def test_a_place_that_is_none_of_slacks_is_not_linked() -> None:
    asked = card(thread=Place("slack", "T1", "C1> <!channel", THREAD.root), askers=())
    assert line(asked) == "Requested"


def test_many_who_asked_are_counted_and_others_are_inert() -> None:
    keys = ("slack:T1/U_ANA", "slack:T2/U_EVE", "api:x/<!channel>", "slack:T1/U_BEN", "a:b/c")
    shown = placed(blocks.message(card(), "T1"), card(askers=keys), DIRECT, ME)
    text = shown["blocks"][1]["elements"][0]["text"]
    assert text.startswith(
        "Requested by <@U_ANA>, slack:T2/U_EVE, api:x/&lt;!channel&gt;, 2 more in "
    )


@pytest.mark.parametrize(
    ("user", "is_one"),
    [("U0123ABC", True), ("W0123ABC", True), ("U_ANA", True), ("C_OPS", False), ("ana", False)],
)
def test_only_ids_of_people_can_be_written_to(user: str, is_one: bool) -> None:
    place = place_of("T1", user)
    assert (place is not None) is is_one
    assert place is None or is_person(place)


def test_neither_a_thread_nor_a_channel_is_a_person() -> None:
    assert not is_person(THREAD)
    assert not is_person(Place("slack", "T1", "C_OPS", ""))
