"""Tasks: calls that a server goes on with in the background. The chat never waits for one; it is
looked at by its own job at the server's pace, and by whoever asks (spec: Task)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import structlog

from bot.approvers import may_stop
from bot.core import Core, Job, ToolsUnavailable
from bot.record import Recorder
from bot.secrets import ConfigError
from bot.surface import Actor, Response
from bot.tool import Detached, Done, Tool
from storage import audit, calls, chats, questions
from storage.calls import CallRow, CallState
from storage.questions import QuestionState

log = structlog.get_logger(__name__)

DEFAULT_INTERVAL = 1.0  # seconds between two looks, where the server names none (row T16)
RETRY_SECONDS = 30.0  # until a server that cannot be reached at all is tried again


class TaskStatus(StrEnum):
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskFailed(Exception):
    """The task ended without a result; the text is the server's, or says why."""


class TaskTimeout(Exception):
    """A wait ended before the task did; the task was asked to stop (row T17)."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The task did not end within {seconds:g} seconds; it was cancelled.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A background call as a chat lists it: a look at its row; `refresh` gives a newer one."""

    id: str
    call_id: str
    tool: str
    status: TaskStatus
    message: str
    poll_interval: float  # seconds
    expires_at: float | None  # unix seconds
    done: bool  # its call is settled: a server may say that it ended before its result was read
    failed: bool
    outcome: Any
    core: Core

    @property
    def result(self) -> Any:
        """None before it ended. Raises TaskFailed when it ended without one (row T15)."""
        if self.done and self.failed:
            raise TaskFailed(str(self.outcome))
        return self.outcome if self.done else None

    async def refresh(self) -> Task:
        """Looks once, and never carries the chat on; an ended task is not asked again (row T4).
        Raises ConfigError when its server is not configured here (row T18)."""
        if not self.done:
            await Tasks(self.core).poll(self.call_id, strict=True)
        return await self._now()

    async def cancel(self) -> Task:
        """Asks the server to stop; it may end all the same."""
        if not self.done:
            await Tasks(self.core).cancel(self.call_id)
        return await self._now()

    async def wait(  # a wait that is given up cancels the task as well
        self,
        timeout: float,  # noqa: ASYNC109
        interval: float | None = None,
    ) -> Task:
        """Looks until it ended, at the server's pace or every `interval` seconds, never past the
        `timeout` (seconds). Raises TaskTimeout."""
        deadline = self.core.now() + timeout
        task = self
        while not (task := await task.refresh()).done:
            left = deadline - self.core.now()
            if left <= 0:
                await task.cancel()
                raise TaskTimeout(timeout)
            await self.core.clock.sleep(min(left, interval or task.poll_interval))
        return task

    async def _now(self) -> Task:
        async with self.core.db.read() as tx:
            row = await calls.get(tx, self.call_id)
        assert row is not None
        return task_of(row, self.core)


def task_of(row: CallRow, core: Core) -> Task:
    """The task of a call that has one; from its row alone (row T12)."""
    task: Mapping[str, Any] = row.task
    poll_ms, status = task.get("poll_ms"), TaskStatus(task["status"])
    if row.settled and status in (TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED):
        status = TaskStatus.CANCELLED if row.outcome == "cancelled" else TaskStatus.FAILED
    return Task(
        id=task["id"],
        call_id=row.id,
        tool=row.name,
        status=status,
        message=task.get("message", ""),
        poll_interval=DEFAULT_INTERVAL if poll_ms is None else poll_ms / 1000,
        expires_at=expires_at(task),
        done=row.settled,
        failed=row.state == CallState.FAILED,
        outcome=row.result,
        core=core,
    )


def expires_at(task: Mapping[str, Any]) -> float | None:
    """created + ttl in unix seconds; None when either is missing (row T14)."""
    created, ttl = task.get("created_at"), task.get("ttl_ms")
    if not created or ttl is None:
        return None
    try:
        return datetime.fromisoformat(created).timestamp() + float(ttl) / 1000
    except ValueError:
        return None


