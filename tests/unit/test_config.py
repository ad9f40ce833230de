"""A missing or wrong setting is told in a sentence that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.approvers import Policies, Policy
from bot.clock import WallClock
from bot.config import agents_of, load, policies_of, without_approver
from bot.core import Agent
from bot.policy_settings import weak
from bot.rules import Comparison, Condition
from bot.secrets import ConfigError, secret
from bot.tool import tool
from tests.fakes.model import script

AGENT = '[agents.ops]\nmodel = "openai:gpt-5"\n'
POLICY = AGENT + '[[policies]]\nname = "a"\n'


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
        (POLICY + 'approvers = ["slack:T1/role:ops"]', "policies.0.approvers.0 must name"),
        (POLICY + 'approvers = ["slack:T1/@ops"]', "policies.0.approvers.0 must name"),
        (POLICY + 'approvers = ["console:local/@S1"]', "policies.0.approvers.0 must name"),
        (POLICY + 'approvers = ["slack:E1/@S1"]', "policies.0.approvers.0 must name"),
        (POLICY + 'approvers = ["slack:T1/@T1/S1"]', "policies.0.approvers.0 must name"),
        (POLICY + 'approvers = ["slack:E1/@T1/U1"]', "policies.0.approvers.0 must name"),
        (POLICY + 'approvers = ["anyone"]', "policies.0.approvers.0 must name"),
        (POLICY + "quorum = 0", "policies.0.quorum is wrong"),
        (POLICY + "quorum = 2\nremember = true", "policies.0 has remember and a quorum"),
        (POLICY + "when = [{ equals = 1 }]", "policies.0.when.0.argument is missing"),
        (POLICY + 'when = [{ argument = "a" }]', "policies.0.when.0 needs one of equals"),
        (
            POLICY + 'when = [{ argument = "a", equals = 1, under = "/x" }]',
            "policies.0.when.0 needs one of equals",
        ),
        (POLICY + 'when = [{ argument = "a", at_least = true }]', "policies.0.when.0.at_least"),
        (POLICY + 'when = [{ argument = "a", at_least = nan }]', "policies.0.when.0.at_least"),
        (POLICY + 'when = [{ argument = "a", equals = 2026-01-01 }]', "policies.0.when.0.equals"),
        (POLICY + 'when = [{ argument = "a", one_of = [] }]', "policies.0.when.0.one_of is empty"),
        (
            POLICY + 'when = [{ argument = "a", at_least = 3, at_most = 2 }]',
            "policies.0.when.0 a needs a lower and an upper bound",
        ),
        (
            POLICY + 'when = [{ argument = "a", under = "/srv/../etc" }]',
            "policies.0.when.0 a needs a plain path",
        ),
        (POLICY + "expires_soon = 5", "policies.0.expires_soon is not a setting"),
        ('admins = ["ana"]\n' + AGENT, "admins.0 must name a person"),
        ('admins = ["slack:T1/@S1"]\n' + AGENT, "admins.0 must name a person"),
        ('admins = ["console:local/ana"]\n' + AGENT, "admins.0 names console:local/ana, who"),
        (AGENT + '[people]\nana = ["U1"]', "people.ana.0 must name a person"),
        (AGENT + '[people]\nana = ["slack:T1/@S1"]', "people.ana.0 must name a person"),
        (
            AGENT + '[people]\nana = ["slack:T1/U1"]\nben = ["slack:T1/U1"]',
            "people gives slack:T1/U1 to ana and to ben",
        ),
        (AGENT + '[people]\n"slack:T1/U2" = ["slack:T1/U1"]', "people names somebody"),
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


@tool
async def charge(amount: int) -> str:
    """Charges."""
    return "charged"


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


WHOLE = (
    'admins = ["slack:T1/U9"]\n'
    + POLICY
    + """
tools = ["pay"]
servers = ["bank", "*"]
approvers = [
  "slack:T1/U1", "slack:T1/@S1", "slack:E1/@T1/S1", "slack:T1/#C1",
  "requester", "anyone but the requester",
]
quorum = 2
when = [
  { argument = "amount", at_least = 100, at_most = 900 },
  { argument = "currency", one_of = ["EUR", "USD"] },
  { argument = "urgent", equals = true },
  { argument = "account", under = "/main" },
]

[people]
ana = ["slack:T1/U1", "console:local/ana"]

