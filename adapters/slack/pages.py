"""Everything of a card, page by page in a modal: nobody decides about what they could not read.

A text stands in the order of its characters, cut after lines or words where there are any, so that
all pages joined are the text. The view carries the nonce; a button, the number of its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from adapters.slack import limits, modals
from adapters.slack.blocks import (
    ACTION,
    LEAF,
    STANDING,
    approval_buttons,
    empty,
    exact,
    rich,
    words,
)
from adapters.slack.text import chunks, plain, shorten
from bot import address
from bot.card import PAGES_BUDGET, Card, Kind, revealed
from bot.field import Choice, Field, written
from bot.text import reveal, visible

Block = dict[str, Any]

_OVERHEAD: Final = 40  # what a small part counts besides its characters: its JSON is not small
_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class Part:
    """A text under its name. `exact`: it is shown character by character, preformatted."""

    name: str
    text: str
    exact: bool = False


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


def parts(card: Card) -> Iterator[Part]:
    """All that a card says, in the order in which it is read."""
    yield Part("Tool", card.tool)
    yield Part("Agent", card.agent)
    yield Part("Who may decide", ", ".join(card.deciders) or "nobody")
    for notice in card.notices:
        yield Part("Note", notice)
    if card.remember is not None:
        yield Part(STANDING, card.remember)
    yield Part("Message", card.message)
    if card.url:
        yield from _address(card.url)
    yield from _arguments(card)
    for field in card.fields:
        yield from _field(field)
    yield Part("Outcome", card.outcome)


def _arguments(card: Card) -> Iterator[Part]:
    """As many of the arguments as anybody leafs through; the rest, if any, is in the file."""
    filed = bool(card.file) or not card.complete
    room = PAGES_BUDGET if filed else sum(len(one.name + one.value) for one in card.arguments)
    missing = sum(len(one.name) + len(one.value) for one in card.arguments) - room
    for argument in card.arguments:
        room -= len(argument.name)
        if room < 0:
            break
        told = empty(argument.value)
        yield Part(argument.name, told.strip() or argument.value[:room], exact=not told)
        room -= len(argument.value)
    if missing > 0:
        rest = f"{missing:,} more characters of the arguments are not on these pages."
        where = f" The file {card.file} in the thread has all of them." if card.file else ""
        yield Part("The rest", rest + where)


def _address(url: str) -> Iterator[Part]:
    read = address.read(url)
    yield Part("Address", url, exact=True)
    yield Part("It leads to", reveal(read.host))
    for warning in read.warnings:
        yield Part("Warning", warning)


def _field(field: Field) -> Iterator[Part]:
    optional = "" if field.required and field.default is None else " (optional)"
    yield Part(f"{field.label}{optional}", field.description or "—")
    if field.choices:
        lines = "\n".join(f"• {_choice(one)}" for one in field.choices)
        yield Part(f"{len(field.choices):,} choices", lines)


def _choice(choice: Choice) -> str:
    """What is read, and what is typed where there is no menu."""
    value = written(choice.value)
    typed = "" if value == choice.title else f" [{value}]"
    return f"{choice.title}{typed}" + (f" — {choice.description}" if choice.description else "")


def _leaves(card: Card) -> list[list[Block]]:
    """The blocks of every page."""
    leaves: list[list[Block]] = [[]]
    page_room, block_room = limits.PAGE_TEXT, 0
    for part in _named(parts(card)):
        for number, piece in enumerate(chunks(part.text, limits.SECTION) if part.text else ()):
            elements = _drawn(part, piece, again=number > 0)
            size = len(piece) + min(len(part.name), _NAME) + _OVERHEAD
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


def _named(found: Iterator[Part]) -> Iterator[Part]:
    """The parts with nothing hidden in them, a name that is too long for a heading before its
    own."""
    for hidden in found:
        part = Part(visible(hidden.name), visible(hidden.text), hidden.exact)
        if len(part.name) > _NAME:
            yield Part("A long name", part.name, exact=True)
        yield part


def _drawn(part: Part, piece: str, *, again: bool) -> list[dict[str, Any]]:
    name = shorten(part.name, _NAME) + (" (goes on)" if again else "")
    if part.exact:
        return [words((f"{name}:", True)), exact(piece)]
    return [words((f"{name}: ", True), (f"{piece}\n", False))]


def _section(text: str) -> Block:
    return {"type": "section", "text": plain(text)}
