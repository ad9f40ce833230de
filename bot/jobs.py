"""The engine port. Correctness lives in our rows (lease, epoch, stirs, outbox, deadlines); an
engine only delivers wakes, so a lost or doubled one is harmless, and a sweep finds what was missed
(design: Jobs)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Protocol

from bot.clock import Clock
from bot.core import Job, Wake
from storage import calls, chats, questions, seen
from storage.database import Tx

Handler = Callable[[str], Awaitable[float | None]]
"""Does the work of a key. Returns when to run it again (unix seconds), None: when woken. What it
raises is logged and tried again with backoff."""

SWEEP_SECONDS = 30.0
BACKOFF_LIMIT = 300.0
GRACE_SECONDS = 10.0  # what runs may take when the program is told to stop


class EngineKind(StrEnum):
    """How work is woken (`jobs`): within one process, or by Procrastinate among several."""

    EMBEDDED = "embedded"
    DISTRIBUTED = "distributed"


class Engine(Protocol):
    """Runs work that was woken: at least once, each (job, key) at most once at a time."""

    async def wake(self, tx: Tx, job: Job, key: str, *, at: float | None = None) -> None:
        """Makes (job, key) due when `tx` commits; nothing if it rolls back. Wakes merge, the
        earliest time counts, and a wake during a run makes one more run."""

    async def recover(self) -> None:
        """At the start of a process: takes up what dead ones left."""

    async def run(self, handlers: Mapping[Job, Handler]) -> None:
        """Runs until cancelled; then lets what runs finish within the grace, and hands it over."""


def backoff(tries: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return float(min(BACKOFF_LIMIT, 2.0 ** min(tries, 10)))


async def sweep(tx: Tx, wake: Wake, clock: Clock) -> None:
    """Wakes what no wake told of: chats whose runner died or that wanted to be woken, tasks and
    questions whose time is over."""
    now = clock.now()
    await seen.forget(tx, now)
    for chat_id in await chats.orphaned(tx, now):
        await wake(tx, Job.CHAT, chat_id)
    for call_id in await calls.overdue_tasks(tx, now - SWEEP_SECONDS):
        await wake(tx, Job.TASK, call_id)
    for question_id in await questions.late(tx, now - SWEEP_SECONDS):
        await wake(tx, Job.DUE, question_id)
