"""The product with one MCP server: a real one, in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bot.approvers import Policy
from bot.mcp.rounds import InputCallback
from bot.mcp.settings import server_settings
from bot.mcp.source import McpServer
from bot.scripted import Step
from storage.database import Database
from tests.fakes.clock import WallClock
from tests.fakes.mcp.process import ROOT, HttpServer, environment, stdio_command
from tests.fakes.model import script
from tests.fakes.surface import MemorySurface
from tests.world import BEN_APPROVES, World

FREE: dict[str, Any] = {"approval": "never"}
TRUSTED: dict[str, Any] = FREE | {"trusted_annotations": True}


def section(server: HttpServer | Path, *, legacy: bool = False, **settings: Any) -> dict[str, Any]:
    """`[servers.srv]` for a server over HTTP, or for one over stdio with this directory."""
    if isinstance(server, HttpServer):
        where: dict[str, Any] = {"url": server.url}
    else:
        command = stdio_command(legacy=legacy)
        where = {"command": command, "cwd": str(ROOT), "env": environment(server)}
    return where | settings


@asynccontextmanager
async def mcp_world(
    db: Database,
    settings: dict[str, Any],
    *steps: Step,
    callbacks: Sequence[InputCallback] = (),
    policies: Sequence[Policy] = (BEN_APPROVES,),
    surface: MemorySurface | None = None,
    sees_images: bool = False,
) -> AsyncIterator[World]:
    """One process of the product; leaving it is its end. The rows stay for the next."""
    clock = WallClock()
    source = McpServer(
        "srv", server_settings("srv", settings), clock, before_input_request=callbacks
    )
    await source.start()
    world = World(
        db,
        (),
        script(*steps),
        policies,
        clock,
        surface or MemorySurface(),
        sources=[source],
        sees_images=sees_images,
    )
    await world.engine.recover()
    try:
        yield world
    finally:
        await source.stop()


async def settle_until(world: World, done: Any, seconds: float = 10) -> None:
    """Lets what becomes due happen until something holds."""
    async with asyncio.timeout(seconds):
        while True:
            await world.settle()
            if await done():
                return
            await asyncio.sleep(0.02)
