"""Messages: the history of a chat, one provider message a row, never rewritten.

A row without a position is queued: said by a person while the chat waits (rows Q27, Q28).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import messages, summaries, tool_calls, turns


@dataclass(frozen=True, slots=True)
class MessageRow:
    id: int
    chat_id: str
    position: int | None
    kind: str
    body: str
    author: str | None
    source: str | None
    created_at: float


@dataclass(frozen=True, slots=True)
class SummaryRow:
    through: int
    text: str


@dataclass(frozen=True, slots=True)
class UsageRow:
    turns: int
    input_tokens: int
    output_tokens: int
    cost: Decimal | None


async def queue(
    tx: Tx, chat_id: str, body: str, *, author: str | None, source: str | None, now: float
) -> int:
    """Keeps what a person said until the round is over; the id withdraws it."""
    result = await tx.run(
        sa.insert(messages)
        .values(
            chat_id=chat_id,
            kind="request",
            body=body,
            author=author,
            source=source,
            created_at=now,
        )
        .returning(messages.c.id)
    )
    return int(result.scalar_one())


async def withdraw(tx: Tx, chat_id: str, message_id: int) -> bool:
    """Takes a queued message of this chat back; False when it was taken up or withdrawn before."""
    return (
        await tx.change(
            sa.delete(messages).where(
                messages.c.id == message_id,
                messages.c.chat_id == chat_id,
                messages.c.position.is_(None),
            )
        )
        == 1
    )


async def queued(tx: Tx, chat_id: str) -> list[MessageRow]:
    return await tx.rows(
        sa.select(messages)
        .where(messages.c.chat_id == chat_id, messages.c.position.is_(None))
        .order_by(messages.c.id),
        MessageRow,
    )


async def history(tx: Tx, chat_id: str, *, after: int = 0) -> list[MessageRow]:
    """What was said, in order, from the position after `after`."""
    return await tx.rows(
        sa.select(messages)
        .where(messages.c.chat_id == chat_id, messages.c.position > after)
        .order_by(messages.c.position),
        MessageRow,
    )


async def last(tx: Tx, chat_id: str) -> MessageRow | None:
    return await tx.first(
        sa.select(messages)
        .where(messages.c.chat_id == chat_id, messages.c.position.is_not(None))
        .order_by(messages.c.position.desc())
        .limit(1),
        MessageRow,
    )


async def askers(tx: Tx, chat_id: str, before: int) -> list[str]:
    """Whose messages the model answers at position `before`: the authors since its last answer
    that asked for no call."""
    final = sa.select(sa.func.max(messages.c.position)).where(
        messages.c.chat_id == chat_id,
        messages.c.kind == "response",
        messages.c.position < before,
        ~sa.exists().where(tool_calls.c.message_id == messages.c.id),
    )
    found = await tx.run(
        sa.select(messages.c.author)
        .where(
            messages.c.chat_id == chat_id,
            messages.c.author.is_not(None),
            messages.c.position < before,
            messages.c.position > sa.func.coalesce(final.scalar_subquery(), 0),
        )
        .distinct()
        .order_by(messages.c.author)
    )
    return [row.author for row in found]


async def authors(tx: Tx, chat_id: str) -> list[str]:
    """Who has written in the chat, also what is still queued."""
    found = await tx.run(
        sa.select(messages.c.author)
        .where(messages.c.chat_id == chat_id, messages.c.author.is_not(None))
        .distinct()
        .order_by(messages.c.author)
    )
    return [row.author for row in found]


async def take_up(tx: Tx, message_id: int, position: int) -> bool:
    """Gives a queued message its place in the history."""
    return (
        await tx.change(
            sa.update(messages)
            .where(messages.c.id == message_id, messages.c.position.is_(None))
            .values(position=position)
        )
        == 1
    )


async def append(tx: Tx, chat_id: str, *, position: int, kind: str, body: str, now: float) -> int:
    result = await tx.run(
        sa.insert(messages)
        .values(chat_id=chat_id, position=position, kind=kind, body=body, created_at=now)
        .returning(messages.c.id)
    )
    return int(result.scalar_one())


async def latest_summary(tx: Tx, chat_id: str) -> SummaryRow | None:
    return await tx.first(
        sa.select(summaries)
        .where(summaries.c.chat_id == chat_id)
        .order_by(summaries.c.through.desc())
        .limit(1),
        SummaryRow,
    )


async def summarise(tx: Tx, chat_id: str, *, through: int, text: str, now: float) -> None:
    await tx.run(
        sa.insert(summaries).values(chat_id=chat_id, through=through, text=text, created_at=now)
    )


async def record_turn(
    tx: Tx,
    chat_id: str,
    message_id: int | None,
    *,
    model: str,
    input_tokens: int,
    output_tokens: int,
    cache_read_tokens: int,
    cache_write_tokens: int,
    cost: Decimal | None,
    seconds: float,
    now: float,
) -> None:
    await tx.run(
        sa.insert(turns).values(
            chat_id=chat_id,
            message_id=message_id,
            model=model,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            cache_write_tokens=cache_write_tokens,
            cost=None if cost is None else str(cost),
            seconds=seconds,
            created_at=now,
        )
    )


async def usage(tx: Tx, chat_id: str) -> UsageRow:
    """Totals of a chat; the cost is none as soon as one turn's cost is unknown."""
    return total((await tx.run(sa.select(turns).where(turns.c.chat_id == chat_id))).all())


def total(found: Sequence[sa.Row[Any]]) -> UsageRow:
    """The sums over rows of `turns`."""
    costs = [None if row.cost is None else Decimal(row.cost) for row in found]
    known = [cost for cost in costs if cost is not None]
    return UsageRow(
        turns=len(found),
        input_tokens=sum(row.input_tokens for row in found),
        output_tokens=sum(row.output_tokens for row in found),
        cost=sum(known, Decimal(0)) if len(known) == len(costs) else None,
    )
