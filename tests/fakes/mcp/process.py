"""The fake server as a process of its own: start it, kill it, start it again at the same port."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.fakes.forks import FORKS

ROOT = Path(__file__).parents[3]
STARTING = 20.0  # seconds; two cores that others use too
MODULE = "tests.fakes.mcp.server"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def stdio_command(*, legacy: bool = False) -> tuple[str, ...]:
    """What `command` is for this server; its `cwd` is ROOT and its `env` is `environment(...)`."""
    return (sys.executable, "-m", MODULE, "stdio", *(["--legacy"] if legacy else []))


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return {"FAKE_MCP_DIR": str(home), **(extra or {})}


def effects(home: Path) -> list[str]:
    """What the tools did, a line for each run."""
    path = home / "effects"
    return path.read_text().splitlines() if path.exists() else []


def seen(home: Path, method: str) -> list[dict[str, Any]]:
    """The requests of a method that arrived: method, id, params, headers."""
    path = home / "seen"
    lines = path.read_text().splitlines() if path.exists() else []
    return [one for one in map(json.loads, lines) if one["method"] == method]


def _serve(arguments: list[str], given: Mapping[str, str], log: Path) -> None:
    os.environ.update(given)
    os.chdir(ROOT)
    with log.open("ab") as errors, open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    from tests.fakes.mcp import server  # here, since it reads the environment

    server.main(arguments)


class HttpServer:
    """One server over HTTP: `await start()`, `stop()` in good order, `kill()` with -9, `restart()`.

    It keeps its port and its directory over restarts."""

    def __init__(
        self, home: Path, *, legacy: bool = False, env: Mapping[str, str] | None = None
    ) -> None:
        self.home = home
        self.legacy = legacy
        self.env = dict(env or {})
        self.port = free_port()
        self.process: ForkServerProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.is_alive()

    async def start(self) -> None:
        arguments = ["http", str(self.port), *(["--legacy"] if self.legacy else [])]
        self.home.mkdir(parents=True, exist_ok=True)
        given = (arguments, environment(self.home, self.env), self.home / "stderr")
        self.process = FORKS.Process(target=_serve, args=given)
        self.process.start()
        deadline = time.monotonic() + STARTING
        while not self._listens():
            assert self.process.is_alive(), (self.home / "stderr").read_text()
            assert time.monotonic() < deadline, "the fake server did not start"
            await asyncio.sleep(0.05)

    def _listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            if self.process.is_alive():
                assert self.process.pid is not None
                os.kill(self.process.pid, number)
            self.process.join(STARTING)
            assert not self.process.is_alive()
            self.process = None

    async def restart(self) -> None:
        """kill -9, and up again at the same port."""
        self.kill()
        await self.start()

    async def died(self) -> None:
        """Waits until the process has ended by itself."""
        assert self.process is not None
        await asyncio.to_thread(self.process.join, STARTING)
        assert not self.process.is_alive()
        self.process = None
