"""Hostile text does nothing and hides nothing, in every field of everything that Slack is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from adapters.slack import blocks, home, modals, pages
from adapters.slack.direct import placed
from adapters.slack.events import Identity
from adapters.slack.text import inert_markdown
from bot.card import Argument, Card, CardState, Kind, TaskCard
from bot.field import Choice, Field, FieldType
from bot.group import GroupCard
from bot.surface import Content, File, Home, Item, Place, Reply
from tests.fakes.slack import validate_blocks, validate_view
from tests.hostile import TEXTS, faults

TEAM = "T1"
LINK = "https://acme.slack.com/archives/C1/p1"
MENTIONS = frozenset({"U_BEN"})


def cards(text: str) -> Iterator[Card]:
    """A card of every kind and state with the text in each of its fields."""
    word = text.strip() or "x"
    fields = (
        Field(
            "a",
            title=text,
            description=text,
            choices=[Choice(word, text, text), Choice("other", "Other", text)],
            allow_other=True,
        ),
        Field("b", FieldType.TEXT, title=text, description=text, default=text or None),
        Field("c", FieldType.CHOICES, title=text, choices=[Choice(word, text)]),
        Field("d", FieldType.BOOLEAN, title=text),
    )
    for kind in Kind:
        for state in CardState:
            yield Card(
                nonce="n1",
                version=1,
                kind=kind,
                state=state,
                title=text,
                agent=text,
                tool=text,
                message=text,
                arguments=(Argument(text, text), Argument("other", text)),
                fields=fields if kind is Kind.FORM else (),
                url=f"https://login.test/?{text}" if kind is Kind.PAGE else "",
                deciders=("slack:T1/U_BEN", f"slack:T1/{text}", text),
                remember=text if kind is Kind.APPROVAL else None,
                notices=(text,),
                outcome="" if state is CardState.OPEN else text,
            )
    yield _quick(text)


def _quick(text: str) -> Card:
    word = text.strip() or "x"
    only = Field("a", title=text, choices=[Choice(word, text), Choice("other", text)])
    return Card(
        nonce="n1",
        version=1,
        kind=Kind.FORM,
        state=CardState.OPEN,
        title=text,
        agent=text,
        fields=(only,),
    )


def contents(text: str) -> Iterator[Content]:
    yield from cards(text)
    for state in CardState:
        yield TaskCard(
            nonce="n1",
            version=1,
            state=state,
            title=text,
            agent=text,
            tool=text,
            status=text,
            message=text,
        )
    yield File(text, "text/plain", b"")


@pytest.mark.row("B56")
@pytest.mark.row("B57")
@pytest.mark.parametrize("text", TEXTS)
def test_no_field_of_a_card_acts_or_hides(text: str) -> None:
    for content in contents(text):
        for shown in (blocks.message(content, TEAM), blocks.minimal(content)):
            assert faults(shown, mentions=MENTIONS) == []
            assert validate_blocks(shown["blocks"]) == []


@pytest.mark.parametrize("text", TEXTS)
def test_no_field_of_a_modal_acts_or_hides(text: str) -> None:
    for card in cards(text):
        views: list[Any] = [modals.note(card), modals.saying(text)]
        views += [modals.form(card)] if card.kind is Kind.FORM else []
        views += [modals.link(card)] if card.kind is Kind.PAGE else []
        for view in views:
            assert faults(view, mentions=MENTIONS) == []
            assert validate_view(view) == []


@pytest.mark.parametrize("text", TEXTS)
def test_no_page_of_a_card_acts_or_hides(text: str) -> None:
    for card in cards(text):
        view = pages.page(card)
        assert faults(view, mentions=MENTIONS) == []
        assert validate_view(view) == []


@pytest.mark.parametrize("text", TEXTS)
def test_no_call_of_a_shared_card_acts_or_hides(text: str) -> None:
    calls = tuple(
        replace(card, nonce=f"n{number}")
        for number, card in enumerate(cards(text))
        if card.kind is Kind.APPROVAL
    )
    group = GroupCard(nonce="n0", version=1, title=text, agent=text, cards=calls)
    for shown in (blocks.message(group, TEAM), blocks.minimal(group)):
        assert faults(shown, mentions=MENTIONS) == []
        assert validate_blocks(shown["blocks"]) == []


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_on_a_home_page_acts_or_hides(text: str) -> None:
    asked = [replace(card, nonce=f"n{number}") for number, card in enumerate(cards(text))]
    tasks = [one for one in contents(text) if isinstance(one, TaskCard)]
    shown = home.view(
        Home(
            waiting=tuple(_item(card) for card in asked if card.open),
            running=tuple(_item(task) for task in tasks if task.open),
            decided=tuple(_item(card) for card in asked if not card.open)[:10],
        ),
        text,
    )
    assert faults(shown, mentions=MENTIONS) == []
    assert validate_view(shown) == []
    assert faults(home.view(Home(refusal=text))) == []


def _item(card: Card | TaskCard) -> Item:
    return Item(card=card, link=LINK, since=0.0, may=True)


@pytest.mark.parametrize("text", TEXTS)
def test_a_copy_to_an_approver_mentions_only_who_asked_and_where(text: str) -> None:
    there, here = Place("slack", TEAM, "C1", "1.000001"), Place("slack", TEAM, "D1", "")
    me = Identity(TEAM, "U_BOT", "B_BOT", "https://acme.slack.com/")
    for drawn in cards(text):
        card = replace(drawn, thread=there, askers=(f"slack:T1/{text}", "slack:T1/U_BEN"))
        shown = placed(blocks.message(card, TEAM), card, here, me)
        found = faults(shown, mentions=MENTIONS)
        ours = ("mrkdwn: <#C1> in ", "mrkdwn: <https://acme.slack.com/archives/C1/p")
        assert [fault for fault in found if not fault.startswith(ours)] == []


@pytest.mark.row("B84")
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_no_piece_of_a_stream_acts_or_hides(text: str, size: int) -> None:
    for end in range(size, len(text) + size, size):
        shown = {"markdown_text": inert_markdown(text[:end]).replace("\u200b", "")}
        assert faults(shown) == []


@pytest.mark.parametrize("text", TEXTS)
def test_a_reply_has_links_that_show_where_they_lead_and_nothing_else(text: str) -> None:
    shown = blocks.message(Reply(text), TEAM)
    assert faults(shown, links=True) == []
    assert faults(blocks.minimal(Reply(text)), links=True) == []
