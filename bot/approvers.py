"""Who may decide: the one authoriser. Fail-closed: nobody configured means nobody may."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final

from bot.hours import WorkingHours
from bot.question import Purpose
from bot.rules import Condition
from bot.surface import Actor
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.questions import QuestionRow

REQUESTER: Final = "requester"  # among approvers: those who asked the agent
ANYONE: Final = "anyone but the requester"  # of the organisation, guests and bots left out
FILE: Final = "file"  # made the standing rules of interlock.toml: no person's key

Who = Callable[[str], str]
"""The person behind a key: people linked across surfaces are one (configuration)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Who decides about the tools it covers.

    `tools`, `agents`, `servers`: names or patterns (`deploy_*`); `when`: conditions on the
    arguments. `approvers`: people as `surface:organisation/user`, groups as `…/@ID` (a user group)
    and `…/#ID` (the members of a channel), REQUESTER, ANYONE. `quorum`: how many different people
    must approve. `self_approval`: whether the one who asked the agent may approve. `ask`: ask for
    these tools even where the tool itself would not. `remember`: whether an approver whom it names
    may let a tool run without asking for the rest of a thread. `rule_makers`: the people who may
    make any other standing rule. Times are in seconds, of working time where `hours` are set, from
    when a question opens (None: never): `remind_after`, after which the approvers are reminded, and
    then again after twice as long; `escalate_after`, after which those of `escalate_to` may approve
    as well; `expires_after`, after which it does not run."""

    name: str
    tools: tuple[str, ...] = ("*",)
    agents: tuple[str, ...] = ("*",)
    servers: tuple[str, ...] = ("*",)
    when: tuple[Condition, ...] = ()
    approvers: frozenset[str] = frozenset()
    quorum: int = 1
    self_approval: bool = False
    ask: bool = False
    remember: bool = True
    rule_makers: frozenset[str] = frozenset()
    remind_after: float | None = None
    escalate_after: float | None = None
    escalate_to: frozenset[str] = frozenset()
    expires_after: float | None = None
    hours: WorkingHours | None = None

    def covers(
        self, agent: str, tool: str, server: str = "", args: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether it speaks of such a call; what is odd in the arguments counts as covered. Without
        arguments: whether it might."""
        return (
            self.of_agent(agent)
            and any(fnmatchcase(tool, one) for one in self.tools)
            and any(fnmatchcase(server, one) for one in self.servers)
            and (args is None or all(one.holds(args, doubt=True) for one in self.when))
        )

    def of_agent(self, agent: str) -> bool:
        return any(fnmatchcase(agent, one) for one in self.agents)

    def escalated(self) -> Policy:
        """As it holds for a question that has waited for `escalate_after`: the next approvers may
        decide too. What they approve is approved once, whoever approves it."""
        return replace(self, approvers=self.approvers | self.escalate_to, remember=False)

    @property
    def for_own(self) -> bool:
        """Whether those who asked for a call may approve it."""
        return self.self_approval or REQUESTER in self.approvers

    @property
    def in_the_end(self) -> Policy:
        """With everybody who may ever approve."""
        return self if self.escalate_after is None else self.escalated()

    @property
    def people(self) -> frozenset[str]:
        """The approvers who are named one by one."""
        return frozenset(one for one in self.approvers if not is_group(one))

    @property
    def groups(self) -> frozenset[str]:
        """The approvers whose members only the surface knows."""
        return frozenset(one for one in self.approvers if is_group(one))


def is_group(entry: str) -> bool:
    """Whether an approver is more than one person."""
    _, slash, user = entry.partition("/")
    return not slash or user.startswith(("@", "#"))


def themselves(key: str) -> str:
    """Everybody is somebody else, until the configuration says otherwise."""
    return key


