"""Closing questions, and having every copy of something drawn anew."""

from __future__ import annotations

from collections.abc import Sequence

from bot import home
from bot.core import Core, Job
from storage import outbox, questions
from storage.database import Tx
from storage.outbox import Priority
from storage.questions import QuestionRow, QuestionState


async def redraw(
    core: Core,
    tx: Tx,
    subject: str,
    *,
    priority: Priority = Priority.SETTLED,
    call_id: str | None = None,
) -> None:
    """Also on the home pages of those whom it concerns. `call_id`: the call that may not start
    before every copy is redrawn (row B39)."""
    for channel in await outbox.edit_all(
        tx, subject, priority=priority, now=core.now(), call_id=call_id
    ):
        await core.wake(tx, Job.DELIVER, channel)
    await home.redraw(core, tx, subject)


async def supersede(core: Core, tx: Tx, rows: Sequence[QuestionRow]) -> None:
    """These are asked no more, and answers to them count no more."""
    await questions.supersede(tx, [row.id for row in rows], now=core.now())
    for row in rows:
        await redraw(core, tx, outbox.card_of(row))


async def supersede_open(core: Core, tx: Tx, call_id: str) -> None:
    """The call is settled, so whatever it still asks is asked no more."""
    still = [row for row in await questions.of_call(tx, call_id) if row.state == QuestionState.OPEN]
    if still:
        await supersede(core, tx, still)
