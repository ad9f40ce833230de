"""Who may decide, as a table; nobody where nobody is configured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.approvers import (
    ANYONE,
    NOBODY,
    REQUESTER,
    Policies,
    Policy,
    audience,
    may_remember,
    may_stop,
    refusal,
    unreachable,
)
from bot.question import Purpose
from bot.rules import Comparison, Condition
from bot.surface import Actor

ANA = Actor("slack", "T1", "ANA")  # asks the agent
BEN = Actor("slack", "T1", "BEN")
CYN = Actor("slack", "T1", "CYN")
OPS = Policy(name="ops", approvers=frozenset({BEN.key}))
BOTH = Policy(name="both", approvers=frozenset({ANA.key, BEN.key}))
TRUSTING = replace(BOTH, self_approval=True)
ONLY_ANA = Policy(name="ana", approvers=frozenset({ANA.key}))


def may(actor: Actor, purpose: Purpose, policy: Policy) -> bool:
    said = refusal(actor, purpose=purpose, policy=policy, askers=[ANA.key], tool="refund")
    assert said is None or said.endswith(".")
    return said is None


@pytest.mark.parametrize(
    ("policy", "approvers"),
    [
        (OPS, {BEN}),
        (BOTH, {BEN}),
        (TRUSTING, {ANA, BEN}),
        (ONLY_ANA, set()),
        (NOBODY, set()),
        (replace(NOBODY, self_approval=True), set()),
    ],
)
def test_who_may_approve(policy: Policy, approvers: set[Actor]) -> None:
    assert {one for one in (ANA, BEN, CYN) if may(one, Purpose.APPROVAL, policy)} == approvers
    shown = audience(policy, purpose=Purpose.APPROVAL, askers=[ANA.key])
    assert shown["deciders"] == sorted(one.key for one in approvers)
    assert (unreachable(policy, askers=[ANA.key], tool="refund") is None) is bool(approvers)


@pytest.mark.parametrize("policy", [OPS, BOTH, TRUSTING, ONLY_ANA, NOBODY])
def test_what_a_tool_asks_is_for_who_asked_and_for_approvers(policy: Policy) -> None:
    able = {one for one in (ANA, BEN, CYN) if may(one, Purpose.ASK, policy)}

    assert able == {ANA} | ({BEN} if BEN.key in policy.approvers else set())
    shown = audience(policy, purpose=Purpose.ASK, askers=[ANA.key])
    assert shown["deciders"] == sorted(one.key for one in able)


@pytest.mark.parametrize(
    ("policy", "deciders"),
    [
        (OPS, {BEN}),
        (BOTH, {BEN}),
        (TRUSTING, {ANA, BEN}),
        (ONLY_ANA, {ANA}),  # nobody else could, and the chat must not wait for ever
        (NOBODY, {ANA}),
    ],
)
def test_a_lost_run_is_settled_by_an_approver_or_else_by_who_asked(
    policy: Policy, deciders: set[Actor]
) -> None:
    assert {one for one in (ANA, BEN, CYN) if may(one, Purpose.OUTCOME, policy)} == deciders
    shown = audience(policy, purpose=Purpose.OUTCOME, askers=[ANA.key])
    assert shown["deciders"] == sorted(one.key for one in deciders)


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize("policy", [OPS, BOTH, TRUSTING, ONLY_ANA, NOBODY])
def test_a_bot_decides_nothing(purpose: Purpose, policy: Policy) -> None:
    assert not any(may(replace(one, is_bot=True), purpose, policy) for one in (ANA, BEN, CYN))


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize("flag", ["is_guest", "is_external"])
def test_guests_and_outsiders_decide_only_where_named(purpose: Purpose, flag: str) -> None:
    ana, ben = (replace(one, **{flag: True}) for one in (ANA, BEN))  # type: ignore[arg-type]

    assert may(ben, purpose, OPS)
    assert not may(ana, purpose, OPS)
    assert not may(ana, purpose, NOBODY)


@pytest.mark.parametrize(
    "twin",
    [
        Actor("teams", "T1", "BEN"),
        Actor("slack", "T2", "BEN"),
        Actor("slack", "T1", "ben"),
        Actor("slack", "T1", "BEN "),
        Actor("slack", "T1", "CYN", name="BEN"),
        Actor("slack", "T1/BEN", ""),
    ],
)
def test_only_surface_organisation_and_user_together_name_a_person(twin: Actor) -> None:
    assert not may(twin, Purpose.APPROVAL, OPS)


@pytest.mark.parametrize(
    ("policy", "fine"),
    [
        (Policy(name="p", approvers=frozenset({BEN.key})), False),
        (Policy(name="p", approvers=frozenset({BEN.key}), self_approval=True), True),
        (Policy(name="p", approvers=frozenset({BEN.key, REQUESTER})), True),
        (Policy(name="p", approvers=frozenset({REQUESTER})), False),
        (Policy(name="p", approvers=frozenset({ANYONE})), False),
        (Policy(name="p", approvers=frozenset({ANYONE}), self_approval=True), False),
    ],
)
def test_who_may_be_the_one_who_asked_is_refused_like_them_and_allowed_nothing(
    policy: Policy, fine: bool
) -> None:
    assert may(replace(BEN, also=frozenset({ANA.key})), Purpose.APPROVAL, policy) is fine


def test_the_first_policy_that_covers_the_tool_and_the_agent_counts() -> None:
    deploys = Policy(name="deploys", tools=("deploy_*", "roll_back"))
    desk = Policy(name="desk", agents=("desk*",))
    policies = Policies([deploys, desk, OPS])

    assert policies.of("agent", "deploy_api") is deploys
    assert policies.of("desk-eu", "deploy_api") is deploys
    assert policies.of("agent", "roll_back") is deploys
    assert policies.of("desk-eu", "refund") is desk
    assert policies.of("agent", "refund") is OPS
    assert Policies([deploys]).of("agent", "refund") is NOBODY
    assert Policies([deploys]).of("agent", "DEPLOY_API") is NOBODY


def test_who_may_stop_a_chat() -> None:
    desk = Policy(name="desk", agents=("desk",), approvers=frozenset({CYN.key}))

    def able(actor: Actor, agent: str = "agent") -> bool:
        policies = Policies([desk, OPS])
        return may_stop(actor, agent=agent, requester=ANA.key, policies=policies)

    assert able(ANA)
    assert able(BEN)
    assert not able(CYN)
    assert able(CYN, "desk")
    assert not able(replace(ANA, is_bot=True))


def test_a_policy_covers_by_server_too() -> None:
    bank = Policy(name="bank", servers=("bank*",))
    policies = Policies([bank, OPS])

    assert policies.of("agent", "pay", "bank-eu", {}) is bank
    assert policies.of("agent", "pay", "shop", {}) is OPS
    assert policies.of("agent", "pay", "", {}) is OPS


def test_every_policy_that_might_count_for_a_tool() -> None:
    large = Policy(name="large", when=(Condition("amount", Comparison.RANGE, [9, None]),))
    never = Policy(name="never", tools=("other",))

    assert Policies([large, never, OPS, BOTH]).all_of("agent", "pay") == [large, OPS]
    assert Policies([large]).all_of("agent", "pay") == [large, NOBODY]


@pytest.mark.parametrize(
    ("approvers", "quorum", "self_approval", "possible"),
    [
        ({BEN.key, CYN.key}, 2, False, True),
        ({ANA.key, BEN.key}, 2, False, False),
        ({ANA.key, BEN.key}, 2, True, True),
        ({BEN.key}, 2, False, False),
        ({BEN.key, REQUESTER}, 2, False, True),
        ({BEN.key, "console:local/ben"}, 2, False, False),
        ({"slack:T1/@S1"}, 2, False, True),
        ({ANYONE}, 2, False, True),
    ],
)
def test_a_quorum_that_people_can_reach(
    approvers: set[str], quorum: int, self_approval: bool, possible: bool
) -> None:
    policy = Policy(
        name="p", approvers=frozenset(approvers), quorum=quorum, self_approval=self_approval
    )
    who = Policies(people={BEN.key: "ben", "console:local/ben": "ben"}).who
    why = unreachable(policy, askers=[ANA.key], tool="pay", who=who)
    assert (why is None) is possible


@pytest.mark.parametrize(
    ("policy", "able"),
    [
        (BOTH, {BEN}),
        (TRUSTING, {ANA, BEN}),
        (replace(BOTH, quorum=2), set()),
        (replace(BOTH, remember=False), set()),
        (Policy(name="p", approvers=frozenset({REQUESTER})), {ANA}),
        (Policy(name="p", approvers=frozenset({ANYONE, "slack:T1/@S1"})), set()),
    ],
)
def test_whose_approval_may_stand_for_later_calls(policy: Policy, able: set[Actor]) -> None:
    found = {one for one in (ANA, BEN, CYN) if may_remember(policy, one.key, askers=[ANA.key])}
    assert found == able
    shown = audience(policy, purpose=Purpose.APPROVAL, askers=[ANA.key])
    assert shown["remember"] is bool(able)