[servers.bank]
command = "bank"
"""
)


def test_a_policy_is_read_with_all_that_it_can_say(tmp_path: Path) -> None:
    policies = policies_of(load(written(tmp_path, WHOLE)))
    (policy,) = policies.policies
    args = {"amount": 100, "currency": "EUR", "urgent": True, "account": "/main/a"}

    assert policy.quorum == 2
    assert policies.admins == {"slack:T1/U9"}
    assert policies.groups == {"slack:T1/@S1", "slack:E1/@T1/S1", "slack:T1/#C1"}
    assert policies.who("console:local/ana") == policies.who("slack:T1/U1") == "ana"
    assert policy.covers("ops", "pay", "bank", args)
    wrong = {"amount": 901, "currency": "GBP", "urgent": 1, "account": "/mainly"}
    for name, value in wrong.items():
        assert not policy.covers("ops", "pay", "bank", {**args, name: value})


def test_a_policy_for_a_server_that_there_is_not_is_refused(tmp_path: Path) -> None:
    text = POLICY + 'servers = ["bnak"]\n[servers.bank]\ncommand = "bank"\n'
    with pytest.raises(ConfigError, match=r"policies.0.servers names bnak"):
        policies_of(load(written(tmp_path, text)))


@pytest.mark.parametrize(
    ("approvers", "people", "quorum", "fine"),
    [
        (["slack:T1/U1"], {}, 2, False),
        (["slack:T1/U1", "slack:T1/U2"], {}, 2, True),
        (
            ["slack:T1/U1", "console:local/ana"],
            {"ana": ["slack:T1/U1", "console:local/ana"]},
            2,
            False,
        ),
        (["requester"], {}, 2, False),
        (["requester", "slack:T1/U1"], {}, 2, True),
        (["slack:T1/@S1"], {}, 2, True),
        (["slack:T1/U1", "anyone but the requester"], {}, 3, True),
    ],
)
def test_a_quorum_that_the_named_can_never_reach_is_refused(
    approvers: list[str], people: dict[str, list[str]], quorum: int, fine: bool, tmp_path: Path
) -> None:
    text = POLICY + f"approvers = {approvers}\nquorum = {quorum}\n[people]\n"
    text += "".join(f"{name} = {keys}\n" for name, keys in people.items())
    config = load(written(tmp_path, text))
    if fine:
        assert policies_of(config).policies
    else:
        with pytest.raises(ConfigError, match=f"policies.0.quorum is {quorum}, but"):
            policies_of(config)


def test_two_policies_of_one_name_are_refused_since_an_escalation_is_of_a_name(
    tmp_path: Path,
) -> None:
    config = load(written(tmp_path, POLICY + '[[policies]]\nname = "a"\n'))
    with pytest.raises(ConfigError, match=r"policies\.1\.name is a, as of another"):
        policies_of(config)


def test_policies_that_hold_for_some_arguments_only_leave_the_others_to_nobody() -> None:
    agents = {"shop": Agent(name="shop", model=script("hi"), tools=[charge])}
    large = (Condition("amount", Comparison.RANGE, [100, None]),)
    some = Policy(name="p", when=large, approvers=frozenset({"slack:T1/U1"}))
    (sentence,) = without_approver(agents, Policies([some]))
    assert "hold for some arguments only" in sentence
    rest = Policy(name="q", approvers=frozenset({"slack:T1/U1"}))
    assert without_approver(agents, Policies([some, rest])) == []


def test_a_condition_on_an_argument_that_no_tool_has_is_refused() -> None:
    agents = {"shop": Agent(name="shop", model=script("hi"), tools=[charge])}
    typo = (Condition("amuont", Comparison.RANGE, [100, None]),)
    some = Policy(name="p", when=typo, approvers=frozenset({"slack:T1/U1"}))
    rest = Policy(name="q", approvers=frozenset({"slack:T1/U1"}))
    (sentence,) = without_approver(agents, Policies([some, rest]))
    assert "the argument amuont, which no tool" in sentence


def test_the_members_of_a_channel_are_said_to_be_weak(tmp_path: Path) -> None:
    policies = policies_of(load(written(tmp_path, WHOLE)))
    (sentence,) = weak(policies)
    assert "the members of slack:T1/#C1 approve, which is weak" in sentence
