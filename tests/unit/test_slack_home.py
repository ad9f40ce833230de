"""The home page as a view: one that Slack takes, inert, and honest about what it does not show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.slack import home as drawing
from adapters.slack.home import saying, view
from bot.card import Argument, Card, CardState, Kind, TaskCard, revealed
from bot.field import Choice, Field
from bot.surface import Home, Item
from tests.fakes.slack import buttons_of, text_of, validate_view
from tests.fakes.slack.blocks import view_too_large
from tests.fakes.slack.pings import pings_in
from tests.unit.test_slack_blocks import EVIL, EXAMPLES, TEXT, card

THREAD = "https://t1.slack.test/archives/C_OPS/p1700000000000001"
APPROVE, SHOW = "Approve", "Show everything"


def item(shown: Card | TaskCard, *, may: bool = True, link: str | None = THREAD) -> Item:
    return Item(card=shown, link=link, since=1_700_000_000.0, may=may)


def task(text: str = "half way", **given: Any) -> TaskCard:
    base: dict[str, Any] = {"nonce": "call_1", "version": 0, "state": CardState.OPEN}
    base |= {"title": text, "agent": text, "tool": text, "status": text, "message": text}
    return TaskCard(**(base | given))


def drawn(*cards: Card, **given: Any) -> dict[str, Any]:
    return view(Home(waiting=tuple(map(item, cards)), **given))


def numbered(shown: Card, number: int) -> Card:
    given = {name: getattr(shown, name) for name in Card.__slots__}
    return Card(**given | {"nonce": f"n{number}"})


def taken(shown: dict[str, Any]) -> bool:
    return validate_view(shown) == [] and not view_too_large(shown)


def actions(shown: dict[str, Any]) -> list[tuple[str, str]]:
    """What can be pressed: its action and its value."""
    return [
        (one["action_id"].removeprefix("interlock."), one["value"])
        for block in shown["blocks"]
        if block["type"] == "actions"
        for one in block["elements"]
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_slack_takes_every_question_and_reads_nothing_in_it(name: str) -> None:
    cards = [numbered(EXAMPLES[name], number) for number in range(10)]
    settled = [card(state=CardState.DONE, title=EVIL, outcome=EVIL * 40) for _ in range(10)]
    shown = view(
        Home(
            waiting=tuple(map(item, cards)),
            decided=tuple(item(one, may=False) for one in settled),
            page=2,
            pages=3,
        ),
        notice=EVIL,
    )

    assert taken(shown)
    pings = pings_in({"ts": "1", **shown}, "C1")
    assert {ping.kind for ping in pings} == {"link"}
    assert all(THREAD in ping.token for ping in pings)


def test_a_task_is_inert_and_can_be_cancelled_by_who_may() -> None:
    running = (item(task(EVIL)), item(task(EVIL), may=False))
    shown = view(Home(running=running))

    assert taken(shown)
    assert all(THREAD in ping.token for ping in pings_in({"ts": "1", **shown}, "C1"))
    assert actions(shown) == [("cancel", "call_1")]


@settings(max_examples=80)
@given(
    st.lists(st.tuples(TEXT, TEXT), max_size=6),
    st.booleans(),
    st.sampled_from([1, 7, 400]),
)
def test_approve_stands_only_where_every_byte_of_the_arguments_does(
    given_: list[tuple[str, str]], complete: bool, times: int
) -> None:
    arguments = tuple(Argument(name, value * times) for name, value in given_)
    asked = card(arguments=arguments, complete=complete, remember="Approve from now on")
    shown = drawn(asked)

    pieces = [
        part["elements"][0]["text"]
        for block in shown["blocks"]
        if block["type"] == "rich_text"
        for part in block["elements"]
        if part["type"] == "rich_text_preformatted"
    ]
    told = text_of(shown)
    seen = revealed(asked).arguments
    everything = "".join(one.value for one in seen if one.value.strip()) == "".join(pieces)
    names = all(f"{one.name}:" in told for one in seen)
    if APPROVE in buttons_of(shown):
        assert complete
        assert everything
        assert names
        assert SHOW not in buttons_of(shown)
    else:
        assert buttons_of(shown) == [SHOW, "Decline", "Decline with a note"]
        assert not complete or sum(len(one.value) + len(one.name) for one in seen) > 1_000
    assert taken(shown)


def test_arguments_that_do_not_fit_are_begun_and_the_rest_is_counted() -> None:
    shown = drawn(card(arguments=(Argument("log", "x" * 4_000),)))

    assert f"log: {'x' * 1_495}\n" in text_of(shown)
    assert "Cut here, 2,505 characters more: “Show everything” has all of it." in text_of(shown)


def test_a_short_approval_has_the_buttons_of_its_card() -> None:
    shown = drawn(card(arguments=(Argument("order", "4711"),), remember="Approve for good"))

    verbs = ["approve", "remember", "decline", "note"]
    assert actions(shown) == [(verb, "n0nce") for verb in verbs]
    assert "order:\n4711" in text_of(shown)
    assert "refund · agent ops · since 2023-11-14 at 22:13 UTC · thread" in text_of(shown)


@pytest.mark.parametrize("cut", [{"tool": "t" * 101}, {"title": "t" * 151}])
def test_what_is_not_named_in_full_is_not_approved_on_the_page(cut: dict[str, Any]) -> None:
    shown = drawn(card(arguments=(Argument("order", "4711"),), **cut))

    assert [verb for verb, _ in actions(shown)] == ["show", "decline", "note"]


def test_quick_picks_stand_only_where_the_whole_question_does() -> None:
    choices = [Choice("a", "Now"), Choice("b", "Tonight", "when it is quiet")]
    short = card(Kind.FORM, choosing=True, fields=(Field("q", choices=choices),))
    long = card(
        Kind.FORM, choosing=True, message="m" * 2_000, fields=(Field("q", choices=choices),)
    )

    assert actions(drawn(short)) == [("pick.0", "n0nce"), ("pick.1", "n0nce"), ("decline", "n0nce")]
    assert "Tonight — when it is quiet" in text_of(drawn(short))
    assert actions(drawn(long)) == [("answer", "n0nce"), ("decline", "n0nce")]
    assert "Cut here" in text_of(drawn(long))


def test_forms_and_pages_have_the_buttons_of_their_cards() -> None:
    form = card(Kind.FORM, fields=(Field("a"), Field("b")))
    page = card(Kind.PAGE, url="https://login.test/auth")

    assert [verb for verb, _ in actions(drawn(form))] == ["answer", "decline"]
    assert [verb for verb, _ in actions(drawn(page))] == ["link", "finished", "decline"]
    assert "https://login.test/auth" in text_of(drawn(page))


def test_what_is_odd_about_a_question_stands_beside_it() -> None:
    shown = drawn(card(notices=("The server calendar asks this.",), remember="r" * 90))

    assert "The server calendar asks this." in text_of(shown)
    assert f"means: {'r' * 90}." in text_of(shown)


@pytest.mark.parametrize("letter", ["\x00", "\U0001f389", "é", '"', "<"])
def test_a_page_of_the_largest_questions_is_one_that_slack_takes(letter: str) -> None:
    largest = [
        numbered(
            card(
                title=letter * 150,
                tool=letter * 100,
                agent=letter * 900,
                message=letter * 500,
                arguments=(Argument(letter * 500, letter * 490),),
                notices=(letter * 2_000,) * 12,
                remember=letter * 200,
            ),
            number,
        )
        for number in range(10)
    ]
    settled = card(state=CardState.DONE, title=letter * 900, outcome=letter * 9_000)
    home = Home(
        waiting=tuple(map(item, largest)),
        decided=tuple(item(settled) for _ in range(10)),
        page=2,
        pages=3,
    )
    shown = view(home, notice=letter * 9_000)

    assert taken(shown)
    assert len(json.dumps(shown)) <= 240_000
    heavy = len(json.dumps(letter)) > 4  # as it travels
    assert buttons_of(shown).count(SHOW) == (10 if heavy else 0)
    assert buttons_of(shown).count(APPROVE) == (0 if heavy else 10)
    assert text_of(shown).count("Too much for this page") == (10 if heavy else 0)
    assert {value for _, value in actions(shown)} >= {f"n{number}" for number in range(10)}


def test_pages_with_many_warnings_stay_under_the_number_of_blocks() -> None:
    odd = card(Kind.PAGE, message="m", url="http://me@xn--a.test/", notices=("n",))
    shown = drawn(*[numbered(odd, number) for number in range(10)], pages=2)

    assert taken(shown)
    assert len([verb for verb, _ in actions(shown) if verb == "link"]) == 10


def test_buttons_lead_to_the_pages_beside_this_one() -> None:
    def turns(page: int, pages: int) -> list[tuple[str, str]]:
        shown = drawn(card(), page=page, pages=pages)
        assert shown["private_metadata"] == str(page)
        assert (f"Page {page} of {pages}" in text_of(shown)) is (pages > 1)
        return [one for one in actions(shown) if one[0].startswith("home.")]

    assert turns(1, 1) == []
    assert turns(1, 3) == [("home.next", "2")]
    assert turns(2, 3) == [("home.previous", "1"), ("home.next", "3")]
    assert turns(3, 3) == [("home.previous", "2")]


def test_an_empty_home_says_how_to_begin() -> None:
    shown = view(Home())

    assert "mention me in a channel" in text_of(shown)
    assert buttons_of(shown) == []
    assert taken(shown)


def test_a_refusal_stands_instead_of_everything() -> None:
    shown = view(Home(waiting=(item(card()),), refusal="No."), notice="Well.")

    assert text_of(shown).split() == ["Well.", "No."]
    assert buttons_of(shown) == []
    assert taken(shown)
    assert taken(saying(drawing.REFUSED))


def test_a_place_without_an_address_has_no_link() -> None:
    shown = view(Home(waiting=(item(card(), link=None),)))

    assert pings_in({"ts": "1", **shown}, "C1") == []
    assert "thread" not in text_of(shown)
