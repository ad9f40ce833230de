"""The product against MCP servers that we did not write: a TypeScript server of before 2026 that
has every kind of question, two Python servers of 2026-07-28, and FastMCP with its own tasks.

Each is installed once into a directory of its own under ~/.cache/interlock-tests; where that
cannot be, its tests skip.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.card import TaskCard
from bot.chat import Chat
from bot.field import FieldType
from bot.question import Kind, Purpose, Question
from bot.surface import File
from storage.database import Database
from tests.fakes.mcp.process import ROOT, free_port
from tests.fakes.model import call
from tests.mcp_world import FREE, TRUSTED, mcp_world, settle_until
from tests.world import ANA, BEN, World, only_question, returned, until

Settings = dict[str, Any]

CACHE = Path.home() / ".cache" / "interlock-tests"
INSTALLING = 120.0  # seconds
STARTING = 30.0


def install(home: Path, made: Path, *commands: Sequence[str]) -> None:
    """Makes `made`, whose presence says that all of it is there. Skips when that fails."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:  # test workers share the directory
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made.exists():
            return
        deadline = time.monotonic() + INSTALLING
        for command in commands:
            left = deadline - time.monotonic()
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=left)
            except (subprocess.SubprocessError, OSError) as failure:
                pytest.skip(f"{home.name} could not be installed: {type(failure).__name__}")
        made.touch()


def from_npm(package: str, program: str) -> list[str]:
    """The command of a program of an npm package, which `program` is the path in."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip(f"{package} needs node and npm, which are not installed")
    home = CACHE / package.rpartition("/")[2]
    installing = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(home), package]
    install(home, home / "installed", installing)
    return [node, str(home / "node_modules" / program)]


def from_pypi(*requirements: str) -> Path:
    """The directory of programs of an environment of their own."""
    home = CACHE / requirements[0]
    pip = [str(home / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    making = [sys.executable, "-m", "venv", str(home)]
    install(home, home / "installed", making, [*pip, *requirements])
    return home / "bin"


@contextmanager
def running(command: Sequence[str], port: int, log: Path, **env: str) -> Iterator[str]:
    """The address of a server over HTTP, while it runs."""
    with log.open("wb") as said:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + STARTING
        while not listens(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


async def offers(world: World, name: str) -> bool:
    """Whether the agent has the tool; some servers tell of a tool a moment later."""
    return await world.core.agents["agent"].find(name) is not None


async def next_question(chat: Chat) -> Question:
    async def asked() -> bool:
        return bool(await chat.pending_questions())

    await until(asked)
    return await only_question(chat)


async def ended(chat: Chat) -> list[str]:
    """What the calls returned, once the agent has said its last."""

    async def over() -> bool:
        return await chat.last_reply() == "Done."

    await until(over)
    return await returned(chat)


# Everything: the reference server of 2025-11-25, in TypeScript


@pytest.fixture(scope="module")
def everything() -> list[str]:
    return from_npm(
        "@modelcontextprotocol/server-everything@2026.8.31",
        "@modelcontextprotocol/server-everything/dist/index.js",
    )


@pytest.fixture(params=["stdio", "http"])
def reference(
    request: pytest.FixtureRequest, everything: list[str], tmp_path: Path
) -> Iterator[Settings]:
    if request.param == "stdio":
        yield {"command": [*everything, "stdio"], "protocol": "legacy"} | FREE
        return
    port = free_port()
    command = [*everything, "streamableHttp"]
    with running(command, port, tmp_path / "log", PORT=str(port)) as url:
        yield {"url": url, "protocol": "legacy"} | FREE


ALL_KINDS = {
    "name": FieldType.TEXT,
    "check": FieldType.BOOLEAN,
    "firstLine": FieldType.TEXT,
    "email": FieldType.TEXT,
    "homepage": FieldType.TEXT,
    "birthdate": FieldType.TEXT,
    "integer": FieldType.INTEGER,
    "number": FieldType.NUMBER,
    "untitledSingleSelectEnum": FieldType.CHOICE,
    "untitledMultipleSelectEnum": FieldType.CHOICES,
    "titledSingleSelectEnum": FieldType.CHOICE,
    "titledMultipleSelectEnum": FieldType.CHOICES,
    "legacyTitledEnum": FieldType.CHOICE,
}


async def test_a_form_with_every_kind_of_field_is_answered(
    sqlite_db: Database, reference: Settings
) -> None:
    tool = "srv__trigger-elicitation-request"
    async with mcp_world(sqlite_db, reference, call(tool), "Done.") as world, world.serving():
        await until(lambda: offers(world, tool))  # type: ignore[arg-type, return-value]
        chat = await world.chat()
        question = await next_question(chat)
        assert question.kind is Kind.FORM
        assert {one.name: one.type for one in question.fields} == ALL_KINDS
        by_name = {one.name: one for one in question.fields}
        assert [one.title for one in by_name["legacyTitledEnum"].choices][:2] == ["Cats", "Dogs"]
        assert by_name["titledSingleSelectEnum"].choices[1].title == "Green Lantern"
        typed = {
            "name": "Ana",
            "check": "yes",
            "email": "ana@example.org",
            "homepage": "https://example.org/ana",
            "birthdate": "1990-02-28",
            "integer": "7",
            "number": "2.5",
            "untitledSingleSelectEnum": "Joey",
            "untitledMultipleSelectEnum": ["Piano", "Bass"],
            "titledSingleSelectEnum": "hero-2",
            "titledMultipleSelectEnum": ["fish-2", "fish-3"],
        }
        await question.answer(typed, by=ANA)
        (result,) = await ended(chat)
        raw = json.loads(result.partition("Raw result:")[2])
    assert raw == {
        "action": "accept",
        "content": {
            **typed,
            "check": True,
            "integer": 7,
            "number": 2.5,
            "firstLine": "It was a dark and stormy night.",
            "legacyTitledEnum": "pet-1",
        },
    }
