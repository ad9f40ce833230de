"""The audit log: rows are added and read, never changed; each carries the hash of the one before.

A changed, removed, added or moved row breaks the chain (spec: Beyond the originals 11). Rows of a
transaction are added at its end, so that the one lock of the chain is held as short as can be."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from storage.database import Tx, canonical
from storage.questions import QuestionRow
from storage.redact import mask_all
from storage.schema import audit

GENESIS: Final = "0" * 64  # what the first row has for a predecessor
_LOCK: Final = 0x1E21C4  # the chain's advisory lock on PostgreSQL; SQLite has one writer anyway
_BATCH: Final = 500
_HASHED: Final = (
    "event",
    "chat_id",
    "call_id",
    "question_id",
    "actor",
    "via",
    "detail",
    "created_at",
)


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
    previous: str | None
    hash: str | None


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
    """Adds a row when the transaction ends."""
    if not tx.audited:
        tx.before_commit(lambda: _append(tx), late=True)
    tx.audited.append(
        {
            "event": event,
            "chat_id": chat_id,
            "call_id": call_id,
            "question_id": question_id,
            "actor": actor,
            "via": via,
            "detail": mask_all(detail),
            "created_at": now,
        }
    )


async def record_on(
    tx: Tx,
    event: str,
    question: QuestionRow,
    *,
    now: float,
    actor: str | None = None,
    via: str | None = None,
    **detail: Any,
) -> None:
    """What became of a question."""
    await record(
        tx,
        event,
        now=now,
        chat_id=question.chat_id,
        call_id=question.call_id,
        question_id=question.id,
        actor=actor,
        via=via,
        **detail,
    )


async def _append(tx: Tx) -> None:
    previous = await head(tx, lock=True)
    rows = []
    for entry in tx.audited:
        rows.append(entry | {"previous": previous, "hash": chained(previous, entry)})
        previous = rows[-1]["hash"]
    await tx.connection.execute(sa.insert(audit), rows)


def chained(previous: str, entry: Mapping[str, Any]) -> str:
    """The hash of an entry that follows the one with the hash `previous`."""
    held = [previous, *(entry[name] for name in _HASHED)]
    return hashlib.sha256(canonical(held).encode()).hexdigest()


async def head(tx: Tx, *, lock: bool = False) -> str:
    """The hash of the last row; `lock`: nobody else adds one until the transaction ends."""
    if lock and tx.connection.dialect.name == "postgresql":
        await tx.run(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    last = sa.select(audit.c.hash).where(audit.c.hash.is_not(None)).order_by(audit.c.id.desc())
    found = await tx.value(last.limit(1))
    return GENESIS if found is None else str(found)


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


async def since(tx: Tx, after: int = 0, *, before: float | None = None) -> AsyncIterator[AuditRow]:
    """All rows after an id in their order, up to the first that is not older than `before`."""
    while True:
        rows = await tx.rows(
            sa.select(audit).where(audit.c.id > after).order_by(audit.c.id).limit(_BATCH), AuditRow
        )
        for row in rows:
            if before is not None and row.created_at >= before:
                return
            yield row
        if len(rows) < _BATCH:
            return
        after = rows[-1].id


async def drop_through(tx: Tx, last: int) -> int:
    """Removes the rows up to an id: they are sealed in a file now (bot.audit)."""
    return await tx.change(sa.delete(audit).where(audit.c.id <= last))
