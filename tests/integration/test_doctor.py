"""`interlock doctor` as whoever runs the bot sees it: each part, whatever ails another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from bot import doctor, finding
from bot.cli import cli
from bot.config import load
from bot.finding import Finding, Health, gathered, ok, warning
from bot.secrets import ConfigError
from bot.surface import Place
from storage import chats
from storage.database import Database
from storage.migrate import upgrade
from tests.fakes.clock import WallClock

CONFIG = """
database = "sqlite:///{path}/bot.db"
[agents.ops]
model = "openai:gpt-5"
[[policies]]
name = "money"
approvers = ["slack:T1/U2", "console:local/ana"]
[[policies]]
name = "rest"
approvers = ["slack:T1/U1", "slack:T1/U2"]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "interlock.toml"
    path.write_text(CONFIG.format(path=tmp_path))
    return path


def added(config: Path, more: str) -> Path:
    config.write_text(config.read_text() + more)
    return config


def run(config: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["doctor", *words, "--config", str(config)])
    return done.exit_code, done.output


async def examined(config: Path) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for one in await doctor.examine(load(config), WallClock()):
        found.setdefault(one.what, []).append(one)
    return found


class Checked:
    """A surface that is only checked."""

    name = "slack"

    def __init__(self, found: Sequence[Finding] | Exception) -> None:
        self.found = found
        self.asked: list[tuple[Sequence[Place], Sequence[str]]] = []
        self.opened: list[Mapping[str, Any]] = []

    def open(self, _name: str, settings: Mapping[str, Any], *_: object) -> Checked:
        self.opened.append(settings)
        return self

    async def check(self, places: Sequence[Place], people: Sequence[str]) -> list[Finding]:
        self.asked.append((places, people))
        if isinstance(self.found, Exception):
            raise self.found
        return list(self.found)


def opened(monkeypatch: pytest.MonkeyPatch, found: Sequence[Finding] | Exception) -> Checked:
    surface = Checked(found)
    monkeypatch.setattr(doctor, "open_adapter", surface.open)
    return surface


# --- The command


def test_each_part_is_a_line_and_a_sound_bot_ends_with_0(config: Path) -> None:
    code, output = run(added(config, "[surfaces.console]\n"))
    assert code == 0
    assert output.replace("\n", "").startswith("ok   Database: sqlite:///")


def test_a_problem_ends_with_1_and_hides_nothing(config: Path, tmp_path: Path) -> None:
    code, output = run(
        added(config, '[surfaces.pager]\n[servers.clock]\ncommand = ["no-such-command"]\n')
    )
    assert code == 1
    told = " ".join(output.split())
    assert "BAD pager: surfaces.pager: no adapter of this name is installed." in told
    assert "BAD MCP server clock:" in told
    assert "ok Database:" in told


def test_json_for_scripts(config: Path) -> None:
    code, output = run(added(config, "[surfaces.pager]\n"), "--json")
    assert code == 1
    assert [(one["what"], one["health"]) for one in json.loads(output)] == [
        ("Database", "ok"),
        ("pager", "problem"),
    ]


