"""Buttons of cards: what a person did, handed to the product within the time Teams gives.

An invoke is answered after at most three seconds, with the card as it then stands, or a sentence
that only the person who clicked sees. What takes longer is finished all the same, and they are
told. An old client sends a message instead, which cannot be answered so: it is told by a whisper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from adapters.teams import cards, forms, limits
from adapters.teams.delivery import Delivery
from adapters.teams.events import Pressed
from adapters.teams.people import People, Unknown
from adapters.teams.text import whole
from bot.background import Background
from bot.card import Card
from bot.remember import THREAD
from bot.surface import Actor, Decision, DeliveryError, Entry, Response, Verb
from storage.database import DatabaseUnavailable

log = logging.getLogger(__name__)

_UNKNOWN: Final = "Teams did not say who you are just now, so nothing was done: please try again."
_UNDECIDED: Final = "The database is not answering, so nothing was decided: please try again."
_BROKEN: Final = "Something went wrong here. If the card still has its buttons, please try again."
_NOT_OURS: Final = "This button is none of this version of the bot."
_NOT_OFFERED: Final = (
    "This card does not offer that: not all of it can be read here, or the policy has changed."
)
_LATER: Final = "It is being recorded; the card shows what came of it."
_RECORDED: Final = "It is recorded."

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of a click: the card as it stands, or a sentence; `refused`: nothing changed."""

    sentence: str = ""
    settled: Card | None = None
    refused: bool = False


class Clicks:
    """Everything people press in the conversations of the bot."""

    def __init__(
        self, entry: Entry, delivery: Delivery, people: People, background: Background
    ) -> None:
        self._entry = entry
        self._delivery = delivery
        self._people = people
        self._background = background

    async def press(self, pressed: Pressed) -> Body | None:
        """Does what the button says. Returns what an invoke is answered with."""
        deciding = self._background.start(self._guarded(pressed))
        done, _ = await asyncio.wait({deciding}, timeout=limits.INVOKE_SECONDS)
        if not done:
            self._background.start(self._tell_later(pressed, deciding))
            return _message(_LATER) if pressed.invoked else None
        outcome = deciding.result()
        if not pressed.invoked:
            if outcome.settled is None:
                self._background.start(self._tell(pressed, outcome.sentence))
            return None
        if outcome.settled is not None:
            shown = await asyncio.to_thread(cards.draw, outcome.settled, pressed.place)
            return {"statusCode": 200, "type": cards.TYPE, "value": shown}
        return _refusal(outcome.sentence) if outcome.refused else _message(outcome.sentence)

    async def _guarded(self, pressed: Pressed) -> _Outcome:
        """The outcome, whatever happens: nobody who clicked is left without an answer."""
        try:
            actor = await self._people.actor(pressed.person, pressed.conversation)
            return await self._decided(pressed, actor)
        except Unknown as unknown:
            log.warning("A click was refused: %s", unknown)
            return _Outcome(_UNKNOWN, refused=True)
        except forms.NotOurs as wrong:
            log.warning("A form was refused: %s", wrong)
            return _Outcome(str(wrong), refused=True)
        except DatabaseUnavailable:
            log.warning("A click could not be recorded: the database is not answering.")
            return _Outcome(_UNDECIDED, refused=True)
        except Exception:
            log.exception("A click failed.")
            return _Outcome(_BROKEN, refused=True)

    async def _decided(self, pressed: Pressed, actor: Actor) -> _Outcome:
        remember = None
        response: Any = None
        match pressed.verb:
            case cards.APPROVE:
                verb = Verb.APPROVE
            case cards.REMEMBER:
                verb, remember = Verb.APPROVE, THREAD
            case cards.DECLINE:
                verb = Verb.DECLINE
            case cards.NOTE:
                verb, response = Verb.DECLINE, _note(pressed.inputs)
            case cards.FINISHED:
                verb = Verb.ANSWER
            case cards.ANSWER:
                verb = Verb.ANSWER
                look = await self._entry.look(pressed.nonce, verb, actor, place=pressed.place)
                if look.card is None:
                    return _Outcome(look.refusal or _BROKEN, refused=True)
                response = forms.answer_of(look.card.fields, pressed.inputs)
            case _:
                log.warning("A click on a button that is none of ours was ignored.")
                return _Outcome(_NOT_OURS, refused=True)
        if verb is Verb.APPROVE and not await self._offered(pressed, actor):
            return _Outcome(_NOT_OFFERED, refused=True)
        answer = await self._entry.decide(
            Decision(
                nonce=pressed.nonce,
                verb=verb,
                actor=actor,
                via="teams card",
                place=pressed.place,
                response=response,
                remember=remember,
            )
        )
        return _told(answer)

    async def _offered(self, pressed: Pressed, actor: Actor) -> bool:
        """Whether the card has that button there, where not all can be read of every call: a
        client may send what it was not offered. What is wrong otherwise is for `decide` to say."""
        look = await self._entry.look(pressed.nonce, Verb.APPROVE, actor, place=pressed.place)
        if look.card is None:
            return True
        drawn = await asyncio.to_thread(cards.draw, look.card, pressed.place)
        return cards.offers(drawn, pressed.verb)

    async def _tell_later(self, pressed: Pressed, deciding: asyncio.Task[_Outcome]) -> None:
        outcome = await deciding
        if outcome.refused:
            await self._tell(pressed, outcome.sentence)

    async def _tell(self, pressed: Pressed, sentence: str) -> None:
        try:
            await self._delivery.whisper(pressed.place, pressed.person.user, sentence)
        except DeliveryError as error:
            log.warning("A person could not be told: %s", error)


def _told(answer: Response) -> _Outcome:
    if answer.settled is not None and not answer.settled.open:
        return _Outcome(answer.sentence, settled=answer.settled, refused=not answer.done)
    if answer.done:  # others must decide, too
        return _Outcome(answer.sentence or _RECORDED)
    sentence = answer.sentence or " ".join(answer.errors.values()) or _BROKEN
    return _Outcome(sentence, refused=True)


def _note(inputs: Mapping[str, Any]) -> str | None:
    note = inputs.get(cards.NOTE)
    return note[: limits.NOTE] if isinstance(note, str) and note.strip() else None


def _message(sentence: str) -> Body:
    return {
        "statusCode": 200,
        "type": "application/vnd.microsoft.activity.message",
        "value": whole(sentence, limits.NOTE),
    }


def _refusal(sentence: str) -> Body:
    return {
        "statusCode": 400,
        "type": "application/vnd.microsoft.error",
        "value": {"code": "Refused", "message": whole(sentence, limits.NOTE)},
    }
