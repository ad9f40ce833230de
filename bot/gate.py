"""May this call run? The tool's own rule, the policy and standing rules, as one pure answer.

Deny beats ask beats allow; what cannot be judged is denied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from bot.approvers import (
    FILE,
    Policy,
    Who,
    may_allow,
    themselves,
    unreachable,
)
from bot.rules import Effect, covers, effect_of, strongest
from bot.tool import Tool, Verdict
from storage.database import canonical
from storage.rules import RuleRow, Scope

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """It runs. `rule` is the standing rule that allowed what would have been asked."""

    rule: RuleRow | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """It does not run; the model is told `reason`. `rule` is the standing rule that denied it."""

    reason: str
    rule: RuleRow | None = None


@dataclass(frozen=True, slots=True)
class AskFirst:
    """A person decides. `rule` is the standing rule without which it would have run."""

    rule: RuleRow | None = None


Answer = Run | Deny | AskFirst


def digest(server: str, tool: str, schema_digest: str, args: Mapping[str, Any]) -> str:
    """What was seen and what runs, as one number: server, tool, its schema and the canonical
    validated arguments (rule 6)."""
    return hashlib.sha256(canonical([server, tool, schema_digest, args]).encode()).hexdigest()


def own_rule(tool: Tool, args: Mapping[str, Any]) -> Verdict:
    """What the tool itself says. A predicate that raises or returns anything else denies."""
    if tool.approval == "always":
        return Verdict.ASK
    if tool.approval == "never":
        return Verdict.RUN
    assert not isinstance(tool.approval, str)
    try:
        said = tool.approval(tool.arguments.model_validate(args))
    except Exception:
        log.exception("approval predicate raised", tool=tool.name)
        return Verdict.DENY
    if isinstance(said, Verdict):
        return said
    if said is True or said is False or said is None:
        return Verdict(said)
    log.error("approval predicate returned no verdict", tool=tool.name, type=type(said).__name__)
    return Verdict.DENY


def gate(
    tool: Tool,
    args: Mapping[str, Any],
    *,
    policy: Policy,
    askers: Collection[str],
    alike: Collection[str] = (),
    rules: Iterable[RuleRow] = (),
    who: Who = themselves,
) -> Answer:
    """The verdict on a call with these validated arguments. `alike`: the keys of those who may be
    the same people as the askers."""
    verdict = own_rule(tool, args)
    if verdict is Verdict.DENY:
        return Deny(f"The call to {tool.name} was denied by its approval rule.")
    speaking = [
        one
        for one in rules
        if _speaks(one, tool, args, policy=policy, askers=askers, alike=alike, who=who)
    ]
    rule = strongest(speaking)
    effect = None if rule is None else effect_of(rule)
    if rule is not None and effect is Effect.DENY:
        return Deny(f"{tool.name} is denied by a standing rule of {rule.created_name}.", rule)
    free = verdict is Verdict.RUN and not policy.ask
    if free and effect is not Effect.ASK:
        return Run()
    if effect is Effect.ALLOW:
        return Run(rule)
    impossible = unreachable(policy, askers=askers, tool=tool.name, who=who)
    if impossible:
        return Deny(impossible)
    asks = free or any(effect_of(one) is Effect.ALLOW for one in speaking)
    return AskFirst(rule if asks else None)


def _speaks(
    rule: RuleRow,
    tool: Tool,
    args: Mapping[str, Any],
    *,
    policy: Policy,
    askers: Collection[str],
    alike: Collection[str],
    who: Who,
) -> bool:
    """Whether a rule in force counts for this call. One that allows counts only for the tool as it
    was when the rule was made, only on the word of somebody whose word still counts, and only where
    nobody but its requester asked."""
    if not covers(rule, server=tool.server, tool=tool.name, args=args):
        return False
    asked = {who(one) for one in askers}
    if effect_of(rule) is not Effect.ALLOW:
        return rule.requester is None or who(rule.requester) in asked
    return (
        rule.schema_digest == tool.schema_digest
        and (rule.requester is None or asked == {who(rule.requester)})
        and not (tool.carrier and not rule.conditions)
        and _counts(rule, policy=policy, askers=askers, alike=alike, who=who)
    )


def _counts(
    rule: RuleRow, *, policy: Policy, askers: Collection[str], alike: Collection[str], who: Who
) -> bool:
    """Whether the word of who made the rule lets this call run."""
    if rule.created_by == FILE:
        return policy.quorum == 1
    thread = rule.scope == Scope.CHAT
    return may_allow(policy, rule.created_by, thread=thread, askers=askers, alike=alike, who=who)
