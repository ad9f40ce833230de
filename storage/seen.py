"""Event keys that were taken in: a platform delivers an event more than once."""

from __future__ import annotations

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import seen

KEEP_SECONDS = 7 * 24 * 3600.0  # Slack's delayed events come for a day (platforms/slack.md 1.4)


async def first_time(tx: Tx, keys: tuple[str, ...], now: float) -> bool:
    """Claims all keys of an event; False when any was claimed before."""
    fresh = True
    for key in sorted(keys):  # one order, so that two deliveries of one event do not deadlock
        fresh = await tx.insert_new(seen, key=key, created_at=now) and fresh
    return fresh


async def forget(tx: Tx, now: float) -> int:
    return await tx.change(sa.delete(seen).where(seen.c.created_at < now - KEEP_SECONDS))
