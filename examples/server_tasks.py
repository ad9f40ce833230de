"""The server half of io.modelcontextprotocol/tasks, for work that outlives its server.

The work is one coroutine that gets a `Task`. Whatever it needs to go on is in `task.data`, which
`report` keeps in a file; after a restart of the server the coroutine begins again at its first line
with that data, and `ask` returns at once what people answered before. SDK 2.3 serves no tasks by
itself; `Extension` is its public way to add methods and to change the answer of `tools/call`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import mcp.types as t
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from pydantic import TypeAdapter, ValidationError

TASKS = "io.modelcontextprotocol/tasks"
VERSIONS = frozenset({"2026-07-28"})  # the extension does not exist in older ones
LIFE = 24 * 3600.0  # seconds from creation; people answer in hours

logger = logging.getLogger(__name__)
RequestContext = ServerRequestContext[Any, Any]


class Stopped(Exception):
    """Raised in the work when somebody cancelled or time is up: tidy up and let it pass."""


class TaskParams(t.RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


@dataclass
class Task:
    """One task: what its file keeps. Times are in seconds since 1970."""

    file: Path  # its name is the id
    data: dict[str, Any]
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    message: str = "Waits to start"
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)  # asked, ever, by key
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    stopping: bool = False
    outcome: Literal["completed", "failed", "cancelled"] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        return self.file.stem

    def report(self, message: str, **data: Any) -> None:
        """Says how far the work is, and keeps `data` so that it goes on from there."""
        self.data.update(data)
        self.message = message
        self.save()

    async def sleep(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """A pause that ends early when `until` holds, and with `Stopped` when somebody cancels."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not (until() or self.stopping):
                    self.changed.clear()
                    await self.changed.wait()
        if self.stopping:
            raise Stopped
        return until()

    async def ask(self, key: str, request: t.ElicitRequest) -> t.ElicitResult:
        """Asks people; raises `Stopped` when the task ends before they answer.

        A key names one question for the whole life of the task: clients show it once and forget
        it when it is answered, so another question needs another key."""
        if key not in self.answers:
            self.requests[key] = request.model_dump(mode="json", by_alias=True, exclude_none=True)
            self.save()
            if not await self.sleep(self.created + LIFE - time.time(), lambda: key in self.answers):
                raise Stopped
        return t.ElicitResult.model_validate(self.answers[key])

    def open_requests(self) -> dict[str, dict[str, Any]]:
        return {key: asked for key, asked in self.requests.items() if key not in self.answers}

    def expired(self) -> bool:
        return time.time() >= self.created + LIFE

    def save(self) -> None:
        """A reader, also one after kill -9, finds the old file or the new one, never half of it."""
        self.changed.set()
        self.updated = time.time()
        partial = self.file.with_suffix(".partial")
        kept = {key: value for key, value in vars(self).items() if key not in ("file", "changed")}
        partial.write_text(json.dumps(kept))
        partial.replace(self.file)

    def view(self, poll_ms: int) -> dict[str, Any]:
        """What tasks/get answers."""
        requests = self.open_requests()
        status = self.outcome or ("input_required" if requests else "working")
        later: dict[str, dict[str, Any]] = {
            "input_required": {"inputRequests": requests},
            "completed": {"result": self.result},
            "failed": {"error": self.error},
        }
        return {
            "taskId": self.id,
            "status": status,
            "statusMessage": self.message,
            "createdAt": datetime.fromtimestamp(self.created, UTC).isoformat(),
            "lastUpdatedAt": datetime.fromtimestamp(self.updated, UTC).isoformat(),
            "ttlMs": int(LIFE * 1000),
            "pollIntervalMs": poll_ms,
            **later.get(status, {}),
        }


