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
    actions,
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
from adapters.teams.outcome import BROKEN, RECORDED, Handler, Outcome, refused
from adapters.teams.people import People, Unknown
from adapters.teams.text import whole
from bot.background import Background
from bot.card import Card
from bot.group import GroupCard
from bot.surface import Actor, DeliveryError, Entry, Place
from storage.database import DatabaseUnavailable

log = logging.getLogger(__name__)

_UNKNOWN: Final = "Teams did not say who you are just now, so nothing was done: please try again."
_UNDECIDED: Final = "The database is not answering, so nothing was decided: please try again."
_NOT_OURS: Final = "This button is none of this version of the bot."
_LATER: Final = "It is being recorded; the card shows what came of it."
_SLOW: Final = "That took longer than Teams waits: please press it again."
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
            slow = _SLOW if pressed.verb in actions.LOOKS else _LATER
            return _message(slow) if pressed.invoked else None
        outcome = deciding.result()
        if not pressed.invoked:
            if outcome.view is not None:
                outcome = refused(_NEWER)
            if _untold(pressed, outcome):
                self._background.start(self._tell(pressed, outcome.sentence))
            return None
        if outcome.view is not None:
            return _shown(outcome.view)
        if outcome.card is not None:
            try:
                return _shown(await asyncio.to_thread(_drawn, outcome, outcome.card, pressed.place))
            except Exception:  # it is decided, whatever comes now
                log.exception("A card could not be drawn for who pressed it.")
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
            return await self._listed(pressed, actor, outcome)
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

    async def _listed(self, pressed: Pressed, actor: Actor, outcome: Outcome) -> Outcome:
        """The list anew, from which something was done; it is done, whatever comes now."""
        try:
            return Outcome(view=await home.listed(self._entry, pressed, actor, outcome.sentence))
        except Exception:
            log.exception("A list could not be drawn anew.")
            return Outcome(outcome.sentence or RECORDED)

    async def _tell_later(self, pressed: Pressed, deciding: asyncio.Task[Outcome]) -> None:
        outcome = await deciding
        if pressed.verb not in actions.LOOKS and _untold(pressed, outcome):
            await self._tell(pressed, outcome.sentence)

    async def _tell(self, pressed: Pressed, sentence: str) -> None:
        try:
            await self._delivery.whisper(pressed.place, pressed.person.user, sentence)
        except DeliveryError as error:
            log.warning("A person could not be told: %s", error)


def _untold(pressed: Pressed, outcome: Outcome) -> bool:
    """Whether the person has yet to be told: the card of one question says it, for everybody, but
    stands elsewhere than a list."""
    elsewhere = pressed.home or outcome.refused or not isinstance(outcome.card, Card)
    return bool(outcome.sentence) and elsewhere


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
