"""Home pages that people have open, and what is kept for them: whom a change concerns, and what was
settled lately."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from storage import calls, chats
from storage.database import Tx, canonical
from storage.questions import QuestionRow, QuestionState
from storage.schema import chats as chat_table
from storage.schema import decisions, homes, questions, tool_calls
from storage.scope import Asked, Scope


@dataclass(frozen=True, slots=True)
class HomeRow:
    surface: str
    organisation: str
    user: str
    page: int
    opened_at: float


@dataclass(frozen=True, slots=True)
class Concerned:
    """Whom a call may concern: in which organisation, and what says who asked and who decides."""

    surface: str
    organisation: str
    agent: str
    requester: str
    askers: Any
    audience: Any  # of one of its questions; none: it was never asked about


def _key(surface: str, organisation: str, user: str) -> sa.ColumnElement[bool]:
    return sa.and_(
        homes.c.surface == surface, homes.c.organisation == organisation, homes.c.user == user
    )


async def opened(tx: Tx, row: HomeRow) -> None:
    """The person looks at this page of their home now."""
    values = {"page": row.page, "opened_at": row.opened_at}
    which = _key(row.surface, row.organisation, row.user)
    if not await tx.change(sa.update(homes).where(which).values(**values)):
        await tx.insert_new(
            homes, surface=row.surface, organisation=row.organisation, user=row.user, **values
        )


async def get(tx: Tx, surface: str, organisation: str, user: str) -> HomeRow | None:
    return await tx.first(sa.select(homes).where(_key(surface, organisation, user)), HomeRow)


async def open_since(
    tx: Tx, surface: str, organisation: str, users: Collection[str], since: float
) -> list[str]:
    """Those of these people who opened their home since then, in order."""
    found = await tx.run(
        sa.select(homes.c.user)
        .where(
            homes.c.surface == surface,
            homes.c.organisation == organisation,
            homes.c.user.in_(users),
            homes.c.opened_at >= since,
        )
        .order_by(homes.c.user)
    )
    return [row.user for row in found]


async def concerned(tx: Tx, subject: str) -> list[Concerned]:
    """Whom the calls behind a card of questions or of a task may concern."""
    own = questions.c.id == subject.removeprefix("question:")
    asked = await tx.run(
        sa.select(questions.c.call_id).where(sa.or_(own, questions.c.card == subject))
    )
    call_ids = [subject.removeprefix("task:"), *(row.call_id for row in asked if row.call_id)]
    told = sa.join(tool_calls, chat_table, chat_table.c.id == tool_calls.c.chat_id).outerjoin(
        questions, questions.c.call_id == tool_calls.c.id
    )
    return await tx.rows(
        sa.select(
            chat_table.c.surface,
            chat_table.c.organisation,
            chat_table.c.agent,
            chat_table.c.requester,
            tool_calls.c.askers,
            questions.c.audience,
        )
        .select_from(told)
        .where(tool_calls.c.id.in_(call_ids)),
        Concerned,
    )


async def decided(tx: Tx, scope: Scope, person: str, *, since: float, limit: int) -> list[Asked]:
    """What this person decided, and what came of what they asked the agent, newest first."""
    theirs = sa.exists().where(
        decisions.c.question_id == questions.c.id, decisions.c.actor == person
    )
    askers = sa.type_coerce(tool_calls.c.askers, sa.Text)
    alone = sa.or_(askers.is_(None), askers == canonical([]))
    asked = sa.or_(
        askers.contains(canonical(person), autoescape=True),
        sa.and_(alone, chat_table.c.requester == person),
    )
    held = sa.join(questions, chat_table, chat_table.c.id == questions.c.chat_id).join(
        tool_calls, tool_calls.c.id == questions.c.call_id
    )
    found = await tx.rows(
        sa.select(questions)
        .select_from(held)
        .where(
            scope.holds(),
            questions.c.settled_at >= since,
            questions.c.state.not_in((QuestionState.OPEN, QuestionState.SUPERSEDED)),
            sa.or_(theirs, asked),
        )
        .order_by(questions.c.settled_at.desc(), questions.c.id)
        .limit(limit),
        QuestionRow,
    )
    return [await _asked(tx, row) for row in found]


async def _asked(tx: Tx, row: QuestionRow) -> Asked:
    call = await calls.get(tx, row.call_id or "")
    chat = await chats.get(tx, row.chat_id or "")
    assert call is not None
    assert chat is not None
    return Asked(row, call, chat)
