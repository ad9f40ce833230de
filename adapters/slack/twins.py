"""The two events of one mention: `app_mention`, which may lack the files, and `message`, which has
them (hermes-agent#77141). They come in any order, and the first that is taken in counts."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

SECONDS: Final = 0.7  # of the three that Slack waits for an answer
_MOST: Final = 1_000


class Twins:
    """Lets an `app_mention` wait for its twin. Where none comes, because the bot is no member of
    the channel or another process got it, it goes on by itself."""

    def __init__(self) -> None:
        self._taken: dict[str, asyncio.Event] = {}

    async def wait(self, key: str) -> None:
        """Until the message of this key was taken in."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                await self._of(key).wait()

    def taken(self, key: str) -> None:
        self._of(key).set()

    def _of(self, key: str) -> asyncio.Event:
        if key not in self._taken and len(self._taken) >= _MOST:
            del self._taken[next(iter(self._taken))]
        return self._taken.setdefault(key, asyncio.Event())
