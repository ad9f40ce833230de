"""Tool calls: the journal of what happened to every call the model asked for.

Every change of state is a compare-and-set on the state before (design: States of a call).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import messages, outbox, questions, steps, tool_calls


class CallState(StrEnum):
    WAITING = "waiting"  # for a person or a task
    READY = "ready"
    RUNNING = "running"
    UNKNOWN = "unknown"  # it may have happened: the runner was lost between effect and record
    DONE = "done"
    FAILED = "failed"
    DECLINED = "declined"


SETTLED = (CallState.DONE, CallState.FAILED, CallState.DECLINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    id: str
    chat_id: str
    message_id: int
    position: int
    provider_id: str
    server: str
    name: str
    args: Any
    digest: str
    schema_digest: str
    state: str
    attempt: int = 0
    epoch: int = 0
    allowed_by: str | None = None
    resume: Any = None
    task: Any = None
    wake_at: float | None = None
    outcome: str | None = None
    result: Any = None
    note: Any = None
    edited: Any = None
    askers: Any = None
    created_at: float
    claimed_at: float | None = None
    settled_at: float | None = None

    @property
    def settled(self) -> bool:
        return self.state in SETTLED


async def add(tx: Tx, row: CallRow) -> None:
    await tx.run(sa.insert(tool_calls).values(**asdict(row)))


async def get(tx: Tx, call_id: str, *, lock: bool = False) -> CallRow | None:
    found = sa.select(tool_calls).where(tool_calls.c.id == call_id)
    return await tx.first(found.with_for_update() if lock else found, CallRow)


async def of_round(tx: Tx, message_id: int) -> list[CallRow]:
    """The calls of one response of the model, in its order."""
    return await tx.rows(
        sa.select(tool_calls)
        .where(tool_calls.c.message_id == message_id)
        .order_by(tool_calls.c.position),
        CallRow,
    )


async def on_card(tx: Tx, card: str) -> list[CallRow]:
    """The calls that one card asks for."""
    return await tx.rows(
        sa.select(tool_calls)
        .join(questions, questions.c.call_id == tool_calls.c.id)
        .where(questions.c.card == card),
        CallRow,
    )


async def in_state(tx: Tx, chat_id: str, states: Sequence[CallState]) -> list[CallRow]:
    return await tx.rows(
        sa.select(tool_calls)
        .where(tool_calls.c.chat_id == chat_id, tool_calls.c.state.in_(states))
        .order_by(tool_calls.c.message_id, tool_calls.c.position),
        CallRow,
    )


async def digests_before(
    tx: Tx, chat_id: str, message_id: int, *, responses: int
) -> list[set[str]]:
    """What each of the last responses before this one asked for, newest first."""
    found = await tx.run(
        sa.select(tool_calls.c.message_id, tool_calls.c.digest)
        .where(tool_calls.c.chat_id == chat_id, tool_calls.c.message_id < message_id)
        .order_by(tool_calls.c.message_id.desc())
        .limit(100 * responses)
    )
    rounds: dict[int, set[str]] = {}
    for row in found:
        rounds.setdefault(row.message_id, set()).add(row.digest)
    return list(rounds.values())[:responses]


async def held_since(tx: Tx, call_ids: Sequence[str]) -> dict[str, float]:
    """The calls that may not start yet: since when the newest card that must lose its buttons
    first is on its way. A call is free once every copy is redrawn or given up (B39).

    A card that several calls share holds each of them from its own decision on, so that the
    decisions on the others do not prolong it."""
    pending = sa.or_(
        outbox.c.state == "sending",
        # A card that is still to be posted is posted without buttons.
        sa.and_(outbox.c.state == "waiting", outbox.c.action == "edit"),
    )
    # An edit that waited already is taken over by the decision (outbox.edit_all).
    decided = sa.select(sa.func.max(questions.c.settled_at)).where(
        questions.c.call_id == outbox.c.call_id
    )
    newest = decided.scalar_subquery()
    since = sa.case((newest > outbox.c.created_at, newest), else_=outbox.c.created_at)
    own = sa.select(outbox.c.call_id, since.label("since")).where(
        outbox.c.call_id.in_(call_ids), pending
    )
    shared = (
        sa.select(questions.c.call_id, questions.c.settled_at.label("since"))
        .join(outbox, outbox.c.subject == questions.c.card)
        .where(questions.c.call_id.in_(call_ids), questions.c.settled_at.is_not(None), pending)
    )
    holds = sa.union_all(own, shared).subquery()
    found = await tx.run(
        sa.select(holds.c.call_id, sa.func.max(holds.c.since).label("since")).group_by(
            holds.c.call_id
        )
    )
    return {row.call_id: row.since for row in found}


async def digests_declined(tx: Tx, chat_id: str) -> set[str]:
    """What people said no to since one of them last wrote in the chat."""
    last = sa.select(sa.func.max(messages.c.created_at)).where(
        messages.c.chat_id == chat_id,
        messages.c.author.is_not(None),
        messages.c.on_behalf.is_(None),  # "Ask again" asks for what expired and nothing else
    )
    found = await tx.run(
        sa.select(tool_calls.c.digest).where(
            tool_calls.c.chat_id == chat_id,
            tool_calls.c.state == CallState.DECLINED,
            tool_calls.c.outcome == "declined",
            tool_calls.c.settled_at >= last.scalar_subquery(),
        )
    )
    return set(found.scalars())


async def digests_expired(tx: Tx, chat_id: str, askers: Collection[str]) -> set[str]:
    """What nobody decided in time, of the calls that these people and nobody else asked for."""
    found = await tx.run(
        sa.select(tool_calls.c.digest, tool_calls.c.askers).where(
            tool_calls.c.chat_id == chat_id, tool_calls.c.outcome == "expired"
        )
    )
    return {row.digest for row in found if row.askers and set(row.askers) <= set(askers)}


async def claim(tx: Tx, call_id: str, *, epoch: int, now: float) -> bool:
    """ready -> running, committed before the effect: that is the at-most-once (rule 1)."""
    return (
        await tx.change(
            sa.update(tool_calls)
            .where(tool_calls.c.id == call_id, tool_calls.c.state == CallState.READY)
            .values(
                state=CallState.RUNNING,
                epoch=epoch,
                attempt=tool_calls.c.attempt + 1,
                claimed_at=now,
                resume=None,  # handed to this run, and never to a second one (rule 11)
            )
        )
        == 1
    )


async def move(
    tx: Tx,
    call_id: str,
    *,
    was: Sequence[CallState],
    to: CallState,
    epoch_is: int | None = None,
    task_is: Any = None,
    **values: Any,
) -> bool:
    """One step of the state machine; False when the call was no longer where it should be.
    With `epoch_is` also when somebody claimed it again: a late result is then nobody's (rule 4).
    """
    change = sa.update(tool_calls).where(tool_calls.c.id == call_id, tool_calls.c.state.in_(was))
    if task_is is not None:
        change = change.where(tool_calls.c.task == task_is)
    if epoch_is is not None:
        change = change.where(tool_calls.c.epoch == epoch_is)
    return await tx.change(change.values(state=to, **values)) == 1


async def settle(
    tx: Tx,
    call_id: str,
    *,
    was: Sequence[CallState],
    to: CallState,
    outcome: str,
    result: Any,
    now: float,
) -> bool:
    return await move(
        tx, call_id, was=was, to=to, outcome=outcome, result=result, settled_at=now, wake_at=None
    )


async def stranded(tx: Tx, chat_id: str, epoch: int) -> list[CallRow]:
    """Calls left running by a runner of an older epoch."""
    return await tx.rows(
        sa.select(tool_calls).where(
            tool_calls.c.chat_id == chat_id,
            tool_calls.c.state == CallState.RUNNING,
            tool_calls.c.epoch < epoch,
        ),
        CallRow,
    )


async def overdue_tasks(tx: Tx, before: float) -> list[str]:
    """Background calls that should have been looked at by then."""
    found = await tx.run(
        sa.select(tool_calls.c.id).where(
            tool_calls.c.state == CallState.WAITING,
            tool_calls.c.task.is_not(None),
            tool_calls.c.wake_at < before,
        )
    )
    return [row.id for row in found]


async def has_open_question(tx: Tx, call_id: str) -> bool:
    found = await tx.value(
        sa.select(sa.func.count())
        .select_from(questions)
        .where(questions.c.call_id == call_id, questions.c.state == "open")
    )
    return bool(found)


async def step(tx: Tx, call_id: str, key: str) -> tuple[bool, Any]:
    """(journaled before?, its value)."""
    found = (
        await tx.run(sa.select(steps).where(steps.c.call_id == call_id, steps.c.key == key))
    ).first()
    return (False, None) if found is None else (True, found.value)


async def record_step(tx: Tx, call_id: str, key: str, value: Any, *, now: float) -> None:
    await tx.insert_new(steps, call_id=call_id, key=key, value=value, created_at=now)
