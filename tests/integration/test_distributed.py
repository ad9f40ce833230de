"""The distributed engine: what holds for the embedded one holds across processes on PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa

from bot.core import Job
from bot.distributed import DistributedEngine, prepare
from bot.jobs import Handler
from storage import schema
from storage.database import Database
from tests.fakes.clock import WallClock


@dataclass
class Replica:
    """An engine whose handlers write down what they ran; several share one database."""

    db: Database
    ran: list[str] = field(default_factory=list)
    then: Callable[[str], float | None] = lambda key: None
    work: Callable[[str], object] | None = None

    def __post_init__(self) -> None:
        self.engine = DistributedEngine(self.db, WallClock(), beat_seconds=0.2, dead_seconds=1.0)

    async def _handle(self, key: str) -> float | None:
        self.ran.append(key)
        return self.then(key)

    @property
    def handlers(self) -> dict[Job, Handler]:
        return dict.fromkeys(Job, self._handle)

    async def wake(self, key: str, job: Job = Job.CHAT, *, after: float | None = None) -> None:
        at = None if after is None else time.time() + after
        async with self.db.transaction("test_wake") as tx:
            await self.engine.wake(tx, job, key, at=at)

    async def waits(self) -> int:
        async with self.db.read() as tx:
            queued = await tx.value(sa.text("SELECT count(*) FROM procrastinate_jobs"))
            timed = await tx.value(sa.select(sa.func.count()).select_from(schema.wakes))
            return int(queued) + int(timed)

    @contextlib.asynccontextmanager
    async def serving(self, handler: Handler | None = None) -> AsyncIterator[None]:
        handlers = self.handlers if handler is None else dict.fromkeys(Job, handler)
        process = asyncio.create_task(self.engine.run(handlers))
        try:
            yield
        finally:
            process.cancel()
            await asyncio.gather(process, return_exceptions=True)


@pytest.fixture
async def replica(postgres_db: Database) -> Replica:
    await prepare(postgres_db)
    return Replica(postgres_db)


async def until(found: Callable[[], object], seconds: float = 8.0) -> None:
    async with asyncio.timeout(seconds):
        while not found():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_was_woken_runs_at_once_and_leaves_nothing_behind(replica: Replica) -> None:
    await replica.wake("a")
    await replica.wake("a")
    await replica.wake("a", Job.DELIVER)
    async with replica.serving():
        await until(lambda: len(replica.ran) == 2)
        began = time.monotonic()
        await replica.wake("b")
        await until(lambda: "b" in replica.ran)
        assert time.monotonic() - began < 0.3  # by a notification, not by polling
        async with asyncio.timeout(3):
            while await replica.waits():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert replica.ran == ["a", "a", "b"]


async def test_a_wake_whose_transaction_rolls_back_never_was(replica: Replica) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with replica.db.transaction("fails") as tx:
            await replica.engine.wake(tx, Job.CHAT, "a")
            await replica.engine.wake(tx, Job.CHAT, "b", at=time.time() + 60)
            raise ZeroDivisionError
    assert await replica.waits() == 0


async def test_a_wake_that_waits_already_does_not_spoil_the_transaction(replica: Replica) -> None:
    await replica.wake("a")
    async with replica.db.transaction("again") as tx:
        await replica.engine.wake(tx, Job.CHAT, "a")
        await replica.engine.wake(tx, Job.CHAT, "b")
    assert await replica.waits() == 2


async def test_a_key_runs_once_at_a_time_wherever_and_a_wake_meanwhile_makes_one_more_run(
    replica: Replica,
) -> None:
    other = Replica(Database(str(replica.db.url.render_as_string(hide_password=False))))
    at_work = most = runs = 0

    async def handle(key: str) -> None:
        nonlocal at_work, most, runs
        runs += 1
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.1)
        at_work -= 1

    async with replica.serving(handle), other.serving(handle):
        await replica.wake("a")
        await until(lambda: at_work == 1)
        for _ in range(10):
            await other.wake("a")
        await until(lambda: runs == 2)
        await asyncio.sleep(0.3)
    await other.db.close()
    assert (runs, most) == (2, 1)


async def test_a_timer_runs_when_its_time_has_come_and_the_earlier_of_two_counts(
    replica: Replica,
) -> None:
    await replica.wake("a", after=60)
    await replica.wake("a", after=0.6)
    async with replica.serving():
        began = time.monotonic()
        await asyncio.sleep(0.4)
        assert replica.ran == []
        await until(lambda: replica.ran == ["a"])
        assert time.monotonic() - began < 2.0
    assert await replica.waits() == 0


async def test_what_fails_is_run_again_after_growing_waits_and_holds_nobody_up(
    replica: Replica,
) -> None:
    at: list[float] = []

    async def handle(key: str) -> None:
        if key == "bad":
            at.append(time.monotonic())
            raise ZeroDivisionError
        replica.ran.append(key)

    await replica.wake("bad")
    await replica.wake("good")
    async with replica.serving(handle):
        await until(lambda: len(at) == 3, 12)
    assert replica.ran == ["good"]
    first, second = at[1] - at[0], at[2] - at[1]
    assert 1.5 < first < second


async def test_work_of_a_worker_without_a_beat_is_run_by_another_though_it_was_woken_since(
    replica: Replica,
) -> None:
    """The poison: a stalled job whose key waits in the queue as well."""
    async with replica.db.transaction("dead") as tx:
        await tx.run(
            sa.text(
                "INSERT INTO procrastinate_workers (last_heartbeat)"
                " VALUES (now() - interval '1 hour')"
            )
        )
    for key in ("a", "b"):
        await replica.wake(key)
    async with replica.db.transaction("dead") as tx:
        await tx.run(
            sa.text(
                "UPDATE procrastinate_jobs SET status = 'doing', worker_id ="
                " (SELECT max(id) FROM procrastinate_workers)"
            )
        )
    await replica.wake("a")
    async with replica.serving():
        await until(lambda: sorted(replica.ran) == ["a", "b"])
        await asyncio.sleep(0.6)
    assert sorted(replica.ran) == ["a", "b"]
    assert await replica.waits() == 0


async def test_a_stopping_engine_lets_what_runs_finish_and_is_not_taken_for_dead(
    replica: Replica,
) -> None:
    other = Replica(Database(str(replica.db.url.render_as_string(hide_password=False))))
    ended: list[str] = []

    async def work(key: str) -> None:
        replica.ran.append(key)
        await asyncio.sleep(2.5)  # much longer than without a beat
        ended.append(key)

    await replica.wake("a")
    async with contextlib.AsyncExitStack() as first:
        await first.enter_async_context(replica.serving(work))
        await until(lambda: bool(replica.ran))
        async with other.serving():
            await first.aclose()
    await other.db.close()
    assert (replica.ran, ended, other.ran) == (["a"], ["a"], [])


async def test_what_does_not_end_within_the_grace_is_handed_over(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.distributed.GRACE_SECONDS", 0.1)
    other = Replica(Database(str(replica.db.url.render_as_string(hide_password=False))))

    async def work(key: str) -> None:
        replica.ran.append(key)
        await asyncio.sleep(60)

    await replica.wake("a")
    async with replica.serving(work):
        await until(lambda: bool(replica.ran))
    async with other.serving():
        await until(lambda: other.ran == ["a"])
    await other.db.close()


async def test_the_engine_listens_again_after_the_database_was_gone(replica: Replica) -> None:
    async with replica.serving():
        await replica.wake("a")
        await until(lambda: "a" in replica.ran)
        async with replica.db.transaction("restart") as tx:
            await tx.run(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        await asyncio.sleep(3)
        began = time.monotonic()
        await replica.wake("b")
        await until(lambda: "b" in replica.ran)
        assert time.monotonic() - began < 0.3
