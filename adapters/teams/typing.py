"""“Is typing” while a chat is at work: Teams shows it for a few seconds, so that it is repeated."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from adapters.teams import limits
from adapters.teams.delivery import Delivery
from bot.clock import Clock
from bot.surface import DeliveryError, Place, Status

log = logging.getLogger(__name__)

_PAUSE: Final = limits.TYPING_SECONDS


class Typing:
    """One task per chat that is at work."""

    def __init__(self, delivery: Delivery, clock: Clock) -> None:
        self._delivery = delivery
        self._clock = clock
        self._tasks: dict[Place, asyncio.Task[None]] = {}

    def show(self, place: Place, status: Status) -> None:
        task = self._tasks.get(place)
        if status is not Status.PROCESSING:
            if task is not None:
                task.cancel()
        elif task is None or task.done():
            started = asyncio.get_running_loop().create_task(self._type(place))
            self._tasks[place] = started
            started.add_done_callback(lambda ended: self._ended(place, ended))

    async def stop(self) -> None:
        running = list(self._tasks.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _type(self, place: Place) -> None:
        with contextlib.suppress(DeliveryError):  # it is only shown; what counts is sent again
            for _ in range(limits.TYPING_TIMES):
                await self._delivery.typing(place)
                await self._clock.sleep(_PAUSE)

    def _ended(self, place: Place, task: asyncio.Task[None]) -> None:
        if self._tasks.get(place) is task:
            del self._tasks[place]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Typing was not shown: %s", type(error).__name__, exc_info=error)
