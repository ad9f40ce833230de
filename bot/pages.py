"""Everything that a card says, in the order in which it is read, for surfaces that show it page by
page: nobody decides about what they could not read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bot import address
from bot.card import PAGES_BUDGET, Card
from bot.field import Choice, Field, written
from bot.text import blank, reveal, visible

NAME: Final = 200  # characters of a name that are its heading


@dataclass(frozen=True, slots=True)
class Part:
    """A text under its name. `exact`: it is shown character by character, preformatted."""

    name: str
    text: str
    exact: bool = False


def parts(card: Card, standing: str) -> Iterator[Part]:
    """All that a card says. `standing`: what its button of a standing approval is called."""
    yield Part("Tool", card.tool)
    yield Part("Agent", card.agent)
    yield Part("Who may decide", ", ".join(card.deciders) or "nobody")
    for notice in card.notices:
        yield Part("Note", notice)
    if card.remember is not None:
        yield Part(standing, card.remember)
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
        told = blank(argument.value)
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


def named(found: Iterator[Part]) -> Iterator[Part]:
    """The parts with nothing hidden in them, a name that is too long for a heading before its
    own."""
    for hidden in found:
        part = Part(visible(hidden.name), visible(hidden.text), hidden.exact)
        if len(part.name) > NAME:
            yield Part("A long name", part.name, exact=True)
        yield part
