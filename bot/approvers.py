"""Who may decide: the one authoriser. Fail-closed: nobody configured means nobody may."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bot.question import Purpose
from bot.surface import Actor
from storage.calls import CallRow
from storage.chats import ChatRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Who decides about the tools it covers.

    `tools`: names or patterns (`deploy_*`). `approvers`: people as `surface:organisation/user`.
    `self_approval`: whether the one who asked the agent may approve. `ask`: ask for these tools
    even where the tool itself would not. `remember`: whether an approver may let a tool run
    without asking for the rest of a thread."""

    name: str
    tools: tuple[str, ...] = ("*",)
    agents: tuple[str, ...] = ("*",)
    approvers: frozenset[str] = frozenset()
    self_approval: bool = False
    ask: bool = False
    remember: bool = True

    def covers(self, agent: str, tool: str) -> bool:
        return self.of_agent(agent) and any(fnmatchcase(tool, one) for one in self.tools)

    def of_agent(self, agent: str) -> bool:
        return any(fnmatchcase(agent, one) for one in self.agents)


def audience(policy: Policy, *, purpose: Purpose, askers: Collection[str]) -> dict[str, object]:
    """What a card says of who may decide, kept with the question as it was shown."""
    match purpose:
        case Purpose.ASK:
            deciders = policy.approvers | frozenset(askers)
        case Purpose.OUTCOME if not _able(policy, askers):
            deciders = frozenset(askers)
        case Purpose.APPROVAL | Purpose.OUTCOME:
            deciders = _able(policy, askers)
    return {"policy": policy.name, "deciders": sorted(deciders), "remember": policy.remember}


def _able(policy: Policy, askers: Collection[str]) -> frozenset[str]:
    """Whose approval would count."""
    return policy.approvers if policy.self_approval else policy.approvers - set(askers)


def askers_of(call: CallRow, chat: ChatRow) -> frozenset[str]:
    """Those who asked the agent for this call: whose messages it came of, else who began the
    chat."""
    return frozenset(call.askers or (chat.requester,))


NOBODY = Policy(name="none", remember=False)


@dataclass(frozen=True, slots=True)
class Policies:
    """All policies in the order of the configuration; the first that covers a tool counts."""

    policies: Sequence[Policy] = ()

    def of(self, agent: str, tool: str) -> Policy:
        return next((one for one in self.policies if one.covers(agent, tool)), NOBODY)


def refusal(
    actor: Actor, *, purpose: Purpose, policy: Policy, askers: Collection[str], tool: str
) -> str | None:
    """Why this person may not decide, in one sentence; None: they may.

    `askers`: those whose messages the call came of (bot.turn). Approvals (and what came of a lost
    run) are for the policy's approvers, and not for those who asked unless the policy says so.
    What a tool wants to know is for those who asked and for the approvers. A bot decides nothing;
    a guest or somebody of another organisation only where the policy names them."""
    named = actor.key in policy.approvers
    asked = actor.key in askers
    if actor.is_bot:
        return "A bot may not decide this; nothing was decided."
    if (actor.is_guest or actor.is_external) and not named:
        return "Guests and people of other organisations may not decide this here."
    match purpose:
        case Purpose.ASK:
            if named or asked:
                return None
            return "This is for the person who asked the agent, or an approver, to answer."
        case Purpose.OUTCOME if not _able(policy, askers):
            if asked:
                return None
            return "This is for the person who asked the agent to settle."
        case Purpose.APPROVAL | Purpose.OUTCOME:
            if not policy.approvers:
                return (
                    f"Nobody may approve {tool}: no approver is configured for it. "
                    "An admin can name one in a policy."
                )
            if not named:
                return (
                    "You are not among the approvers of "
                    f"{tool} (policy {policy.name}); nothing was decided."
                )
            if asked and not policy.self_approval:
                return "You asked the agent for this, so another approver has to decide."
            return None


def may_stop(actor: Actor, *, agent: str, requester: str, policies: Policies) -> bool:
    """Whether this person may stop a chat: who began it, and who approves for its agent."""
    if actor.is_bot:
        return False
    approvers = [one.approvers for one in policies.policies if one.of_agent(agent)]
    return actor.key == requester or any(actor.key in one for one in approvers)


def unreachable(policy: Policy, *, askers: Collection[str], tool: str) -> str | None:
    """Why an approval could never be given by anyone, in one sentence; None: somebody can."""
    if _able(policy, askers):
        return None
    if policy.approvers:
        return (
            f"Nobody can approve {tool} here: its only approver is the person who asked, "
            f"and the policy {policy.name} does not allow self-approval."
        )
    return f"Nobody can approve {tool}: no policy names an approver for it."
