"""Everything of a card on pages of Teams: nothing is lost, each page fits, nothing in it acts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapters.teams import edits, limits, pages
from adapters.teams.elements import size
from adapters.teams.text import shorten
from bot.argument_form import FormAnswer
from bot.card import Argument, Card, CardState, Kind, revealed
from bot.field import Choice, Field, FieldType
from bot.pages import NAME
from bot.text import visible
from tests import hostile
from tests.fakes.teams import TENANT, button, buttons_of, faults, text_of
from tests.fakes.teams.cards import elements, marked_up

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)
BEN = f"teams:{TENANT}/00000000-0000-0000-0000-000000000002"


def card(kind: Kind = Kind.APPROVAL, **given: Any) -> Card:
    base: dict[str, Any] = {
        "nonce": "n0nce",
        "version": 1,
        "state": CardState.OPEN,
        "title": "ops wants to run refund",
        "agent": "ops",
        "tool": "refund",
        "deciders": (BEN,),
    }
    return Card(kind=kind, **(base | given))


def all_pages(drawn: Card) -> list[dict[str, Any]]:
    first = text_of(pages.page(drawn))
    count = int(first.split("\n")[1].rpartition(" of ")[2].replace(",", ""))
    return [pages.page(drawn, number) for number in range(1, count + 1)]


def checked(views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for view in views:
        assert faults(view) == []
        assert marked_up(view) == []
        assert size(view) <= limits.CARD_BYTES
    return views


def exact_of(views: list[dict[str, Any]]) -> str:
    """What stands in monospace, as one text: a label stands before each piece, and a piece whose
    line goes on in the next does not end with its line's end."""
    pieces: list[list[str]] = [[]]
    for view in views:
        for one in view["body"]:
            run = one.get("inlines", [{}])[0]
            if run.get("fontType") == "Monospace":
                pieces[-1].append(run["text"])
            else:
                pieces.append([])
    return "".join("\n".join(piece) for piece in pieces).replace("\xa0", " ")


LAID_OUT = st.text("ab \n\t↵\xa0<", max_size=60)
ARGUMENTS = st.lists(
    st.builds(
        lambda name, text, times: Argument(name, text * times),
        TEXT.filter(str.strip),
        TEXT | LAID_OUT,
        st.sampled_from([1, 1, 7, 40]),
    ),
    max_size=6,
)


def told_of(views: list[dict[str, Any]]) -> list[tuple[str, list[list[str]]]]:
    """What stands in monospace: the lines of the pieces of each part, with its name."""
    found: list[tuple[str, list[list[str]]]] = []
    for one in [block for view in views for block in view["body"]]:
        run = one.get("inlines", [{}])[0]
        if run.get("fontType") == "Monospace":
            found[-1][1][-1].append(run["text"])
        elif run.get("weight") == "Bolder" and run["text"].endswith(":"):
            name = run["text"][:-1]
            if name.endswith(" (goes on)"):
                assert name.removesuffix(" (goes on)") == found[-1][0]
                found[-1][1].append([])
            else:
                found.append((name, [[]]))
    return [one for one in found if one[1] != [[]]]


def apart(text: str) -> str:
    """The text with a tab as the spaces that it is drawn as, spaces alike, and no mark in it that
    keeps it from becoming a mention: none was written, it would stand there as an escape."""
    return text.replace("\t", "    ").replace("\xa0", " ").replace("\u200b", "")


def shown_as(pieces: list[list[str]]) -> str:
    """What the text is by its pieces, as a pattern. An empty line is drawn as one of a space; where
    a piece ends with its line, the end is not shown; of one in very many lines they are marked."""
    pattern = ""
    for number, piece in enumerate(pieces):
        lines = [apart(one) for one in piece]
        if len(lines) == 1 and lines[0].count(" ↵ ") >= 60:
            lines = lines[0].split(" ↵ ")
            assert not any("↵" in one for one in lines)
            lines = [one.replace("⟨U+21B5⟩", "↵") for one in lines]
        *before, last = [" ?" if one in ("", " ") else re.escape(one) for one in lines]
        pattern += "".join(f"{one}\n" for one in before)
        if number == len(pieces) - 1:
            pattern += last
        else:
            pattern += f"{last}\n?" if last != " ?" else r"(?:\n| \n?)"
    return pattern


@pytest.mark.row("B48")
@settings(max_examples=25, deadline=None)
@given(ARGUMENTS)
@example([Argument("text", "x" * 2_500), Argument("lines", "a ↵ b\n\tc\n" * 300)])
def test_the_pages_joined_are_the_exact_arguments(arguments: list[Argument]) -> None:
    drawn = card(arguments=tuple(arguments))
    told: list[tuple[str, str]] = []
    for one in revealed(drawn).arguments:
        name = visible(one.name)
        told += [("A long name", name)] if len(name) > NAME else []
        told += [(shorten(name, NAME), visible(one.value))] if one.value.strip() else []
    found = told_of(checked(all_pages(drawn)))
    assert len(found) == len(told)
    for (label, pieces), (name, text) in zip(found, told, strict=True):
        assert apart(label) == apart(name)
        assert re.fullmatch(shown_as(pieces), apart(text)), (pieces, text)


