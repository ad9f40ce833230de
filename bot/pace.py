"""The pace of posts: a surface takes a burst in a channel, then one every interval. Pure."""

from __future__ import annotations

from dataclasses import replace

from bot.surface import Pace
from storage.paces import PaceRow


def fresh(channel: str, pace: Pace, now: float) -> PaceRow:
    """Of a channel in which nothing was posted yet."""
    return PaceRow(channel, float(pace.burst), now, 0.0)


def ready_at(row: PaceRow, pace: Pace, now: float) -> float:
    """When the next post may go out (unix seconds)."""
    missing = max(0.0, 1.0 - _in_hand(row, pace, now))
    return max(now + missing * pace.interval, row.quiet_until)


def spent(row: PaceRow, pace: Pace, now: float) -> PaceRow:
    """After one post."""
    return replace(row, in_hand=_in_hand(row, pace, now) - 1.0, as_of=now)


def quiet(row: PaceRow, until: float) -> PaceRow:
    """After the surface asked to wait."""
    return replace(row, quiet_until=max(row.quiet_until, until))


def _in_hand(row: PaceRow, pace: Pace, now: float) -> float:
    if pace.interval <= 0:
        return float(pace.burst)
    earned = max(0.0, now - row.as_of) / pace.interval
    return min(float(pace.burst), row.in_hand + earned)
