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
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.card import TaskCard
from bot.chat import Chat
from bot.field import FieldType
from bot.question import Kind, Purpose, Question
from bot.scripted import Step
from bot.surface import File
from storage.database import Database
from tests.fakes.mcp.process import ROOT, free_port
from tests.fakes.model import call
from tests.mcp_world import FREE, mcp_world, settle_until
from tests.world import ANA, BEN, World, only_question, returned, until

Settings = dict[str, Any]

CACHE = Path.home() / ".cache" / "interlock-tests"
SERVER = ROOT / "tests" / "fakes" / "mcp" / "fastmcp_server.py"
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
        await until(lambda: offers(world, tool))
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


async def test_a_page_is_a_card_and_a_refusal_that_names_a_page_is_one_too(
    sqlite_db: Database, reference: Settings
) -> None:
    tool = "srv__trigger-url-elicitation"
    step = call(tool, url="https://example.org/consent", errorPath=True)
    async with mcp_world(sqlite_db, reference, step, "Done.") as world, world.serving():
        await until(lambda: offers(world, tool))
        chat = await world.chat()
        first = await next_question(chat)  # of error -32042: the call is over
        assert (first.kind, first.url) == (Kind.PAGE, "https://modelcontextprotocol.io")
        await first.answer(by=ANA)
        second = await next_question(chat)  # in the middle of the call that was made anew
        assert (second.kind, second.url) == (Kind.PAGE, "https://example.org/consent")
        await second.answer(by=ANA)
        (result,) = await ended(chat)
        assert "User completed the URL elicitation flow" in result


@pytest.mark.parametrize(("verb", "word"), [("decline", "declined"), ("dismiss", "cancelled")])
async def test_a_no_is_understood(
    verb: str, word: str, sqlite_db: Database, everything: list[str]
) -> None:
    tool = "srv__trigger-elicitation-request"
    settings = {"command": [*everything, "stdio"], "protocol": "legacy"} | FREE
    async with mcp_world(sqlite_db, settings, call(tool), "Done.") as world, world.serving():
        await until(lambda: offers(world, tool))
        chat = await world.chat()
        question = await next_question(chat)
        await (question.decline(by=ANA) if verb == "decline" else question.dismiss(by=ANA))
        assert f"User {word}" in (await ended(chat))[0]


