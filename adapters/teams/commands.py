"""Commands that are said to the bot, as `@bot status`. Every answer is for the person alone."""

from __future__ import annotations

import logging
from typing import Final

from adapters.teams.delivery import Delivery
from adapters.teams.events import Heard
from adapters.teams.people import People, Unknown
from bot.surface import Command, DeliveryError, Entry

log = logging.getLogger(__name__)

_UNKNOWN: Final = "Teams did not say who you are just now: please try again."
_BROKEN: Final = "Something went wrong here: please try again."


class Commands:
    """Everything people ask with a command."""

    def __init__(self, entry: Entry, delivery: Delivery, people: People) -> None:
        self._entry = entry
        self._delivery = delivery
        self._people = people

    async def answer(self, heard: Heard, name: str, argument: str) -> None:
        """Answers, whatever happens: nobody who asked is left without one."""
        try:
            actor = await self._people.actor(heard.person, heard.conversation)
            command = Command(
                name=name, argument=argument, actor=actor, place=heard.place, keys=heard.keys
            )
            told = await self._entry.command(command)
        except Unknown as unknown:
            log.warning("A command was refused: %s", unknown)
            told = _UNKNOWN
        except Exception:
            log.exception("A command failed.")
            told = _BROKEN
        if not told:
            return
        try:
            await self._delivery.whisper(heard.place, heard.person.user, told, markdown=True)
        except DeliveryError as error:
            log.warning("The answer to a command did not go out: %s", error)
