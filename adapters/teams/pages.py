"""Everything of a card, page by page, for the one who pressed: nobody decides about what they could
not read.

A text stands in the order of its characters, cut after lines or words where there are any, so that
all pages joined are the text."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from adapters.teams import actions, limits
from adapters.teams.approval import STANDING, approve, decline
from adapters.teams.elements import (
    Element,
    adaptive,
    back,
    buttons,
    execute,
    heading,
    line,
    lines,
    size,
)
from adapters.teams.events import Pressed
from adapters.teams.outcome import Handler, Outcome, refused
from adapters.teams.text import shorten
from bot.card import Card, Kind, revealed
from bot.pages import NAME, Part, named, parts
from bot.surface import Actor, Entry
from bot.text import chunks

_PIECE: Final = 1_000  # characters


def page(card: Card, number: int = 1, *, home: bool = False) -> Element:
    """One page of the card, as far as it has so many; an open approval can be decided on each."""
    card = revealed(card.for_one())
    leaves = _leaves(card)
    number = min(max(number, 1), len(leaves))
    body = [
        heading(card.title),
        line((f"Page {number:,} of {len(leaves):,}", False)),
        *leaves[number - 1],
    ]
    if not card.open:
        body += lines(shorten(card.outcome or "This question is closed.", limits.NOTE), mono=False)
    elif card.file:
        body.append(line(("Decide on the card in the thread, where the file is.", False)))
    elif card.kind is Kind.APPROVAL:
        body.append(buttons([*approve(card, home=home), decline(card, home=home)]))
    else:
        body.append(line(("Go back to answer: the card has the buttons.", False)))
    turns = [("Earlier", number - 1), ("More", number + 1)]
    turning = [
        execute(card.nonce, actions.SHOW, label, page=target, home=home)
        for label, target in turns
        if 1 <= target <= len(leaves)
    ]
    return adaptive([*body, buttons([*turning, back(card.nonce, home=home)])])


def _leaves(card: Card) -> list[list[Element]]:
    """The elements of every page."""
    leaves: list[list[Element]] = [[]]
    room = limits.PAGE_BYTES
    for part in named(parts(card, STANDING)):
        pieces = chunks(part.text, _PIECE) if part.text else []
        for number, piece in enumerate(pieces):
            drawn = _drawn(part, piece, first=number == 0, last=number == len(pieces) - 1)
            needed = size(adaptive(drawn))
            if needed > room and leaves[-1]:
                leaves.append([])
                room = limits.PAGE_BYTES
            leaves[-1] += drawn
            room -= needed
    return leaves


def _drawn(part: Part, piece: str, *, first: bool, last: bool) -> list[Element]:
    """A piece under the name of its part. Where one ends with its line, the next begins a new one
    anyway."""
    name = shorten(part.name, NAME) + ("" if first else " (goes on)")
    shown = piece if last else piece.removesuffix("\n")
    return [line((f"{name}:", True)), *lines(shown, mono=part.exact)]


async def _shown(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    look = await entry.read(pressed.nonce, actor, place=pressed.within)
    if look.card is None:
        return refused(look.refusal)
    view = await asyncio.to_thread(page, look.card, pressed.page, home=pressed.home)
    return Outcome(view=view)


HANDLERS: Final[Mapping[str, Handler]] = {actions.SHOW: _shown}