async def test_results_of_every_kind_reach_the_model_and_the_thread(
    sqlite_db: Database, reference: Settings
) -> None:
    step = [
        call("srv__get-structured-content", location="Chicago"),
        call("srv__get-tiny-image"),
        call("srv__get-resource-links", count=2),
        call("srv__trigger-long-running-operation", duration=0.3, steps=3),
    ]
    async with mcp_world(sqlite_db, reference, step, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        structured, image, links, slow = await returned(chat)
        shown = [one.content for one in world.surface.shown.values()]
        assert '"humidity":82' in structured.replace(" ", "")
        assert "Here's the image you requested:" in image
        assert [one.mime_type for one in shown if isinstance(one, File)] == ["image/png"]
        assert "Text Resource 2" in links
        assert "Long running operation completed" in slow
        told = [one for one in world.surface.replies() if one.startswith("srv__trigger-long-")]
        assert any("33%" in one for one in told)


async def test_a_tool_that_runs_only_as_a_task_of_2025_is_hidden_and_the_log_says_why(
    sqlite_db: Database, reference: Settings
) -> None:
    with capture_logs() as logs:
        async with mcp_world(sqlite_db, reference, "Done.") as world:
            await world.chat()
            await world.settle()
            (request,) = world.model.requests
    names = {one.name for one in request.tools}
    assert "srv__echo" in names
    assert "srv__simulate-research-query" not in names
    (told,) = [one for one in logs if one.get("tool") == "simulate-research-query"]
    assert "task of MCP 2025-11-25" in told["event"]


# Two servers of 2026-07-28, in Python


async def test_a_server_that_only_reads_is_used_without_asking(sqlite_db: Database) -> None:
    programs = from_pypi("mcp-server-time==2026.10.19")
    settings: Settings = {
        "command": [str(programs / "mcp-server-time"), "--local-timezone", "UTC"],
        "trusted_annotations": True,
        "approval_by_annotation": "not_read_only",
    }
    step = call(
        "srv__convert_time", source_timezone="UTC", time="12:30", target_timezone="Asia/Tokyo"
    )
    async with mcp_world(sqlite_db, settings, step, "Done.") as world:
        assert "2026-07-28 over stdio" in world.sources[0].health()
        chat = await world.chat()
        await world.settle()
        (result,) = await returned(chat)
        assert "21:30" in result
        assert not world.surface.cards()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, and a change that is staged."""
    path = tmp_path / "repository"
    path.mkdir()
    git(path, "init", "--quiet")
    for name, value in (("name", "Ana"), ("email", "ana@example.org"), ("useConfigOnly", "true")):
        git(path, "config", f"user.{name}", value)
    (path / "notes").write_text("one\n")
    git(path, "add", "notes")
    git(path, "commit", "--quiet", "--message", "First")
    (path / "notes").write_text("two\n")
    git(path, "add", "notes")
    return path


def git(path: Path, *arguments: str) -> list[str]:
    command = ["git", "-C", str(path), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def git_server(repository: Path) -> Settings:
    programs = from_pypi("mcp-server-git==2026.10.19")
    return {
        "command": [str(programs / "mcp-server-git"), "--repository", str(repository)],
        "approval_by_tool": {"git_status": "never"},
    }


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("allowed", [True, False])
async def test_a_commit_is_made_once_somebody_allowed_it_and_not_before(
    allowed: bool, sqlite_db: Database, repository: Path
) -> None:
    path = str(repository)
    steps: list[Step] = [
        call("srv__git_status", repo_path=path),
        call("srv__git_commit", repo_path=path, message="Second"),
        "Done.",
    ]
    async with mcp_world(sqlite_db, git_server(repository), *steps) as world:
        assert "2026-07-28 over stdio" in world.sources[0].health()
        chat = await world.chat()
        await world.settle()
        question = await only_question(chat)
        assert (question.purpose, question.tool) == (Purpose.APPROVAL, "srv__git_commit")
        assert question.arguments == {"repo_path": path, "message": "Second"}
        assert git(repository, "log", "--format=%s") == ["First"]
        await (question.approve(by=BEN) if allowed else question.decline(by=BEN))
        await world.settle()
        assert await chat.last_reply() == "Done."
        status, _ = await returned(chat)
        assert "notes" in status
    assert git(repository, "log", "--format=%s") == (["Second", "First"] if allowed else ["First"])


# FastMCP, whose tasks and rounds are its own


@pytest.fixture(scope="module")
def fastmcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    programs = from_pypi("fastmcp[tasks]==4.1.4")
    port = free_port()
    command = [str(programs / "python"), str(SERVER), str(port)]
    log = tmp_path_factory.mktemp("fastmcp") / "log"
    with running(command, port, log) as url:
        yield {"url": url} | FREE


def over(chat: Chat) -> Callable[[], Awaitable[bool]]:
    async def said() -> bool:
        return await chat.last_reply() == "Done."

    return said


async def test_a_strangers_task_is_followed_from_its_start_to_its_result(
    sqlite_db: Database, fastmcp: Settings
) -> None:
    step = call("srv__count", seconds=0.8)
    async with mcp_world(sqlite_db, fastmcp, step, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        (task,) = await chat.pending_tasks()
        assert task.poll_interval == 0.5
        await settle_until(world, over(chat))
        assert await returned(chat) == ["counted for 0.8 seconds"]
        cards = [s.content for s in world.surface.shown.values() if isinstance(s.content, TaskCard)]
        assert [one.title for one in cards] == ["srv__count is done"]


async def test_a_strangers_task_asks_and_goes_on_in_another_process(
    sqlite_db: Database, fastmcp: Settings
) -> None:
    step = call("srv__deploy", service="api")
    async with mcp_world(sqlite_db, fastmcp, step, "Done.") as first:
        chat = await first.chat()

        async def asked() -> bool:
            return bool(await chat.pending_questions())

        await settle_until(first, asked)
        surface = first.surface
    async with mcp_world(sqlite_db, fastmcp, step, "Done.", surface=surface) as second:
        here = second.here(chat)
        question = await only_question(here)
        assert question.message == "Where to?"
        await question.answer({"env": "production"}, by=ANA)
        await settle_until(second, over(here))
        assert await returned(here) == ["api: accept {'env': 'production'} (asked for env)"]
    assert len(surface.cards()) == 1


async def test_a_strangers_round_is_answered_in_another_process(
    sqlite_db: Database, fastmcp: Settings
) -> None:
    step = call("srv__rename")
    async with mcp_world(sqlite_db, fastmcp, step, "Done.") as first:
        chat = await first.chat()
        await first.settle()
        surface = first.surface
    async with mcp_world(sqlite_db, fastmcp, step, "Done.", surface=surface) as second:
        here = second.here(chat)
        await (await only_question(here)).answer({"name": "blue"}, by=ANA)
        await second.settle()
        assert await returned(here) == ["renamed: accept {'name': 'blue'} (asked for name)"]
