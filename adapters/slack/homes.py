"""Shows people their home page: when they open or turn it, press something on it, or when something
settles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from adapters.slack import home
from adapters.slack.delivery import Delivery
from adapters.slack.events import Person
from adapters.slack.people import People, Unknown
from bot.background import Background
from bot.clock import Clock
from bot.surface import DeliveryError, Entry

log = logging.getLogger(__name__)

_NOTICE_SECONDS: Final = 60.0
_UNKNOWN: Final = "Slack did not say who you are just now: please open this page again."
_BROKEN: Final = "Something went wrong here: please open this page again."


class Homes:
    """The home pages of one workspace, `organisation`.

    One page is read and published at a time for a person, so that an older look at the rows never
    comes to stand over a newer one."""

    def __init__(
        self,
        entry: Entry,
        delivery: Delivery,
        people: People,
        clock: Clock,
        background: Background,
        organisation: str,
    ) -> None:
        self._entry = entry
        self._delivery = delivery
        self._people = people
        self._clock = clock
        self._background = background
        self._organisation = organisation
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}  # by person: how many want it
        self._notices: dict[str, tuple[str, float]] = {}  # by person: a sentence, and until when

    def open(self, person: Person, page: int = 1, *, notice: str = "") -> None:
        """Shows a page to somebody who looks at it; returns at once. `notice` is for them to read
        at its top, also if it is drawn anew soon."""
        self._background.start(self._opened(person, page, notice))

    async def show(self, user: str) -> None:
        """Draws the page that this person has open anew. Raises DeliveryError."""
        try:
            async with self._turn(user):
                await self._publish(Person(user), None)
        except Unknown as unknown:
            if not unknown.gone:
                raise DeliveryError(str(unknown)) from None
            log.warning("A home page was not shown: %s", unknown)

    async def _opened(self, person: Person, page: int, notice: str) -> None:
        async with self._turn(person.user):
            self._notices.pop(person.user, None)
            if notice:
                until = self._clock.now() + _NOTICE_SECONDS
                self._notices[person.user] = (notice, until)
            try:
                await self._publish(person, page)
            except DeliveryError as error:
                log.warning("A home page was not shown: %s", error)
            except Unknown as unknown:
                log.warning("A home page was refused: %s", unknown)
                await self._say(person, _UNKNOWN)
            except Exception:
                log.exception("A home page failed.")
                await self._say(person, _BROKEN)

    async def _publish(self, person: Person, page: int | None) -> None:
        actor = await self._people.actor(person)
        shown = await self._entry.home(actor, self._organisation, page)
        view = home.view(shown, self._notice(person.user))
        await self._delivery.publish(person.user, view, home.saying(home.REFUSED))

    async def _say(self, person: Person, sentence: str) -> None:
        try:
            view = home.saying(sentence)
            await self._delivery.publish(person.user, view, view)
        except DeliveryError as error:
            log.warning("A home page was not shown: %s", error)

    def _notice(self, user: str) -> str:
        notice, until = self._notices.get(user, ("", 0.0))
        if self._clock.now() < until:
            return notice
        self._notices.pop(user, None)
        return ""

    @asynccontextmanager
    async def _turn(self, user: str) -> AsyncIterator[None]:
        lock, wanting = self._turns.get(user, (asyncio.Lock(), 0))
        self._turns[user] = (lock, wanting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, wanting = self._turns.pop(user)
            if wanting > 1:
                self._turns[user] = (lock, wanting - 1)
