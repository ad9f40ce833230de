"""What people and the operator do with standing rules outside a card: look at what one would have
met, make it, revoke it. Every attempt is on record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from bot.approvers import ANYONE, FILE, NOBODY, Policy, askers_of, may_make, may_speak
from bot.core import Core
from bot.markdown import moment
from bot.open_homes import draw_anew
from bot.question import NotAllowed, QuestionError
from bot.rules import BadRule, Effect, conditions_of, covers, effect_of, masked
from bot.surface import Actor, person_of
from bot.text import visible
from bot.tool import Tool
from storage import audit, chats, rules, scope
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import Tx, canonical
from storage.redact import mask_all
from storage.rules import RuleRow, Scope

CLI: Final = "cli"  # the surface of the operator, who reaches the machine
PAST: Final = 200  # calls that a preview looks at
_NEWEST: Final = 5  # of those met that it shows
_SHOWN: Final = 160  # characters of the arguments of each


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a rule would have met of the newest `looked_at` calls of its tool where it would hold;
    `met` newest first."""

    looked_at: int
    met: tuple[CallRow, ...]

    @property
    def lines(self) -> list[str]:
        """In words: how many, and the newest of them. Plain text, with what others wrote in it."""
        if not self.looked_at:
            return ["There was no such call there yet."]
        calls = "the only call" if self.looked_at == 1 else f"the last {self.looked_at} calls"
        first = f"Of {calls} there it would have met {len(self.met) or 'none'}"
        declined = sum(one.state == CallState.DECLINED for one in self.met)
        first += f", of which {declined} did not run because people or rules said no" * bool(
            declined
        )
        shown = self.met[:_NEWEST]
        lines = [f"{moment(one.created_at)}: {one.name} {_arguments(one)}" for one in shown]
        return [f"{first}{':' if shown else '.'}", *lines]

    @property
    def sentence(self) -> str:
        return "\n".join(self.lines)


async def preview(tx: Tx, rule: RuleRow) -> Preview:
    """Looks at past calls in the scope of the rule and nowhere else, and for a person in their own
    organisation: what it tells, whoever makes the rule reads."""
    maker = person_of(rule.created_by)
    past = [
        (call, chat)
        for call, chat in await scope.calls_of_rule(tx, rule, limit=PAST)
        if maker is None or maker.surface == CLI or maker.organisation == chat.organisation
    ]
    met = [
        call
        for call, chat in past
        if covers(rule, server=call.server, tool=call.name, args=call.args)
        and _asked_by(rule, call, chat)
    ]
    return Preview(looked_at=len(past), met=tuple(met))


def _arguments(call: CallRow) -> str:
    shown = visible(canonical(mask_all(call.args)), keep="")
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"


def _asked_by(rule: RuleRow, call: CallRow, chat: ChatRow) -> bool:
    if rule.requester is None:
        return True
    askers = askers_of(call, chat)
    if effect_of(rule) is Effect.ALLOW:
        return askers == {rule.requester}
    return rule.requester in askers


def refused_to_make(core: Core, rule: RuleRow, by: Actor) -> str | None:
    """Why this person may not make this rule, in a sentence; None: they may."""
    if by.by_name_only:
        return "Standing rules are made by people of this organisation only."
    wrong = wrong_with(core, rule)
    if wrong is not None:
        return wrong
    if rule.expires_at is not None and rule.expires_at <= core.now():
        return f"It would have ended on {moment(rule.expires_at)} already; name a later day."
    who, might = core.policies.who, list(policies_of(core, rule))
    if effect_of(rule) is not Effect.ALLOW:
        if by.surface == CLI or _makes_all(core, rule, by):
            return None
        return (
            f"You are not among the rule makers of every policy that decides about these calls of "
            f"{rule.tool}; narrow the rule, or ask somebody who is, or an admin."
        )
    for one in might:
        if one.quorum > 1:
            return (
                f"The policy {one.name} wants {one.quorum} people for some of these calls of "
                f"{rule.tool}, so they cannot be allowed beforehand; narrow the rule."
            )
        if not may_make(one, by.key, who=who):
            return _no_maker(one, rule, by)
    return None


