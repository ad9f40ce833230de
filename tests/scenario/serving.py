"""A surface that hears people, on a web server of its own; whatever its platform."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from bot.app import handlers_of
from bot.core import Core
from bot.embedded import EmbeddedEngine
from bot.surface import Adapter


@contextlib.asynccontextmanager
async def serving(surface: Adapter, at: Callable[[str], None]) -> AsyncIterator[None]:
    """`at` is told the address of the server before the surface runs."""
    app = web.Application(client_max_size=1024 * 1024)
    app.add_routes(surface.routes())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    at(f"http://{host}:{port}")
    started = asyncio.Event()
    task = asyncio.create_task(surface.run(started))
    waiting = asyncio.create_task(started.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=5)
        if task.done():
            await task
        assert started.is_set()
        yield
    finally:
        waiting.cancel()
        task.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)
        await runner.cleanup()


@contextlib.asynccontextmanager
async def working(core: Core, engine: EmbeddedEngine) -> AsyncIterator[None]:
    """The engine does what the product has it do."""
    await engine.recover()
    running = asyncio.create_task(engine.run(handlers_of(core, owner="process")))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
