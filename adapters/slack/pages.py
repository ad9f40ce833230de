"""Everything of a card, page by page in a modal: nobody decides about what they could not read.

A text stands in the order of its characters, cut after lines or words where there are any, so that
all pages joined are the text. The view carries the nonce; a button, the number of its page."""

from __future__ import annotations

from typing import Any, Final

from adapters.slack import limits, modals
from adapters.slack.blocks import (
    ACTION,
    LEAF,
    STANDING,
    approval_buttons,
    exact,
    rich,
    words,
)
from adapters.slack.text import plain, shorten
from bot.card import Card, Kind, revealed
from bot.pages import NAME, Part, named, parts
from bot.text import chunks

Block = dict[str, Any]

_OVERHEAD: Final = 40  # what a small part counts besides its characters: its JSON is not small


def page(card: Card, number: int = 1) -> modals.View:
    """One page of the card, as far as it has so many; an open approval can be decided on each."""
    card = revealed(card.for_one())
    leaves = _leaves(card)
    number = min(max(number, 1), len(leaves))
    blocks = [
        _section(f"Page {number:,} of {len(leaves):,}"),
        _section(shorten(card.title, 1_000)),
        *leaves[number - 1],
    ]
    if not card.open:
        blocks.append(_section(card.outcome or "This question is closed."))
    elif card.file:
        blocks.append(_section("Decide on the card in the thread, where the file is."))
    elif card.kind is Kind.APPROVAL:
        blocks.append({"type": "actions", "elements": approval_buttons(card)})
    else:
        blocks.append(_section("Close this to answer: the card has the buttons."))
    turns = [("previous", "Earlier", number - 1), ("next", "More", number + 1)]
    buttons = [
        {"type": "button", "action_id": ACTION + LEAF + name, "text": plain(label)}
        | {"value": str(target)}
        for name, label, target in turns
        if 1 <= target <= len(leaves)
    ]
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    return {
        "type": "modal",
        "callback_id": modals.SAYING,
        "private_metadata": card.nonce,
        "title": plain("Everything"),
        "close": plain("Close"),
        "blocks": blocks,
    }


def number_of(value: str) -> int:
    """The page that a button names; the first for what no button of ours says."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 7 else 1


def _leaves(card: Card) -> list[list[Block]]:
    """The blocks of every page."""
    leaves: list[list[Block]] = [[]]
    page_room, block_room = limits.PAGE_TEXT, 0
    for part in named(parts(card, STANDING)):
        for number, piece in enumerate(chunks(part.text, limits.SECTION) if part.text else ()):
            elements = _drawn(part, piece, again=number > 0)
            size = len(piece) + min(len(part.name), NAME) + _OVERHEAD
            if size > page_room or len(leaves[-1]) >= limits.PAGE_BLOCKS:
                leaves.append([])
                page_room, block_room = limits.PAGE_TEXT, 0
            if size > block_room:
                leaves[-1].append(rich())
                block_room = limits.SECTION
            leaves[-1][-1]["elements"] += elements
            page_room -= size
            block_room -= size
    return leaves


def _drawn(part: Part, piece: str, *, again: bool) -> list[dict[str, Any]]:
    name = shorten(part.name, NAME) + (" (goes on)" if again else "")
    if part.exact:
        return [words((f"{name}:", True)), exact(piece)]
    return [words((f"{name}: ", True), (f"{piece}\n", False))]


def _section(text: str) -> Block:
    return {"type": "section", "text": plain(text)}