def test_a_warning_alone_ends_with_0(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(monkeypatch, [warning("Slack scopes", "One is missing.")])
    code, output = run(added(config, "[surfaces.slack]\n"))
    assert code == 0
    assert "WARN Slack scopes: One is missing." in output


def test_a_missing_secret_is_a_line_as_any_other(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "")
    code, output = run(added(config, "[surfaces.slack]\n"))
    assert code == 1
    assert "BAD  slack: SLACK_BOT_TOKEN is missing" in output


# --- What it looks at


async def test_a_database_that_does_not_answer_hides_no_surface(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_DATABASE", "postgresql://bot:hunter2@127.0.0.1:1/x")
    surface = opened(monkeypatch, [ok("Slack", "Fine.")])
    found = await examined(added(config, "[surfaces.slack]\n"))
    [database] = found["Database"]
    assert database.health is Health.PROBLEM
    assert "hunter2" not in database.sentence
    assert found["Slack"] == [ok("Slack", "Fine.")]
    assert surface.asked[0][0] == []


async def test_a_postgres_of_another_version_is_told_what_to_run(
    config: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    empty = postgres_url.replace("/postgres?", "/template1?")
    monkeypatch.setenv("INTERLOCK_DATABASE", empty)
    [database] = (await examined(config))["Database"]
    assert database.health is Health.PROBLEM
    assert "interlock db upgrade" in database.sentence


async def test_a_surface_is_asked_about_its_own_approvers_and_the_channels_of_its_chats(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = Database(f"sqlite:///{tmp_path / 'bot.db'}")
    await upgrade(db)
    async with db.transaction("chats") as tx:
        for number, channel in enumerate(["C1", "C2", "C1"]):
            place = Place("slack", "T1", channel, f"{number}.0")
            await opened_at(tx, place, number)
        await opened_at(tx, Place("console", "local", "console", "main"), 9)
    await db.close()
    surface = opened(monkeypatch, [])
    await examined(added(config, '[surfaces.slack]\nagent = "ops"\nmode = "http"\n'))
    [(places, people)] = surface.asked
    assert [place.channel for place in places] == ["C1", "C2"]
    assert people == ["slack:T1/U1", "slack:T1/U2"]
    assert surface.opened == [{"mode": "http"}]


async def opened_at(tx: Any, place: Place, number: int) -> None:
    await chats.open_at(
        tx, place, chat_id=f"c{number}", agent="ops", requester="x", now=float(number)
    )


async def test_the_channels_of_the_newest_chats_come_first(db: Database) -> None:
    async with db.transaction("chats") as tx:
        for number, channel in enumerate(["C1", "C2", "C3", "C2", "C1"]):
            await opened_at(tx, Place("slack", "T1", channel, f"{number}.0"), number)
        await opened_at(tx, Place("slack", "T2", "C1", "9.0"), 9)
    async with db.read() as tx:
        newest = await chats.channels(tx, "slack", 3)
        assert newest == [
            Place("slack", "T2", "C1", ""),
            Place("slack", "T1", "C1", ""),
            Place("slack", "T1", "C2", ""),
        ]
        assert await chats.channels(tx, "teams", 3) == []


async def test_an_agent_that_is_not_there_is_named(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(monkeypatch, [ok("Slack", "Fine.")])
    found = await examined(added(config, '[surfaces.slack]\nagent = "oops"\n'))
    assert "there is no agent oops" in found["slack"][0].sentence
    assert found["Slack"][0].health is Health.OK


async def test_a_surface_that_fails_is_a_finding(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(monkeypatch, RuntimeError("xoxb-secret"))
    found = await examined(added(config, "[surfaces.slack]\n"))
    [one] = found["slack"]
    assert one.health is Health.PROBLEM
    assert "xoxb-secret" not in one.sentence
    assert found["Database"][0].health is Health.OK


async def test_servers_that_are_written_wrong_are_told_in_a_sentence(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> None:
        raise ConfigError("servers.clock: name a command or a url.")

    monkeypatch.setattr(doctor, "sources_of", wrong)
    found = await examined(config)
    assert [one.sentence for one in found["MCP servers"]] == [
        "servers.clock: name a command or a url."
    ]
    assert found["Database"][0].health is Health.OK


async def test_a_server_is_stopped_whatever_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = []

    async def hangs() -> None:
        await asyncio.Event().wait()

    async def stop() -> None:
        stopped.append(True)

    source: Any = SimpleNamespace(name="clock", start=hangs, stop=stop)
    found = await gathered("MCP server clock", doctor._source("x", source), 0.05)
    assert "took too long" in found[0].sentence
    assert stopped == [True]


async def test_a_check_keeps_what_it_found_before_it_failed() -> None:
    async def check() -> AsyncIterator[Finding]:
        yield ok("x", "One is well.")
        raise KeyError("secret")

    first, second = await gathered("x", check())
    assert first == ok("x", "One is well.")
    assert second == finding.problem(
        "x", "This could not be looked at (KeyError): try again, and report it if it stays."
    )
