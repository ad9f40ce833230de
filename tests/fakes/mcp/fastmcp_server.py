"""A server of FastMCP, whose tasks are not ours: `python fastmcp_server.py PORT`, in an environment
of its own. `count` runs as a task; `deploy` is a task that asks before it goes on; `rename` asks
before it answers."""

# mypy: disable-error-code="import-not-found,untyped-decorator"
# FastMCP is not in the project's environment.

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Any

import mcp_types as t
from fastmcp import Context, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

server = FastMCP("strangers")
server.add_extension(TasksExtension())
quick = TaskConfig(mode="optional", poll_interval=timedelta(seconds=0.5))


def question(message: str, name: str, schema: dict[str, Any]) -> t.InputRequiredResult:
    requested = {"type": "object", "properties": {name: schema}, "required": [name]}
    params = t.ElicitRequestFormParams(message=message, requested_schema=requested)
    request = t.ElicitRequest(params=params)
    return t.InputRequiredResult(input_requests={name: request}, request_state=f"asked for {name}")


@server.tool(task=quick)
async def count(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return f"counted for {seconds} seconds"


@server.tool(task=quick)
async def deploy(service: str, ctx: Context) -> Any:
    """Asks where to, inside its task."""
    if not ctx.input_responses:
        return question("Where to?", "env", {"type": "string", "enum": ["staging", "production"]})
    given = ctx.input_responses["env"]
    return f"{service}: {given.action} {given.content} ({ctx.request_state})"


@server.tool
async def rename(ctx: Context) -> Any:
    """Asks for a name, without a task."""
    if not ctx.input_responses:
        return question("Which name?", "name", {"type": "string", "minLength": 2})
    given = ctx.input_responses["name"]
    return f"renamed: {given.action} {given.content} ({ctx.request_state})"


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
