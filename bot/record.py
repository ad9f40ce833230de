"""Recording what a call came to: done, asking, or gone on elsewhere. The same for a call that ran
here and for a task that was looked at (design: one protocol for a call's body)."""

from __future__ import annotations

from typing import Any, assert_never

import structlog

from bot import home
from bot.closing import redraw, supersede, supersede_open
from bot.core import Core, Job, new_id
from bot.opening import open_ask, open_outcome
from bot.question import Purpose
from bot.tool import Ask, Detached, Done, Outcome, Produced
from storage import audit, calls, chats, files, outbox, questions
from storage.calls import CallRow, CallState
from storage.database import Tx
from storage.files import FileRow
from storage.outbox import Priority
from storage.questions import QuestionState

log = structlog.get_logger(__name__)


class Recorder:
    """Records outcomes of calls in the state `was`: running (by this runner) or waiting (for a
    task)."""

    def __init__(self, core: Core, was: CallState) -> None:
        self.core = core
        self.was = was

    async def record(self, row: CallRow, outcome: Outcome) -> None:
        """One transaction. What came too late, because the call was settled or claimed by
        somebody else meanwhile, changes nothing and is logged."""
        match outcome:
            case Done():
                await self._done(row, outcome)
            case Ask():
                await self._ask(row, outcome)
            case Detached():
                await self._detach(row, outcome)
            case unreachable:
                assert_never(unreachable)

    async def lost(self, row: CallRow, sentence: str, *, again: bool) -> None:
        """Nobody knows whether the call had its effect. It is ready `again`, or it becomes unknown
        and people are asked."""
        to = CallState.READY if again else CallState.UNKNOWN
        async with self.core.db.transaction("lose_call") as tx:
            chat = await chats.lock(tx, row.chat_id)
            if chat is None or not await self._move(tx, row, to):
                return
            await audit.record(
                tx, "lost", now=self.core.now(), chat_id=chat.id, call_id=row.id, why=sentence
            )
            if not again:
                await open_outcome(self.core, tx, chat, row)
            await self._stir(tx, row)

    async def _move(self, tx: Tx, row: CallRow, to: CallState, **values: Any) -> bool:
        moved = await calls.move(
            tx, row.id, was=[self.was], to=to, epoch_is=row.epoch, **self._as_seen(row), **values
        )
        if not moved:
            log.warning("an outcome came too late to be recorded", call=row.id, outcome=to)
        return moved

    def _as_seen(self, row: CallRow) -> dict[str, Any]:
        """Of two looks at one task, the second to be recorded is dropped: it saw an older row."""
        return {"task_is": row.task} if self.was is CallState.WAITING else {}

    async def _done(self, row: CallRow, done: Done) -> None:
        now = self.core.now()
        state = CallState.FAILED if done.failed else CallState.DONE
        # A runner that lost its lease may still report what became unknown (rule 4).
        was = [self.was, CallState.UNKNOWN] if self.was is CallState.RUNNING else [self.was]
        async with self.core.db.transaction("record_result") as tx:
            await chats.lock(tx, row.chat_id)
            if not await calls.move(
                tx,
                row.id,
                was=was,
                to=state,
                epoch_is=row.epoch,
                **self._as_seen(row),
                outcome="failed" if done.failed else "done",
                result=done.result,
                settled_at=now,
                wake_at=None,
                **({} if done.task is None else {"task": done.task}),
            ):
                log.warning("a late result came after the call was settled", call=row.id)
                return
            await audit.record(
                tx, "ran", now=now, chat_id=row.chat_id, call_id=row.id, failed=done.failed
            )
            await supersede_open(self.core, tx, row.id)
            await self._redraw_task(tx, row)
            for file in done.files:
                await self._post_file(tx, row, file)
            await self._stir(tx, row)

    async def _post_file(self, tx: Tx, row: CallRow, file: Produced) -> None:
        chat = await chats.get(tx, row.chat_id)
        assert chat is not None
        file_id = new_id("file")
        kept = FileRow(
            file_id, row.id, file.name[:200], file.mime_type[:200], file.data, self.core.now()
        )
        await files.add(tx, kept)
        await outbox.post(
            tx,
            chat.place,
            nonce=file_id,
            subject=outbox.file_subject(file_id),
            chat_id=chat.id,
            now=self.core.now(),
        )
        await self.core.wake(tx, Job.DELIVER, chat.place.channel_key)

    async def _ask(self, row: CallRow, ask: Ask) -> None:
        """The call asks: earlier answers that no longer fit are discarded (row Q25)."""
        async with self.core.db.transaction("suspend_call") as tx:
            chat = await chats.lock(tx, row.chat_id)
            values = {} if ask.task is None else {"task": ask.task}
            if chat is None or not await self._move(
                tx, row, CallState.WAITING, resume=ask.resume, wake_at=None, **values
            ):
                return
            earlier = await questions.of_call(tx, row.id, purpose=Purpose.ASK)
            stale = [
                one
                for one in earlier
                if one.ordinal >= ask.ordinal and one.state != QuestionState.SUPERSEDED
            ]
            if stale and ask.questions:
                await supersede(self.core, tx, stale)
            if not ask.questions and not await calls.has_open_question(tx, row.id):
                # What it asked while it ran was answered just now.
                await calls.move(tx, row.id, was=[CallState.WAITING], to=CallState.READY)
            for number, asked in enumerate(ask.questions):
                await open_ask(self.core, tx, chat, row, asked, ask.ordinal + number)
            await self._redraw_task(tx, row)
            await self._stir(tx, row)

    async def _detach(self, row: CallRow, detached: Detached) -> None:
        async with self.core.db.transaction("detach_call") as tx:
            chat = await chats.lock(tx, row.chat_id)
            if chat is None or not await self._move(
                tx,
                row,
                CallState.WAITING,
                task=detached.task,
                wake_at=detached.wake_at,
                resume=None,
            ):
                return
            if self.was is CallState.RUNNING:  # a poll returns the time to its engine instead
                await self.core.wake(tx, Job.TASK, row.id, at=detached.wake_at)
            subject = outbox.task_subject(row.id)
            if await outbox.post_of(tx, subject) is None:
                await outbox.post(
                    tx,
                    chat.place,
                    nonce=f"task-{row.id}",
                    subject=subject,
                    chat_id=chat.id,
                    now=self.core.now(),
                )
                await self.core.wake(tx, Job.DELIVER, chat.place.channel_key)
                await home.redraw(self.core, tx, subject)
            elif detached.task != row.task:
                await self._redraw_task(tx, row)
            await self._stir(tx, row)

    async def _redraw_task(self, tx: Tx, row: CallRow) -> None:
        if row.task is None:
            return
        subject = outbox.task_subject(row.id)
        await outbox.bump(tx, subject)
        await redraw(self.core, tx, subject, priority=Priority.LIVE)

    async def _stir(self, tx: Tx, row: CallRow) -> None:
        await chats.stir(tx, row.chat_id)
        await self.core.wake(tx, Job.CHAT, row.chat_id)
