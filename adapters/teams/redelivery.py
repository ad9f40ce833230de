"""Messages that Teams sends again under another id, because our answer came late or not at all
(platforms/teams.md 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from adapters.teams import limits
from bot.clock import Clock

_MOST: Final = 10_000


@dataclass(slots=True)
class _First:
    keys: tuple[str, ...]
    begun_at: float
    ended_at: float | None = None


class Redeliveries:
    """What may come again. The same words said twice are two messages, unless the first was not
    answered in time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first: dict[tuple[str, ...], _First] = {}

    def begin(self, content: tuple[str, ...], keys: tuple[str, ...]) -> tuple[str, ...]:
        """The keys of a message, with those under which the same one may have been taken in."""
        first = self._first.get(content)
        now = self._clock.now()
        if first is not None and now - (first.ended_at or now) < limits.AGAIN_SECONDS:
            return tuple(dict.fromkeys((*keys, *first.keys)))
        if len(self._first) >= _MOST:
            self._first.clear()
        self._first[content] = _First(keys, now)
        return keys

    def end(self, content: tuple[str, ...], *, answered: bool) -> None:
        """It was answered; or not, so that it comes again."""
        first = self._first.get(content)
        if first is None:
            return
        now = self._clock.now()
        if answered and first.ended_at is None and now - first.begun_at < limits.SLOW_SECONDS:
            del self._first[content]
        else:
            first.ended_at = now
