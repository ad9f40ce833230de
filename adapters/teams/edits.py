"""The form in which a call is approved with other arguments: an input with its value for each that
can be changed here. Only the one who decides sees it, secrets as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from adapters.teams import actions, forms, limits
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
    subtle,
)
from adapters.teams.events import Pressed
from adapters.teams.outcome import NO_ANSWER, VIA, Handler, Outcome, refused, told
from adapters.teams.text import shorten
from bot.card import Argument, Card, revealed
from bot.field import Field
from bot.surface import Actor, Decision, Entry, Form, Verb
from bot.text import blank

_ROOM: Final = 4_000  # characters of all arguments that stay as they are
_MOST: Final = 20  # of them
_FORM: Final = 6_000  # characters of what is said of the fields
_NAME: Final = 200
_TOLD: Final = "It runs with what stands here, and the thread is told what you changed."
_CUT: Final = "Cut here: the card shows all of what stays."
_TOO_LONG: Final = (
    "These arguments are too long to be changed in Teams: approve the call as it is, or decline it "
    "with a note that says what they should be."
)


def form(card: Card, fields: Sequence[Field], *, home: bool = False) -> Element | None:
    """The view; None: it is more than Teams takes. `fields` are those of `Entry.editing`."""
    if any(isinstance(one.default, str) and len(one.default) > limits.INPUT for one in fields):
        return None
    names = {field.name for field in fields}
    stays = [one.name not in names for one in card.for_one().arguments]
    seen = revealed(replace(card.for_one(), fields=tuple(fields)))
    kept = [one for one, stay in zip(seen.arguments, stays, strict=True) if stay]
    shown, there = forms.elements(seen.fields, open_=True, room=_FORM, editing=True)
    send = execute(card.nonce, actions.EDITED, "Approve", style="positive", inputs=True, home=home)
    drawn = adaptive(
        [
            heading("Edit and approve"),
            line(("Tool: ", True), (shorten(seen.tool, _NAME), False)),
            subtle(_TOLD),
            *_kept(kept),
            *shown,
            buttons([send, back(card.nonce, home=home)]),
        ]
    )
    return drawn if there and size(drawn) <= limits.CARD_BYTES else None


def _kept(kept: Sequence[Argument]) -> list[Element]:
    """The arguments that no input can hold, as far as there is room for them."""
    elements: list[Element] = []
    whole = len(kept) <= _MOST
    for one in kept[:_MOST]:
        name, value = shorten(one.name, _NAME), shorten(one.value, _ROOM // len(kept))
        whole = whole and (name, value) == (one.name, one.value)
        nothing = shorten(blank(one.value), _NAME)
        elements.append(line((f"{name} stays as it is:", True), (nothing, False)))
        elements += [] if nothing else lines(value)
    return elements if whole else [*elements, subtle(_CUT)]


async def _opened(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    found = await entry.editing(pressed.nonce, actor, place=pressed.within)
    if found.card is None:
        return refused(found.refusal)
    view = await asyncio.to_thread(form, found.card, found.fields, home=pressed.home)
    return refused(_TOO_LONG) if view is None else Outcome(view=view)


async def _sent(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    found: Form = await entry.editing(pressed.nonce, actor, place=pressed.within)
    decision = Decision(
        nonce=pressed.nonce, verb=Verb.APPROVE, actor=actor, via=VIA, place=pressed.within
    )
    if found.card is None:  # who tried is on record
        tried = replace(decision, verb=Verb.ANSWER, response=NO_ANSWER, lenient=False)
        await entry.decide(tried)
        return refused(found.refusal)
    edited = forms.answer_of(found.fields, pressed.inputs)
    return told(await entry.decide(replace(decision, edited=edited)))


HANDLERS: Final[Mapping[str, Handler]] = {actions.EDIT: _opened, actions.EDITED: _sent}