def test_lines_stand_as_they_are_over_the_end_of_a_page() -> None:
    value = "".join(f"line {number:05} {'x' * 40}\n" for number in range(900))
    views = checked(all_pages(card(arguments=(Argument("text", value + "end"),))))
    assert len(views) > 2
    shown = exact_of(views).replace("\n", "")
    assert shown == (value + "end").replace("\n", "")
    assert "Page 2 of" in text_of(views[1])


@pytest.mark.parametrize("text", hostile.TEXTS)
def test_nothing_on_a_page_acts(text: str) -> None:
    field = Field("q", title=text, choices=(Choice("a", text, text),))
    shown = (
        card(title=text, tool=text, agent=text, message=text, notices=(text,), deciders=(text,)),
        card(arguments=(Argument(text, text),)),
        card(Kind.FORM, fields=(field,)),
        card(Kind.PAGE, url="https://login.test/" + text),
        card(state=CardState.REFUSED, outcome=text),
    )
    for one in shown:
        checked(all_pages(one))


def test_an_open_approval_is_decided_on_every_page_and_turns_lead_to_the_others() -> None:
    long = card(
        arguments=(Argument("a", "word " * 9_000),), remember="yes", standing=True, editable=True
    )
    views = checked(all_pages(long))
    approving = ["Approve", "Approve for this thread", "Approve and remember…", "Edit and approve"]
    for view in views:
        assert buttons_of(view)[:5] == [*approving, "Decline"]
    assert buttons_of(views[0])[5:] == ["More", "Back"]
    assert buttons_of(views[1])[5:] == ["Earlier", "More", "Back"]
    assert buttons_of(views[-1])[5:] == ["Earlier", "Back"]
    assert button(views[0], "More")["data"]["page"] == 2
    assert pages.page(long, 99_999) == views[-1]


def test_what_cannot_all_be_read_is_not_approved_from_a_page() -> None:
    assert buttons_of(pages.page(card(complete=False))) == ["Decline", "Back"]
    filed = pages.page(card(file="a.json"))
    assert buttons_of(filed) == ["Back"]
    assert "where the file is" in text_of(filed)


def test_only_the_one_who_reads_them_sees_secrets() -> None:
    secret = card(arguments=(Argument("key", "[secret]"),), exact=(Argument("key", "xoxb-123456"),))
    assert "xoxb-123456" in text_of(pages.page(secret))


def test_on_a_list_every_button_says_so() -> None:
    view = pages.page(card(arguments=(Argument("a", "word " * 9_000),)), home=True)
    assert all(one["data"]["home"] is True for one in elements(view) if "data" in one)
    assert button(view, "Back")["verb"] == "home"


# Approving with other arguments

FIELDS = (
    Field("amount", FieldType.INTEGER, default=5),
    Field("why", multiline=True, default="a\nb", required=False),
    Field("parts", FieldType.CHOICES, choices=("a", "b", "c"), default=("a", "c")),
    Field("big", FieldType.INTEGER, default=2**60, required=False),
)
EDITED = card(
    arguments=(Argument("amount", "5"), Argument("kept", "{}"), Argument("blank", " ")),
    editable=True,
)


def test_every_value_stands_in_its_input_and_what_stays_is_shown() -> None:
    view = edits.form(EDITED, FIELDS)
    assert view is not None
    assert faults(view) == []
    inputs = {one["id"]: one for one in elements(view) if one["type"].startswith("Input.")}
    assert [one.get("value") for one in inputs.values()] == [5, "a\nb", "0,2", str(2**60)]
    assert inputs["f3"]["type"] == "Input.Text"  # a client counts in doubles
    assert "kept stays as it is:\n{}" in text_of(view)
    assert "amount stays" not in text_of(view)
    assert "blank stays as it is: (nothing but white space" in text_of(view)
    assert buttons_of(view) == ["Approve", "Back"]


def test_what_is_sent_back_unchanged_is_what_was_there() -> None:
    from adapters.teams import forms

    sent = {"f0": "5", "f1": "a\nb", "f2": "0,2", "f3": str(2**60)}
    answer = FormAnswer(forms.answer_of(FIELDS, sent))
    assert answer.values == {"amount": "5", "why": "a\nb", "parts": ["a", "c"], "big": str(2**60)}


@pytest.mark.parametrize("text", hostile.TEXTS)
def test_nothing_of_the_edit_form_acts(text: str) -> None:
    view = edits.form(
        replace(EDITED, arguments=(Argument(text, text),), tool=text), (Field("x", title=text),)
    )
    assert view is not None
    assert faults(view) == []


def test_what_is_too_long_for_an_input_or_a_card_is_no_form() -> None:
    assert edits.form(EDITED, (Field("x", default="y" * (limits.INPUT + 1)),)) is None
    assert edits.form(EDITED, (Field("x", description="y" * 9_000),)) is None
