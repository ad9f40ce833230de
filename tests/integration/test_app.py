"""The program: its start, its one process, its web server, its command line, its demonstration."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from bot.app import App
from bot.approvers import Policies
from bot.core import Agent
from bot.demo import story
from bot.demo.effects import Effects
from bot.secrets import ConfigError
from storage.database import Database
from storage.migrate import is_current, upgrade
from tests.fakes.model import script
from tests.fakes.program import Ended, interlock

INTERLOCK = str(Path(sys.executable).with_name("interlock"))
CONFIG = """
database = "sqlite:///bot.db"
[agents.ops]
model = "openai:gpt-5"
tools = ["ask_user"]
[surfaces.console]
[server]
port = 0
"""


def app_at(url: str) -> App:
    agent = Agent(name="ops", model=script("hi"))
    return App(database=url, agents={"ops": agent}, policies=Policies())


async def test_a_new_file_gets_its_tables(tmp_path: Path) -> None:
    app = app_at(f"sqlite:///{tmp_path / 'new.db'}")
    async with app.started():
        assert await is_current(app.db)


async def test_a_second_process_on_one_database_is_refused(database_url: str) -> None:
    async with app_at(database_url).started():
        with pytest.raises(ConfigError, match="Another Interlock process"):
            async with app_at(database_url).started():
                pass
    async with app_at(database_url).started():  # the lock went with the first
        pass


async def test_a_postgres_of_another_version_is_refused(postgres_url: str) -> None:
    empty = postgres_url.replace("/postgres?", "/template1?")
    app = app_at(empty)
    with pytest.raises(ConfigError, match="interlock db upgrade"):
        async with app.started():
            pass


async def test_a_database_that_cannot_be_opened_is_named_without_its_password() -> None:
    with pytest.raises(ConfigError, match=r"bot:\*\*\*@127\.0\.0\.1") as refused:
        async with app_at("postgresql://bot:hunter2@127.0.0.1:1/x").started():
            pass
    assert "hunter2" not in str(refused.value)


async def test_a_surface_nobody_installed_is_named(tmp_path: Path) -> None:
    app = app_at(f"sqlite:///{tmp_path / 'x.db'}")
    with pytest.raises(ConfigError, match=r"surfaces\.pager"):
        app.open_surface("pager", {})
    with pytest.raises(ConfigError, match="no agent nobody"):
        app.open_surface("console", {"agent": "nobody"})


def run(*words: str, cwd: Path, **env: str) -> Ended:
    return interlock(words, cwd=cwd, env=os.environ | {"OPENAI_API_KEY": "sk-test"} | env)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "interlock.toml").write_text(CONFIG)
    return tmp_path


def test_a_wrong_setting_ends_with_2_and_a_sentence(workspace: Path) -> None:
    (workspace / "interlock.toml").write_text(CONFIG + 'tools = ["ask_user"]\n')
    done = run("check", cwd=workspace)
    assert done.returncode == 2
    assert "server.tools is not a setting" in done.stderr
    assert "Traceback" not in done.stderr


def test_serve_without_a_slack_token_says_which(workspace: Path) -> None:
    config = CONFIG.replace("[surfaces.console]", "[surfaces.slack]")
    (workspace / "interlock.toml").write_text(config)
    done = run("serve", cwd=workspace, SLACK_BOT_TOKEN="")
    assert done.returncode == 2
    assert "SLACK_BOT_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr


def test_serve_refuses_a_tool_that_nobody_may_approve(workspace: Path) -> None:
    (workspace / "mine.py").write_text(
        "from bot import tool\n\n@tool\nasync def pay() -> str:\n    'Pays.'\n    return 'x'\n"
    )
    config = CONFIG.replace('"ask_user"', '"mine:pay"')
    (workspace / "interlock.toml").write_text(config)
    done = run("serve", cwd=workspace)
    assert done.returncode == 2
    assert "The tool pay of the agent ops asks for approval" in done.stderr


def test_init_never_overwrites(workspace: Path) -> None:
    done = run("init", cwd=workspace)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert (workspace / "interlock.toml").read_text() == CONFIG


def test_status_and_pending_list_from_rows_alone(workspace: Path) -> None:
    early = run("status", cwd=workspace, OPENAI_API_KEY="")
    assert early.returncode == 2
    assert "run `interlock serve`, or `interlock db upgrade`" in early.stderr
    assert run("db", "upgrade", cwd=workspace).returncode == 0
    assert run("status", cwd=workspace, OPENAI_API_KEY="").returncode == 0
    assert run("pending", cwd=workspace, OPENAI_API_KEY="").returncode == 0


def test_serve_at_a_port_in_use_says_so(workspace: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run("serve", cwd=workspace, INTERLOCK_SERVER__PORT=str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_init_where_nothing_can_be_written_says_so(workspace: Path) -> None:
    done = run("init", "-c", "nodir/interlock.toml", cwd=workspace)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


def test_status_and_pending_have_json_for_scripts(workspace: Path) -> None:
    assert run("db", "upgrade", cwd=workspace).returncode == 0
    assert json.loads(run("status", "--json", cwd=workspace).stdout) == []
    assert json.loads(run("pending", "--json", cwd=workspace).stdout) == []


async def test_health_and_readiness_until_it_is_told_to_stop(workspace: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        INTERLOCK,
        "serve",
        cwd=workspace,
        env=os.environ | {"OPENAI_API_KEY": "sk-test"},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    async with asyncio.timeout(30):
        line = json.loads(await process.stderr.readline())
        port = line["addresses"][0][1]
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            for path in ("/healthz", "/readyz"):
                async with client.get(path) as answer:
                    assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


def test_the_demonstration_without_a_terminal_tells_its_story(tmp_path: Path) -> None:
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = done.stdout
    order = [
        "scripted model",
        "(only cyn is told) You are not among the approvers",
        "(only ana is told) You asked the agent for this",
        "Approved by ben",
        "(only ana is told) Severity must be one of",
        "checkout, the docs site",
        "was killed (kill -9)",
        "What came of roll_back?",
        "The server deploys asks this.",
        "while the server goes on with the rollout",
        "Half of the hosts run checkout v2",
        "checkout runs v2 on every host of staging.",
        "Every effect happened exactly once.",
    ]
    places = [told.index(one) for one in order]
    assert places == sorted(places)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("happened", "code"),
    [
        (["restart_service", "open_ticket", "roll_back"], 0),
        (["restart_service", "open_ticket"], 1),
        (["restart_service", "open_ticket", "roll_back", "roll_back"], 1),
    ],
)
async def test_a_wrong_count_of_effects_fails_the_demonstration(
    happened: list[str], code: int, tmp_path: Path
) -> None:
    effects = Effects(tmp_path)
    for name in happened:
        await effects.happen(name)
    assert story._verdict(effects, story.EXPECTED) == code


async def test_tables_are_upgraded_by_two_processes_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'both.db'}"
    first, second = Database(url), Database(url)
    await asyncio.gather(upgrade(first), upgrade(second))
    assert await is_current(first)
    await first.close()
    await second.close()
