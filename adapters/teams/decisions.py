"""The buttons that decide a question, and the way back to its card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from adapters.teams import actions, forms, limits
from adapters.teams.events import Pressed
from adapters.teams.outcome import NO_ANSWER, VIA, Handler, Outcome, refused, told
from bot.remember import THREAD, Remember
from bot.surface import Actor, Decision, Entry, Verb

_NOTHING: Final = "There is no such question here."


async def _approve(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    remember = THREAD if pressed.verb == actions.REMEMBER else None
    return await _decide(entry, pressed, actor, Verb.APPROVE, remember=remember)


async def _decline(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    note = _note(pressed.inputs) if pressed.verb == actions.NOTE else None
    return await _decide(entry, pressed, actor, Verb.DECLINE, note)


async def _finished(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    return await _decide(entry, pressed, actor, Verb.ANSWER)


async def _answer(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    look = await entry.look(pressed.nonce, Verb.ANSWER, actor, place=pressed.within)
    if look.card is None:  # who tried is on record
        await _decide(entry, pressed, actor, Verb.ANSWER, NO_ANSWER)
        return refused(look.refusal)
    response = forms.answer_of(look.card.fields, pressed.inputs)
    return await _decide(entry, pressed, actor, Verb.ANSWER, response)


async def _back(entry: Entry, pressed: Pressed, _: Actor) -> Outcome:
    card = await entry.shown(pressed.nonce, place=pressed.place)
    return refused(_NOTHING) if card is None else Outcome(card=card)


async def _decide(
    entry: Entry,
    pressed: Pressed,
    actor: Actor,
    verb: Verb,
    response: Any = None,
    *,
    remember: Remember | None = None,
) -> Outcome:
    answer = await entry.decide(
        Decision(
            nonce=pressed.nonce,
            verb=verb,
            actor=actor,
            via=VIA,
            place=pressed.within,
            response=response,
            remember=remember,
        )
    )
    return told(answer)


def _note(inputs: Mapping[str, Any]) -> str | None:
    note = inputs.get(actions.NOTE)
    return note[: limits.NOTE] if isinstance(note, str) and note.strip() else None


HANDLERS: Final[Mapping[str, Handler]] = {
    actions.APPROVE: _approve,
    actions.REMEMBER: _approve,
    actions.DECLINE: _decline,
    actions.NOTE: _decline,
    actions.FINISHED: _finished,
    actions.ANSWER: _answer,
    actions.BACK: _back,
}
