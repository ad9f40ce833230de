"""Standing rules of interlock.toml: rows from the start on, for the tool as it was first seen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic
import pytest

from bot.app import App
from bot.approvers import FILE, Policies, Policy
from bot.core import Agent
from bot.rule_settings import RuleSettings, problems, sync
from bot.rules import Comparison, Condition
from bot.secrets import ConfigError
from bot.tool import Tool, tool
from storage import audit, rules
from storage.database import Database
from storage.rules import RuleRow
from tests.fakes.clock import FakeClock
from tests.fakes.model import call, script
from tests.world import BEN_APPROVES, World, audited, effect, world


class Away:
    """A server that does not answer until it has tools."""

    name = "srv"

    def __init__(self, *tools: Tool) -> None:
        self.offered = tools

    async def tools(self, *, fresh: bool = False) -> Sequence[Tool]:
        return self.offered

    def known(self, name: str) -> Tool | None:
        return next((one for one in self.offered if one.name == name), None)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def health(self) -> str:
        return ""


def entry(**given: Any) -> RuleSettings:
    base = {"tool": "refund", "effect": "allow", "where": "slack:T1"}
    return RuleSettings.model_validate(base | given)


async def made(db: Database) -> list[RuleRow]:
    async with db.read() as tx:
        return await rules.made_by(tx, FILE)


async def events(db: Database) -> list[tuple[str, str | None, Any]]:
    async with db.read() as tx:
        rows = [one async for one in audit.since(tx)]
    return [(one.event, one.via, one.detail.get("rule")) for one in rows if one.via == "file"]


async def test_an_entry_is_a_rule_that_lets_a_call_run_and_says_where_it_stands(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    two = [call("refund", order="A1"), call("refund", order="A2")]
    w = world(sqlite_db, two, tools=[effect(effects)])
    when = [{"argument": "order", "equals": "A1"}]
    await sync(w.core, [entry(when=when, until="2099-01-31", uses=5, note="agreed")])

    chat = await w.chat()
    await w.settle()

    assert effects == ["refund A1"]
    (row,) = await made(sqlite_db)
    assert (row.uses, row.uses_left, row.note) == (1, 4, "agreed")
    assert row.expires_at == 4073500800.0  # as that day begins, in UTC
    assert any(
        one.startswith("`refund` runs without asking: `interlock.toml` allowed it in this whole")
        for one in w.surface.replies()
    )
    (used,) = await audited(chat, "rule_used")
    assert used.actor == FILE


async def test_entries_that_stay_keep_their_rules_and_those_that_go_end_them(
    sqlite_db: Database,
) -> None:
    w = world(sqlite_db, tools=[effect([])])
    first, second = entry(uses=3), entry(effect="deny", where="slack:T2")

    await sync(w.core, [first, second])
    kept = {one.effect: one.id for one in await made(sqlite_db)}
    async with sqlite_db.transaction("use") as tx:
        await rules.count_use(tx, kept["allow"], w.core.now())
    await sync(w.core, [second, first])
    assert {one.effect: one.id for one in await made(sqlite_db)} == kept
    await sync(w.core, [first])
    (row,) = await made(sqlite_db)
    assert (row.id, row.uses, row.uses_left) == (kept["allow"], 1, 2)
    await sync(w.core, [first, second])  # it is a new rule, though the entry is the same
    assert kept["deny"] not in {one.id for one in await made(sqlite_db)}

    told = [(event, rule) for event, _, rule in await events(sqlite_db)]
    assert sorted(told[:2]) == sorted([("rule_made", one) for one in kept.values()])
    assert told[2] == ("rule_revoked", kept["deny"])
    assert [event for event, _ in told[3:]] == ["rule_made"]


async def test_processes_that_start_at_once_make_a_rule_once(db: Database) -> None:
    w = world(db, tools=[effect([])])
    for number in range(5):
        await asyncio.gather(*(sync(w.core, [entry(note=str(number))]) for _ in range(4)))
    (row,) = await made(db)
    assert row.note == "4"
    assert [event for event, _, rule in await events(db) if rule == row.id] == ["rule_made"]


async def test_a_tool_that_changes_suspends_the_rule_until_its_entry_changes(
    sqlite_db: Database,
) -> None:
    w = world(sqlite_db, call("refund", order="A1"), tools=[effect([])])
    await sync(w.core, [entry()])

    @tool(name="refund")
    async def other(order: str, amount: int = 1) -> str:
        """Another."""
        return "done"

    w = await w.restart(tools=[other])
    await sync(w.core, [entry()])
    assert await state(w) == "waiting"

    await sync(w.core, [entry(note="looked at in May")])
    assert await state(w) == "done"


async def state(w: World) -> str:
    chat = await w.chat()
    await w.settle()
    return (await chat.calls())[-1].state


async def test_a_rule_for_a_tool_that_is_not_known_yet_allows_nothing_and_is_for_what_comes(
    sqlite_db: Database,
) -> None:
    @tool(name="srv__refund")
    async def refund(order: str) -> str:
        """Refunds."""
        return "done"

    server = Away()
    w = world(sqlite_db, call("srv__refund", order="A1"), sources=[server])
    of_server = Tool(
        **{**{name: getattr(refund, name) for name in Tool.__dataclass_fields__}, "server": "srv"}
    )
    await sync(w.core, [entry(tool="srv__refund")])
    assert list(problems(w.core, [entry(tool="srv__refund")])) == []
    assert [one.schema_digest for one in await made(sqlite_db)] == [""]
    server.offered = (of_server,)
    assert await state(w) == "waiting"

    await sync(w.core, [entry(tool="srv__refund")])
    assert [one.schema_digest for one in await made(sqlite_db)] == [of_server.schema_digest]
    assert await state(w) == "done"


@tool(carrier=True)
async def shell(command: str) -> str:
    """Runs a command."""
    return "done"


TWO = Policy(name="two", tools=("shell",), approvers=BEN_APPROVES.approvers, quorum=2)


@pytest.mark.row("B65")
@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([entry()], None),
        ([entry(tool="shell")], "rules.0: shell can do anything that its arguments say"),
        ([entry(tool="reboot")], "rules.0: No agent here has a tool reboot"),
        ([entry(tool="reboot", effect="deny")], "rules.0: No agent here has a tool reboot"),
        (
            [entry(when=[{"argument": "ordr", "equals": 1}])],
            "rules.0: refund has no argument ordr",
        ),
        ([entry(), entry()], "rules.1 stands there twice"),
        (
            [entry(effect="deny", where="slack"), entry()],
            "rules.1 allows what rules.0 denies, which is stronger",
        ),
        (
            [entry(), entry(effect="ask")],
            "rules.0 allows what rules.1 asks about, which is stronger",
        ),
        ([entry(effect="deny", where="slack:T1/C1"), entry()], None),
        ([entry(effect="deny", when=[{"argument": "order", "equals": "A1"}]), entry()], None),
        (
            [entry(tool="shell", when=[{"argument": "command", "equals": "ls"}])],
            "rules.0 allows shell, for which the policy two wants 2 people",
        ),
    ],
)
async def test_what_could_never_hold_is_said(
    sqlite_db: Database, entries: list[RuleSettings], why: str | None
) -> None:
    w = world(sqlite_db, tools=[effect([]), shell], policies=[TWO, BEN_APPROVES])

    found = list(problems(w.core, entries))

    assert len(found) == (why is not None)
    assert why is None or found[0].startswith(why)


@pytest.mark.parametrize(
    "given",
    [
        {"effect": "maybe"},
        {"where": "slack:"},
        {"where": "everywhere else"},
        {"until": "2027-01-31T10:00:00"},
        {"uses": 0},
        {"when": [{"argument": "path", "under": "../x"}]},
        {"requester": "ana"},
    ],
)
def test_an_entry_that_says_nothing_clear_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        entry(**given)


async def test_the_program_keeps_the_rules_of_its_configuration(tmp_path: Path) -> None:
    def app(*entries: RuleSettings) -> App:
        agent = Agent(name="ops", model=script("hi"), tools=[effect([])])
        return App(
            database=f"sqlite:///{tmp_path / 'bot.db'}",
            agents={"ops": agent},
            policies=Policies([BEN_APPROVES]),
            rules=entries,
            clock=FakeClock(),
        )

    one = app(entry(effect="deny"))
    async with one.started():
        assert [row.effect for row in await made(one.db)] == ["deny"]
    with pytest.raises(ConfigError, match=r"rules\.0: No agent here has a tool reboot"):
        async with app(entry(tool="reboot")).started():
            pass
    one = app()
    async with one.started():
        assert await made(one.db) == []


def test_a_condition_of_the_file_is_one_of_the_gate() -> None:
    (one,) = entry(when=[{"argument": "amount", "at_most": 5}]).when
    assert one.condition() == Condition("amount", Comparison.RANGE, [None, 5])
