"""Questions and what people said to them. First decision wins, by compare-and-set on "open"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import decisions, questions, tool_calls


class QuestionState(StrEnum):
    OPEN = "open"
    ANSWERED = "answered"
    APPROVED = "approved"
    DECLINED = "declined"
    DISMISSED = "dismissed"
    SUPERSEDED = "superseded"  # the tool asked something else when it ran again
    CANCELLED = "cancelled"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    id: str
    nonce: str
    chat_id: str | None
    call_id: str | None
    purpose: str
    kind: str
    ordinal: int = 0
    fingerprint: str = ""
    body: Any
    audience: Any
    digest: str = ""
    card: str | None = None
    state: str = QuestionState.OPEN
    version: int = 1
    response: Any = None
    settled_by: str | None = None
    settled_name: str | None = None
    opened_at: float
    remind_at: float | None = None
    expires_at: float | None = None
    settled_at: float | None = None
    reminders: int = 0
    escalate_at: float | None = None
    escalated_at: float | None = None


@dataclass(frozen=True, slots=True)
class DecisionRow:
    question_id: str
    actor: str
    verb: str
    response: Any
    via: str
    digest: str
    created_at: float


async def open_question(tx: Tx, row: QuestionRow) -> None:
    await tx.run(sa.insert(questions).values(**asdict(row)))


async def get(tx: Tx, question_id: str) -> QuestionRow | None:
    return await tx.first(sa.select(questions).where(questions.c.id == question_id), QuestionRow)


async def by_nonce(tx: Tx, nonce: str) -> QuestionRow | None:
    return await tx.first(sa.select(questions).where(questions.c.nonce == nonce), QuestionRow)


async def open_in_chat(tx: Tx, chat_id: str) -> list[QuestionRow]:
    return await tx.rows(
        sa.select(questions)
        .where(questions.c.chat_id == chat_id, questions.c.state == QuestionState.OPEN)
        .order_by(questions.c.opened_at, questions.c.id),
        QuestionRow,
    )


async def all_open(tx: Tx) -> list[QuestionRow]:
    return await tx.rows(
        sa.select(questions)
        .where(questions.c.state == QuestionState.OPEN)
        .order_by(questions.c.opened_at, questions.c.id),
        QuestionRow,
    )


async def of_call(tx: Tx, call_id: str, *, purpose: str | None = None) -> list[QuestionRow]:
    """Oldest ask first; a superseded ask keeps its ordinal and comes before its successor."""
    found = sa.select(questions).where(questions.c.call_id == call_id)
    if purpose is not None:
        found = found.where(questions.c.purpose == purpose)
    return await tx.rows(
        found.order_by(questions.c.ordinal, questions.c.opened_at, questions.c.id), QuestionRow
    )


async def of_card(tx: Tx, card: str) -> list[QuestionRow]:
    """The questions that share a card, in the order of their calls."""
    return await tx.rows(
        sa.select(questions)
        .join(tool_calls, tool_calls.c.id == questions.c.call_id)
        .where(questions.c.card == card)
        .order_by(tool_calls.c.position),
        QuestionRow,
    )


async def beside(tx: Tx, row: QuestionRow) -> list[QuestionRow]:
    """The questions on the card of this one, itself among them, as they are now."""
    if row.card is not None:
        return await of_card(tx, row.card)
    now = await get(tx, row.id)
    return [] if now is None else [now]


async def settle(
    tx: Tx,
    question_id: str,
    *,
    to: QuestionState,
    response: Any,
    by: str | None,
    name: str | None,
    now: float,
) -> bool:
    """open -> settled; False when somebody was first."""
    return await _change_open(
        tx,
        question_id,
        state=to,
        response=response,
        settled_by=by,
        settled_name=name,
        settled_at=now,
        version=questions.c.version + 1,
    )


async def late(tx: Tx, before: float) -> list[str]:
    """The open questions of which a time had come by then."""
    to_escalate = sa.and_(questions.c.escalated_at.is_(None), questions.c.escalate_at <= before)
    found = await tx.run(
        sa.select(questions.c.id).where(
            questions.c.state == QuestionState.OPEN,
            sa.or_(questions.c.expires_at <= before, questions.c.remind_at <= before, to_escalate),
        )
    )
    return [row.id for row in found]


async def postpone(
    tx: Tx, row: QuestionRow, *, remind_at: float | None, escalate_at: float | None
) -> None:
    """Other times for an open question."""
    await _change_open(tx, row.id, remind_at=remind_at, escalate_at=escalate_at)


async def remind(tx: Tx, row: QuestionRow, *, next_at: float | None) -> bool:
    """Counts a reminder; False when it was settled, or reminded of, meanwhile."""
    as_seen = questions.c.reminders == row.reminders
    return await _change_open(tx, row.id, as_seen, reminders=row.reminders + 1, remind_at=next_at)


async def escalate(
    tx: Tx, row: QuestionRow, *, audience: Any, remind_at: float | None, now: float
) -> bool:
    """The next approvers may decide too; False when it was settled, or escalated, meanwhile."""
    return await _change_open(
        tx,
        row.id,
        questions.c.escalated_at.is_(None),
        escalated_at=now,
        audience=audience,
        remind_at=remind_at,
        version=questions.c.version + 1,
    )


async def mark(tx: Tx, row: QuestionRow, body: Any) -> bool:
    """Another body for an expired question, for its card to show; False when it has another."""
    return (
        await tx.change(
            sa.update(questions)
            .where(
                questions.c.id == row.id,
                questions.c.state == QuestionState.EXPIRED,
                questions.c.version == row.version,
            )
            .values(body=body, version=questions.c.version + 1)
        )
        == 1
    )


async def supersede(tx: Tx, ids: Sequence[str], *, now: float) -> None:
    """An answer to what is no longer asked counts no more (row Q25)."""
    await tx.change(
        sa.update(questions)
        .where(questions.c.id.in_(ids))
        .values(state=QuestionState.SUPERSEDED, settled_at=now, version=questions.c.version + 1)
    )


async def touch(tx: Tx, question_id: str) -> None:
    """What its card shows beside the row has changed: a copy on its way is drawn anew."""
    await tx.change(
        sa.update(questions)
        .where(questions.c.id == question_id)
        .values(version=questions.c.version + 1)
    )


async def rewrite(tx: Tx, question_id: str, body: Any) -> bool:
    """Another body for an open question, for its card to show; False when it was settled."""
    return await _change_open(tx, question_id, body=body, version=questions.c.version + 1)


async def _change_open(
    tx: Tx, question_id: str, *as_seen: sa.ColumnElement[bool], **values: Any
) -> bool:
    """False when it was settled meanwhile, or is not as it was seen."""
    open_one = (questions.c.id == question_id, questions.c.state == QuestionState.OPEN)
    return await tx.change(sa.update(questions).where(*open_one, *as_seen).values(**values)) == 1


async def record_decision(tx: Tx, row: DecisionRow) -> bool:
    """One per person and question: what they say now takes the place of what they said before.
    False: they had said something."""
    values = asdict(row)
    if await tx.insert_new(decisions, **values):
        return True
    await tx.change(
        sa.update(decisions)
        .where(decisions.c.question_id == row.question_id, decisions.c.actor == row.actor)
        .values(**values)
    )
    return False


async def decisions_on(tx: Tx, question_id: str) -> list[DecisionRow]:
    return await tx.rows(
        sa.select(decisions).where(decisions.c.question_id == question_id).order_by(decisions.c.id),
        DecisionRow,
    )
