"""What a channel's chats are at, in lines that name each by a short id and link to its thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bot.approvers import askers_of, refusal
from bot.card import draw
from bot.core import Core
from bot.markdown import age, code, link, moment, short_ids
from bot.question import Purpose
from bot.remember import does, used
from bot.rulebook import suspended
from bot.rules import BadRule, conditions_of, told
from bot.surface import Actor, Listing
from storage import calls, messages, outbox, scope
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import Tx
from storage.messages import UsageRow
from storage.place import Place
from storage.rules import RuleRow
from storage.rules import Scope as RuleScope
from storage.scope import Asked, Scope

PAGE: Final = 10  # lines of one answer
_WHERE: Final = {
    RuleScope.CHAT: "in its thread",
    RuleScope.CHANNEL: "in its channel",
    RuleScope.ORGANISATION: "in its whole workspace",
    RuleScope.SURFACE: "wherever it is used",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that is listed. `mine`: the person began it or may decide it."""

    id: str
    mine: bool
    text: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Part:
    """Some lines of a list, read only if the page shows them: `read(offset, limit)`."""

    count: int
    read: Callable[[int, int], Awaitable[Sequence[Line]]]

    @classmethod
    def of(cls, lines: Sequence[Line]) -> Part:
        async def read(offset: int, limit: int) -> Sequence[Line]:
            return lines[offset : offset + limit]

        return cls(len(lines), read)


async def status(core: Core, tx: Tx, where: Scope, actor: Actor, page: int) -> Listing:
    """Questions, running calls and chats: those of this person first."""
    asked = [_question(core, one, actor) for one in await scope.open_questions(tx, where)]
    working = [_running(core, *one, actor) for one in await scope.running(tx, where)]
    parts = []
    for mine in (True, False):
        chats = await scope.count_chats(tx, where, actor.key, theirs=mine)
        parts.append(Part.of([one for one in [*asked, *working] if one.mine is mine]))
        parts.append(Part(chats, _chats(core, tx, where, actor, mine)))
    return await _listed(core, parts, page, "status", "No chat lives in this channel yet.")


async def pending(core: Core, tx: Tx, where: Scope, actor: Actor, page: int) -> Listing:
    """Open questions: those that this person may decide first."""
    asked = [_question(core, one, actor) for one in await scope.open_questions(tx, where)]
    asked.sort(key=lambda one: not one.mine)
    nothing = "Nothing waits for anybody in this channel."
    return await _listed(core, [Part.of(asked)], page, "pending", nothing)


async def inbox(core: Core, tx: Tx, where: Scope, actor: Actor, page: int) -> Listing:
    """The open questions that this person may decide, and no other."""
    asked = [_question(core, one, actor) for one in await scope.open_questions(tx, where)]
    mine = [one for one in asked if one.mine]
    return await _listed(core, [Part.of(mine)], page, "", "Nothing waits for you.")


async def rules(core: Core, tx: Tx, where: Scope, page: int) -> Listing:
    """The standing rules in force."""
    found = await scope.rules_in_force(tx, where, core.now())
    lines = [
        Line(rule.id, False, rule_line(core, rule), None if chat is None else chat.place)
        for rule, chat in found
    ]
    nothing = "No standing rule is in force here: every call is decided by the policies."
    return await _listed(core, [Part.of(lines)], page, "rules", nothing)


def rule_line(core: Core, rule: RuleRow) -> str:
    """What a rule does, who made it when and why, how often it was used, and whether it does not
    speak now."""
    last = "" if rule.used_at is None else f", last on {moment(rule.used_at)}"
    left = "" if rule.expires_at is None else f", until {moment(rule.expires_at)}"
    left += "" if rule.uses_left is None else f", {rule.uses_left} uses left"
    for_one = "" if rule.requester is None else f" if {code(_user(rule.requester))} asks"
    note = "" if not rule.note else f"; {code(rule.note, 200)}"
    silent = suspended(core, rule)
    return (
        f"{code(rule.tool)} {does(rule)} {_WHERE[RuleScope(rule.scope)]}{_when(rule)}{for_one}: "
        f"{code(rule.created_name)} said so on {moment(rule.created_at)}{left}; {used(rule)}{last}"
        f"{note}{f'; **{silent}**' if silent else ''}"
    )


def _user(key: str) -> str:
    return key.rpartition("/")[2]


def _when(rule: RuleRow) -> str:
    try:
        when = told(conditions_of(rule.conditions))
    except BadRule:
        return " (its conditions cannot be read)"
    return f" when {code(when, 300)}" if when else ""


