"""The server half of io.modelcontextprotocol/tasks, small: four tasks in one file.

A task is a row whose state follows from the clock and from what the client sent, so that nothing
runs and a restart of the server (or kill -9) loses nothing.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import mcp.types as t
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from pydantic import Field

TASKS = "io.modelcontextprotocol/tasks"
MODERN = frozenset({"2026-07-28"})
TASK_TOOLS = ("task_work", "task_ask", "task_fail", "task_expire")

Context = ServerRequestContext[Any, Any]


class TaskParams(t.RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any] = Field(default_factory=dict)


def question(key: str, row: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"go": {"type": "boolean", "title": "Go on"}},
        "required": ["go"],
    }
    message = f"Go on with {row['args'].get('what', 'it')} ({key.split(':')[0]})?"
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def text(words: str, *, error: bool = False) -> dict[str, Any]:
    content = [{"type": "text", "text": words}]
    return {"content": content, "isError": error, "resultType": "complete"}


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class Tasks(Extension):
    """`task_work(seconds)` completes by itself; `task_ask(questions)` waits for that many answers;
    `task_fail(seconds)` fails; `task_expire(ttl_ms)` is unknown once its time is over."""

    identifier = TASKS

    def __init__(self, path: Path, poll_ms: int = 200) -> None:
        self.path = path
        self.poll_ms = poll_ms

    def rows(self) -> dict[str, dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = (
            json.loads(self.path.read_text()) if self.path.exists() else {}
        )
        return rows

    def save(self, row: dict[str, Any]) -> None:
        rows = self.rows() | {row["id"]: row}
        partial = self.path.with_suffix(".new")
        partial.write_text(json.dumps(rows))
        partial.replace(self.path)

    def open_questions(self, row: dict[str, Any]) -> list[str]:
        return [key for key in row["keys"] if key not in row["answers"]]

    def status(self, row: dict[str, Any], now: float) -> str:
        over = now >= row["created"] + float(row["args"].get("seconds", 0))
        match row["tool"]:
            case _ if row["cancelled"]:
                return "cancelled"
            case "task_ask":
                return "input_required" if self.open_questions(row) else "completed"
            case "task_work" if over:
                return "completed"
            case "task_fail" if over:
                return "failed"
            case _:
                return "working"

    def view(self, row: dict[str, Any]) -> dict[str, Any]:
        now = time.time()
        status = self.status(row, now)
        view: dict[str, Any] = {
            "taskId": row["id"],
            "status": status,
            "statusMessage": f"{row['tool']} is {status}",
            "createdAt": stamp(row["created"]),
            "lastUpdatedAt": stamp(now),
            "ttlMs": row["ttl_ms"],
            "pollIntervalMs": self.poll_ms,
        }
        match status:
            case "input_required":
                view["inputRequests"] = {
                    key: question(key, row) for key in self.open_questions(row)
                }
            case "completed":
                done = {key.split(":")[0]: answer for key, answer in row["answers"].items()}
                said = (
                    f"{row['args'].get('what', 'it')} is done: {json.dumps(done, sort_keys=True)}"
                )
                view["result"] = text(said)
            case "failed":
                view["error"] = {"code": -32603, "message": "the disk is full"}
            case _:
                pass
        return view

    async def intercept_tool_call(
        self, params: t.CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        if params.name not in TASK_TOOLS:
            return await call_next(ctx)
        require_client_extension(ctx, TASKS)
        args = params.arguments or {}
        asks = int(args.get("questions", 1)) if params.name == "task_ask" else 0
        row = {
            "id": secrets.token_urlsafe(16),
            "tool": params.name,
            "args": args,
            "created": time.time(),
            "ttl_ms": args.get("ttl_ms", 3_600_000),
            "keys": [f"q{number}:{secrets.token_hex(4)}" for number in range(asks)],
            "answers": {},
            "cancelled": False,
        }
        self.save(row)
        view = self.view(row)
        for later in ("inputRequests", "result", "error"):
            view.pop(later, None)
        return {"resultType": "task", **view}

    def found(self, ctx: Context, task_id: str) -> dict[str, Any]:
        require_client_extension(ctx, TASKS)
        headers = getattr(ctx.request, "headers", None)
        if headers is not None and headers.get("mcp-name") != task_id:
            raise MCPError(code=t.HEADER_MISMATCH, message="Mcp-Name does not match the task")
        row = self.rows().get(task_id)
        if row is None:
            raise MCPError(code=t.INVALID_PARAMS, message="Task not found")
        if time.time() > row["created"] + row["ttl_ms"] / 1000:
            raise MCPError(code=t.INVALID_PARAMS, message="Task has expired")
        return row

    async def on_get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        return {"resultType": "complete", **self.view(self.found(ctx, params.task_id))}

    async def on_update(self, ctx: Context, params: UpdateParams) -> dict[str, Any]:
        row = self.found(ctx, params.task_id)
        for key, answer in params.input_responses.items():
            if key in self.open_questions(row):
                row["answers"][key] = answer
        self.save(row)
        return {"resultType": "complete"}

    async def on_cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        row = self.found(ctx, params.task_id)
        if self.status(row, time.time()) in ("working", "input_required"):
            self.save(row | {"cancelled": True})
        return {"resultType": "complete"}

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self.on_get, protocol_versions=MODERN),
            MethodBinding("tasks/update", UpdateParams, self.on_update, protocol_versions=MODERN),
            MethodBinding("tasks/cancel", TaskParams, self.on_cancel, protocol_versions=MODERN),
        ]
