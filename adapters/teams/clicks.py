"""Buttons of cards: what a person did, handed to the product within the time Teams gives.

An invoke is answered after at most three seconds, with the card as it then stands, or a sentence
that only the person who clicked sees. What takes longer is finished all the same, and they are
told. An old client sends a message instead, which cannot be answered so: it is told by a whisper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, assert_never

from adapters.teams import (
    cards,
    decisions,
    edits,
    forms,
    group,
    home,
    limits,
    pages,
    standing,
    tasks,
)
from adapters.teams.delivery import Delivery
from adapters.teams.elements import TYPE
from adapters.teams.events import Pressed
from adapters.teams.outcome import BROKEN, Handler, Outcome, refused
from adapters.teams.people import People, Unknown
from adapters.teams.text import whole
from bot.background import Background
from bot.card import Card
from bot.group import GroupCard
from bot.surface import DeliveryError, Entry, Place
from storage.database import DatabaseUnavailable

log = logging.getLogger(__name__)

_UNKNOWN: Final = "Teams did not say who you are just now, so nothing was done: please try again."
_UNDECIDED: Final = "The database is not answering, so nothing was decided: please try again."
_NOT_OURS: Final = "This button is none of this version of the bot."
_LATER: Final = (
    "It takes a while: a decision is being recorded, and the card shows what came of it; if "
    "something was to open, press again."
)
_NEWER: Final = "This client of Teams cannot show it: use a newer one, or a command (`@bot help`)."

Body = dict[str, Any]

HANDLERS: Final[Mapping[str, Handler]] = {
    **decisions.HANDLERS,
    **group.HANDLERS,
    **tasks.HANDLERS,
    **pages.HANDLERS,
    **edits.HANDLERS,
    **home.HANDLERS,
    **standing.HANDLERS,
}


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
            sentence = _NEWER if outcome.view is not None else outcome.sentence
            # What is decided on its own card, that says, for everybody.
            if sentence and (pressed.home or not isinstance(outcome.card, Card)):
                self._background.start(self._tell(pressed, sentence))
            return None
        if outcome.view is not None:
            return _shown(outcome.view)
        if outcome.card is not None:
            return _shown(await asyncio.to_thread(_drawn, outcome, outcome.card, pressed.place))
        return _refusal(outcome.sentence) if outcome.refused else _message(outcome.sentence)

    async def _guarded(self, pressed: Pressed) -> Outcome:
        """The outcome, whatever happens: nobody who clicked is left without an answer."""
        try:
            actor = await self._people.actor(pressed.person, pressed.conversation)
            handler = HANDLERS.get(pressed.verb)
            if handler is None:
                log.warning("A click on a button that is none of ours was ignored.")
                return refused(_NOT_OURS)
            outcome = await handler(self._entry, pressed, actor)
            kept = outcome.refused and outcome.card is None  # nothing on the list has changed
            if not (pressed.home and pressed.invoked) or kept or outcome.view is not None:
                return outcome
            return Outcome(view=await home.listed(self._entry, pressed, actor, outcome.sentence))
        except Unknown as unknown:
            log.warning("A click was refused: %s", unknown)
            return refused(_UNKNOWN)
        except forms.NotOurs as wrong:
            log.warning("A form was refused: %s", wrong)
            return refused(str(wrong))
        except DatabaseUnavailable:
            log.warning("A click could not be recorded: the database is not answering.")
            return refused(_UNDECIDED)
        except Exception:
            log.exception("A click failed.")
            return refused(BROKEN)

    async def _tell_later(self, pressed: Pressed, deciding: asyncio.Task[Outcome]) -> None:
        outcome = await deciding
        if outcome.refused:
            await self._tell(pressed, outcome.sentence)

    async def _tell(self, pressed: Pressed, sentence: str) -> None:
        try:
            await self._delivery.whisper(pressed.place, pressed.person.user, sentence)
        except DeliveryError as error:
            log.warning("A person could not be told: %s", error)


def _drawn(outcome: Outcome, card: Card | GroupCard, place: Place) -> Body:
    """The card for the one who pressed something on it, who is told on it what it does not say."""
    match card:
        case Card():
            return cards.draw(card, place)
        case GroupCard():
            return group.draw(card, place, notice=outcome.sentence)
        case _:
            assert_never(card)


def _shown(card: Mapping[str, Any]) -> Body:
    return {"statusCode": 200, "type": TYPE, "value": card}


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
