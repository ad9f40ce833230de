"""Messages: the history of a chat, one provider message a row, never rewritten.

A row without a position is queued: said by a person while the chat waits (rows Q27, Q28). Until it
has one its author may still change it or take it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import attachments, messages, summaries, tool_calls, turns


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
    tx: Tx,
    chat_id: str,
    body: str,
    *,
    author: str | None,
    source: str | None,
    now: float,
    on_behalf: Sequence[str] | None = None,
) -> int:
    """Keeps what a person said until the round is over; the id withdraws it. `on_behalf`: those who
    count as having said it, where it is not its author."""
    result = await tx.run(
        sa.insert(messages)
        .values(
            chat_id=chat_id,
            kind="request",
            body=body,
            author=author,
            source=source,
            created_at=now,
            on_behalf=on_behalf,
        )
        .returning(messages.c.id)
    )
    return int(result.scalar_one())


async def withdraw(tx: Tx, chat_id: str, message_id: int) -> bool:
    """Takes a queued message of this chat back, with its files; False when it was taken up or
    withdrawn before."""
    still = sa.and_(
        messages.c.id == message_id,
        messages.c.chat_id == chat_id,
        messages.c.position.is_(None),
    )
    await tx.change(
        sa.delete(attachments).where(
            attachments.c.message_id.in_(sa.select(messages.c.id).where(still))
        )
    )
    return await tx.change(sa.delete(messages).where(still)) == 1


async def rewrite(tx: Tx, message_id: int, body: str) -> bool:
    """Other words for a queued message; False when it was taken up or withdrawn before."""
    return (
        await tx.change(
            sa.update(messages)
            .where(messages.c.id == message_id, messages.c.position.is_(None))
            .values(body=body)
        )
        == 1
    )


async def get(tx: Tx, message_id: int) -> MessageRow | None:
    return await tx.first(sa.select(messages).where(messages.c.id == message_id), MessageRow)


async def by_source(tx: Tx, chat_id: str, source: str) -> MessageRow | None:
    """What a person wrote, by the id it has on its surface."""
    return await tx.first(
        sa.select(messages)
        .where(messages.c.chat_id == chat_id, messages.c.source == source)
        .order_by(messages.c.id)
        .limit(1),
        MessageRow,
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
    that asked for no call, or those on whose behalf they wrote."""
    found = await tx.run(
        sa.select(messages.c.author, messages.c.on_behalf).where(*_exchange(chat_id, before))
    )
    return sorted({one for row in found for one in row.on_behalf or (row.author,)})


async def pressers(tx: Tx, chat_id: str, before: int) -> list[str]:
    """Whose button has the model asked once more, for others, at position `before`."""
    found = await tx.run(
        sa.select(messages.c.author).where(
            *_exchange(chat_id, before), messages.c.on_behalf.is_not(None)
        )
    )
    return sorted(set(found.scalars()))


async def authors(tx: Tx, chat_id: str) -> list[str]:
    """Who has written in the chat, also what is still queued. Pressing a button is no writing."""
    found = await tx.run(
        sa.select(messages.c.author)
        .where(
            messages.c.chat_id == chat_id,
            messages.c.author.is_not(None),
            messages.c.on_behalf.is_(None),
        )
        .distinct()
        .order_by(messages.c.author)
    )
    return [row.author for row in found]


async def exchange_began(tx: Tx, chat_id: str) -> float | None:
    """When the first message was written that the model has read but not answered for good."""
    began: float | None = await tx.value(
        sa.select(sa.func.min(messages.c.created_at)).where(*_exchange(chat_id))
    )
    return began


def _exchange(chat_id: str, before: int | None = None) -> list[sa.ColumnElement[bool]]:
    """What people said, up to position `before`, since the last answer that asked for no call."""
    until = [] if before is None else [messages.c.position < before]
    final = sa.select(sa.func.max(messages.c.position)).where(
        messages.c.chat_id == chat_id,
        messages.c.kind == "response",
        ~sa.exists().where(tool_calls.c.message_id == messages.c.id),
        *until,
    )
    return [
        messages.c.chat_id == chat_id,
        messages.c.author.is_not(None),
        messages.c.position > sa.func.coalesce(final.scalar_subquery(), 0),
        *until,
    ]


async def take_up(tx: Tx, message_id: int, position: int, body: str) -> bool:
    """Gives a queued message its place in the history, and the words it has there for good."""
    return (
        await tx.change(
            sa.update(messages)
            .where(messages.c.id == message_id, messages.c.position.is_(None))
            .values(position=position, body=body)
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
