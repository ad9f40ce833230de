"""Several approvals on one card: an excerpt of each call with a look at all of it, and the buttons
for the selected ones and for all. Every argument stands on one line, so that none can look like
another call or like a decision."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from adapters.teams import actions, limits
from adapters.teams.elements import (
    MARKS,
    Element,
    adaptive,
    back,
    buttons,
    execute,
    heading,
    line,
    size,
    subtle,
)
from adapters.teams.events import Pressed
from adapters.teams.mentions import NOBODY, Names, who_may
from adapters.teams.outcome import VIA, Handler, Outcome, refused, told
from adapters.teams.text import escaped, plain, whole
from bot.card import Card, warnings
from bot.group import GroupCard
from bot.surface import Actor, Entry, GroupDecision, Place, Together, Verb
from bot.text import reveal, visible

TOGETHER: Final = Together(above=4, size=10)  # with more, too little of each call would be seen

_ROOMS: Final = (400, 250, 120, 40)  # characters of one call
_TOOL: Final = 80
_TOLD: Final = 200
_TITLE: Final = 100  # of a call in the list to select from
_SELECTED: Final = 4_000  # characters of a selection that is read
_MORE: Final = "… (not all of it: press Look)"
_CUT: Final = "… (not all of it)"
_EXACTLY: Final = "They run with exactly these arguments."
_NONE: Final = "None of them runs."
_TOO_MUCH: Final = "They are more than one card shows: decide the selected ones."
_GONE: Final = "There is nothing left to decide on this card."


def draw(
    asked: GroupCard,
    place: Place,
    names: Names = NOBODY,
    notice: str = "",
    extra: Sequence[str] = (),
) -> Element:
    """The card as it stands in a place. `notice`: a sentence for the one who pressed something;
    `extra`: sentences for everybody."""
    for room in _ROOMS:
        drawn = _drawn(asked, names, room, notice, extra)
        if size(drawn) <= limits.CARD_BYTES:
            return drawn
    body = [heading(whole(asked.title)), subtle(whole(notice or _CUT, limits.NOTE))]
    return adaptive([*body, *([buttons([_decline_all(asked)])] if asked.open else [])])


def _drawn(asked: GroupCard, names: Names, room: int, notice: str, extra: Sequence[str]) -> Element:
    body = [heading(whole(asked.title))]
    body += [subtle(whole(one, limits.NOTE)) for one in (notice, *extra) if one]
    entities: list[Element] = []
    if asked.open:
        who, entities = who_may(asked, names)
        body += who
    for number, card in enumerate(asked.cards, 1):
        body += _call(number, card, room)
        if card.open:
            body.append(buttons([execute(card.nonce, actions.SHOW, "Look", page=1)]))
    if asked.open:
        body.append(_select(asked))
        body += _decisions(asked)
    body += again(asked)
    drawn = adaptive(body)
    return drawn | {"msteams": {"entities": entities}} if entities else drawn


def again(card: Card | GroupCard) -> list[Element]:
    """The button that asks again for what expired on a card."""
    return [buttons([execute(card.nonce, actions.AGAIN, "Ask again")])] if card.again else []


def _call(number: int, card: Card, room: int) -> list[Element]:
    """One call in about `room` characters: its number and tool, how it ended, and what fits of its
    arguments."""
    mark = "" if card.open else f"{MARKS.get(card.state, '')} "
    head = line((f"{mark}{number}. {plain(reveal(card.tool), _TOOL)}", True))
    said = " ".join([*card.notices, *warnings(card)]) if card.open else card.outcome
    elements = [head | {"separator": True}]
    if said:
        elements.append(subtle(plain(visible(said, keep=""), _TOLD)) | {"spacing": "None"})
    for text in _excerpt(card, room):
        elements.append(line((text, False)) | {"spacing": "None"})
    return elements


def _excerpt(card: Card, room: int) -> list[str]:
    """The arguments, each on a line of its own, and whether that is not all of them."""
    cut = _MORE if card.open else _CUT
    if not card.complete:
        return [cut]
    lines = []
    for one in card.arguments:
        text = f"• {reveal(f'{one.name}: {one.value}')}"
        lines.append(text[: max(0, room)])
        room -= len(text)
        if room < 0:
            return [*lines, cut]
    if card.exact:
        return [*lines, cut]
    return lines or ["(no arguments)"]


def _select(asked: GroupCard) -> Element:
    choices = [
        {"title": escaped(_label(number, card), _TITLE), "value": card.nonce}
        for number, card in enumerate(asked.cards, 1)
        if card.open
    ]
    return {
        "type": "Input.ChoiceSet",
        "id": actions.SELECT,
        "label": "Some of them",
        "isMultiSelect": True,
        "style": "expanded",
        "choices": choices,
        "separator": True,
    }


def _label(number: int, card: Card) -> str:
    values = " ".join(reveal(one.value) for one in card.arguments)
    return f"{number}. {reveal(card.tool)} {values[: 2 * _TITLE]}"


def _decisions(asked: GroupCard) -> list[Element]:
    approvable = sum(card.complete for card in asked.waiting)
    selected = [_selected(asked, actions.DECLINE_SELECTED, "Decline selected", "destructive")]
    every = [_decline_all(asked)]
    if approvable:
        approve = _selected(asked, actions.APPROVE_SELECTED, "Approve selected", "positive")
        selected.insert(0, approve)
        every.insert(0, execute(asked.nonce, actions.APPROVE_ALL, f"Approve all {approvable}"))
    return [buttons(selected), buttons(every)]


def _selected(asked: GroupCard, verb: str, title: str, style: str) -> Element:
    return execute(asked.nonce, verb, title, style=style, inputs=True)


def _decline_all(asked: GroupCard) -> Element:
    return execute(asked.nonce, actions.DECLINE_ALL, f"Decline all {len(asked.waiting)}")


def sure(asked: GroupCard, verb: Verb) -> Element:
    """What all of them are, before they are decided at once: for the one who pressed."""
    approving = verb is Verb.APPROVE
    calls = [card for card in asked.waiting if card.complete or not approving]
    kept = len(asked.waiting) - len(calls)
    what = f"{'Approve' if approving else 'Decline'} {len(calls)} call{_s(calls)}"
    told = f"{_EXACTLY if approving else _NONE}"
    told += f" {kept} cannot be approved here." if kept else ""
    decide = execute(
        asked.nonce,
        actions.APPROVE_ALL_SURE if approving else actions.DECLINE_ALL_SURE,
        what,
        style="positive" if approving else "destructive",
    )
    ending = buttons([decide, back(asked.nonce)])
    for room in _ROOMS:
        body = [heading(f"{what}?"), line((told, False))]
        for number, card in enumerate(asked.cards, 1):
            body += _call(number, card, room) if card in calls else []
        drawn = adaptive([*body, ending])
        if size(drawn) <= limits.CARD_BYTES:
            return drawn
    # Nobody approves what is not even named.
    without = buttons([back(asked.nonce)]) if approving else ending
    return adaptive([heading(f"{what}?"), subtle(_TOO_MUCH), without])


def _s(calls: Sequence[Card]) -> str:
    return "" if len(calls) == 1 else "s"


# --- What was pressed


async def _some(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    verb = Verb.APPROVE if pressed.verb == actions.APPROVE_SELECTED else Verb.DECLINE
    return await _decide(entry, pressed, actor, verb, _nonces(pressed.inputs))


async def _all(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    verb = Verb.APPROVE if pressed.verb == actions.APPROVE_ALL_SURE else Verb.DECLINE
    return await _decide(entry, pressed, actor, verb, None)


async def _ask(entry: Entry, pressed: Pressed, _: Actor) -> Outcome:
    """Everybody there sees the card; whether they may decide is for the decision to say."""
    asked = await entry.shown(pressed.nonce, place=pressed.place)
    if not isinstance(asked, GroupCard) or not asked.open:
        return refused(_GONE)
    verb = Verb.APPROVE if pressed.verb == actions.APPROVE_ALL else Verb.DECLINE
    return Outcome(view=await asyncio.to_thread(sure, asked, verb))


async def _asked_again(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    return told(await entry.ask_again(pressed.nonce, actor, via=VIA, place=pressed.within))


async def _decide(
    entry: Entry, pressed: Pressed, actor: Actor, verb: Verb, only: tuple[str, ...] | None
) -> Outcome:
    return told(
        await entry.decide_together(
            GroupDecision(
                nonce=pressed.nonce,
                verb=verb,
                actor=actor,
                via=VIA,
                only=only,
                place=pressed.within,
            )
        )
    )


def _nonces(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that were selected, which a client sends joined by commas."""
    sent = inputs.get(actions.SELECT)
    if not isinstance(sent, str) or len(sent) > _SELECTED:
        return ()
    return tuple(dict.fromkeys(one for one in sent.split(",") if one))


HANDLERS: Final[Mapping[str, Handler]] = {
    actions.APPROVE_SELECTED: _some,
    actions.DECLINE_SELECTED: _some,
    actions.APPROVE_ALL: _ask,
    actions.DECLINE_ALL: _ask,
    actions.APPROVE_ALL_SURE: _all,
    actions.DECLINE_ALL_SURE: _all,
    actions.AGAIN: _asked_again,
}
