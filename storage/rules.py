"""Standing rules. Part one knows one kind: allow a tool for the rest of a chat."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

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


async def add(tx: Tx, row: RuleRow) -> None:
    await tx.run(sa.insert(rules).values(**asdict(row)))


def valid(now: float) -> sa.ColumnElement[bool]:
    """Neither revoked nor expired nor used up."""
    return sa.and_(
        rules.c.revoked_at.is_(None),
        sa.or_(rules.c.expires_at.is_(None), rules.c.expires_at > now),
        sa.or_(rules.c.uses_left.is_(None), rules.c.uses_left > 0),
    )


async def in_force(tx: Tx, scope_key: str, now: float) -> list[RuleRow]:
    return await tx.rows(
        sa.select(rules)
        .where(rules.c.scope_key == scope_key, valid(now))
        .order_by(rules.c.created_at, rules.c.id),
        RuleRow,
    )


async def count_use(tx: Tx, rule_id: str, now: float) -> None:
    await tx.change(
        sa.update(rules)
        .where(rules.c.id == rule_id)
        .values(uses=rules.c.uses + 1, used_at=now, uses_left=rules.c.uses_left - 1)
    )
