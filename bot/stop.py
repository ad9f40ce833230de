"""Stopping a chat: what waits does not run, what runs is let finish, then it is idle (row L3)."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from bot.closing import redraw
from bot.core import Core
from bot.lease import Held
from bot.move import Snapshot
from bot.outcome import unfinished
from bot.reply import close_turn
from bot.results import append_results
from storage import audit, calls, chats, outbox, questions
from storage.calls import CallRow, CallState
from storage.database import Tx
from storage.questions import QuestionState

log = structlog.get_logger(__name__)


async def stop(core: Core, held: Held, snapshot: Snapshot, *, running: Collection[str]) -> None:
    """Closes questions and calls; ends the turn once nothing of ours runs any more. Servers are
    asked to cancel their tasks, and the chat is stopped whatever they say (row T10)."""
    async with core.db.transaction("stop_chat") as tx:
        await held.fence(tx)
        await _close_questions(core, tx, held)
        for call in snapshot.calls:
            await _drop(core, tx, call)
        busy = await calls.in_state(tx, held.chat.id, [CallState.RUNNING])
        if not any(call.id in running for call in busy):
            await _end_turn(core, tx, held, snapshot)
    for call in snapshot.calls:
        if call.task is not None and call.state == CallState.WAITING:
            await _cancel_task(core, held, call)


async def _close_questions(core: Core, tx: Tx, held: Held) -> None:
    for question in await questions.open_in_chat(tx, held.chat.id):
        await questions.settle(
            tx,
            question.id,
            to=QuestionState.CANCELLED,
            response=None,
            by=None,
            name=None,
            now=core.now(),
        )
        await redraw(core, tx, outbox.card_of(question))


async def _drop(core: Core, tx: Tx, call: CallRow) -> None:
    what = "did not run" if call.task is None else "was cancelled"
    await calls.settle(
        tx,
        call.id,
        was=[CallState.WAITING, CallState.READY],
        to=CallState.FAILED,
        outcome="cancelled",
        result=f"{call.name} {what}: the conversation was stopped.",
        now=core.now(),
    )
    await calls.settle(
        tx,
        call.id,
        was=[CallState.UNKNOWN],
        to=CallState.FAILED,
        outcome="interrupted",
        result=unfinished(call.name),
        now=core.now(),
    )
    if call.task is not None:
        await outbox.bump(tx, outbox.task_subject(call.id))
        await redraw(core, tx, outbox.task_subject(call.id))


async def _end_turn(core: Core, tx: Tx, held: Held, snapshot: Snapshot) -> None:
    """Leaves the history such that the model owes nothing."""
    last, chat = snapshot.last, held.chat
    going_on = last is not None and (last.kind == "request" or bool(snapshot.calls))
    if going_on and last is not None and last.position is not None:
        settled = await calls.of_round(tx, last.id) if snapshot.calls else []
        position = await append_results(core, tx, chat, last.position, settled)
        await close_turn(core, tx, chat, position + 1, "Stopped.")
    await chats.uncancel(tx, chat.id)
    await audit.record(tx, "stopped", now=core.now(), chat_id=chat.id, actor=chat.cancelled_by)


async def _cancel_task(core: Core, held: Held, call: CallRow) -> None:
    try:
        tool = await core.find_tool(held.chat.agent, call.name)
        if tool is not None:
            await tool.cancel_task(call.task)
    except Exception as error:
        log.warning("a task could not be cancelled", call=call.id, error=str(error))
