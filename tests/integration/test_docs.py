"""Every command and every piece of Python in the docs is run."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.config import agents_of, load, policies_of
from bot.example_config import EXAMPLE
from tests.fakes.clock import WallClock
from tests.fakes.program import interlock
from tests.fakes.slack import FakeSlack

ROOT = Path(__file__).resolve().parents[2]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
AGENT = '[agents.ops]\nmodel = "openai:gpt-5"\n'
INTERLOCK = Path(sys.executable).with_name("interlock")


def _blocks(language: str) -> Iterator[tuple[str, str]]:
    for path in DOCS:
        text = path.read_text()
        for number, found in enumerate(re.findall(rf"```{language}\n(.*?)```", text, re.S)):
            yield f"{path.name}-{number}", found


def _commands() -> list[str]:
    lines = [line.strip() for _, block in _blocks("console") for line in block.splitlines()]
    return sorted({line.removeprefix("$ ") for line in lines if line.startswith("$ ")})


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A place as an admin would have it: a configuration, the examples, secrets."""
    (tmp_path / "interlock.toml").write_text(EXAMPLE)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def _environment(workspace: Path, slack: FakeSlack | None = None) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if "SLACK" not in name}
    env |= {"OPENAI_API_KEY": "sk-test", "SLACK_BOT_TOKEN": "xoxb-test"}
    env |= {"SLACK_APP_TOKEN": "xapp-test", "INTERLOCK_SERVER__PORT": "0"}
    if slack is not None:
        env["INTERLOCK_SURFACES__SLACK__BASE_URL"] = slack.base_url
    return env


async def _run(command: list[str], cwd: Path, env: dict[str, str], stop_at: str = "") -> int:
    """Runs a command; one that serves is told to stop once it says `stop_at`."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    seen = []
    async with asyncio.timeout(60):
        async for line in process.stdout:
            seen.append(line.decode())
            if stop_at and stop_at in seen[-1]:
                process.send_signal(signal.SIGTERM)
        code = await process.wait()
    assert code == 0, "".join(seen)
    return code


@pytest.mark.parametrize("command", _commands())
async def test_a_command_of_the_docs_does_what_it_says(command: str, workspace: Path) -> None:
    words = command.split()
    async with FakeSlack(WallClock()) as slack:
        env = _environment(workspace, slack)
        match words:
            case ["export", assignment]:
                name, _, value = assignment.partition("=")
                assert name in env
                assert value.endswith("...")
            case ["make", target]:  # this very test runs under one, and test_app runs the demo
                await _run(["make", "--dry-run", target], ROOT, env)
            case ["interlock", "init"]:
                (workspace / "interlock.toml").unlink()
                await _run([str(INTERLOCK), "init"], workspace, env)
                assert (workspace / "interlock.toml").read_text() == EXAMPLE
            case ["interlock", "serve"]:
                await _run([str(INTERLOCK), *words[1:]], workspace, env, stop_at="serving")
            case ["interlock", "console", *_]:
                await _console(words[1:], workspace, env)
            case ["python", *rest]:
                await _run([sys.executable, *rest], workspace, env)
            case ["interlock", "teams", *_]:
                sections = [one for _, one in _blocks("toml") if "[surfaces.teams.package]" in one]
                with (workspace / "interlock.toml").open("a") as config:
                    config.write("\n".join(sections))
                await _forked(words[1:], workspace, env)
                assert (workspace / "interlock-teams.zip").exists()
            case ["interlock", "audit", "verify", name]:
                seal = ["audit", "seal", name, "--before", "2026-07-01"]
                for rest in (["db", "upgrade"], seal, words[1:]):
                    await _forked(rest, workspace, env)
            case ["interlock", *rest]:
                await _forked(["db", "upgrade"], workspace, env)
                await _forked(rest, workspace, env)
            case _:
                pytest.fail(f"nobody knows how to try: {command}")


async def _forked(words: list[str], cwd: Path, env: dict[str, str]) -> None:
    ended = await asyncio.to_thread(interlock, words, cwd=cwd, env=env)
    assert ended.returncode == 0, ended.stdout + ended.stderr


async def _console(words: list[str], workspace: Path, env: dict[str, str]) -> None:
    """Without a terminal the console only prints; it runs until it is told to stop."""
    process = await asyncio.create_subprocess_exec(
        str(INTERLOCK), *words, cwd=workspace, env=env, stdin=subprocess.DEVNULL
    )
    async with asyncio.timeout(60):
        while not (workspace / "interlock.db").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.parametrize(
    "source", [pytest.param(code, id=name) for name, code in _blocks("python")]
)
def test_a_piece_of_python_of_the_docs_compiles_and_runs(source: str, tmp_path: Path) -> None:
    path = tmp_path / "snippet.py"
    path.write_text(source)
    done = subprocess.run(
        [sys.executable, str(path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("source", [pytest.param(code, id=name) for name, code in _blocks("toml")])
def test_a_piece_of_configuration_of_the_docs_is_valid(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("DEPLOYS_TOKEN", "t-test")
    path = tmp_path / "interlock.toml"
    path.write_text(source if "[agents." in source else f"{AGENT}\n{source}")
    config = load(path)
    assert agents_of(config, WallClock())
    policies_of(config)


def test_the_written_configuration_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "interlock.toml"
    path.write_text(EXAMPLE)
    config = load(path)
    assert policies_of(config).of("ops", "restart_service").approvers
    assert not policies_of(config).of("ops", "something_else").approvers


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_between_docs_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert "://" in target or (path.parent / target).exists(), target
