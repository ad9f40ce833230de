"""A background call of an MCP server: its snapshot as our task row has it, and what a look at it
means (platforms/mcp.md 3a)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

import mcp.types as t
import pydantic

from bot.mcp import results
from bot.mcp.connection import Connection
from bot.mcp.elicitation import Unsupported, questions_of
from bot.mcp.extension import CreatedTask, TaskSnapshot
from bot.mcp.failure import BadAnswer, Lost, NotSent, Rejected
from bot.mcp.rounds import Judge, Resume
from bot.task import expires_at
from bot.tool import Answered, Ask, Detached, Done, Outcome

DEFAULT_POLL: Final = 1.0  # seconds, where the server names no interval (row T16)
LONGEST_POLL: Final = 300.0
JITTER: Final = 0.1

Row = Mapping[str, Any]


def created(task: CreatedTask | TaskSnapshot, before: Row | None = None) -> dict[str, Any]:
    """The row of a task as the server told of it; `before` keeps what is ours."""
    ours = before or {"answered": [], "asking": [], "asks": 0, "pending": {}}
    return {
        **ours,
        "id": task.task_id,
        "status": task.status,
        "message": task.status_message or "",
        "created_at": task.created_at,
        "ttl_ms": task.ttl_ms,
        "poll_ms": task.poll_interval_ms,
        "failures": 0,
    }


class TaskLook:
    """Looks at tasks of one server."""

    def __init__(self, connection: Connection, judge: Judge, now: Any, dice: random.Random) -> None:
        self._connection = connection
        self._judge = judge
        self._now = now
        self._dice = dice

    def detached(self, row: Row) -> Detached:
        """Goes on; the next look is at the server's interval, longer after failures, jittered."""
        poll_ms = row.get("poll_ms")
        interval = DEFAULT_POLL if poll_ms is None else max(0.05, poll_ms / 1000)
        wait = min(LONGEST_POLL, interval * 2 ** min(row["failures"], 8))
        wait *= 1 + self._dice.uniform(0, JITTER)
        return Detached(task=dict(row), wake_at=self._now() + wait)

    async def answer(self, row: Row, resume: Row | None, answered: tuple[Answered, ...]) -> Outcome:
        """People answered what the task asked: tells the server, then looks once (row T6)."""
        first = 0 if resume is None else Resume.from_json(resume).first
        answers = {
            one.key: Resume(None, 0, first).answers([one])[one.key].model_dump(mode="json")
            for one in answered
            if one.ordinal >= first and one.key in row["asking"]
        }
        return await self.look({**row, "asking": [], "pending": {**row["pending"], **answers}})

    async def look(self, row: Row) -> Outcome:
        """Looks once. Never raises for what the server does."""
        try:
            if row["pending"]:  # told again until it is taken: keys that are answered are ignored
                answers: t.InputResponses = {
                    key: t.ElicitResult.model_validate(one) for key, one in row["pending"].items()
                }
                await self._connection.update_task(row["id"], answers)
                row = {**row, "answered": [*row["answered"], *row["pending"]], "pending": {}}
            snapshot = await self._connection.get_task(row["id"])
        except (NotSent, Lost):
            return self._silent(row)
        except BadAnswer as error:
            return _ended(row, "failed", f"The server's word on this task is unreadable: {error}")
        except Rejected as error:
            return self._rejected(row, error)
        return await self._read(created(snapshot, row), snapshot)

    def _silent(self, row: Row) -> Outcome:
        """A network failure keeps waiting and says so, until the task expires (row T21)."""
        expiry = expires_at(row)
        if expiry is not None and expiry <= self._now():
            return _ended(row, "failed", "It expired, and its server does not answer.")
        message = "The server does not answer; it is asked again."
        return self.detached({**row, "failures": row["failures"] + 1, "message": message})

    def _rejected(self, row: Row, error: Rejected) -> Outcome:
        if error.code == t.INVALID_PARAMS:  # unknown or expired (row T22)
            return _ended(row, "failed", "The server no longer knows this task: it has expired.")
        if error.message.startswith("HTTP 4"):  # a token that has run out says nothing of the task
            return self._silent(row)
        return _ended(row, "failed", f"The server refuses to tell of this task: {error}")

    async def _read(self, row: dict[str, Any], snapshot: TaskSnapshot) -> Outcome:
        match snapshot.status:
            case "working":
                return self.detached(row)
            case "input_required":
                return await self._asks(row, snapshot)
            case "completed":
                return _completed(row, snapshot)
            case "failed":
                words = (snapshot.error or {}).get("message") or snapshot.status_message
                return _ended(row, "failed", f"The task failed: {words or 'no reason was given'}")
            case "cancelled":
                return _ended(row, "cancelled", "The task was cancelled.")

    async def _asks(self, row: dict[str, Any], snapshot: TaskSnapshot) -> Outcome:
        """What was answered is never shown again (row T7)."""
        requests = t.InputRequiredResult(
            result_type="input_required", input_requests=snapshot.input_requests
        )
        try:
            questions = questions_of(requests)
        except Unsupported as error:
            return _ended(row, "failed", str(error))
        new = [(key, params) for key, params in questions if key not in row["answered"]]
        judged = await self._judge.round(new, None)
        if judged.settled:  # declined by our rules, or answered by a callback
            pending = {key: one.model_dump(mode="json") for key, one in judged.settled.items()}
            row = {**row, "pending": {**row["pending"], **pending}}
        if not judged.open:
            return self.detached(row)
        first = row["asks"]
        keys = [one.key for one in judged.open]
        row = {**row, "asking": keys, "asks": first + len(keys)}
        return Ask(judged.open, ordinal=first, resume=Resume(None, 0, first).to_json(), task=row)


def _completed(row: Row, snapshot: TaskSnapshot) -> Outcome:
    try:
        result = t.CallToolResult.model_validate(snapshot.result)
    except pydantic.ValidationError:
        produced = results.ran_but("The result of the task is not a tool's result.")
    else:
        produced = results.done(result)
    return Done(produced.result, produced.failed, task={**row, "status": "completed"})


def _ended(row: Row, status: str, words: str) -> Done:
    """The call is over without a result: the chat goes on with these words (rows T8, T22)."""
    return Done(words, failed=True, task={**row, "status": status, "message": words})
