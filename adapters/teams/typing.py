"""“Is typing” while a chat is at work: Teams shows it for a few seconds, so that it is repeated."""

from __future__ import annotations

import asyncio
import logging

from adapters.teams import limits
from adapters.teams.delivery import Delivery
from bot.clock import Clock
from bot.surface import DeliveryError, Place, Status

log = logging.getLogger(__name__)


class Typing:
    """One task per chat that is at work."""

    def __init__(self, delivery: Delivery, clock: Clock) -> None:
        self._delivery = delivery
        self._clock = clock
        self._stops: dict[Place, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False

    def show(self, place: Place, status: Status) -> None:
        if status is not Status.PROCESSING:
            if (stop := self._stops.pop(place, None)) is not None:
                stop.set()
        elif place not in self._stops and not self._over:
            stop = self._stops[place] = asyncio.Event()
            task = asyncio.get_running_loop().create_task(self._type(place, stop))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Nothing is cancelled half-way: a statement that is cut off could keep its lock."""
        self._over = True
        for stop in self._stops.values():
            stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _type(self, place: Place, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        try:
            for _ in range(limits.TYPING_TIMES):
                await self._delivery.typing(place)
                pause = asyncio.create_task(self._clock.sleep(limits.TYPING_SECONDS))
                await asyncio.wait({pause, stopped}, return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
                if stop.is_set():
                    return
        except DeliveryError as error:  # it is only shown; what counts is sent again
            log.info("Typing was not shown: %s", error)
        finally:
            stopped.cancel()
            if self._stops.get(place) is stop:
                del self._stops[place]

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Typing was not shown: %s", type(error).__name__, exc_info=error)
