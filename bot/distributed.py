"""The engine for several replicas: Procrastinate on PostgreSQL (platforms/jobs.md, b).

A wake is a job of Procrastinate's in our own transaction; a wake for later is a row of `wakes`, as
with the embedded engine, and becomes a job when its time has come: a job for later would keep
others of its lock waiting (3.10, issue 1599) and slow every fetch down. Locks serialise a key,
queueing locks merge wakes. Everything else of Procrastinate's (retries, schedules, periodic tasks)
is not used."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

import procrastinate
import structlog
from procrastinate import exceptions as failures
from procrastinate.jobs import Job as Queued
from procrastinate.jobs import Status
from procrastinate.worker import Worker

from bot.clock import Clock
from bot.core import Job
from bot.jobs import GRACE_SECONDS, SWEEP_SECONDS, Handler, backoff, sweep
from storage import chats, outbox, wakes
from storage.database import Database, DatabaseUnavailable, Tx

log = structlog.get_logger(__name__)

QUEUE: Final = "interlock"
TICK_SECONDS: Final = 0.5  # how late a timer may be, and a wake whose notification was lost
BEAT_SECONDS: Final = 2.0
DEAD_SECONDS: Final = 8.0  # without a beat; what the worker ran is run by another then
RESTART_SECONDS: Final = 1.0
SOON_SECONDS: Final = 0.05  # a wake for then is one for now
_TIMERS: Final = 500  # that one tick makes jobs of


class DistributedEngine:
    """Implements `bot.jobs.Engine`, in each of several processes."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        *,
        slots: int = 100,
        beat_seconds: float = BEAT_SECONDS,
        dead_seconds: float = DEAD_SECONDS,
    ) -> None:
        self.db = db
        self.clock = clock
        self.slots = slots
        self.beat_seconds = beat_seconds
        self.dead_seconds = dead_seconds
        self._handlers: Mapping[Job, Handler] = {}
        self._app = procrastinate.App(connector=_connector(db))
        self._task = self._app.task(name="work", queue=QUEUE)(self._run)
        self._next_sweep = 0.0

    async def wake(self, tx: Tx, job: Job, key: str, *, at: float | None = None) -> None:
        due = self.clock.now() if at is None else at
        if not tx.woken:
            tx.before_commit(lambda: self._wake_all(tx))
        tx.woken[job, key] = min(due, tx.woken.get((job, key), due))

    async def _wake_all(self, tx: Tx) -> None:
        soon = self.clock.now() + SOON_SECONDS
        for (job, key), due in sorted(tx.woken.items()):
            if due > soon:
                await wakes.wake(tx, job, key, due)
            else:
                await self._enqueue(tx, job, key)

    async def _enqueue(self, tx: Tx, job: str, key: str, tries: int = 0) -> None:
        lock = f"{job}:{key}"
        raw = (await tx.connection.get_raw_connection()).driver_connection
        enqueue = self._task.configure(lock=lock, queueing_lock=lock, connection=raw)
        # 3.10 says that it is queued already by a failed statement, which would abort `tx`.
        with contextlib.suppress(failures.AlreadyEnqueued):
            async with tx.connection.begin_nested():
                await enqueue.defer_async(job=job, key=key, tries=tries)

    async def recover(self) -> None:
        """What was given up while nothing ran is tried again. What dead processes held is found by
        their missing beats: others may be at work."""
        async with self.db.transaction("recover") as tx:
            await outbox.revive(tx, now=self.clock.now())
            for channel in await outbox.channels_waiting(tx):
                await self.wake(tx, Job.DELIVER, channel)

    async def run(self, handlers: Mapping[Job, Handler]) -> None:
        """A database that went away takes the worker with it, and a new one begins: 3.10 does not
        listen again after PostgreSQL was restarted, and would be as slow as its polling from then
        on."""
        self._handlers = handlers
        while True:
            try:
                async with self._app.open_async(), asyncio.TaskGroup() as group:
                    group.create_task(self._ticks())
                    group.create_task(self._work())
            except* Exception as gone:
                log.warning("the engine starts anew", errors=[repr(one) for one in gone.exceptions])
            await asyncio.sleep(RESTART_SECONDS)

    async def _work(self) -> None:
        worker = Worker(
            self._app,
            queues=[QUEUE],
            concurrency=self.slots,
            fetch_job_polling_interval=TICK_SECONDS,
            stalled_worker_timeout=self.dead_seconds,
            shutdown_graceful_timeout=GRACE_SECONDS,
            delete_jobs="always",
            install_signal_handlers=False,
        )
        beats = asyncio.create_task(self._beats(worker))
        try:
            await worker.run()  # type: ignore[no-untyped-call]
        finally:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)

    async def _beats(self, worker: Worker) -> None:
        """Our own, since 3.10 has none while it lets what runs finish: another replica would take
        that for dead."""
        while True:
            await asyncio.sleep(self.beat_seconds)
            if worker.worker_id is not None:
                with contextlib.suppress(failures.ConnectorException):
                    await self._app.job_manager.update_heartbeat(worker.worker_id)

    async def _run(self, job: str, key: str, tries: int = 0) -> None:
        """A job: what a handler returns or raises is a wake for later."""
        try:
            again_at = await self._handlers[Job(job)](key)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._hand_over(job, key)))
            raise
        except Exception:
            log.exception("work failed; it is tried again", job=job, key=key)
            tries += 1
            again_at = self.clock.now() + backoff(tries)
        else:
            tries = 0
        if again_at is not None:
            async with self.db.transaction("finish_work") as tx:
                await wakes.wake(tx, job, key, again_at, tries=tries)

    async def _hand_over(self, job: str, key: str) -> None:
        """The process is told to go and the grace is over: another one goes on at once."""
        with contextlib.suppress(DatabaseUnavailable):
            async with self.db.transaction("hand_over") as tx:
                await self._release(tx, job, key)
                await self.wake(tx, Job(job), key)

    async def _ticks(self) -> None:
        while True:
            await self._tick()
            await asyncio.sleep(TICK_SECONDS)

    async def _tick(self) -> None:
        """Timers whose time has come, and what workers without a beat were running."""
        stalled: list[Queued] = []
        async with self.db.transaction("tick") as tx:
            if not await wakes.only_sweeper(tx):
                return
            for row in await wakes.take_due(tx, now=self.clock.now(), limit=_TIMERS):
                await self._enqueue(tx, row.job, row.key, row.tries)
            if self.clock.now() >= self._next_sweep:
                self._next_sweep = self.clock.now() + SWEEP_SECONDS
                await sweep(tx, self.wake, self.clock)
            stalled += await self._app.job_manager.get_stalled_jobs(
                seconds_since_heartbeat=self.dead_seconds
            )
            for one in stalled:
                job, key = str(one.task_kwargs["job"]), str(one.task_kwargs["key"])
                log.warning("a worker is dead; its work is run again", job=job, key=key)
                await self._release(tx, job, key)
        for one in stalled:
            await self._queue_again(one)

    async def _queue_again(self, one: Queued) -> None:
        try:
            await self._app.job_manager.retry_job(one)
        except failures.UniqueViolation:
            # It was woken since, and the one that waits does for both. Left alone, it would keep
            # 3.10 from ever retrying any stalled job.
            await self._app.job_manager.finish_job(one, Status.FAILED, delete_job=True)

    async def _release(self, tx: Tx, job: str, key: str) -> None:
        """Lets others at what the runner of a key held; its epoch fences it off should it live."""
        match Job(job):
            case Job.CHAT:
                await chats.release_from(tx, key)
            case Job.DELIVER:
                await outbox.release_from(tx, key)
            case Job.TASK | Job.DUE:
                pass


async def prepare(db: Database) -> None:
    """Makes Procrastinate's tables where there are none."""
    app = procrastinate.App(connector=_connector(db))
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()


async def is_prepared(db: Database) -> bool:
    """Whether Procrastinate has its tables."""
    app = procrastinate.App(connector=_connector(db))
    async with app.open_async():
        return await app.check_connection_async()


def _connector(db: Database) -> procrastinate.PsycopgConnector:
    address, options = db.libpq()
    connector: procrastinate.PsycopgConnector = procrastinate.PsycopgConnector(
        conninfo=address, kwargs=options, min_size=1, max_size=4
    )
    return connector
