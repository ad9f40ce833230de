"""The client half of the tasks extension, io.modelcontextprotocol/tasks (SEP-2663).

Declared on 2026-07-28 connections only (row T19: a claim is not announced to older servers), it
lets a server answer tools/call with a task, which we poll, answer and cancel. mcp 2.3.0 ships no
such extension; when it does, this file goes.

Wire: tools/call -> `resultType: "task"` and the fields of `_TaskFields`; tasks/get -> the same
fields with `inputRequests`, `result` or `error`; tasks/update and tasks/cancel -> an empty result.
Over HTTP each carries the header Mcp-Name with the id of the task (row T20).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import mcp.types as t
from mcp.client import ClaimContext, ClientExtension, ResultClaim

TASKS = "io.modelcontextprotocol/tasks"

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


class _TaskFields(t.Result):
    """`ttl_ms` counts from `created_at` (ISO 8601); None: kept for ever. Both may change."""

    task_id: str
    status: TaskStatus
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = None
    poll_interval_ms: int | None = None


class CreatedTask(_TaskFields):
    """The answer of a tool call that goes on as a task."""

    result_type: Literal["task"] = "task"


class TaskSnapshot(_TaskFields):
    """A task as it was when the server answered tasks/get.

    `result` is a whole CallToolResult (a tool's own error among them) when it is completed,
    `error` a JSON-RPC error when it failed, `input_requests` what it waits for."""

    result_type: str = "complete"
    input_requests: dict[str, t.InputRequest] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _TaskParams(t.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: t.InputResponses


class GetTask(t.Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams
    name_param = "taskId"


class UpdateTask(t.Request[_UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams
    name_param = "taskId"


class CancelTask(t.Request[_TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams
    name_param = "taskId"


def get_task(task_id: str) -> GetTask:
    return GetTask(params=_TaskParams(task_id=task_id))


def update_task(task_id: str, answers: t.InputResponses) -> UpdateTask:
    """Some of the answers are enough; the server ignores keys that it does not wait for."""
    return UpdateTask(params=_UpdateParams(task_id=task_id, input_responses=answers))


def cancel_task(task_id: str) -> CancelTask:
    """The server may still complete the task."""
    return CancelTask(params=_TaskParams(task_id=task_id))


class TasksClient(ClientExtension):
    """Declares the extension, so that a server may answer a call with a task."""

    identifier = TASKS

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._never)]

    async def _never(self, created: CreatedTask, _context: ClaimContext) -> t.CallToolResult:
        raise RuntimeError(f"the task {created.task_id} is polled by its row, not awaited here")
