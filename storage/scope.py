"""A part of everything, and what lives there: what commands list and look up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import sqlalchemy as sa

from storage import messages, rules
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import Tx
from storage.messages import UsageRow
from storage.place import Place
from storage.questions import QuestionRow, QuestionState
from storage.rules import RuleRow
from storage.rules import Scope as RuleScope
from storage.schema import chats, questions, tool_calls, turns
from storage.schema import rules as rule_table


@dataclass(frozen=True, slots=True)
class Scope:
    """The chats of one channel or of one organisation; without a surface all of them, which is
    for the operator alone."""

    surface: str = ""
    organisation: str = ""
    channel: str = ""

    @classmethod
    def of_channel(cls, place: Place) -> Scope:
        """Raises ValueError for a place without a channel: it must not widen what is seen."""
        if not (place.surface and place.organisation and place.channel):
            raise ValueError("a place without a channel")
        return cls(place.surface, place.organisation, place.channel)

    @classmethod
    def of_organisation(cls, surface: str, organisation: str) -> Scope:
        """Raises ValueError without either."""
        if not (surface and organisation):
            raise ValueError("no organisation")
        return cls(surface, organisation)

    def holds(self) -> sa.ColumnElement[bool]:
        """The condition on `chats`."""
        named = {"surface": self.surface, "organisation": self.organisation}
        named["channel"] = self.channel
        return sa.and_(sa.true(), *(chats.c[key] == value for key, value in named.items() if value))


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class Asked:
    """An open question with the call that waits for it and the chat they belong to."""

    question: QuestionRow
    call: CallRow
    chat: ChatRow


async def open_questions(tx: Tx, scope: Scope) -> list[Asked]:
    """What waits for people, oldest first."""
    is_open = sa.and_(questions.c.state == QuestionState.OPEN, scope.holds())
    asked = sa.join(questions, chats, chats.c.id == questions.c.chat_id)
    found = await tx.rows(
        sa.select(questions)
        .select_from(asked)
        .where(is_open)
        .order_by(questions.c.opened_at, questions.c.id),
        QuestionRow,
    )
    call_ids = sa.select(questions.c.call_id).select_from(asked).where(is_open)
    chat_ids = sa.select(questions.c.chat_id).select_from(asked).where(is_open)
    of_id = await _calls(tx, tool_calls.c.id.in_(call_ids))
    at_id = await _chats(tx, chats.c.id.in_(chat_ids))
    return [
        Asked(row, of_id[row.call_id], at_id[row.chat_id])
        for row in found
        if row.call_id in of_id and row.chat_id in at_id
    ]


async def running(tx: Tx, scope: Scope) -> list[tuple[CallRow, ChatRow]]:
    """Calls that run now or that a server goes on with in the background, oldest first."""
    at_work = sa.or_(
        tool_calls.c.state == CallState.RUNNING,
        sa.and_(tool_calls.c.state == CallState.WAITING, tool_calls.c.task.is_not(None)),
    )
    held = sa.join(tool_calls, chats, chats.c.id == tool_calls.c.chat_id)
    found = await tx.rows(
        sa.select(tool_calls)
        .select_from(held)
        .where(at_work, scope.holds())
        .order_by(tool_calls.c.created_at, tool_calls.c.id),
        CallRow,
    )
    chat_ids = sa.select(tool_calls.c.chat_id).select_from(held).where(at_work, scope.holds())
    at_id = await _chats(tx, chats.c.id.in_(chat_ids))
    return [(row, at_id[row.chat_id]) for row in found]


async def count_chats(tx: Tx, scope: Scope, requester: str, *, theirs: bool) -> int:
    """How many chats this person began (`theirs`), or others did."""
    counted = sa.select(sa.func.count()).select_from(chats)
    return int(await tx.value(counted.where(scope.holds(), _begun(requester, theirs))))


async def chats_of(
    tx: Tx, scope: Scope, requester: str, *, theirs: bool, offset: int, limit: int
) -> list[ChatRow]:
    """Those chats, newest first."""
    return await tx.rows(
        sa.select(chats)
        .where(scope.holds(), _begun(requester, theirs))
        .order_by(chats.c.created_at.desc(), chats.c.id)
        .offset(offset)
        .limit(limit),
        ChatRow,
    )


async def calls_named(tx: Tx, scope: Scope, prefix: str, *, limit: int) -> list[CallRow]:
    """The calls whose id begins with this."""
    held = sa.join(tool_calls, chats, chats.c.id == tool_calls.c.chat_id)
    return await tx.rows(
        sa.select(tool_calls)
        .select_from(held)
        .where(tool_calls.c.id.startswith(prefix, autoescape=True), scope.holds())
        .order_by(tool_calls.c.id)
        .limit(limit),
        CallRow,
    )


async def chats_named(tx: Tx, scope: Scope, prefix: str, *, limit: int) -> list[ChatRow]:
    """The chats whose id begins with this."""
    return await tx.rows(
        sa.select(chats)
        .where(chats.c.id.startswith(prefix, autoescape=True), scope.holds())
        .order_by(chats.c.id)
        .limit(limit),
        ChatRow,
    )


async def rules_in_force(tx: Tx, scope: Scope, now: float) -> list[tuple[RuleRow, ChatRow | None]]:
    """The standing rules that may speak here, oldest first; those of a thread with their chat."""
    held = sa.select(chats.c.id).where(scope.holds())
    threads = sa.and_(rule_table.c.scope == RuleScope.CHAT, rule_table.c.scope_key.in_(held))
    found = await tx.rows(
        sa.select(rule_table)
        .where(rules.valid(now), sa.or_(threads, *_wider(scope)))
        .order_by(rule_table.c.created_at, rule_table.c.id),
        RuleRow,
    )
    at_id = await _chats(tx, chats.c.id.in_([row.scope_key for row in found]))
    return [(row, at_id.get(row.scope_key)) for row in found]


def _wider(scope: Scope) -> list[sa.ColumnElement[bool]]:
    """The rules beyond single threads."""
    if not scope.surface:
        return [rule_table.c.scope != RuleScope.CHAT]
    organisation = f"{scope.surface}:{scope.organisation}"
    channel = f"{organisation}/{scope.channel}"
    key = rule_table.c.scope_key
    in_channel = key == channel if scope.channel else key.startswith(channel, autoescape=True)
    return [
        sa.and_(rule_table.c.scope == RuleScope.SURFACE, key == scope.surface),
        sa.and_(rule_table.c.scope == RuleScope.ORGANISATION, key == organisation),
        sa.and_(rule_table.c.scope == RuleScope.CHANNEL, in_channel),
    ]


async def calls_of_rule(tx: Tx, rule: RuleRow, *, limit: int) -> list[tuple[CallRow, ChatRow]]:
    """The newest calls of the tool of a rule where it speaks, and nowhere else, newest first."""
    held = sa.join(tool_calls, chats, chats.c.id == tool_calls.c.chat_id)
    is_call = sa.and_(tool_calls.c.server == rule.server, tool_calls.c.name == rule.tool)
    newest = (
        sa.select(tool_calls)
        .select_from(held)
        .where(is_call, _held_by(rule))
        .order_by(tool_calls.c.created_at.desc(), tool_calls.c.id)
        .limit(limit)
    )
    found = await tx.rows(newest, CallRow)
    at_id = await _chats(tx, chats.c.id.in_({row.chat_id for row in found}))
    return [(row, at_id[row.chat_id]) for row in found]


def _held_by(rule: RuleRow) -> sa.ColumnElement[bool]:
    """The chats in which a rule speaks, as storage.rules.scope_key names its scope."""
    key = rule.scope_key
    match RuleScope(rule.scope):
        case RuleScope.CHAT:
            return chats.c.id == key
        case RuleScope.CHANNEL:
            organisation, _, channel = key.partition("/")
            return sa.and_(_of(organisation), chats.c.channel == channel)
        case RuleScope.ORGANISATION:
            return _of(key)
        case RuleScope.SURFACE:
            return chats.c.surface == key
        case unreachable:
            assert_never(unreachable)


def _of(organisation: str) -> sa.ColumnElement[bool]:
    surface, _, name = organisation.partition(":")
    return sa.and_(chats.c.surface == surface, chats.c.organisation == name)


async def usage(tx: Tx, scope: Scope) -> UsageRow:
    """What the model cost; the cost is none as soon as one turn's cost is unknown."""
    held = sa.join(turns, chats, chats.c.id == turns.c.chat_id)
    found = await tx.run(sa.select(turns).select_from(held).where(scope.holds()))
    return messages.total(found.all())


def _begun(requester: str, theirs: bool) -> sa.ColumnElement[bool]:
    return chats.c.requester == requester if theirs else chats.c.requester != requester


async def _calls(tx: Tx, which: sa.ColumnElement[bool]) -> dict[str | None, CallRow]:
    return {row.id: row for row in await tx.rows(sa.select(tool_calls).where(which), CallRow)}


async def _chats(tx: Tx, which: sa.ColumnElement[bool]) -> dict[str | None, ChatRow]:
    return {row.id: row for row in await tx.rows(sa.select(chats).where(which), ChatRow)}
