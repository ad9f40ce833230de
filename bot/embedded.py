"""The embedded engine: one process, a small table in the bot's own database, zero services."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Coroutine, Mapping
from typing import Any

import structlog

from bot.clock import Clock
from bot.core import Job
from bot.jobs import GRACE_SECONDS, SWEEP_SECONDS, Handler, backoff, sweep
from storage import chats, outbox, wakes
from storage.database import Database, DatabaseUnavailable, Tx
from storage.wakes import WakeRow

log = structlog.get_logger(__name__)

LEASE_SECONDS = 60.0
RENEW_SECONDS = 20.0
POLL_SECONDS = 5.0  # a wake of this process rings the bell; this is for the others'


class EmbeddedEngine:
    """The default. Implements `bot.jobs.Engine`."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        *,
        slots: int = 100,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self.db = db
        self.clock = clock
        self.slots = slots
        self.poll_seconds = poll_seconds  # how late a wake of another process may be seen
        self._bell = asyncio.Event()
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def wake(self, tx: Tx, job: Job, key: str, *, at: float | None = None) -> None:
        """Makes (job, key) due when `tx` commits; nothing if it rolls back. The rows are written
        at its end and in one order, so that no two transactions wait for each other's."""
        due = self.clock.now() if at is None else at
        if not tx.woken:
            tx.before_commit(lambda: _wake_all(tx))
            tx.after_commit(self._bell.set)
        tx.woken[job, key] = min(due, tx.woken.get((job, key), due))

    async def recover(self) -> None:
        """At the start: this process is the only one, so whatever is held is held by the dead."""
        async with self.db.transaction("recover") as tx:
            await chats.release_all(tx)
            await outbox.release_all(tx)
            await wakes.release_all(tx)
            await outbox.revive(tx, now=self.clock.now())
            for channel in await outbox.channels_waiting(tx):
                await self.wake(tx, Job.DELIVER, channel)

    async def run(self, handlers: Mapping[Job, Handler]) -> None:
        """Runs until cancelled; then lets what runs finish within the grace, and cancels it."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renew())
                group.create_task(self._sweep())
                group.create_task(self._rounds(handlers))
        finally:
            await self._drain()

    async def settle(self, handlers: Mapping[Job, Handler]) -> None:
        """Runs what is due until nothing is: for programs and tests without a running engine."""
        while True:
            idle = not self._running  # looked at first: what ends meanwhile may wake more
            if not await self._start_due(handlers) and idle:
                return
            if self._running:
                await asyncio.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)

    async def _rounds(self, handlers: Mapping[Job, Handler]) -> None:
        while True:
            self._bell.clear()
            await self._round(handlers)

    async def _round(self, handlers: Mapping[Job, Handler]) -> None:
        wait = self.poll_seconds
        try:
            started = await _whole(self._start_due(handlers))
            if len(self._running) < self.slots:  # else the end of one rings the bell
                if started:
                    return
                async with self.db.read() as tx:
                    due = await wakes.next_due(tx, self.clock.now())
                if due is not None:
                    wait = min(wait, due - self.clock.now())
        except DatabaseUnavailable:
            log.warning("the database does not answer; the engine waits")
        if wait > 0:
            ring = asyncio.create_task(self._bell.wait())
            timer = asyncio.create_task(self.clock.sleep(wait))
            await _first(ring, timer)

    async def _start_due(self, handlers: Mapping[Job, Handler]) -> int:
        room = self.slots - len(self._running)
        if room <= 0:
            return 0
        now = self.clock.now()
        async with self.db.transaction("claim_work") as tx:
            rows = await wakes.claim(tx, now=now, until=now + LEASE_SECONDS, limit=min(room, 50))
        for row in rows:
            key = (row.job, row.key)
            task = asyncio.create_task(self._one(handlers[Job(row.job)], row))
            self._running[key] = task
            task.add_done_callback(functools.partial(self._ended, key))
        return len(rows)

    def _ended(self, key: tuple[str, str], _task: asyncio.Task[None]) -> None:
        self._running.pop(key, None)
        self._bell.set()

    async def _one(self, handler: Handler, row: WakeRow) -> None:
        try:
            again_at = await handler(row.key)
        except Exception:
            log.exception("work failed; it is tried again", job=row.job, key=row.key)
            again_at = self.clock.now() + backoff(row.tries)
            await self._insist("postpone_work", row, again_at, failed=True)
        else:
            await self._insist("finish_work", row, again_at, failed=False)

    async def _insist(self, name: str, row: WakeRow, at: float | None, *, failed: bool) -> None:
        """Lets go of the row; while the database is away, the lease does it in the end."""
        with contextlib.suppress(DatabaseUnavailable):
            async with self.db.transaction(name) as tx:
                if failed:
                    now = self.clock.now()
                    await wakes.fail(tx, row, again_at=now if at is None else at, now=now)
                else:
                    await wakes.finish(tx, row, again_at=at, now=self.clock.now())

    async def _renew(self) -> None:
        while True:
            await self.clock.sleep(RENEW_SECONDS)
            with contextlib.suppress(DatabaseUnavailable):
                async with self.db.transaction("renew_work") as tx:
                    await wakes.renew(tx, list(self._running), self.clock.now() + LEASE_SECONDS)

    async def _sweep(self) -> None:
        while True:
            await self.clock.sleep(SWEEP_SECONDS)
            with contextlib.suppress(DatabaseUnavailable):
                async with self.db.transaction("sweep") as tx:
                    await sweep(tx, self.wake, self.clock)

    async def _drain(self) -> None:
        tasks = list(self._running.values())
        if not tasks:
            return
        _done, late = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _wake_all(tx: Tx) -> None:
    for (job, key), due in sorted(tx.woken.items()):
        await wakes.wake(tx, job, key, due)


async def _first(*tasks: asyncio.Task[object]) -> None:
    """Waits for one of the tasks and cancels the others."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _whole(work: Coroutine[Any, Any, int]) -> int:
    """Lets a transaction end before it is cancelled: on SQLite one that is cut off keeps its lock
    for seconds, and what runs could not be recorded."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
