"""Standing rules made outside a card: who may make and revoke which, and what a use leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bot.approvers import FILE, Policies, Policy
from bot.mcp.settings import ServerSettings
from bot.question import NotAllowed, QuestionError
from bot.remember import Remember
from bot.rulebook import make, preview, refused_to_make, revoke
from bot.rules import Comparison, Condition
from bot.surface import Actor, Command, Place
from bot.tool import Tool, tool
from storage import audit, rules
from storage.audit import AuditRow
from storage.database import Database
from storage.rules import RuleRow, Scope
from tests.fakes.model import call
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, world

OPERATOR = Actor("cli", "local", "root")
OPS = Policy(name="ops", approvers=frozenset({BEN.key}), rule_makers=frozenset({BEN.key}))


@tool
async def pay(amount: int, to: str = "ana") -> str:
    """Pays."""
    return "paid"


@tool(carrier=True)
async def shell(command: str) -> str:
    """Runs a command."""
    return "done"


def product(
    db: Database, *steps: Any, policies: list[Policy] | None = None, tools: list[Tool] | None = None
) -> World:
    given = tools or [effect([]), pay, shell]
    return world(db, *steps, tools=given, policies=policies or [OPS])


def rule(w: World, tool: str = "refund", **given: Any) -> RuleRow:
    base: dict[str, Any] = {
        "id": "rule_1",
        "effect": "allow",
        "scope": "organisation",
        "scope_key": "slack:T1",
        "server": "",
        "tool": tool,
        "schema_digest": "",
        "conditions": [],
        "created_by": "",
        "created_name": "",
        "created_at": 0.0,
    }
    return RuleRow(**(base | given))


def when(argument: str, test: Comparison, value: Any) -> list[dict[str, Any]]:
    return [Condition(argument, test, value).to_json()]


async def records(db: Database) -> list[AuditRow]:
    async with db.read() as tx:
        return [row async for row in audit.since(tx)]


async def test_a_rule_of_a_rule_maker_is_kept_for_the_tool_as_it_is(sqlite_db: Database) -> None:
    w = product(sqlite_db, call("refund", order="A1"), "Done.")

    kept = await make(w.core, rule(w, note="as agreed"), by=BEN, via="test")

    assert kept.schema_digest == w.tools[0].schema_digest
    assert (kept.created_by, kept.created_name) == (BEN.key, "ben")
    (row,) = await records(sqlite_db)
    assert (row.event, row.actor, row.via) == ("rule_made", BEN.key, "test")
    assert row.detail["note"] == "as agreed"
    chat = await w.chat()
    await w.settle()
    assert [one.state for one in await chat.calls()] == ["done"]


LARGE = Policy(
    name="large",
    when=(Condition("amount", Comparison.RANGE, [100, None]),),
    approvers=frozenset({BEN.key, CYN.key}),
    quorum=2,
)
AT_MOST_99 = when("amount", Comparison.RANGE, [None, 99])


@pytest.mark.parametrize(
    ("policies", "by", "given", "why"),
    [
        ([OPS], BEN, {}, None),
        ([OPS], BEN, {"effect": "deny"}, None),
        ([OPS], BEN, {"effect": "ask", "scope": "surface", "scope_key": "slack"}, None),
        ([OPS], OPERATOR, {"effect": "deny"}, None),
        ([OPS], CYN, {}, "You are not among the rule makers of the policy ops"),
        ([OPS], CYN, {"effect": "deny"}, "You are not among the rule makers of every policy"),
        ([OPS], OPERATOR, {}, "cli:local/root is not linked to a rule maker"),
        ([OPS], replace(BEN, is_guest=True), {"effect": "deny"}, "people of this organisation"),
        ([OPS], replace(BEN, is_external=True), {"effect": "deny"}, "people of this organisation"),
        ([OPS], replace(BEN, is_bot=True), {"effect": "deny"}, "people of this organisation"),
        ([OPS], BEN, {"tool": "reboot"}, "No agent here has a tool reboot"),
        ([OPS], BEN, {"tool": "reboot", "effect": "deny"}, "No agent here has a tool reboot"),
        ([OPS], BEN, {"tool": "shell"}, "shell can do anything"),
        ([OPS], BEN, {"tool": "shell", "effect": "deny"}, None),
        (
            [OPS],
            BEN,
            {"tool": "shell", "conditions": when("command", Comparison.EQUAL, "ls")},
            None,
        ),
        (
            [OPS],
            BEN,
            {"effect": "deny", "conditions": when("ordr", Comparison.EQUAL, 1)},
            "refund has no argument ordr",
        ),
        ([OPS], BEN, {"conditions": [{"argument": "order"}]}, "test"),
        ([LARGE, OPS], BEN, {"tool": "pay"}, "The policy large wants 2 people"),
        ([LARGE, OPS], BEN, {"tool": "pay", "conditions": AT_MOST_99}, None),
        ([LARGE, OPS], BEN, {"tool": "pay", "effect": "deny"}, "of every policy that decides"),
        ([LARGE, OPS], BEN, {"tool": "pay", "effect": "deny", "conditions": AT_MOST_99}, None),
        ([replace(OPS, rule_makers=frozenset())], BEN, {}, "You are not among the rule makers"),
        ([replace(OPS, tools=("pay",))], BEN, {}, "the policy none"),
    ],
)
async def test_only_who_a_policy_names_makes_a_rule(
    sqlite_db: Database,
    policies: list[Policy],
    by: Actor,
    given: dict[str, Any],
    why: str | None,
) -> None:
    w = product(sqlite_db, policies=policies)
    made = rule(w, **given)

    refused = refused_to_make(w.core, made, by)
    if why is None:
        assert refused is None
        await make(w.core, made, by=by, via="test")
        return
    assert refused is not None
    assert why in refused
    with pytest.raises(NotAllowed):
        await make(w.core, made, by=by, via="test")
    async with sqlite_db.read() as tx:
        assert await rules.get(tx, "rule_1") is None
    (row,) = await records(sqlite_db)
    assert (row.event, row.actor, row.detail["why"]) == ("refused", by.key, refused)


async def test_a_rule_maker_on_another_surface_is_the_same_person(sqlite_db: Database) -> None:
    w = product(sqlite_db, call("refund", order="A1"), "Done.")
    w.core.policies = Policies([OPS], {BEN.key: "ben", OPERATOR.key: "ben"})

    await make(w.core, rule(w), by=OPERATOR, via="cli")
    chat = await w.chat()
    await w.settle()

    assert [one.state for one in await chat.calls()] == ["done"]


@pytest.mark.parametrize(
    ("given", "by", "may"),
    [
        ({}, BEN, True),
        ({}, CYN, False),
        ({"created_by": CYN.key}, CYN, True),
        ({"created_by": CYN.key, "effect": "deny"}, CYN, True),
        ({"created_by": CYN.key}, OPERATOR, True),
        ({"requester": ANA.key}, ANA, True),
        ({"requester": ANA.key, "effect": "deny"}, ANA, False),
        ({"created_by": FILE}, BEN, False),
        ({"created_by": FILE}, OPERATOR, False),
        ({"created_by": CYN.key}, replace(CYN, is_external=True), False),
    ],
)
async def test_who_made_it_or_is_for_it_revokes_a_rule(
    sqlite_db: Database, given: dict[str, Any], by: Actor, may: bool
) -> None:
    policy = replace(OPS, approvers=frozenset({"slack:T1/DAN"}))
    w = product(sqlite_db, policies=[policy])
    made = rule(w, **({"created_by": "slack:T1/GONE"} | given))
    async with sqlite_db.transaction("make") as tx:
        await rules.add(tx, made)

    if may:
        await revoke(w.core, made.id, by=by, via="test")
        with pytest.raises(QuestionError):
            await revoke(w.core, made.id, by=OPERATOR, via="test")
    else:
        with pytest.raises(NotAllowed):
            await revoke(w.core, made.id, by=by, via="test")
    first = (await records(sqlite_db))[0]
    assert (first.event, first.actor) == ("rule_revoked" if may else "refused", by.key)
    async with sqlite_db.read() as tx:
        now = await rules.get(tx, made.id)
    assert now is not None
    assert (now.revoked_by == by.key) is may


async def test_an_approver_revokes_what_lets_a_call_run_without_them(sqlite_db: Database) -> None:
    w = product(sqlite_db, policies=[replace(OPS, approvers=frozenset({BEN.key, CYN.key}))])
    await make(w.core, rule(w), by=BEN, via="test")
    await make(w.core, rule(w, id="rule_2", effect="deny"), by=BEN, via="test")

    await revoke(w.core, "rule_1", by=CYN, via="test")
    with pytest.raises(NotAllowed):
        await revoke(w.core, "rule_2", by=CYN, via="test")


async def test_who_makes_the_rules_of_one_policy_does_not_end_those_of_another(
    sqlite_db: Database,
) -> None:
    large = replace(LARGE, quorum=1, rule_makers=frozenset({CYN.key}))
    w = product(sqlite_db, policies=[large, OPS])
    at_least_100 = when("amount", Comparison.RANGE, [100, None])
    denied = rule(w, tool="pay", effect="deny", conditions=at_least_100, created_by="slack:T1/DAN")
    async with sqlite_db.transaction("make") as tx:
        await rules.add(tx, denied)

    with pytest.raises(NotAllowed):
        await revoke(w.core, denied.id, by=BEN, via="test")
    assert refused_to_make(w.core, replace(denied, id="rule_2"), BEN) is not None
    both = replace(large, rule_makers=frozenset({BEN.key, CYN.key}))
    w.core.policies = Policies([both, OPS])
    await revoke(w.core, denied.id, by=BEN, via="test")


@pytest.mark.row("B68")
async def test_revoking_asks_for_the_next_call_and_leaves_what_waits_and_runs(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    w = product(
        sqlite_db,
        call("refund", order="A1"),
        "Done.",
        call("refund", order="A2"),
        tools=[effect(effects)],
    )
    chat = await w.chat()
    await w.settle()
    waiting = await only_question(chat)
    other = await w.chat()
    await make(w.core, rule(w), by=BEN, via="test")
    await w.settle()
    assert effects == ["refund A1"]  # the other chat's; the card of the first still waits
    assert await chat.pending_questions() == [waiting]

    await revoke(w.core, "rule_1", by=BEN, via="test")
    assert await chat.pending_questions() == [waiting]
    await other.say("again", by=ANA)
    await w.settle()

    assert len(await other.pending_questions()) == 1
    assert effects == ["refund A1"]


@pytest.mark.parametrize(
    ("effect_", "approval", "state", "line"),
    [
        (
            "deny",
            "always",
            "declined",
            "`refund` is refused: `ben` said so in this whole workspace",
        ),
        (
            "ask",
            "never",
            "waiting",
            "`refund` is asked about: `ben` said so in this whole workspace",
        ),
        ("allow", "always", "done", "`refund` runs without asking: `ben` allowed it in this whole"),
    ],
)
async def test_every_use_leaves_a_line_and_a_row_and_is_counted(
    sqlite_db: Database, effect_: str, approval: Any, state: str, line: str
) -> None:
    w = product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[effect([], approval=approval)]
    )
    ends = w.core.now() + 86_400
    await make(w.core, rule(w, effect=effect_, uses_left=1, expires_at=ends), by=BEN, via="test")
    chat = await w.chat()
    await w.settle()

    assert [one.state for one in await chat.calls()] == [state]
    (told,) = [one for one in w.surface.replies() if "rule_1" in one]
    assert told.startswith(line)
    assert told.endswith("until 2027-01-16 at 08:00 UTC (rule `rule_1`; `rules` lists it).")
    (used,) = await audited(chat, "rule_used")
    assert (used.actor, used.detail["rule"], used.detail["effect"]) == (BEN.key, "rule_1", effect_)
    async with sqlite_db.read() as tx:
        row = await rules.get(tx, "rule_1")
    assert row is not None
    assert (row.uses, row.uses_left) == (1, 0)

    again = await w.chat()  # its uses are spent
    await w.settle()
    assert await audited(again, "rule_used") == []


async def test_a_rule_that_asks_where_it_is_asked_anyway_is_not_used(sqlite_db: Database) -> None:
    w = product(sqlite_db, call("refund", order="A1"))
    await make(w.core, rule(w, effect="ask", uses_left=1), by=BEN, via="test")
    chat = await w.chat()
    await w.settle()

    assert len(await chat.pending_questions()) == 1
    assert await audited(chat, "rule_used") == []


async def test_a_rule_that_denies_what_was_approved_is_told_too(sqlite_db: Database) -> None:
    effects: list[str] = []
    w = product(sqlite_db, call("refund", order="A1"), "I see.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN)
    await make(w.core, rule(w, effect="deny"), by=BEN, via="test")
    await w.settle()

    assert effects == []
    assert len(await audited(chat, "rule_used")) == 1
    assert any("is refused: `ben` said so" in one for one in w.surface.replies())


async def test_a_rule_counts_where_the_word_of_who_approved_no_longer_does(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    policy = replace(OPS, rule_makers=frozenset({CYN.key}))
    w = product(
        sqlite_db, call("refund", order="A1"), "Done.", policies=[policy], tools=[effect(effects)]
    )
    chat = await w.chat()
    await w.settle()
    await make(w.core, rule(w, uses_left=1), by=CYN, via="test")
    await (await only_question(chat)).approve(by=BEN)
    w.core.policies = Policies([replace(policy, approvers=frozenset({CYN.key}))])
    await w.settle()

    assert effects == ["refund A1"]
    assert len(await audited(chat, "rule_used")) == 1
    async with sqlite_db.read() as tx:
        used = await rules.get(tx, "rule_1")
    assert used is not None
    assert (used.uses, used.uses_left) == (1, 0)


@pytest.mark.row("B6")
async def test_nobody_lets_their_own_calls_run_by_a_rule(sqlite_db: Database) -> None:
    w = product(sqlite_db, call("refund", order="A1"))
    await make(w.core, rule(w), by=BEN, via="test")

    mine, theirs = await w.chat(by=BEN), await w.chat(by=ANA)
    await w.settle()

    assert [one.state for one in await mine.calls()] == ["declined"]  # nobody else may approve it
    assert [one.state for one in await theirs.calls()] == ["done"]


async def test_a_rule_in_the_thread_of_an_approver_is_no_rule_of_other_threads(
    sqlite_db: Database,
) -> None:
    only = replace(OPS, rule_makers=frozenset())
    w = product(sqlite_db, call("refund", order="A1"), "Done.", policies=[only])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN, remember=Remember())
    async with sqlite_db.transaction("widen") as tx:
        (kept,) = await rules.made_by(tx, BEN.key)
        await rules.add(tx, replace(kept, id="wide", scope=Scope.SURFACE, scope_key="slack"))

    other = await w.chat()
    await w.settle()
    assert len(await other.pending_questions()) == 1


async def test_what_several_must_approve_no_rule_allows(sqlite_db: Database) -> None:
    w = product(sqlite_db, call("refund", order="A1"))
    await make(w.core, rule(w), by=BEN, via="test")
    async with sqlite_db.transaction("add") as tx:
        of_file = replace(rule(w), id="of_file", created_by=FILE)
        await rules.add(tx, replace(of_file, schema_digest=w.tools[0].schema_digest))

    two = replace(OPS, approvers=frozenset({BEN.key, CYN.key}), quorum=2)
    w = await w.restart(policies=[two])
    chat = await w.chat()
    await w.settle()

    assert len(await chat.pending_questions()) == 1


async def test_a_suspended_rule_is_listed_as_such(sqlite_db: Database) -> None:
    w = product(sqlite_db, call("refund", order="A1"))
    await make(w.core, rule(w), by=BEN, via="test")

    @tool(name="refund")
    async def other(order: str, amount: int = 1) -> str:
        """Another."""
        return order

    w = await w.restart(tools=[other])
    chat = await w.chat()
    await w.settle()

    assert len(await chat.pending_questions()) == 1
    assert "suspended: the tool has changed since" in await listed(w)


async def listed(w: World) -> str:
    place = Place("slack", "T1", "C1", "")
    return await w.service.command(Command(name="rules", actor=ANA, place=place))


async def test_a_rule_says_who_made_it_why_and_when_it_was_last_used(sqlite_db: Database) -> None:
    w = product(sqlite_db, call("refund", order="A1"), "Done.")
    conditions = when("order", Comparison.ONE_OF, ["A1", "A2"])
    made = rule(w, note="see *1*", requester=ANA.key, conditions=conditions, uses_left=5)
    await make(w.core, made, by=BEN, via="test")
    await w.chat()
    await w.settle()

    assert (
        "`refund` runs without asking in its whole workspace when `order is one of “A1”, “A2”` "
        "if `ANA` asks: `ben` said so on 2027-01-15 at 08:00 UTC, 4 uses left; "
        "used once, last on 2027-01-15 at 08:00 UTC; `see *1*`"
    ) in await listed(w)


async def test_a_preview_counts_the_calls_of_whom_the_rule_is_for(db: Database) -> None:
    w = product(db, call("refund", order="A1"))
    for by in (ANA, CYN):
        chat = await w.chat(by=by)
        await w.settle()
    await (await only_question(chat)).decline(by=BEN)

    async with db.read() as tx:
        for_ana = await preview(tx, rule(w, requester=ANA.key))
        for_cyn = await preview(tx, rule(w, requester=CYN.key))
        nowhere = await preview(tx, rule(w, scope_key="slack:T2"))
        odd = await preview(tx, rule(w, scope="channel", scope_key=""))
    assert (for_ana.looked_at, len(for_ana.met)) == (2, 1)
    assert "did not run because people or rules said no" not in for_ana.sentence
    assert "of which 1 did not run because people or rules said no" in for_cyn.sentence
    assert nowhere.sentence == odd.sentence == "There was no such call there yet."


async def test_a_preview_shows_a_person_calls_of_their_own_organisation_alone(
    sqlite_db: Database,
) -> None:
    w = product(sqlite_db, call("refund", order="A1"))
    await w.chat()
    await w.settle()

    wide: dict[str, Any] = {"scope": "surface", "scope_key": "slack"}
    elsewhere = replace(BEN, organisation="T2")
    async with sqlite_db.read() as tx:
        looked = [
            (await preview(tx, rule(w, **wide, created_by=by.key))).looked_at
            for by in (BEN, elsewhere, OPERATOR)
        ]
    assert looked == [1, 0, 1]


def test_another_server_behind_the_same_name_has_other_tools() -> None:
    def identity(**given: Any) -> list[str | None]:
        return ServerSettings(**given).identity

    one = identity(url="https://a.example/mcp", headers={"X-Team": "a"}, call_timeout=5)
    assert one == identity(url="https://a.example/mcp", headers={"X-Team": "b"})
    assert one != identity(url="https://b.example/mcp")
    here = identity(command=["server", "--a"])
    assert here == identity(command=["server", "--a"], env={"TOKEN": "env:TOKEN"})
    assert here != identity(command=["server", "--b"])
    assert here != identity(command=["server", "--a"], cwd="/elsewhere")
