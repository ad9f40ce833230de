"""The embedded engine: a wake that was committed runs, once at a time, again after a failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from bot.core import Job
from bot.embedded import LEASE_SECONDS, EmbeddedEngine
from bot.jobs import SWEEP_SECONDS, Handler
from storage import chats, schema, wakes
from storage.database import Database, Tx
from storage.place import Place
from tests.fakes.clock import FakeClock
from tests.fakes.model import call
from tests.world import BEN, effect, only_question, until, world


@dataclass
class Bench:
    """An engine whose handlers write down what they ran."""

    db: Database
    clock: FakeClock = field(default_factory=FakeClock)
    ran: list[str] = field(default_factory=list)
    then: Callable[[str], float | None] = lambda key: None

    def __post_init__(self) -> None:
        self.engine = EmbeddedEngine(self.db, self.clock)

    @property
    def handlers(self) -> dict[Job, Handler]:
        return dict.fromkeys(Job, self._handle)

    async def _handle(self, key: str) -> float | None:
        self.ran.append(key)
        return self.then(key)

    async def wake(self, key: str, job: Job = Job.CHAT, *, after: float | None = None) -> None:
        at = None if after is None else self.clock.now() + after
        async with self.db.transaction("test_wake") as tx:
            await self.engine.wake(tx, job, key, at=at)

    async def settle(self) -> list[str]:
        """What ran since the last look."""
        self.ran.clear()
        await self.engine.settle(self.handlers)
        return list(self.ran)

    async def rows(self) -> int:
        async with self.db.read() as tx:
            return int(await tx.value(sa.select(sa.func.count()).select_from(schema.wakes)))


@pytest.fixture
def bench(db: Database) -> Bench:
    return Bench(db)


async def test_what_was_woken_runs_and_leaves_nothing_behind(bench: Bench) -> None:
    await bench.wake("a")
    await bench.wake("b", Job.DELIVER)

    assert sorted(await bench.settle()) == ["a", "b"]
    assert await bench.settle() == []
    assert await bench.rows() == 0


async def test_a_wake_whose_transaction_rolls_back_never_was(bench: Bench) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with bench.db.transaction("fails") as tx:
            await bench.engine.wake(tx, Job.CHAT, "a")
            raise ZeroDivisionError

    assert await bench.settle() == []
    assert await bench.rows() == 0


async def test_wakes_of_one_key_are_one_run_and_keys_and_jobs_are_apart(bench: Bench) -> None:
    for key in ("a", "a", "b", "a"):
        await bench.wake(key)
    await bench.wake("a", Job.DELIVER)

    assert sorted(await bench.settle()) == ["a", "a", "b"]


async def test_a_wake_during_a_run_makes_one_more_run(bench: Bench) -> None:
    first = True

    async def handle(key: str) -> None:
        nonlocal first
        bench.ran.append(key)
        if first:
            first = False
            for _ in range(3):
                await bench.wake(key)

    await bench.wake("a")
    await bench.engine.settle({Job.CHAT: handle})

    assert bench.ran == ["a", "a"]
    assert await bench.rows() == 0


async def test_a_key_runs_at_most_once_at_a_time(bench: Bench) -> None:
    at_work = 0
    most = 0
    go = asyncio.Event()

    async def handle(key: str) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        bench.ran.append(key)
        await go.wait()
        at_work -= 1

    async with serving(bench.engine, {Job.CHAT: handle}):
        await bench.wake("a")
        await until(lambda: bench.ran == ["a"])
        await bench.wake("a")
        await asyncio.sleep(0.05)
        assert bench.ran == ["a"]
        go.set()
        await until(lambda: bench.ran == ["a", "a"])

    assert most == 1


@contextlib.asynccontextmanager
async def serving(engine: EmbeddedEngine, handlers: dict[Job, Handler]) -> AsyncIterator[None]:
    process = asyncio.create_task(engine.run(handlers))
    try:
        yield
    finally:
        process.cancel()
        await asyncio.gather(process, return_exceptions=True)


async def test_keys_run_beside_each_other(bench: Bench) -> None:
    both = asyncio.Barrier(2)

    async def handle(key: str) -> None:
        async with asyncio.timeout(5):
            await both.wait()
        bench.ran.append(key)

    await bench.wake("a")
    await bench.wake("b")
    await bench.engine.settle({Job.CHAT: handle})

    assert sorted(bench.ran) == ["a", "b"]


async def test_a_later_wake_runs_when_its_time_has_come(bench: Bench) -> None:
    await bench.wake("a", after=10)

    bench.clock.advance(9)
    assert await bench.settle() == []
    bench.clock.advance(1)
    assert await bench.settle() == ["a"]


@pytest.mark.parametrize("order", [(10, 50), (50, 10)])
async def test_of_two_times_the_earlier_one_counts(bench: Bench, order: tuple[int, int]) -> None:
    for after in order:
        await bench.wake("a", after=after)

    bench.clock.advance(10)
    assert await bench.settle() == ["a"]
    bench.clock.advance(50)
    assert await bench.settle() == []


async def test_a_handler_that_wants_to_come_back_is_run_again_then(bench: Bench) -> None:
    again = bench.clock.now() + 30
    bench.then = lambda key: again if bench.clock.now() < again else None
    await bench.wake("a")
    assert await bench.settle() == ["a"]

    bench.clock.advance(29)
    assert await bench.settle() == []
    bench.clock.advance(1)
    assert await bench.settle() == ["a"]
    assert await bench.rows() == 0


async def test_a_wake_comes_before_the_time_a_handler_wanted(bench: Bench) -> None:
    bench.then = lambda key: bench.clock.now() + 3600
    await bench.wake("a")
    await bench.settle()

    await bench.wake("a")

    assert await bench.settle() == ["a"]


async def test_what_fails_is_run_again_after_growing_waits(bench: Bench) -> None:
    def fail(_key: str) -> float | None:
        raise ZeroDivisionError

    bench.then = fail
    await bench.wake("a")
    assert await bench.settle() == ["a"]
    for wait in (1.0, 2.0, 4.0):
        bench.clock.advance(wait - 0.5)
        assert await bench.settle() == []
        bench.clock.advance(0.5)
        assert await bench.settle() == ["a"]

    bench.then = lambda key: None
    bench.clock.advance(8)
    assert await bench.settle() == ["a"]
    assert await bench.rows() == 0


async def test_one_that_fails_does_not_hold_up_the_others(bench: Bench) -> None:
    def fail(key: str) -> float | None:
        if key == "bad":
            raise ZeroDivisionError
        return None

    bench.then = fail
    await bench.wake("bad")
    await bench.wake("good")

    assert sorted(await bench.settle()) == ["bad", "good"]


async def test_work_of_a_dead_process_runs_again_at_the_start_of_the_next(bench: Bench) -> None:
    async def die(_key: str) -> None:
        await asyncio.Event().wait()

    await bench.wake("a")
    dead = asyncio.create_task(bench.engine.settle({Job.CHAT: die}))
    await until(lambda: bool(bench.engine._running))

    after = Bench(bench.db, bench.clock)
    assert await after.settle() == []  # it is leased to the dead one
    await after.engine.recover()

    assert await after.settle() == ["a"]
    assert not dead.done()


async def test_work_of_a_dead_process_runs_again_when_its_lease_is_over(bench: Bench) -> None:
    async def die(_key: str) -> None:
        await asyncio.Event().wait()

    await bench.wake("a")
    dead = asyncio.create_task(bench.engine.settle({Job.CHAT: die}))
    await until(lambda: bool(bench.engine._running))

    after = Bench(bench.db, bench.clock)
    bench.clock.advance(LEASE_SECONDS)

    assert await after.settle() == ["a"]
    assert not dead.done()


async def test_long_work_keeps_its_lease(bench: Bench) -> None:
    go = asyncio.Event()

    async def work(key: str) -> None:
        bench.ran.append(key)
        await go.wait()

    other = Bench(bench.db, bench.clock)
    async with serving(bench.engine, {Job.CHAT: work}):
        await bench.wake("a")
        await until(lambda: bool(bench.ran))
        for _ in range(8):
            bench.clock.advance(LEASE_SECONDS / 4)
            await asyncio.sleep(0.02)
            assert await other.settle() == []
        go.set()


async def test_a_running_engine_hears_a_wake_of_its_process_at_once(bench: Bench) -> None:
    async with serving(bench.engine, bench.handlers):
        await bench.wake("a")
        await until(lambda: bench.ran == ["a"])  # the clock did not move


async def test_the_sweep_finds_a_chat_whose_runner_died_and_one_that_wanted_to_be_woken(
    bench: Bench,
) -> None:
    async with bench.db.transaction("test_chats") as tx:
        for name, owner, lease, wake_at in (
            ("dead", "gone", -1.0, None),
            ("held", "alive", 3600.0, None),
            ("timed", None, 0.0, -1.0),
            ("later", None, 0.0, 3600.0),
            ("idle", None, 0.0, None),
        ):
            now = bench.clock.now() + SWEEP_SECONDS
            await chats.open_at(
                tx,
                Place("slack", "T1", "C1", name),
                chat_id=name,
                agent="agent",
                requester="slack:T1/ANA",
                now=now,
            )
            await tx.change(
                sa.update(schema.chats)
                .where(schema.chats.c.id == name)
                .values(
                    owner=owner,
                    lease_until=now + lease if owner else 0.0,
                    wake_at=None if wake_at is None else now + wake_at,
                )
            )

    async with serving(bench.engine, bench.handlers):
        await asyncio.sleep(0.02)
        bench.clock.advance(SWEEP_SECONDS)
        await until(lambda: len(bench.ran) >= 2)
        await asyncio.sleep(0.05)

    assert sorted(bench.ran) == ["dead", "timed"]


async def test_more_work_than_slots_is_done_in_turn(bench: Bench) -> None:
    bench.engine = EmbeddedEngine(bench.db, bench.clock, slots=2)
    for number in range(7):
        await bench.wake(f"k{number}")

    async with serving(bench.engine, bench.handlers):
        await until(lambda: len(bench.ran) == 7)

    assert sorted(bench.ran) == [f"k{number}" for number in range(7)]


async def test_while_every_slot_is_taken_the_engine_leaves_the_database_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = asyncio.Event()
    looks = 0
    read = bench.db.read

    def counted() -> contextlib.AbstractAsyncContextManager[object]:
        nonlocal looks
        looks += 1
        return read()

    async def work(key: str) -> None:
        bench.ran.append(key)
        await go.wait()

    bench.engine = EmbeddedEngine(bench.db, bench.clock, slots=1)
    await bench.wake("a")
    await bench.wake("b")
    async with serving(bench.engine, {Job.CHAT: work}):
        await until(lambda: bool(bench.ran))
        monkeypatch.setattr(bench.db, "read", counted)
        for _ in range(20):
            bench.clock.advance(0.02)
            await asyncio.sleep(0.005)
        assert looks <= 2
        go.set()
        await until(lambda: len(bench.ran) == 2)


async def test_a_stopping_engine_lets_what_runs_finish(bench: Bench) -> None:
    async def work(key: str) -> None:
        bench.ran.append("began")
        await asyncio.sleep(0.05)
        bench.ran.append("ended")

    await bench.wake("a")
    async with serving(bench.engine, {Job.CHAT: work}):
        await until(lambda: bool(bench.ran))

    assert bench.ran == ["began", "ended"]
    assert await bench.rows() == 0


async def test_a_decision_wakes_the_chat_only_if_it_is_committed(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()

    def lost(name: str) -> None:
        if name == "before decide":
            raise ZeroDivisionError

    db.points = lost
    with pytest.raises(ZeroDivisionError):
        await (await only_question(chat)).approve(by=BEN)
    db.points = lambda name: None
    assert await Bench(db, w.clock).rows() == 0

    await (await only_question(chat)).approve(by=BEN)
    assert await Bench(db, w.clock).rows() == 2  # the chat and its channel


async def test_a_wake_during_a_run_that_fails_is_not_kept_waiting(db: Database) -> None:
    clock = FakeClock()
    engine = EmbeddedEngine(db, clock)
    runs: list[str] = []

    async def handler(key: str) -> None:
        runs.append(key)
        if len(runs) == 1:
            async with db.transaction("wake") as tx:
                await engine.wake(tx, Job.CHAT, key)
            raise LookupError("a defect")

    async with db.transaction("wake") as tx:
        await engine.wake(tx, Job.CHAT, "one")
    await engine.settle({Job.CHAT: handler})
    assert runs == ["one", "one"]


async def test_a_wake_that_comes_as_a_run_ends_is_not_lost(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if db.sqlite:
        pytest.skip("SQLite has one writer at a time")
    async with db.transaction("wake") as tx:
        await wakes.wake(tx, Job.DELIVER, "C1", 0.0)
    async with db.transaction("claim") as tx:
        (run,) = await wakes.claim(tx, now=1.0, until=60.0, limit=1)
    insert_new = Tx.insert_new

    async def and_the_run_ends(tx: Tx, table: sa.Table, **values: object) -> bool:
        made = await insert_new(tx, table, **values)
        monkeypatch.undo()
        async with db.transaction("finish") as other:
            await wakes.finish(other, run, again_at=None, now=1.0)
        return made

    monkeypatch.setattr(Tx, "insert_new", and_the_run_ends)
    async with db.transaction("wake") as tx:
        await wakes.wake(tx, Job.DELIVER, "C1", 0.0)
    async with db.transaction("claim") as tx:
        assert len(await wakes.claim(tx, now=1.0, until=60.0, limit=1)) == 1


async def test_an_engine_that_is_stopped_while_it_claims_lets_others_write_at_once(
    bench: Bench,
) -> None:
    await bench.wake("a")
    running = asyncio.create_task(bench.engine.run(bench.handlers))
    statements: list[str] = []

    @sa.event.listens_for(bench.db.engine.sync_engine, "before_cursor_execute")
    def stop(*given: Any) -> None:
        statements.append(given[2])
        if "wakes" in given[2] and not running.cancelling():
            running.cancel()

    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert statements
    async with asyncio.timeout(2):
        await bench.wake("b")
    assert "b" in await bench.settle()