class Tasks:
    """Looks at tasks and cancels them."""

    def __init__(self, core: Core) -> None:
        self.core = core

    async def pending(self, chat_id: str) -> list[Task]:
        async with self.core.db.read() as tx:
            rows = await calls.in_state(tx, chat_id, [CallState.WAITING])
        return [task_of(row, self.core) for row in rows if row.task is not None]

    async def poll(self, call_id: str, *, strict: bool = False) -> float | None:
        """Looks once at the task of a call and records what is new; the job of the sweeper.

        Returns when to look again. While people are asked it is left alone (row T5). `strict`
        raises ConfigError where the sweeper tries again later."""
        async with self.core.db.read() as tx:
            row = await calls.get(tx, call_id)
            if row is None or row.task is None or row.state != CallState.WAITING:
                return None
            asked = await questions.of_call(tx, call_id)
        if any(one.state == QuestionState.OPEN for one in asked):
            return None
        tool = await self._tool(row)
        expiry = expires_at(row.task)
        if tool is None and expiry is not None and expiry <= self.core.now():
            words = f"The task of {row.name} has expired, and its server is not reachable here."
            await Recorder(self.core, CallState.WAITING).record(row, Done(words, failed=True))
            return None
        if tool is None:
            if strict:
                raise ConfigError(
                    f"The server {row.server or row.name} of this task is not configured or "
                    "not reachable here: add it under [servers]."
                )
            return self.core.now() + RETRY_SECONDS
        outcome = await tool.poll(row.task)
        await Recorder(self.core, CallState.WAITING).record(row, outcome)
        return outcome.wake_at if isinstance(outcome, Detached) else None

    async def cancel(self, call_id: str) -> str | None:
        """Asks the server to stop the task, and looks at it soon. Returns why it could not be
        asked, None: it was."""
        async with self.core.db.read() as tx:
            row = await calls.get(tx, call_id)
        if row is None or row.task is None or row.state != CallState.WAITING:
            return "This task has ended already."
        tool = await self._tool(row)
        try:
            if tool is None:
                raise ToolsUnavailable(f"the server {row.server} is not reachable")
            await tool.cancel_task(row.task)
        except Exception as error:
            log.warning("a task could not be cancelled", call=call_id, error=str(error))
            return "The server did not take the request to stop; please try again."
        asked = replace(row, task=row.task | {"message": "Asked to stop."})
        now = self.core.now()
        recorder = Recorder(self.core, CallState.WAITING)
        await recorder.record(row, Detached(task=asked.task, wake_at=now))
        async with self.core.db.transaction("wake_task") as tx:
            await self.core.wake(tx, Job.TASK, call_id)
        return None

    async def cancel_by(self, call_id: str, actor: Actor, via: str) -> Response:
        """Somebody pressed Cancel or typed it: for who began the chat and for its approvers."""
        async with self.core.db.read() as tx:
            row = await calls.get(tx, call_id)
            chat = None if row is None else await chats.get(tx, row.chat_id)
        if row is None or chat is None or row.task is None:
            return Response(done=False, sentence="There is no such task here.")
        allowed = may_stop(
            actor, agent=chat.agent, requester=chat.requester, policies=self.core.policies
        )
        async with self.core.db.transaction("cancel_task") as tx:
            await audit.record(
                tx,
                "cancel_task" if allowed else "refused",
                now=self.core.now(),
                chat_id=chat.id,
                call_id=row.id,
                actor=actor.key,
                via=via,
            )
        if not allowed:
            sentence = "Only the person who asked the agent, or an approver, can cancel this."
            return Response(done=False, sentence=sentence)
        why = await self.cancel(call_id)
        return Response(done=why is None, sentence=why or "The server was asked to stop.")

    async def _tool(self, row: CallRow) -> Tool | None:
        async with self.core.db.read() as tx:
            chat = await chats.get(tx, row.chat_id)
        agent = "" if chat is None else chat.agent
        try:
            return self.core.tool(agent, row.name) or await self.core.find_tool(agent, row.name)
        except ToolsUnavailable:
            return None
