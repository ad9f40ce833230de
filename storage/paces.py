"""How fast a channel may still be posted to: one row each, so that the pace is that of the whole
program, whichever replica posts."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import paces


@dataclass(frozen=True, slots=True)
class PaceRow:
    """`in_hand` posts as of `as_of`; none at all before `quiet_until` (unix seconds)."""

    channel: str
    in_hand: float
    as_of: float
    quiet_until: float


async def get(tx: Tx, channel: str) -> PaceRow | None:
    return await tx.first(sa.select(paces).where(paces.c.channel == channel), PaceRow)


async def put(tx: Tx, row: PaceRow) -> None:
    values = asdict(row)
    if not await tx.insert_new(paces, **values):
        await tx.change(sa.update(paces).where(paces.c.channel == row.channel).values(values))