def _makes_all(core: Core, rule: RuleRow, by: Actor) -> bool:
    """Whether this person makes the rules of every policy that counts for a call it speaks of:
    who makes those of one has no say in what another decides."""
    might = [one for one in policies_of(core, rule) if one is not NOBODY]
    return bool(might) and all(may_make(one, by.key, who=core.policies.who) for one in might)


def _no_maker(policy: Policy, rule: RuleRow, by: Actor) -> str:
    if by.surface == CLI:
        return (
            f"{by.key} is not linked to a rule maker of the policy {policy.name}: add the key to "
            "a person of [people] whom rule_makers of that policy names."
        )
    return (
        f"You are not among the rule makers of the policy {policy.name}, which decides about some "
        f"of these calls of {rule.tool}; somebody who is can make this rule."
    )


def wrong_with(core: Core, rule: RuleRow) -> str | None:
    """What is wrong with a rule, whoever makes it; None: nothing."""
    try:
        conditions = conditions_of(rule.conditions)
    except BadRule as error:
        return str(error)
    allows = effect_of(rule) is Effect.ALLOW
    tools = _tools(core, rule)
    if not tools:
        if not allows and (not core.agents or _of_server(core, rule)):
            return None
        return f"No agent here has a tool {rule.tool} now; correct the name."
    for one in conditions:
        if one.argument and not any(tool.may_take(one.argument) for tool in tools):
            return f"{rule.tool} has no argument {one.argument}; correct the name."
    if not allows:
        return None
    if len({tool.schema_digest for tool in tools}) > 1:
        return f"Several agents have different tools called {rule.tool}; give them other names."
    if any(tool.carrier for tool in tools) and not conditions:
        return (
            f"{rule.tool} can do anything that its arguments say, so a rule that allows it needs "
            "conditions on them."
        )
    return None


def unknown(core: Core, rule: RuleRow) -> bool:
    """Whether it is of a server that did not tell of such a tool, and may do so later."""
    return not _tools(core, rule) and _of_server(core, rule)


def _of_server(core: Core, rule: RuleRow) -> bool:
    return any(one.name == rule.server for a in core.agents.values() for one in a.sources)


def server_of(core: Core, tool: str) -> str:
    """The server of a tool, by the name that the model calls it; empty: it is our own."""
    if any(one.name == tool for agent in core.agents.values() for one in agent.tools):
        return ""
    return tool.partition("__")[0] if "__" in tool else ""


def pinned(core: Core, rule: RuleRow) -> RuleRow:
    """A rule that allows, for the tool as it is now; others, and where it is not known, as is."""
    tools = _tools(core, rule)
    if effect_of(rule) is not Effect.ALLOW or not tools:
        return rule
    return replace(rule, schema_digest=tools[0].schema_digest)


def _tools(core: Core, rule: RuleRow) -> list[Tool]:
    """The tool of the rule as the agents have it now."""
    found = (agent.tool(rule.tool) for agent in core.agents.values())
    return [one for one in found if one is not None and one.server == rule.server]


def policies_of(core: Core, rule: RuleRow) -> Iterator[Policy]:
    """Every policy that might count for a call that the rule speaks of."""
    conditions = conditions_of(rule.conditions)
    for agent in core.agents.values():
        tool = agent.tool(rule.tool)
        if effect_of(rule) is Effect.ALLOW and (tool is None or tool.server != rule.server):
            continue
        for policy in core.policies.all_of(agent.name, rule.tool, rule.server):
            if not any(one.excludes(other) for one in conditions for other in policy.when):
                yield policy


def suspended(core: Core, rule: RuleRow) -> str:
    """Why a rule in force does not speak now, as far as that is known here; empty: it does."""
    if effect_of(rule) is not Effect.ALLOW:
        return ""
    tools = _tools(core, rule)
    if not rule.schema_digest:
        return "suspended: its tool was not known when it was made"
    if tools and all(one.schema_digest != rule.schema_digest for one in tools):
        return "suspended: the tool has changed since"
    if tools and not rule.conditions and all(one.carrier for one in tools):
        return "suspended: the tool can do anything that its arguments say"
    return ""


