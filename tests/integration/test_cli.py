"""What whoever runs the bot does with its command line, over the rows of a real process."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.approvers import FILE
from bot.chat import Chat
from bot.cli import cli
from bot.cli_rules import account
from bot.remember import THREAD
from bot.secrets import ConfigError
from storage import audit, chats, rules
from storage.audit import AuditRow
from storage.chats import ChatRow
from storage.database import Database
from tests.fakes.background import background
from tests.fakes.model import call
from tests.world import BEN, effect, only_question, world

CONFIG = """
database = "sqlite:///{path}"
[agents.agent]
model = "openai:gpt-5"
tools = ["admins_tools:rollout", "admins_tools:refund", "admins_tools:shell"]

[[policies]]
name = "ops"
approvers = ["slack:T1/BEN"]
"""
TOOLS = """
from bot.tool import tool
from tests.fakes.background import background
from tests.world import effect

refund, rollout = effect([]), background()


@tool(carrier=True)
async def shell(command: str) -> str:
    \"\"\"Runs a command.\"\"\"
    return command
"""


@dataclass
class Left:
    """What the bot left: a chat with a call that is done by a rule and one in the background."""

    config: Path
    chat: str
    calls: dict[str, str]

    def run(self, *words: str) -> tuple[int, str]:
        """The exit code and what was printed."""
        done = CliRunner().invoke(cli, [*words, "--config", str(self.config)])
        return done.exit_code, done.output

    def now(self) -> tuple[ChatRow, list[AuditRow]]:
        """The chat and its audit log as they stand."""
        return asyncio.run(self._now())

    async def _now(self) -> tuple[ChatRow, list[AuditRow]]:
        db = Database(f"sqlite:///{self.config.parent / 'interlock.db'}")
        async with db.read() as tx:
            rows = await audit.of_chat(tx, self.chat)
            chat = await chats.get(tx, self.chat)
        await db.close()
        assert chat is not None
        return chat, rows


@pytest.fixture
def left(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Left:
    path = tmp_path / "interlock.db"
    shutil.copyfile(sqlite_template, path)
    (tmp_path / "interlock.toml").write_text(CONFIG.format(path=path))
    (tmp_path / "admins_tools.py").write_text(TOOLS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    chat, found = asyncio.run(_work(f"sqlite:///{path}"))
    return Left(tmp_path / "interlock.toml", chat, found)


async def _work(url: str) -> tuple[str, dict[str, str]]:
    db = Database(url)
    w = world(db, call("refund"), call("rollout"), tools=[effect([]), background()])
    chat: Chat = await w.chat()
    await chat.complete()
    await (await only_question(chat)).approve(by=BEN, remember=THREAD)
    await w.settle()
    found = {row.name: row.id for row in await chat.calls()}
    await db.close()
    return chat.id, found


def test_task_tells_of_a_call_or_a_chat_of_any_channel(left: Left) -> None:
    code, of_call = left.run("task", left.calls["rollout"][5:12])
    assert code == 0
    assert "running in the background" in of_call
    assert "half way" in of_call

    code, of_chat = left.run("task", left.chat)
    assert code == 0
    assert "is idle" in of_chat


@pytest.mark.parametrize("command", ["task", "cancel"])
def test_an_unknown_id_ends_with_1_and_a_sentence(left: Left, command: str) -> None:
    code, output = left.run(command, "zzzzzz")

    assert code == 1
    assert "not found" in output


def test_cancel_asks_the_server_and_says_who_did_in_the_audit_log(left: Left) -> None:
    assert left.run("cancel", left.calls["rollout"]) == (0, "The server was asked to stop.\n")

    (row,) = [one for one in left.now()[1] if one.event == "cancel_task"]
    assert (row.via, row.call_id) == ("cli", left.calls["rollout"])
    assert str(row.actor).startswith("cli:local/")


def test_cancel_of_a_chat_stops_it(left: Left) -> None:
    code, output = left.run("cancel", left.chat)

    assert code == 0, output
    chat, rows = left.now()
    (row,) = [one for one in rows if one.event == "stop_chat"]
    assert row.via == "cli"
    assert chat.cancelled_by == row.actor


def test_cancel_of_a_call_that_has_ended_ends_with_1(left: Left) -> None:
    assert left.run("cancel", left.calls["refund"]) == (1, "`refund` has ended already.\n")


def test_rules_lists_the_standing_rules_also_for_scripts(left: Left) -> None:
    (rule,) = json.loads(left.run("rules", "--json")[1])

    assert (rule["tool"], rule["scope_key"], rule["created_by"]) == ("refund", left.chat, BEN.key)
    assert "`refund` runs without asking in its thread" in left.run("rules")[1]


def test_a_rule_of_the_operator_says_what_it_would_have_met_and_is_in_force(left: Left) -> None:
    made = ["rules", "add", "refund", "--does", "deny", "--where", "slack:T1", "--yes"]
    code, output = left.run(*made, "--when", "order=A9", "--until", "2099-01-01")

    assert code == 0, output
    assert "refund is refused when order is “A9”, in slack:T1, until 2099-01-01" in output
    assert "Of the only call there it would have met none." in output
    found = json.loads(left.run("rules", "--json")[1])
    (rule,) = [one for one in found if one["effect"] == "deny"]
    assert (rule["scope"], rule["scope_key"]) == ("organisation", "slack:T1")
    assert str(rule["created_by"]).startswith("cli:local/")
    assert [one.event for one in left.now()[1]].count(
        "rule_made"
    ) == 1  # the card's: this one is of no chat
    assert "is refused in its whole workspace" in left.run("rules")[1]


def test_a_rule_without_conditions_has_met_every_call_of_its_tool(left: Left) -> None:
    made = ["rules", "add", "refund", "--does", "ask", "--where", "slack:T1/C1", "--yes"]

    output = left.run(*made)[1]
    assert "Of the only call there it would have met 1:" in output
    assert 'refund {"order":"A1"}' in output


def test_a_rule_that_allows_takes_an_operator_who_is_a_rule_maker(left: Left) -> None:
    made = ["rules", "add", "refund", "--does", "allow", "--where", "slack:T1", "--yes"]
    code, output = left.run(*made)
    assert code == 1
    assert f"cli:local/{account()} is not linked to a rule maker of the policy ops" in output

    with left.config.open("a") as config:
        config.write('rule_makers = ["slack:T1/BEN"]\n')
        config.write(f'[people]\nben = ["slack:T1/BEN", "cli:local/{account()}"]\n')
    code, output = left.run(*made, "--when", "order=A1", "--uses", "2", "--note", "as agreed")

    assert code == 0, output
    found = json.loads(left.run("rules", "--json")[1])
    (rule,) = [one for one in found if one["scope"] == "organisation"]
    assert (rule["effect"], rule["uses_left"], rule["note"]) == ("allow", 2, "as agreed")
    assert len(rule["schema_digest"]) == 64
    assert "`as agreed`" in left.run("rules")[1]


@pytest.mark.row("B65")
@pytest.mark.parametrize(
    ("tool", "more", "why"),
    [
        ("shell", [], "shell can do anything that its arguments say"),
        ("reboot", [], "No agent here has a tool reboot now"),
        ("refund", ["--when", "ordr=A1"], "refund has no argument ordr"),
        ("refund", ["--until", "2020-01-01"], "It would have ended on 2020-01-01"),
    ],
)
def test_an_operator_is_told_why_a_rule_cannot_be_made(
    left: Left, tool: str, more: list[str], why: str
) -> None:
    made = ["rules", "add", tool, "--does", "allow", "--where", "slack", "--yes", *more]
    code, output = left.run(*made)

    assert (code, output.startswith(why)) == (1, True), output


def test_a_rule_that_would_have_ended_already_is_not_made(left: Left) -> None:
    made = ["rules", "add", "refund", "--does", "deny", "--where", "slack", "--yes"]
    assert left.run(*made, "--until", "2020-01-01") == (
        1,
        "It would have ended on 2020-01-01 at 00:00 UTC already; name a later day.\n",
    )
    assert len(json.loads(left.run("rules", "--json")[1])) == 1


def test_a_rule_that_allows_says_what_keeps_the_tools_from_being_loaded(
    left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    words = ["rules", "add", "refund", "--does", "allow", "--where", "slack", "--yes"]
    done = CliRunner().invoke(cli, [*words, "--config", str(left.config)])
    assert isinstance(done.exception, ConfigError)
    assert "set OPENAI_API_KEY" in str(done.exception)


@pytest.mark.parametrize(
    "words",
    [
        ["rules"],
        ["rules", "revoke", "rule_x"],
        ["rules", "add", "refund", "--does", "deny", "--where", "slack", "--yes"],
        ["audit", "export"],
        ["audit", "seal", "sealed.jsonl", "--before", "2027-01-01"],
    ],
)
def test_a_database_without_its_tables_is_said_to_be_one(left: Left, words: list[str]) -> None:
    empty = left.config.parent / "empty.db"
    old = left.config.parent / "interlock.db"
    left.config.write_text(left.config.read_text().replace(str(old), str(empty)))
    done = CliRunner().invoke(cli, [*words, "--config", str(left.config)])
    assert isinstance(done.exception, ConfigError)
    assert "has not the tables of this version" in str(done.exception)


def test_check_says_what_is_wrong_with_the_rules_of_the_file(left: Left) -> None:
    assert left.run("check")[0] == 0
    with left.config.open("a") as config:
        config.write('[[rules]]\ntool = "shell"\neffect = "allow"\nwhere = "slack"\n')
    done = CliRunner().invoke(cli, ["check", "--config", str(left.config)])

    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("rules.0: shell can do anything")


def test_a_rule_of_the_file_is_not_revoked_from_outside_it(left: Left) -> None:
    asyncio.run(_of_file(left))
    code, output = left.run("rules", "revoke", "rule_file")

    assert code == 1
    assert "stands in interlock.toml" in output


async def _of_file(left: Left) -> None:
    db = Database(f"sqlite:///{left.config.parent / 'interlock.db'}")
    async with db.transaction("make") as tx:
        (kept,) = await rules.made_by(tx, BEN.key)
        await rules.add(tx, replace(kept, id="rule_file", created_by=FILE))
    await db.close()


def test_a_revoked_rule_is_no_longer_listed(left: Left) -> None:
    (rule,) = json.loads(left.run("rules", "--json")[1])

    assert left.run("rules", "revoke", rule["id"]) == (
        0,
        f"{rule['id']} is no longer in force.\n",
    )
    assert left.run("rules")[1] == "No standing rule is in force.\n"
    assert left.run("rules", "revoke", rule["id"])[0] == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--where", "slack:T1/"], "is no place"),
        (["--where", "slack", "--when", "amount"], "is no condition"),
        (["--where", "slack", "--when", "path under ../x"], "needs a plain path"),
        (["--where", "slack", "--when", "amount>=many"], "needs a lower and an upper bound"),
        (["--where", "slack T1"], "is no place"),
        (["--where", "Slack"], "is no place"),
        (["--where", "slack", "--when", "amount<=NaN"], "is no value of an argument"),
    ],
)
def test_a_rule_that_cannot_be_made_is_said_in_a_sentence(
    left: Left, given: list[str], told: str
) -> None:
    words = ["rules", "add", "refund", "--does", "deny", *given, "--config", str(left.config)]
    done = CliRunner().invoke(cli, words)

    assert isinstance(done.exception, ConfigError)
    assert told in str(done.exception)
