"""May a call run: deny beats ask beats allow, and what cannot be judged is denied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bot.approvers import NOBODY, Policy
from bot.gate import Answer, AskFirst, Deny, Run, digest, gate, own_rule
from bot.tool import Approval, Tool, Verdict, tool
from storage.rules import RuleRow

BEN = "slack:T1/BEN"
OPS = Policy(name="ops", approvers=frozenset({BEN}))
ASKING = replace(OPS, ask=True)


def refund(approval: Approval = "always") -> Tool:
    @tool(approval=approval)
    async def refund(order: str, amount: int = 5) -> None:
        """Refunds."""

    return refund


def rule(of: Tool, **values: Any) -> RuleRow:
    given: dict[str, Any] = {
        "id": "rule",
        "effect": "allow",
        "scope": "chat",
        "scope_key": "chat",
        "server": of.server,
        "tool": of.name,
        "schema_digest": of.schema_digest,
        "conditions": [],
        "created_by": BEN,
        "created_name": "ben",
        "created_at": 0.0,
    }
    return RuleRow(**{**given, **values})


def judged(
    approval: Approval = "always",
    policy: Policy = OPS,
    rules: list[RuleRow] | None = None,
    requester: str = "slack:T1/ANA",
) -> Answer:
    args = {"order": "A1", "amount": 5}
    return gate(refund(approval), args, policy=policy, askers=[requester], rules=rules or [])


@pytest.mark.row("A15")
@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (True, Verdict.RUN),
        (False, Verdict.DENY),
        (None, Verdict.ASK),
        (Verdict.RUN, Verdict.RUN),
        (Verdict.DENY, Verdict.DENY),
        (Verdict.ASK, Verdict.ASK),
        (1, Verdict.DENY),
        (0, Verdict.DENY),
        ("", Verdict.DENY),
        ("allow", Verdict.DENY),
        ([], Verdict.DENY),
    ],
)
def test_a_rule_says_run_deny_or_ask_and_anything_else_denies(said: Any, verdict: Verdict) -> None:
    assert own_rule(refund(lambda args: said), {"order": "A1", "amount": 5}) is verdict


@pytest.mark.row("D21")
def test_a_rule_that_raises_denies() -> None:
    assert own_rule(refund(lambda args: args.nothing), {"order": "A1", "amount": 5}) is (
        Verdict.DENY
    )


def test_a_rule_judges_the_validated_arguments() -> None:
    seen: list[Any] = []

    def small(args: Any) -> bool:
        seen.append((args.order, args.amount))
        return True

    own_rule(refund(small), {"order": "A1", "amount": 5})

    assert seen == [("A1", 5)]


def test_a_coroutine_is_no_verdict() -> None:
    async def later(_args: Any) -> bool:
        return True

    coroutine = later(None)
    try:
        assert own_rule(refund(lambda args: coroutine), {"order": "A1", "amount": 5}) is (  # type: ignore[arg-type,return-value]
            Verdict.DENY
        )
    finally:
        coroutine.close()


@pytest.mark.parametrize(
    ("approval", "policy", "answer"),
    [
        ("always", OPS, AskFirst()),
        ("never", OPS, Run()),
        ("never", NOBODY, Run()),
        ("never", ASKING, AskFirst()),
        (lambda args: True, OPS, Run()),
        (lambda args: True, ASKING, AskFirst()),
        (lambda args: None, OPS, AskFirst()),
    ],
)
def test_the_tool_and_the_policy_together_run_or_ask(
    approval: Approval, policy: Policy, answer: Answer
) -> None:
    assert judged(approval, policy) == answer


@pytest.mark.parametrize("policy", [OPS, ASKING, NOBODY])
def test_what_the_tool_denies_no_policy_and_no_rule_allows(policy: Policy) -> None:
    of = refund(lambda args: False)

    assert isinstance(judged(lambda args: False, policy, [rule(of)]), Deny)


def test_a_standing_rule_lets_run_what_would_be_asked() -> None:
    standing = rule(refund())

    assert judged(rules=[standing]) == Run(standing)
    assert judged("never", rules=[standing]) == Run()  # it needed no rule
    assert judged("never", ASKING, [rule(refund("never"))]) == Run(rule(refund("never")))


@pytest.mark.parametrize(
    "other",
    [
        {"tool": "cancel"},
        {"server": "billing"},
        {"schema_digest": "another"},
        {"effect": "ask"},
        {"effect": "ALLOW"},
    ],
)
def test_a_standing_rule_is_for_that_tool_of_that_server_with_that_schema(
    other: dict[str, str],
) -> None:
    assert judged(rules=[rule(refund(), **other)]) == AskFirst()


def test_a_standing_rule_may_deny_whatever_the_tool_was_when_it_was_made() -> None:
    denied = rule(refund(), effect="deny", schema_digest="another")
    for approval in ("always", "never"):
        assert isinstance(judged(approval, rules=[denied, rule(refund())]), Deny)


@pytest.mark.row("B5")
@pytest.mark.row("B8")
def test_what_nobody_could_approve_is_denied_with_the_reason() -> None:
    nobody = judged(policy=NOBODY)
    himself = judged(requester=BEN)

    assert nobody == Deny("Nobody can approve refund: no policy names an approver for it.")
    assert isinstance(himself, Deny)
    assert "the person who asked" in himself.reason
    assert judged(policy=replace(OPS, self_approval=True), requester=BEN) == AskFirst()


@pytest.mark.parametrize(
    "other",
    [
        ("s", "refund", "1", {"order": "A1"}),
        ("", "cancel", "1", {"order": "A1"}),
        ("", "refund", "2", {"order": "A1"}),
        ("", "refund", "1", {"order": "A2"}),
        ("", "refund", "1", {"order": "A1", "amount": 5}),
        ("", "refund", "1", {"order": ["A1"]}),
        ("", "refund", "1", {}),
        ("refund", "", "1", {"order": "A1"}),
    ],
)
def test_whatever_differs_in_a_call_differs_in_its_digest(
    other: tuple[str, str, str, dict[str, Any]],
) -> None:
    assert digest("", "refund", "1", {"order": "A1"}) != digest(*other)


@pytest.mark.parametrize(
    ("one", "two"), [(1, True), (1, "1"), (0, False), (0, None), ("\u00e9", "e\u0301")]
)
def test_values_of_different_types_have_different_digests(one: Any, two: Any) -> None:
    assert digest("", "refund", "1", {"a": one}) != digest("", "refund", "1", {"a": two})


def test_the_order_of_keys_is_no_difference() -> None:
    assert digest("", "refund", "1", {"a": 1, "b": 2}) == digest(
        "", "refund", "1", {"b": 2, "a": 1}
    )
