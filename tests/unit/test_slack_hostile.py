"""Hostile text does nothing and hides nothing, in every field of everything that Slack is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from adapters.slack import blocks, modals
from bot.card import Argument, Card, CardState, Kind, TaskCard
from bot.field import Choice, Field, FieldType
from bot.surface import Content, File, Reply
from tests.fakes.slack import validate_blocks, validate_view
from tests.hostile import TEXTS, faults

TEAM = "T1"
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
def test_a_reply_has_links_that_show_where_they_lead_and_nothing_else(text: str) -> None:
    shown = blocks.message(Reply(text), TEAM)
    assert faults(shown, links=True) == []
    assert faults(blocks.minimal(Reply(text)), links=True) == []