def refused_to_revoke(
    core: Core, rule: RuleRow, by: Actor, chat: ChatRow | None = None
) -> str | None:
    """Why this person may not end this rule; None: they may. `chat`: of a rule for one thread."""
    if rule.created_by == FILE:
        return "This rule stands in interlock.toml: an admin can remove it there."
    if by.surface == CLI:
        return None
    who = core.policies.who
    if not may_speak(by):
        return "Standing rules are revoked by people of this organisation only."
    mine = {rule.created_by}
    if effect_of(rule) is Effect.ALLOW:  # without it people are asked: who is for that may do it
        mine |= {one for one in (rule.requester, chat and chat.requester) if one}
    if who(by.key) in map(who, mine):
        return None
    if effect_of(rule) is not Effect.ALLOW:
        if _makes_all(core, rule, by):
            return None
        return "Only who made this rule, and who makes the rules of all these calls, can revoke it."
    for agent in core.agents:
        for policy in core.policies.all_of(agent, rule.tool, rule.server):
            if may_make(policy, by.key, who=who) or _approves(policy, by, core):
                return None
    return "Only who made this rule, a rule maker or an approver of the tool can revoke it."


def _approves(policy: Policy, by: Actor, core: Core) -> bool:
    who = core.policies.who
    if who(by.key) in {who(one) for one in policy.people}:
        return True
    return not by.is_guest and (ANYONE in policy.approvers or bool(by.roles & policy.groups))


async def make(core: Core, rule: RuleRow, *, by: Actor, via: str) -> RuleRow:
    """Makes a rule, in a transaction of its own, and returns it as it is kept: one that allows is
    for the tool as it is now. Raises QuestionError; the refusal is on record then."""
    rule = replace(rule, created_by=by.key, created_name=by.label, created_at=core.now())
    async with core.db.transaction("make_rule") as tx:
        refused = refused_to_make(core, rule, by)
        if refused is None:
            rule = pinned(core, rule)
            await keep(core, tx, rule, via=via)
            await draw_anew(core, tx, {by.key})
        else:
            await _record(core, tx, "refused", rule, by.key, via, why=refused)
    if refused is not None:
        raise NotAllowed(refused)
    return rule


async def keep(core: Core, tx: Tx, rule: RuleRow, *, via: str, call: CallRow | None = None) -> None:
    """Adds a rule that may be made. `call`: whose approval makes it."""
    if not await rules.add(tx, rule):
        return  # of the file, from another process that starts at the same moment
    of = {} if call is None else {"chat_id": call.chat_id, "call_id": call.id}
    await _record(core, tx, "rule_made", rule, rule.created_by, via, **of)


async def revoke(core: Core, rule_id: str, *, by: Actor, via: str) -> RuleRow:
    """Ends a rule, in a transaction of its own; what it let run before goes on. Raises
    QuestionError; a refusal is on record then."""
    async with core.db.transaction("revoke_rule") as tx:
        rule = await rules.get(tx, rule_id)
        if rule is None:
            raise QuestionError("There is no such rule.")
        chat = await _chat(tx, rule)
        refused = refused_to_revoke(core, rule, by, chat)
        if refused is not None:
            await _record(core, tx, "refused", rule, by.key, via, why=refused)
        elif not await take_back(core, tx, rule, by=by.key, via=via):
            refused = "This rule was revoked before."
        else:
            await draw_anew(core, tx, {by.key, rule.created_by})
    if refused is not None:
        raise NotAllowed(refused)
    return rule


async def take_back(core: Core, tx: Tx, rule: RuleRow, *, by: str, via: str) -> bool:
    """Ends a rule that may be ended; False when it had ended."""
    if not await rules.revoke(tx, rule.id, by=by, now=core.now()):
        return False
    await _record(core, tx, "rule_revoked", rule, by, via)
    return True


async def _chat(tx: Tx, rule: RuleRow) -> ChatRow | None:
    return await chats.get(tx, rule.scope_key) if rule.scope == Scope.CHAT else None


async def _record(
    core: Core, tx: Tx, event: str, rule: RuleRow, by: str, via: str, **more: Any
) -> None:
    await audit.record(
        tx,
        event,
        now=core.now(),
        actor=by,
        via=via,
        rule=rule.id,
        effect=rule.effect,
        tool=rule.tool,
        server=rule.server,
        conditions=masked(rule.conditions),
        scope=rule.scope,
        scope_key=rule.scope_key,
        requester=rule.requester,
        expires_at=rule.expires_at,
        uses_left=rule.uses_left,
        note=rule.note,
        **more,
    )
