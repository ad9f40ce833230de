"""Wakes of the embedded engine, and timers of the distributed one: one row per (job, key).

The key removes doubles, the lease excludes, `seq` marks "woken while running", `due_at` is timer
and backoff (design: Jobs, embedded).
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import wakes

_SWEEPER = 7_240_001


@dataclass(frozen=True, slots=True)
class WakeRow:
    job: str
    key: str
    due_at: float
    seq: int
    tries: int


def _is(job: str, key: str) -> sa.ColumnElement[bool]:
    return sa.and_(wakes.c.job == job, wakes.c.key == key)


async def wake(tx: Tx, job: str, key: str, at: float, *, tries: int = 0) -> None:
    """Due at `at` or earlier; during a run it makes one more run."""
    sooner = sa.case((wakes.c.due_at < at, wakes.c.due_at), else_=at)
    again = sa.update(wakes).where(_is(job, key)).values(due_at=sooner, seq=wakes.c.seq + 1)
    new = {"job": job, "key": key, "due_at": at, "seq": 1, "lease_until": 0.0, "tries": tries}
    # PostgreSQL: a run that ends between the two takes its row away, and the wake with it.
    while not (await tx.insert_new(wakes, **new) or await tx.change(again)):
        pass


async def claim(tx: Tx, *, now: float, until: float, limit: int) -> list[WakeRow]:
    """Up to `limit` due wakes that nobody runs, leased until `until`."""
    found = await tx.rows(
        sa.select(wakes)
        .where(wakes.c.due_at <= now, wakes.c.lease_until <= now)
        .order_by(wakes.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True),
        WakeRow,
    )
    for row in found:
        await tx.change(
            sa.update(wakes)
            .where(_is(row.job, row.key))
            .values(lease_until=until, tries=row.tries + 1)
        )
    return found


async def renew(tx: Tx, running: list[tuple[str, str]], until: float) -> None:
    for job, key in sorted(running):
        await tx.change(sa.update(wakes).where(_is(job, key)).values(lease_until=until))


async def finish(tx: Tx, row: WakeRow, *, again_at: float | None, now: float) -> None:
    """Done: the row goes, unless it was woken meanwhile (run again now) or wants a later run."""
    same = sa.and_(_is(row.job, row.key), wakes.c.seq == row.seq)
    if again_at is None and await tx.change(sa.delete(wakes).where(same)):
        return
    if again_at is not None and await tx.change(
        sa.update(wakes).where(same).values(due_at=again_at, lease_until=0.0, tries=0)
    ):
        return
    await tx.change(
        sa.update(wakes).where(_is(row.job, row.key)).values(due_at=now, lease_until=0.0, tries=0)
    )


async def fail(tx: Tx, row: WakeRow, *, again_at: float, now: float) -> None:
    """Tried again later; at once when it was woken during the run that failed."""
    due_at = sa.case((wakes.c.seq == row.seq, again_at), else_=now)
    await tx.change(
        sa.update(wakes).where(_is(row.job, row.key)).values(due_at=due_at, lease_until=0.0)
    )


async def next_due(tx: Tx, now: float) -> float | None:
    due: float | None = await tx.value(
        sa.select(sa.func.min(wakes.c.due_at)).where(wakes.c.lease_until <= now)
    )
    return due


async def take_due(tx: Tx, *, now: float, limit: int) -> list[WakeRow]:
    """Due wakes, which are rows no more: for an engine that runs them elsewhere. It is the only one
    that takes them (`only_sweeper`)."""
    due = sa.select(wakes.c.job, wakes.c.key).where(wakes.c.due_at <= now).limit(limit)
    taken = sa.delete(wakes).where(sa.tuple_(wakes.c.job, wakes.c.key).in_(due)).returning(wakes)
    return sorted(await tx.rows(taken, WakeRow), key=lambda row: (row.job, row.key))


async def only_sweeper(tx: Tx) -> bool:
    """Whether no other replica sweeps now; until this transaction ends, none does (PostgreSQL)."""
    return bool(await tx.value(sa.select(sa.func.pg_try_advisory_xact_lock(_SWEEPER))))


async def release_all(tx: Tx) -> None:
    await tx.run(sa.update(wakes).values(lease_until=0.0))
