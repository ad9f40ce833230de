"""Attachments: files that people sent with a message, until the message becomes history.

`waiting` is still to be fetched; `ready` and `refused` are final. Only what the model will read is
kept, and only until it is in the history.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import attachments, messages


class AttachmentState(StrEnum):
    WAITING = "waiting"
    READY = "ready"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentRow:
    """`mime_type` and `size` are what the sender claims until it is fetched, then what it is."""

    id: str
    chat_id: str
    message_id: int
    reference: Any
    name: str
    mime_type: str
    size: int
    state: str = AttachmentState.WAITING
    data: bytes | None = None
    note: str | None = None
    attempts: int = 0
    created_at: float


async def add(tx: Tx, row: AttachmentRow) -> None:
    await tx.run(sa.insert(attachments).values(**asdict(row)))


async def next_waiting(tx: Tx, chat_id: str) -> AttachmentRow | None:
    """The file to fetch next: of the oldest message, in the order of its files."""
    return await tx.first(
        sa.select(attachments)
        .where(attachments.c.chat_id == chat_id, attachments.c.state == AttachmentState.WAITING)
        .order_by(attachments.c.message_id, attachments.c.id)
        .limit(1),
        AttachmentRow,
    )


async def of_message(tx: Tx, message_id: int) -> list[AttachmentRow]:
    return await tx.rows(
        sa.select(attachments)
        .where(attachments.c.message_id == message_id)
        .order_by(attachments.c.id),
        AttachmentRow,
    )


async def of_source(tx: Tx, chat_id: str, source: str) -> bool:
    """Whether the files of what a person wrote are known, whatever became of them."""
    written = sa.select(messages.c.id).where(
        messages.c.chat_id == chat_id, messages.c.source == source
    )
    found = sa.select(sa.func.count()).where(attachments.c.message_id.in_(written))
    return bool(await tx.value(found))


async def count_attempt(tx: Tx, attachment_id: str) -> None:
    """Counted before it is fetched, so that a file that kills the process does so a few times."""
    await tx.change(
        sa.update(attachments)
        .where(attachments.c.id == attachment_id)
        .values(attempts=attachments.c.attempts + 1)
    )


async def settle(
    tx: Tx,
    attachment_id: str,
    *,
    to: AttachmentState,
    mime_type: str,
    size: int,
    data: bytes | None,
    note: str | None,
) -> bool:
    """waiting -> settled; False when its message was taken back meanwhile. What it was
    fetched by is forgotten: that may open it for anybody."""
    return (
        await tx.change(
            sa.update(attachments)
            .where(
                attachments.c.id == attachment_id, attachments.c.state == AttachmentState.WAITING
            )
            .values(state=to, mime_type=mime_type, size=size, data=data, note=note, reference={})
        )
        == 1
    )


async def forget_data(tx: Tx, message_id: int) -> None:
    """The message is history now, and the history has what was in its files."""
    await tx.change(
        sa.update(attachments).where(attachments.c.message_id == message_id).values(data=None)
    )
