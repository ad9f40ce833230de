"""Everything of a card, page by page: what is shown is what runs, and Slack takes every page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.slack import limits, pages
from adapters.slack.blocks import message, minimal
from bot.card import PAGES_BUDGET, Argument, Card, CardState, Kind, revealed
from bot.field import Choice, Field
from bot.pages import NAME
from bot.text import LINES, reveal, visible
from tests.fakes.slack import buttons_of, text_of, validate_view
from tests.fakes.slack.blocks import view_too_large
from tests.fakes.slack.pings import pings_in

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
EVIL = "<!channel> <@U9> <https://evil.test|Approve> *x* ```"


def card(kind: Kind = Kind.APPROVAL, **given: Any) -> Card:
    base: dict[str, Any] = {
        "nonce": "n0nce",
        "version": 1,
        "state": CardState.OPEN,
        "title": "ops wants to run refund",
        "agent": "ops",
        "tool": "refund",
        "deciders": ("slack:T1/U_ANA",),
    }
    return Card(kind=kind, **(base | given))


def all_pages(drawn: Card) -> list[dict[str, Any]]:
    first = text_of(pages.page(drawn))
    count = int(first.split(" of ", 1)[1].split("\n", 1)[0].replace(",", ""))
    return [pages.page(drawn, number) for number in range(1, count + 1)]


def exact_of(views: list[dict[str, Any]]) -> str:
    """The exact texts of all pages, joined."""
    return "".join(
        part["elements"][0]["text"]
        for view in views
        for block in view["blocks"]
        if block["type"] == "rich_text"
        for part in block["elements"]
        if part["type"] == "rich_text_preformatted"
    )


def checked(views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for view in views:
        assert validate_view(view) == []
        assert not view_too_large(view)
        assert len(json.dumps(view).encode()) < limits.VIEW_BYTES  # as the SDK spells it
        assert pings_in({"ts": "1", **view}, "C1") == []
    return views


ARGUMENTS = st.lists(
    st.builds(
        lambda name, text, times: Argument(name, text * times),
        TEXT.filter(str.strip),
        TEXT,
        st.sampled_from([1, 1, 7, 400]),
    ),
    max_size=8,
)


@pytest.mark.row("B48")
@settings(max_examples=80)
@given(ARGUMENTS)
def test_the_pages_joined_are_the_exact_arguments(arguments: list[Argument]) -> None:
    drawn = card(arguments=tuple(arguments))
    told = "".join(
        (one.name if len(one.name) > NAME else "")  # which stands before it, as exact
        + (one.value if one.value.strip() else "")
        for one in revealed(drawn).arguments
    )
    assert exact_of(checked(all_pages(drawn))) == told
    filed = all_pages(replace(drawn, file="a.json"))
    total = sum(len(one.name) + len(one.value) for one in revealed(drawn).arguments)
    if total > PAGES_BUDGET:
        assert told.startswith(exact_of(filed))
        assert f"{total - PAGES_BUDGET:,} more characters" in text_of(filed[-1])
    else:
        assert exact_of(filed) == told


@pytest.mark.row("B48")
@settings(max_examples=40)
@given(st.integers(limits.PAGE_TEXT - 300, limits.PAGE_TEXT + 300), st.sampled_from("x😀\x01\n "))
def test_nothing_is_lost_where_one_page_ends(size: int, character: str) -> None:
    value = "a" + character * size + "b"
    views = checked(all_pages(card(arguments=(Argument("a", value), Argument("b", "last")))))
    assert exact_of(views) == reveal(value, keep=LINES) + "last"


@pytest.mark.row("B46")
def test_the_tail_of_a_long_argument_is_on_the_last_page_which_names_the_argument() -> None:
    views = all_pages(card(arguments=(Argument("command", "x" * 40_000 + " rm -rf /"),)))
    assert len(views) > 2
    assert "rm -rf /" in text_of(views[-1])
    assert "command (goes on):" in text_of(views[-1])
    assert f"Page {len(views)} of {len(views)}" in text_of(views[-1])


def test_a_thousand_small_arguments_are_all_there() -> None:
    arguments = tuple(Argument(f"name-{n}", f"value-{n}") for n in range(1_000))
    views = checked(all_pages(card(arguments=arguments)))
    assert exact_of(views) == "".join(one.value for one in arguments)
    whole = "\n".join(map(text_of, views))
    assert all(f"name-{n}:" in whole for n in range(1_000))


def test_a_name_that_is_too_long_for_a_heading_is_there_in_full() -> None:
    name = "n" * 5_000
    views = checked(all_pages(card(arguments=(Argument(name, "v"),))))
    assert exact_of(views) == f"{name}v"


def test_a_text_in_which_nothing_can_be_seen_is_spelled_out() -> None:
    views = all_pages(card(arguments=(Argument("a", " \n" * 900), Argument("b", ""))))
    whole = "".join(text_of(views[0]).split("\n"))
    assert whole.count("\\n") == 900
    assert "b: (an empty text)" in whole


def test_arguments_beyond_the_pages_are_said_to_be_in_the_file() -> None:
    drawn = card(arguments=(Argument("a", "x" * 300_000), Argument("b", "tail")), file="a.json")
    last = text_of(checked(all_pages(drawn))[-1])
    assert "200,006 more characters of the arguments are not on these pages." in last
    assert "The file a.json in the thread has all of them." in last
    without = text_of(all_pages(card(arguments=drawn.arguments, complete=False))[-1])
    assert "not on these pages" in without
    assert "in the thread" not in without


def test_everything_else_of_a_card_is_there_too() -> None:
    choices = [Choice(f"v{n}", f"Title {n}", f"What {n} means") for n in range(300)]
    drawn = card(
        Kind.FORM,
        message="word " * 20_000,
        fields=(Field("seat", title="Seat", description="d" * 4_000, choices=choices),),
        notices=("n" * 2_000,),
        deciders=tuple(f"slack:T1/U{n}" for n in range(900)),
    )
    whole = "".join("".join(map(text_of, checked(all_pages(drawn)))).split("\n"))
    assert whole.count("word ") == 20_000
    assert whole.count("d") > 4_000
    assert whole.count("n" * 2_000) == 1
    assert all(f"Title {n} [v{n}] — What {n} means" in whole for n in range(300))
    assert "slack:T1/U899" in whole


def test_a_long_address_is_there_byte_for_byte_with_its_host() -> None:
    url = "https://login.test/" + "a" * 9_000
    views = checked(all_pages(card(Kind.PAGE, url=url)))
    assert exact_of(views) == url
    assert "It leads to: login.test" in text_of(views[0])


def test_an_open_approval_is_decided_on_every_page() -> None:
    drawn = card(arguments=(Argument("a", "x" * 30_000),), remember="Approve and remember")
    first, *_, last = all_pages(drawn)
    assert buttons_of(first) == ["Approve", "Approve for this thread", "Decline", "More"]
    assert buttons_of(last) == ["Approve", "Approve for this thread", "Decline", "Earlier"]
    values = {
        one["action_id"]: one["value"]
        for block in first["blocks"]
        for one in block.get("elements", ())
        if "value" in one
    }
    assert values["interlock.approve"] == "n0nce"
    assert values["interlock.leaf.next"] == "2"
    assert first["private_metadata"] == "n0nce"


def test_pages_offer_only_what_the_card_offers() -> None:
    assert buttons_of(pages.page(card(complete=False, remember="r"))) == ["Decline"]
    assert buttons_of(pages.page(card(Kind.FORM, fields=(Field("a"),)))) == []
    settled = pages.page(card(state=CardState.DONE, outcome="Approved by ana."))
    assert buttons_of(settled) == []
    assert "Approved by ana." in text_of(settled)


def test_hostile_texts_are_inert_on_every_page() -> None:
    drawn = card(
        Kind.FORM,
        title=EVIL,
        agent=EVIL,
        tool=EVIL,
        message=EVIL,
        arguments=(Argument(EVIL, EVIL),),
        fields=(Field("f", title=EVIL, description=EVIL, choices=[Choice("a", EVIL, EVIL)]),),
        deciders=(EVIL,),
        notices=(EVIL,),
        url="https://a.test/<!here>",
    )
    checked(all_pages(drawn))


@pytest.mark.parametrize(
    ("value", "number"), [("2", 2), ("", 1), ("x", 1), ("²", 1), ("-1", 1), ("9" * 20, 1)]
)
def test_a_page_is_named_by_its_number_alone(value: str, number: int) -> None:
    assert pages.number_of(value) == number


def test_a_page_that_is_not_there_is_the_nearest_one() -> None:
    drawn = card(arguments=(Argument("a", "x" * 30_000),))
    assert pages.page(drawn, 0) == pages.page(drawn, 1)
    assert pages.page(drawn, 999) == all_pages(drawn)[-1]


def test_the_pages_show_one_person_what_the_card_masks_for_a_channel() -> None:
    masked, exact = Argument("header", "[GitHub token hidden]"), Argument("header", "ghp_whole")
    drawn = card(arguments=(masked,), exact=(exact,))
    assert "ghp_whole" in text_of(pages.page(drawn))
    shown = message(drawn, "T1")
    assert "ghp_whole" not in str(shown)
    assert "Show everything" in buttons_of(shown)
    assert "Show everything" in buttons_of(minimal(drawn))
    assert "ghp_whole" not in str(minimal(drawn))


def test_what_is_in_a_file_is_decided_where_the_file_is() -> None:
    drawn = card(arguments=(Argument("a", "x"),), file="a.json")
    assert "Approve" not in buttons_of(pages.page(drawn))


@given(TEXT.map(lambda text: "a" + text * 5 + "\u200b" * 300 + "tail"))
@settings(max_examples=40, deadline=None)
def test_what_is_not_whole_on_a_card_leads_to_everything(text: str) -> None:
    for drawn in (
        card(message=text),
        card(Kind.FORM, message=text, fields=(Field("a", title=text, description=text),)),
        card(notices=(text,)),
    ):
        shown = message(drawn, "T1")
        told = "".join(text_of(shown).split())
        whole = "".join(visible(text).split())
        assert whole in told or "Show everything" in buttons_of(shown)