def audience(
    policy: Policy, *, purpose: Purpose, askers: Collection[str], who: Who = themselves
) -> dict[str, object]:
    """What a card says of who may decide, kept with the question as it was shown."""
    match purpose:
        case Purpose.ASK:
            deciders = (policy.approvers | frozenset(askers)) - {REQUESTER, ANYONE}
        case Purpose.OUTCOME if not _able(policy, askers, who):
            deciders = frozenset(askers)
        case Purpose.APPROVAL | Purpose.OUTCOME:
            deciders = _able(policy, askers, who)
    quorum = policy.quorum if purpose is Purpose.APPROVAL else 1
    named = bool(policy.people or REQUESTER in policy.approvers)
    remember = policy.remember and quorum == 1 and named
    return {
        "policy": policy.name,
        "deciders": sorted(deciders),
        "remember": remember,
        "rules": remember or (quorum == 1 and bool(policy.rule_makers)),
        "quorum": quorum,
    }


def may_remember(
    policy: Policy,
    key: str,
    *,
    askers: Collection[str],
    who: Who = themselves,
) -> bool:
    """Whether this person's approval may stand for later calls: where it is enough, and of somebody
    named, for who is in a group then is not known now."""
    if not policy.remember or policy.quorum > 1 or _barred(policy, key, askers, who):
        return False
    named = {who(one) for one in policy.people}
    if REQUESTER in policy.approvers:
        named |= {who(one) for one in askers}
    return who(key) in named


def _barred(policy: Policy, key: str, askers: Collection[str], who: Who) -> bool:
    """What somebody said before is an approval beforehand, and as little for their own calls."""
    return not policy.for_own and who(key) in {who(one) for one in askers}


def may_make(policy: Policy, key: str, *, who: Who = themselves) -> bool:
    """Whether this person may make standing rules about the calls of the policy."""
    return who(key) in {who(one) for one in policy.rule_makers}


def may_allow(
    policy: Policy,
    key: str,
    *,
    thread: bool,
    askers: Collection[str],
    alike: Collection[str] = (),
    who: Who = themselves,
) -> bool:
    """Whether the word of this person lets such calls run unasked, wherever or in one `thread`
    only; `alike`: who may be one of the askers. What several people must approve is never
    remembered."""
    if policy.quorum > 1 or _barred(policy, key, (*askers, *alike), who):
        return False
    if may_make(policy, key, who=who):
        return True
    return thread and may_remember(policy, key, askers=askers, who=who)


def _able(policy: Policy, askers: Collection[str], who: Who = themselves) -> frozenset[str]:
    """Whose approval would count: people, groups, ANYONE."""
    asked = {who(one) for one in askers}
    able = policy.approvers - {REQUESTER}
    if not policy.self_approval:
        able = frozenset(one for one in able if is_group(one) or who(one) not in asked)
    return able | frozenset(askers) if REQUESTER in policy.approvers else able


def askers_of(call: CallRow, chat: ChatRow) -> frozenset[str]:
    """Those who asked the agent for this call: whose messages it came of, else who began the
    chat."""
    return frozenset(call.askers or (chat.requester,))


NOBODY = Policy(name="none", remember=False)


@dataclass(frozen=True, slots=True)
class Policies:
    """All policies in the order of the configuration; the first that covers a call counts.
    `people`: the name of the person behind a key, for those with several. `admins`: who is told
    when nobody could approve a call."""

    policies: Sequence[Policy] = ()
    people: Mapping[str, str] = field(default_factory=dict)
    admins: Collection[str] = ()

    def of(
        self, agent: str, tool: str, server: str = "", args: Mapping[str, Any] | None = None
    ) -> Policy:
        found = (one for one in self.policies if one.covers(agent, tool, server, args))
        return next(found, NOBODY)

    def of_call(self, agent: str, call: CallRow) -> Policy:
        return self.of(agent, call.name, call.server, call.args)

    def of_question(self, agent: str, call: CallRow, question: QuestionRow) -> Policy:
        """The policy of a call for a question about it, which may have been escalated: by this very
        policy, for the next approvers of another one would come too early."""
        policy = self.of_call(agent, call)
        mine = question.audience.get("policy") == policy.name
        return policy.escalated() if mine and question.escalated_at is not None else policy

    def all_of(self, agent: str, tool: str, server: str = "") -> list[Policy]:
        """Every policy that might count for some call of the tool."""
        found = [one for one in self.policies if one.covers(agent, tool, server)]
        always = [number for number, one in enumerate(found) if not one.when]
        return found[: always[0] + 1] if always else [*found, NOBODY]

    def who(self, key: str) -> str:
        return self.people.get(key, key)

    @property
    def groups(self) -> frozenset[str]:
        """Every group that any policy names: what a surface has to look up at a click."""
        named = [one.in_the_end.groups for one in self.policies]
        return frozenset().union(*named) - {REQUESTER, ANYONE}


