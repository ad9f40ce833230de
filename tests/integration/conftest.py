"""Fake MCP servers for the tests of connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.mcp.connection import Connection
from tests.fakes.mcp.process import HttpServer
from tests.fakes.mcp.reach import WAYS, Start, Way, connected, stdio


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mcp")


@pytest.fixture(scope="module")
def shared(directory: Path) -> Iterator[dict[bool, HttpServer]]:
    """The servers over HTTP that the tests share, since starting one takes a second; of before
    2026-07-28, or not."""
    servers = {legacy: HttpServer(directory, legacy=legacy) for legacy in (False, True)}
    yield servers
    for one in servers.values():
        one.kill()


@pytest.fixture
def home(directory: Path) -> Path:
    """Where every server of a test writes down what it saw and did; empty when it begins."""
    for name in ("effects", "seen", "died", "visited"):
        (directory / name).unlink(missing_ok=True)
    return directory


@pytest.fixture
def server_at(home: Path, shared: dict[bool, HttpServer]) -> Iterator[Start]:
    """Gives a server over HTTP that is up; one of the test's own with `env`."""
    own: list[HttpServer] = []

    async def start(*, legacy: bool = False, env: dict[str, str] | None = None) -> HttpServer:
        server = shared[legacy]
        if env is not None:
            server = HttpServer(home, legacy=legacy, env=env)
            own.append(server)
        if not server.running:
            await server.start()
        return server

    yield start
    for one in own:
        one.kill()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def reach(way: str, home: Path, server_at: Start) -> Way:
    """A connection to a server, by each way there is."""

    @asynccontextmanager
    async def reach(**options: Any) -> AsyncIterator[Connection]:
        legacy = way.endswith("legacy")
        callback = options.pop("on_list_changed", lambda: None)
        if way.startswith("http"):
            server = await server_at(legacy=legacy)
            section = {"url": server.url, **options}
        else:
            section = stdio(home, legacy=legacy, **options)
        async with connected(section, on_list_changed=callback) as connection:
            yield connection

    return reach
