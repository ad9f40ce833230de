"""Standing rules in the loop: scopes, ends, uses, and what they leave behind."""

from __future__ import annotations

from typing import Any

import pytest

from bot.approvers import Policy
from bot.surface import Actor
from storage import rules
from storage.database import Database
from storage.rules import RuleRow
from tests import world as worlds
from tests.fakes.model import call
from tests.world import ANA, BEN, CYN, World, audited, effect

BEN_MAKES = Policy(name="ops", approvers=frozenset({BEN.key}), rule_makers=frozenset({BEN.key}))


def world(db: Database, *steps: Any, **options: Any) -> World:
    """A world where Ben may make any rule."""
    return worlds.world(db, *steps, **({"policies": [BEN_MAKES]} | options))


async def rule(w: World, **given: Any) -> RuleRow:
    """A rule that lets refund run in every thread, unless `given` says otherwise."""
    of = next(one for one in w.tools if one.name == "refund")
    base: dict[str, Any] = {
        "id": "rule_1",
        "effect": "allow",
        "scope": "organisation",
        "scope_key": "slack:T1",
        "server": "",
        "tool": "refund",
        "schema_digest": of.schema_digest,
        "conditions": [],
        "created_by": BEN.key,
        "created_name": "Ben",
        "created_at": w.core.now(),
    }
    row = RuleRow(**(base | given))
    async with w.core.db.transaction("make_rule") as tx:
        await rules.add(tx, row)
    return row


async def outcome(w: World, *, by: Actor = ANA) -> str:
    """What becomes of the refund that the model asks for."""
    chat = await w.chat(by=by)
    await chat.complete()
    return (await chat.calls())[-1].state


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        ("channel", "slack:T1/C1"),
        ("organisation", "slack:T1"),
        ("surface", "slack"),
    ],
)
async def test_a_rule_speaks_in_every_thread_of_its_scope(
    db: Database, scope: str, key: str
) -> None:
    effects: list[str] = []
    w = world(db, call("refund", order="A1"), "done", tools=[effect(effects)])
    await rule(w, scope=scope, scope_key=key)
    assert await outcome(w) == "done"
    assert effects == ["refund A1"]


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        ("channel", "slack:T1/C2"),
        ("organisation", "slack:T2"),
        ("surface", "teams"),
        ("chat", "chat_other"),
        ("chat", "slack:T1"),
        ("surface", "slack:T1"),
    ],
)
async def test_a_rule_of_another_scope_is_silent(db: Database, scope: str, key: str) -> None:
    w = world(db, call("refund", order="A1"), tools=[effect([])])
    await rule(w, scope=scope, scope_key=key)
    assert await outcome(w) == "waiting"


@pytest.mark.row("B60")
async def test_a_rule_that_denies_beats_one_that_allows(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund", order="A1"), "I may not.", tools=[effect(effects)])
    await rule(w)
    await rule(w, id="rule_2", effect="deny")
    assert await outcome(w) == "declined"
    assert effects == []


async def test_a_rule_that_asks_asks_for_a_tool_that_would_run(db: Database) -> None:
    w = world(db, call("refund", order="A1"), tools=[effect([], approval="never")])
    await rule(w, effect="ask")
    assert await outcome(w) == "waiting"


async def test_a_rule_allows_only_the_values_that_it_names(db: Database) -> None:
    effects: list[str] = []
    both = [call("refund", order="A1"), call("refund", order="A2")]
    w = world(db, both, tools=[effect(effects)])
    await rule(w, conditions=[{"argument": "order", "test": "equal", "value": "A1"}])
    chat = await w.chat()
    await chat.complete()
    assert [one.state for one in await chat.calls()] == ["done", "waiting"]
    assert effects == ["refund A1"]


async def test_a_rule_ends_with_its_last_use_also_within_one_round(db: Database) -> None:
    effects: list[str] = []
    three = [call("refund", order=f"A{number}") for number in range(3)]
    w = world(db, three, tools=[effect(effects)])
    await rule(w, uses_left=2)
    chat = await w.chat()
    await chat.complete()
    states = [one.state for one in await chat.calls()]
    assert sorted(states) == ["done", "done", "waiting"]
    assert len(effects) == 2


async def test_a_rule_ends_at_its_time(db: Database) -> None:
    w = world(db, call("refund", order="A1"), tools=[effect([])])
    await rule(w, expires_at=w.core.now() - 1)
    assert await outcome(w) == "waiting"


@pytest.mark.row("B68")
async def test_a_revoked_rule_is_silent(db: Database) -> None:
    w = world(db, call("refund", order="A1"), tools=[effect([])])
    made = await rule(w)
    async with db.transaction("revoke") as tx:
        assert await rules.revoke(tx, made.id, by=BEN.key, now=w.core.now())
        assert not await rules.revoke(tx, made.id, by=BEN.key, now=w.core.now())
    assert await outcome(w) == "waiting"


async def test_a_rule_for_one_requester_is_silent_for_others(db: Database) -> None:
    w = world(
        db, call("refund", order="A1"), "done", call("refund", order="A1"), tools=[effect([])]
    )
    await rule(w, requester=ANA.key)
    assert await outcome(w) == "done"
    assert await outcome(w, by=CYN) == "waiting"


@pytest.mark.row("B45")
async def test_a_rule_of_somebody_who_approves_no_more_is_silent(db: Database) -> None:
    other = Policy(name="ops", approvers=frozenset({CYN.key}))
    w = world(db, call("refund", order="A1"), tools=[effect([])], policies=[other])
    await rule(w)
    assert await outcome(w) == "waiting"


async def test_a_rule_is_suspended_when_the_tool_changes(db: Database) -> None:
    w = world(db, call("refund", order="A1"), tools=[effect([])])
    await rule(w, schema_digest="another")
    assert await outcome(w) == "waiting"


async def test_every_use_leaves_a_line_and_a_row(db: Database) -> None:
    w = world(db, call("refund", order="A1"), "done", tools=[effect([])])
    await rule(w)
    chat = await w.chat()
    await w.settle()
    assert [row.detail["rule"] for row in await audited(chat, "rule_used")] == ["rule_1"]
    assert any("`refund` runs without asking" in text for text in w.surface.replies())
    async with db.read() as tx:
        used = await rules.get(tx, "rule_1")
    assert used is not None
    assert (used.uses, used.used_at) == (1, w.core.now())


async def test_a_rule_that_steps_in_for_a_revoked_one_is_counted(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund", order="A1"), "done", tools=[effect(effects)])
    await rule(w, id="rule_a")
    chat = await w.chat()
    await chat.step()  # the message becomes history
    await chat.step()  # the model asks for the call, which rule_a allows
    assert [one.allowed_by for one in await chat.calls()] == ["rule:rule_a"]
    async with db.transaction("change_rules") as tx:
        await rules.revoke(tx, "rule_a", by=BEN.key, now=w.core.now())
    await rule(w, id="rule_b", uses_left=1)
    await chat.complete()
    assert effects == ["refund A1"]
    assert [one.allowed_by for one in await chat.calls()] == ["rule:rule_b"]
    async with db.read() as tx:
        used = await rules.get(tx, "rule_b")
    assert used is not None
    assert (used.uses, used.uses_left) == (1, 0)
