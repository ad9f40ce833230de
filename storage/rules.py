"""Standing rules: what a person said once about later calls, in a scope, until it ends."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, assert_never

import sqlalchemy as sa

from storage.chats import ChatRow
from storage.database import Tx
from storage.schema import rules


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    id: str
    effect: str
    scope: str
    scope_key: str
    requester: str | None = None
    server: str
    tool: str
    schema_digest: str
    conditions: Any
    created_by: str
    created_name: str
    created_at: float
    expires_at: float | None = None
    uses_left: int | None = None
    uses: int = 0
    used_at: float | None = None
    revoked_at: float | None = None
    revoked_by: str | None = None
    note: str | None = None


async def add(tx: Tx, row: RuleRow) -> bool:
    """False when there is a rule of this id."""
    return await tx.insert_new(rules, **asdict(row))


def valid(now: float) -> sa.ColumnElement[bool]:
    """Neither revoked nor expired nor used up."""
    return sa.and_(
        rules.c.revoked_at.is_(None),
        sa.or_(rules.c.expires_at.is_(None), rules.c.expires_at > now),
        sa.or_(rules.c.uses_left.is_(None), rules.c.uses_left > 0),
    )


class Scope(StrEnum):
    """Where a rule speaks. CHAT is a thread."""

    CHAT = "chat"
    CHANNEL = "channel"
    ORGANISATION = "organisation"
    SURFACE = "surface"


def scope_key(scope: Scope, chat: ChatRow) -> str:
    """The key of the scope of this kind in which the chat lives."""
    match scope:
        case Scope.CHAT:
            return chat.id
        case Scope.CHANNEL:
            return chat.place.channel_key
        case Scope.ORGANISATION:
            return f"{chat.surface}:{chat.organisation}"
        case Scope.SURFACE:
            return chat.surface
        case unreachable:
            assert_never(unreachable)


async def in_force(tx: Tx, chat: ChatRow, now: float) -> list[RuleRow]:
    """The rules of every scope that the chat is in, oldest first."""
    scopes = [
        sa.and_(rules.c.scope == scope, rules.c.scope_key == scope_key(scope, chat))
        for scope in Scope
    ]
    return await tx.rows(
        sa.select(rules)
        .where(sa.or_(*scopes), valid(now))
        .order_by(rules.c.created_at, rules.c.id),
        RuleRow,
    )


async def count_use(tx: Tx, rule_id: str, now: float) -> bool:
    """One use more; False when the rule ended meanwhile, so that it allows no call."""
    return (
        await tx.change(
            sa.update(rules)
            .where(rules.c.id == rule_id, valid(now))
            .values(uses=rules.c.uses + 1, used_at=now, uses_left=rules.c.uses_left - 1)
        )
        == 1
    )


async def get(tx: Tx, rule_id: str) -> RuleRow | None:
    return await tx.first(sa.select(rules).where(rules.c.id == rule_id), RuleRow)


async def made_by(tx: Tx, key: str) -> list[RuleRow]:
    """Every rule of a maker that was not revoked, ended by itself or not."""
    return await tx.rows(
        sa.select(rules)
        .where(rules.c.created_by == key, rules.c.revoked_at.is_(None))
        .order_by(rules.c.id),
        RuleRow,
    )


async def pin(tx: Tx, rule_id: str, schema_digest: str) -> None:
    """The tool of a rule was seen for the first time."""
    await tx.run(
        sa.update(rules)
        .where(rules.c.id == rule_id, rules.c.schema_digest == "")
        .values(schema_digest=schema_digest)
    )


async def revoke(tx: Tx, rule_id: str, *, by: str, now: float) -> bool:
    """Ends a rule; False when it had ended. Calls that it allowed before are not called back
    (row B68)."""
    return (
        await tx.change(
            sa.update(rules)
            .where(rules.c.id == rule_id, rules.c.revoked_at.is_(None))
            .values(revoked_at=now, revoked_by=by)
        )
        == 1
    )
