"""A missing or wrong setting is told in a sentence that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.approvers import Policies, Policy
from bot.clock import WallClock
from bot.config import agents_of, load, policies_of, without_approver
from bot.core import Agent
from bot.secrets import ConfigError, secret
from bot.tool import tool
from tests.fakes.model import script

AGENT = '[agents.ops]\nmodel = "openai:gpt-5"\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "interlock.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[agents.ops]\n", "agents.ops.model is missing"),
        (AGENT + 'tool = ["x:y"]', "agents.ops.tool is not a setting"),
        (AGENT + "calls = 0", "agents.ops.calls is wrong"),
        ("database = 5\n" + AGENT, "database is wrong"),
        ('database = "garbage"\n' + AGENT, "database must be sqlite:///FILE or postgresql:"),
        ('database = "postgresql://h:x/n"\n' + AGENT, "database must be sqlite:///FILE"),
        ('database = "mysql://h/n"\n' + AGENT, "database names mysql, but only sqlite"),
        (
            AGENT + '[[policies]]\nname = "a"\napprovers = ["ana"]',
            "policies.0.approvers.0 must name",
        ),
        (AGENT + "[server]\nport = 70000", "server.port is wrong"),
        ("this is not TOML", "not valid TOML"),
    ],
)
def test_a_wrong_setting_is_named(text: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=named):
        load(written(tmp_path, text))


def test_a_file_that_is_no_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "interlock.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load(tmp_path / "interlock.toml")


def test_a_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="interlock init"):
        load(tmp_path / "interlock.toml")


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        ('["examples.incident"]', "must be module:name"),
        ('["no.such.module:x"]', "cannot be imported"),
        ('["examples.incident:nothing"]', "has no nothing"),
        ('["examples.incident:SERVICES"]', "is no tool"),
        ('["ask_user", "ask_user"]', "twice"),
    ],
)
def test_a_wrong_tool_is_named(
    tools: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    config = load(written(tmp_path, f"{AGENT}tools = {tools}"))
    with pytest.raises(ConfigError, match=named):
        agents_of(config, WallClock())


@pytest.mark.parametrize("model", ["gpt-5", "nobody:gpt-5", "openai:gpt-5"])
def test_a_wrong_model_or_a_missing_key_is_named(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config = load(written(tmp_path, f'[agents.ops]\nmodel = "{model}"'))
    with pytest.raises(ConfigError, match=r"agents\.ops\.model"):
        agents_of(config, WallClock())


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_DATABASE", "sqlite:///other.db")
    monkeypatch.setenv("INTERLOCK_SERVER__PORT", "9")
    config = load(written(tmp_path, AGENT))
    assert config.database == "sqlite:///other.db"
    assert config.server.port == 9


def test_no_agent_at_all_is_said(tmp_path: Path) -> None:
    config = load(written(tmp_path, 'database = "sqlite:///x.db"'))
    with pytest.raises(ConfigError, match="agents is empty"):
        agents_of(config, WallClock())


def test_a_secret_may_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(" sk-1\n")
    monkeypatch.delenv("SOME_KEY", raising=False)
    monkeypatch.setenv("SOME_KEY_FILE", str(tmp_path / "key"))
    assert secret("SOME_KEY") == "sk-1"
    monkeypatch.setenv("SOME_KEY_FILE", str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="SOME_KEY_FILE"):
        secret("SOME_KEY")


@tool
async def pay(amount: int) -> str:
    """Pays."""
    return "paid"


@tool(approval="never")
async def look() -> str:
    """Looks."""
    return "seen"


def test_a_tool_that_nobody_may_approve_is_named_at_the_start() -> None:
    agents = {"shop": Agent(name="shop", model=script("hi"), tools=[pay, look])}
    (sentence,) = without_approver(agents, Policies())
    assert "pay" in sentence
    assert "shop" in sentence
    assert "[[policies]]" in sentence
    named = Policy(name="p", tools=("pay",), approvers=frozenset({"slack:T1/U1"}))
    assert without_approver(agents, Policies([named])) == []
    asks = Policy(name="p", tools=("look",), ask=True)
    assert len(without_approver(agents, Policies([asks, named]))) == 1


def test_the_first_policy_that_covers_a_tool_counts(tmp_path: Path) -> None:
    text = AGENT + (
        '[[policies]]\nname = "money"\ntools = ["pay*"]\n'
        'approvers = ["slack:T1/U1"]\n'
        '[[policies]]\nname = "rest"\napprovers = ["slack:T1/U2"]\n'
    )
    policies = policies_of(load(written(tmp_path, text)))
    assert policies.of("ops", "pay_out").name == "money"
    assert policies.of("ops", "other").name == "rest"
    assert policies.of("ops", "other").self_approval is False
