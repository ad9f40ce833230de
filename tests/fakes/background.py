"""A tool whose calls go on in the background until they are cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from bot.tool import Call, Detached, Outcome, Tool, tool

NEVER = 4_000_000_000.0  # unix seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTool(Tool):
    """Its task says `message`; `cancelled` are the tasks that were asked to stop."""

    message: str
    cancelled: list[Any] = field(default_factory=list)

    async def run(self, args: Mapping[str, Any], call: Call) -> Outcome:
        task = {"id": "t1", "status": "working", "message": self.message, "poll_ms": 60_000}
        return Detached(task, NEVER)

    async def poll(self, task: Any) -> Outcome:
        return Detached(task, NEVER)

    async def cancel_task(self, task: Any) -> None:
        self.cancelled.append(task["id"])


def background(name: str = "rollout", message: str = "half way") -> BackgroundTool:
    @tool(name=name, approval="never")
    async def run(what: str = "web") -> str:
        """Goes on elsewhere."""
        raise AssertionError(what)

    own = {one.name: getattr(run, one.name) for one in fields(run)}
    return BackgroundTool(**own, message=message)
