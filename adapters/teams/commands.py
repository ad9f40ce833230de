"""Commands that are said to the bot, as `@bot status`, or given as slash commands. Every answer is
for the person alone."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from adapters.teams import home
from adapters.teams.delivery import Delivery
from adapters.teams.elements import Element
from adapters.teams.events import Heard
from adapters.teams.people import People, Unknown
from bot.surface import Actor, Command, DeliveryError, Entry

log = logging.getLogger(__name__)

_UNKNOWN: Final = "Teams did not say who you are just now: please try again."
_BROKEN: Final = "Something went wrong here: please try again."


class Commands:
    """Everything people ask with a command."""

    def __init__(self, entry: Entry, delivery: Delivery, people: People) -> None:
        self._entry = entry
        self._delivery = delivery
        self._people = people

    async def answer(self, heard: Heard, keys: tuple[str, ...], name: str, argument: str) -> None:
        """Answers, whatever happens: nobody who asked is left without one. `keys` as of a
        Command."""
        card: Element | None = None
        try:
            actor = await self._people.actor(heard.person, heard.conversation)
            command = Command(
                name=name, argument=argument, actor=actor, place=heard.place, keys=keys
            )
            told = await self._entry.command(command)
            if told:
                told, card = await self._listed(name, argument, actor, heard, told)
        except Unknown as unknown:
            log.warning("A command was refused: %s", unknown)
            told = _UNKNOWN
        except Exception:
            log.exception("A command failed.")
            told = _BROKEN
        if not told and card is None:
            return
        try:
            await self._delivery.whisper(
                heard.place, heard.person.user, told, markdown=True, card=card
            )
        except DeliveryError as error:
            log.warning("The answer to a command did not go out: %s", error)

    async def _listed(
        self, name: str, argument: str, actor: Actor, heard: Heard, told: str
    ) -> tuple[str, Element | None]:
        """What waits and what runs is a card with buttons; a later page is turned to on it."""
        if name not in ("pending", "status") or argument:
            return told, None
        found = await self._entry.home(actor, heard.conversation.organisation, page=1)
        if found.refusal:
            return told, None
        if name == "status":
            return told, await asyncio.to_thread(home.running, found)
        return "", await asyncio.to_thread(home.draw, found)