async def describe(tx: Tx, chat: ChatRow) -> list[str]:
    """What a chat is at, a line each."""
    waiting = await calls.in_state(tx, chat.id, [CallState.WAITING, CallState.UNKNOWN])
    active = await calls.in_state(tx, chat.id, [CallState.READY, CallState.RUNNING])
    queued = await messages.queued(tx, chat.id)
    failed = await outbox.failures(tx, chat.id)
    lines = [f"**{chat.agent}** is {_state(chat, waiting)} (chat `{chat.id}`)."]
    short = short_ids([call.id for call in [*waiting, *active]])
    for call in waiting:
        what = "waits for a decision" if call.task is None else "runs in the background"
        lines.append(f"- `{short[call.id]}` {code(call.name)} {what}")
    lines += [f"- `{short[call.id]}` {code(call.name)} is {call.state}" for call in active]
    lines += [f"- {len(queued)} message(s) queued"] if queued else []
    lines += [
        f"- could not be delivered: {code(row.subject)} ({code(row.error or '')})" for row in failed
    ]
    lines.append(f"- {spent(await messages.usage(tx, chat.id))}")
    return lines


def spent(usage: UsageRow) -> str:
    """Turns, tokens and cost in one line."""
    cost = "unknown cost" if usage.cost is None else f"{usage.cost:.4f} US dollars"
    tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
    return f"{usage.turns} model turns, {tokens}, {cost}"


def may_decide(core: Core, asked: Asked, actor: Actor) -> bool:
    """Whether the one authoriser would let this person decide it now."""
    why_not = refusal(
        actor,
        purpose=Purpose(asked.question.purpose),
        policy=core.policies.of_question(asked.chat.agent, asked.call, asked.question),
        askers=askers_of(asked.call, asked.chat),
        tool=asked.call.name,
        who=core.policies.who,
    )
    return why_not is None


def _question(core: Core, asked: Asked, actor: Actor) -> Line:
    title = draw(asked.question, asked.call, asked.chat.agent).title
    mine = may_decide(core, asked, actor)
    since = age(core.now() - asked.question.opened_at)
    text = f"{code(title)}{' **(yours)**' if mine else ''}, open for {since}"
    return Line(asked.call.id, mine, text, asked.chat.place)


def _running(core: Core, call: CallRow, chat: ChatRow, actor: Actor) -> Line:
    where = "is running" if call.task is None else "runs in the background"
    since = age(core.now() - (call.claimed_at or call.created_at))
    who = core.policies.who
    mine = who(actor.key) in map(who, askers_of(call, chat))
    return Line(call.id, mine, f"{code(call.name)} {where}, for {since}", chat.place)


def _chats(
    core: Core, tx: Tx, where: Scope, actor: Actor, mine: bool
) -> Callable[[int, int], Awaitable[Sequence[Line]]]:
    async def read(offset: int, limit: int) -> Sequence[Line]:
        rows = await scope.chats_of(tx, where, actor.key, theirs=mine, offset=offset, limit=limit)
        lines = []
        for chat in rows:
            waiting = await calls.in_state(tx, chat.id, [CallState.WAITING, CallState.UNKNOWN])
            began = f"{'you began it' if mine else 'begun'} {age(core.now() - chat.created_at)} ago"
            text = f"chat with **{chat.agent}**, {_state(chat, waiting)}, {began}"
            lines.append(Line(chat.id, mine, text, chat.place))
        return lines

    return read


def _state(chat: ChatRow, waiting: Sequence[CallRow]) -> str:
    if chat.owner is not None:
        return "at work"
    return "waiting for people" if any(call.task is None for call in waiting) else "idle"


async def _listed(
    core: Core, parts: Sequence[Part], page: int, command: str, nothing: str
) -> Listing:
    """One page of the lines of all parts, in their order."""
    total = sum(part.count for part in parts)
    pages = max(1, -(-total // PAGE))
    if not total:
        return Listing(nothing)
    if page > pages:
        told = "There is only one page." if pages == 1 else f"There are only {pages} pages."
        return Listing(told, pages, pages)
    shown: list[Line] = []
    skip = (page - 1) * PAGE
    for part in parts:
        room = PAGE - len(shown)
        if room and skip < part.count:
            shown += await part.read(skip, room)
        skip = max(0, skip - part.count)
    short = short_ids([one.id for one in shown])
    lines = [f"- `{short[one.id]}` {one.text}{_link(core, one.place)}" for one in shown]
    if pages > 1:
        more = f": `{command} {page + 1}` shows more" if command and page < pages else ""
        lines.append(f"\nPage {page} of {pages}{more}.")
    return Listing("\n".join(lines), page, pages)


def _link(core: Core, place: Place | None) -> str:
    if place is None:
        return ""
    surface = core.surfaces.get(place.surface)
    return link("thread", None if surface is None else surface.link(place))
