"""The two clocks that tests inject: one that only moves when told, and the real one."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from. Unix seconds."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class FakeClock:
    """A clock that stands still until a test moves it. Sleepers wake in the order of their time."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move time on and wake everyone whose time has come."""
        self._now += seconds
        due = sorted((s for s in self._sleepers if s[0] <= self._now), key=lambda s: s[0])
        self._sleepers = [s for s in self._sleepers if s[0] > self._now]
        for _, woken in due:
            if not woken.done():
                woken.set_result(None)

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved on by this much."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + seconds, woken))
        await woken


class WallClock:
    """The real clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
