"""Connections of the tests to the fake server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp.types as t

from bot.clock import WallClock
from bot.mcp.connection import Connection
from bot.mcp.settings import server_settings
from tests.fakes.mcp.process import ROOT, HttpServer, environment, stdio_command

WAYS = ("http", "http-legacy", "stdio", "stdio-legacy")
Start = Callable[..., Awaitable[HttpServer]]
Way = Callable[..., AbstractAsyncContextManager[Connection]]


@asynccontextmanager
async def connected(section: dict[str, Any], **options: Any) -> AsyncIterator[Connection]:
    before = asyncio.all_tasks()
    connection = Connection("lab", server_settings("lab", section), WallClock(), **options)
    await connection.start()
    try:
        yield connection
    finally:
        await connection.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() <= before  # nothing is left running


def stdio(home: Path, *, legacy: bool = False, **options: Any) -> dict[str, Any]:
    return {
        "command": stdio_command(legacy=legacy),
        "cwd": str(ROOT),
        "env": environment(home),
        **options,
    }


def words(result: Any) -> str:
    assert isinstance(result, t.CallToolResult)
    return " ".join(one.text for one in result.content if isinstance(one, t.TextContent))


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not true():  # noqa: ASYNC110 -- it waits for another process
            await asyncio.sleep(0.02)


class Failing(httpx2.AsyncBaseTransport):
    """Fails the requests that hold a word, after `takes` the server has had them or before."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, word: bytes, failure: Any) -> None:
        self.inner = inner
        self.word = word
        self.failure = failure
        self.times = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.word not in await request.aread():
            return await self.inner.handle_async_request(request)
        self.times += 1
        if isinstance(self.failure, httpx2.Response):
            return self.failure
        raise self.failure

    async def aclose(self) -> None:
        await self.inner.aclose()


def failing(connection: Connection, word: str, failure: Any) -> Failing:
    guarded = connection._guarded
    assert guarded is not None
    guarded._inner = Failing(guarded._inner, word.encode(), failure)
    return guarded._inner
