"""The one clock; tests inject one that they move."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Unix seconds."""

    async def sleep(self, seconds: float) -> None: ...


class WallClock:
    """The real time."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