class Tasks(Extension):
    """Serves the tasks of one directory, alone: `work` is what each of them does."""

    identifier = TASKS

    def __init__(
        self, directory: Path, work: Callable[[Task], Awaitable[t.CallToolResult]], poll_ms: int
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.work = work
        self.poll_ms = poll_ms
        self._runners: set[asyncio.Task[None]] = set()
        kept = [Task(file, **json.loads(file.read_text())) for file in directory.glob("*.json")]
        self._tasks = {task.id: task for task in kept}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Inside of it tasks run; what is unfinished at its end goes on at the next start."""
        for task in self._tasks.values():
            if task.outcome is None:
                self._spawn(task)
        try:
            yield
        finally:
            for runner in self._runners:
                runner.cancel()
            await asyncio.gather(*self._runners, return_exceptions=True)

    def start(self, name: str, data: dict[str, Any]) -> dict[str, Any]:
        """Starts the task of that id (one that nobody can guess), or finds it if it was started.

        The client gets the task in place of a result that has what is returned here as `_meta`.
        The tool calls `require_client_extension` first. The file is written before the answer."""
        for old in [one for one in self._tasks.values() if one.expired()]:
            self._tasks.pop(old.id).file.unlink(missing_ok=True)
        if name not in self._tasks:
            task = self._tasks[name] = Task(self.directory / f"{name}.json", data)
            task.save()
            self._spawn(task)
        return {TASKS: name}

    def _spawn(self, task: Task) -> None:
        runner = asyncio.create_task(self._run(task), name=f"task {task.id}")
        self._runners.add(runner)
        runner.add_done_callback(self._runners.discard)

    async def _run(self, task: Task) -> None:
        try:
            result = await self.work(task)
        except Stopped:
            task.outcome = "cancelled"
        except Exception:
            logger.exception("task %s failed", task.id)
            task.outcome = "failed"
            task.error = {"code": t.INTERNAL_ERROR, "message": "The work failed; see the log"}
        else:
            task.outcome = "completed"
            task.result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        task.save()

    async def intercept_tool_call(
        self, params: t.CallToolRequestParams, ctx: RequestContext, call_next: CallNext
    ) -> HandlerResult:
        result = await call_next(ctx)
        meta = result.meta if isinstance(result, t.CallToolResult) else None
        if not meta or TASKS not in meta:
            return result
        view = self._tasks[meta[TASKS]].view(self.poll_ms)
        for later in ("inputRequests", "result", "error"):  # parts of tasks/get alone
            view.pop(later, None)
        return {"resultType": "task", **view}

    def _found(self, ctx: RequestContext, name: str) -> Task:
        require_client_extension(ctx, TASKS)
        headers = getattr(ctx.request, "headers", None)  # None over stdio
        if headers is not None and headers.get("mcp-name") != name:
            raise MCPError(code=t.HEADER_MISMATCH, message="Mcp-Name is not the task's id")
        task = self._tasks.get(name)
        if task is None or task.expired():
            raise MCPError(code=t.INVALID_PARAMS, message="Unknown or expired task")
        return task

    async def _get(self, ctx: RequestContext, params: TaskParams) -> HandlerResult:
        return {"resultType": "complete", **self._found(ctx, params.task_id).view(self.poll_ms)}

    async def _update(self, ctx: RequestContext, params: UpdateParams) -> HandlerResult:
        """Some of the answers are enough; unknown and answered keys are ignored (SEP-2663)."""
        task = self._found(ctx, params.task_id)
        open_keys = task.open_requests().keys() if task.outcome is None else ()
        given = {key: value for key, value in params.input_responses.items() if key in open_keys}
        try:
            TypeAdapter(dict[str, t.ElicitResult]).validate_python(given)
        except ValidationError:
            raise MCPError(code=t.INVALID_PARAMS, message="Not the answer to a question") from None
        task.answers.update(given)
        task.save()
        return {"resultType": "complete"}

    async def _cancel(self, ctx: RequestContext, params: TaskParams) -> HandlerResult:
        """The work stops where that is safe, so the task may still complete."""
        task = self._found(ctx, params.task_id)
        if task.outcome is None:
            task.stopping = True
            task.save()
        return {"resultType": "complete"}

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self._get, protocol_versions=VERSIONS),
            MethodBinding("tasks/update", UpdateParams, self._update, protocol_versions=VERSIONS),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, protocol_versions=VERSIONS),
        ]
