"""Work that outlives the answer a platform waits for: held, watched, waited for at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")


class Background:
    """Running tasks. The loop itself keeps only weak references to them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, seconds: float) -> None:
        """Waits for what runs, then cancels what is left."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        left = set(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Work after an answer failed: %s", type(error).__name__, exc_info=error)
