"""The audit log: rows are added and read, never changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import audit


@dataclass(frozen=True, slots=True)
class AuditRow:
    id: int
    event: str
    chat_id: str | None
    call_id: str | None
    question_id: str | None
    actor: str | None
    via: str | None
    detail: Any
    created_at: float


async def record(
    tx: Tx,
    event: str,
    *,
    now: float,
    chat_id: str | None = None,
    call_id: str | None = None,
    question_id: str | None = None,
    actor: str | None = None,
    via: str | None = None,
    **detail: Any,
) -> None:
    await tx.run(
        sa.insert(audit).values(
            event=event,
            chat_id=chat_id,
            call_id=call_id,
            question_id=question_id,
            actor=actor,
            via=via,
            detail=detail,
            created_at=now,
        )
    )


async def newest(tx: Tx, chat_id: str, events: Sequence[str], *, since: float) -> AuditRow | None:
    """The last of these events in a chat at or after a time."""
    return await tx.first(
        sa.select(audit)
        .where(audit.c.chat_id == chat_id, audit.c.event.in_(events), audit.c.created_at >= since)
        .order_by(audit.c.id.desc())
        .limit(1),
        AuditRow,
    )


async def of_chat(tx: Tx, chat_id: str) -> list[AuditRow]:
    return await tx.rows(
        sa.select(audit).where(audit.c.chat_id == chat_id).order_by(audit.c.id), AuditRow
    )