def refusal(
    actor: Actor,
    *,
    purpose: Purpose,
    policy: Policy,
    askers: Collection[str],
    tool: str,
    who: Who = themselves,
) -> str | None:
    """Why this person may not decide, in one sentence; None: they may.

    `askers`: those whose messages the call came of (bot.turn). Approvals (and what came of a lost
    run) are for the policy's approvers, and not for those who asked unless the policy says so.
    What a tool wants to know is for those who asked and for the approvers. A bot decides nothing;
    a guest or somebody of another organisation only where the policy names them. Who may be the
    same person as one who asked (`Actor.also`) is refused like them, and allowed nothing by it."""
    asked_by = {who(one) for one in askers}
    asked = who(actor.key) in asked_by
    alike = not asked_by.isdisjoint(map(who, actor.keys))
    by_name = who(actor.key) in {who(one) for one in policy.people}
    named = by_name or _in_group(actor, policy, asked=alike)
    if actor.is_bot:
        return "A bot may not decide this; nothing was decided."
    if (actor.is_guest or actor.is_external) and not by_name:
        return "Guests and people of other organisations may not decide this here."
    match purpose:
        case Purpose.ASK:
            if named or asked:
                return None
            return "This is for the person who asked the agent, or an approver, to answer."
        case Purpose.OUTCOME if not _able(policy, askers, who):
            if asked:
                return None
            return "This is for the person who asked the agent to settle."
        case Purpose.APPROVAL | Purpose.OUTCOME:
            if not policy.approvers:
                return (
                    f"Nobody may approve {tool}: no approver is configured for it. "
                    "An admin can name one in a policy."
                )
            if asked and REQUESTER in policy.approvers:
                return None
            if not named:
                return (
                    "You are not among the approvers of "
                    f"{tool} (policy {policy.name}); nothing was decided."
                )
            if alike and not policy.for_own:
                return "You asked the agent for this, so another approver has to decide."
            return None


def _in_group(actor: Actor, policy: Policy, *, asked: bool) -> bool:
    """By the groups that the surface says the person is in now."""
    anyone = ANYONE in policy.approvers and not asked
    return anyone or bool(actor.roles & policy.groups)


def may_speak(actor: Actor) -> bool:
    """Whether what this person says, by words or by a button, is for the agent."""
    return not (actor.is_bot or actor.is_external)


def may_stop(actor: Actor, *, agent: str, requester: str, policies: Policies) -> bool:
    """Whether this person may stop a chat: who began it, and who approves for its agent."""
    if actor.is_bot:
        return False
    who = policies.who
    named = [
        {who(key) for key in one.people} | (one.groups & actor.roles)
        for one in policies.policies
        if one.of_agent(agent)
    ]
    return who(actor.key) == who(requester) or any(
        who(actor.key) in one or one & actor.roles for one in named
    )


def unreachable(
    policy: Policy, *, askers: Collection[str], tool: str, who: Who = themselves
) -> str | None:
    """Why an approval could never be given, in one sentence; None: it can, if only in the end. A
    group is taken to have enough members."""
    able = _able(policy.in_the_end, askers, who)
    people = {who(one) for one in able if not is_group(one)}
    if any(is_group(one) for one in able) or len(people) >= max(1, policy.quorum):
        return None
    if people:
        return (
            f"Nobody can approve {tool} here: the policy {policy.name} asks for {policy.quorum} "
            f"people, and only {len(people)} can approve."
        )
    if policy.approvers:
        return (
            f"Nobody can approve {tool} here: its only approver is the person who asked, "
            f"and the policy {policy.name} does not allow self-approval."
        )
    return f"Nobody can approve {tool}: no policy names an approver for it."
