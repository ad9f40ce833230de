"""What comes of a question that nobody decides: reminders, the next approvers, its deadline.

Silence never approves. Every step is a compare-and-set in a transaction of its own, so that a wake
that is doubled, late or lost in between is harmless; what the bot missed while it was down is made
up for by the strongest step alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from bot.approvers import Policy, askers_of, audience
from bot.closing import redraw, supersede_open
from bot.core import Core, Job
from bot.deadlines import (
    Step,
    escalates_at,
    next_reminder,
    next_time,
    reminder_due,
    step_of,
)
from bot.markdown import moment
from bot.notify import notify_approvers
from bot.question import Purpose, QuestionError
from bot.reminder import About, tell
from storage import audit, calls, chats, outbox, questions
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import Tx
from storage.questions import QuestionRow, QuestionState


class Expired(QuestionError):
    """The decision came after the deadline."""

    def __init__(self, question: QuestionRow, call: CallRow) -> None:
        approval = question.purpose == Purpose.APPROVAL
        what = "does not run; its card can ask again" if approval else "goes on without an answer"
        super().__init__(
            f"This expired on {moment(question.expires_at or 0.0)}, before you decided, so "
            f"{call.name} {what}."
        )


class Timers:
    """Does what is due by the clock alone."""

    def __init__(self, core: Core) -> None:
        self.core = core

    async def due(self, question_id: str) -> float | None:
        """Does what is due for a question. What people are told of is told for all questions of its
        chat that are due for the same, once. Returns when to look again; None: it is settled, or
        waits for ever."""
        async with self.core.db.read() as tx:
            row = await questions.get(tx, question_id)
        if row is None or row.chat_id is None:
            return None
        match step_of(row, self.core.now()):
            case None:
                return next_time(row)
            case Step.EXPIRE:
                async with self.core.db.transaction("expire") as tx:
                    await chats.lock(tx, row.chat_id)
                    await expire(self.core, tx, row)
            case Step.ESCALATE as step:
                async with self.core.db.transaction("escalate") as tx:
                    await self._escalate(tx, *await self._due(tx, row.chat_id, step))
            case Step.REMIND as step:
                async with self.core.db.transaction("remind") as tx:
                    await self._remind(tx, *await self._due(tx, row.chat_id, step))
            case unreachable:
                assert_never(unreachable)
        async with self.core.db.read() as tx:
            row = await questions.get(tx, question_id)
        return None if row is None else next_time(row)

    async def _due(self, tx: Tx, chat_id: str, step: Step) -> tuple[ChatRow, list[QuestionRow]]:
        """The questions of the chat, which is locked, that are due for this step."""
        chat = await chats.lock(tx, chat_id)
        assert chat is not None
        now = self.core.now()
        still = await questions.open_in_chat(tx, chat_id)
        return chat, [one for one in still if step_of(one, now) is step]

    async def _policy(self, tx: Tx, chat: ChatRow, row: QuestionRow) -> tuple[CallRow, Policy]:
        call = await calls.get(tx, row.call_id or "")
        assert call is not None
        return call, self.core.policies.of_question(chat.agent, call, row)

    async def _remind(self, tx: Tx, chat: ChatRow, rows: Sequence[QuestionRow]) -> None:
        now = self.core.now()
        told = []
        for row in rows:
            _, policy = await self._policy(tx, chat, row)
            at = reminder_due(policy, row, now)
            if at is None or at > now:
                await questions.postpone(tx, row, remind_at=at, escalate_at=row.escalate_at)
                continue
            next_at = next_reminder(policy, row.reminders + 1, now)
            if await questions.remind(tx, row, next_at=next_at):
                told.append(row)
                await audit.record_on(tx, "reminded", row, now=now, reminders=row.reminders + 1)
        await tell(self.core, tx, chat, told, About.WAITING)

    async def _escalate(self, tx: Tx, chat: ChatRow, rows: Sequence[QuestionRow]) -> None:
        had = {outbox.card_of(row): await _deciders(tx, row) for row in rows}
        told = [row for row in rows if await self._escalated(tx, chat, row)]
        for card, row in {outbox.card_of(row): row for row in told}.items():
            await redraw(self.core, tx, card)
            if row.purpose != Purpose.ASK:  # what a tool wants to know is for those in the thread
                await notify_approvers(
                    self.core,
                    tx,
                    chat,
                    subject=card,
                    deciders=await _deciders(tx, row) - had[card],
                    call_id=None if row.card else row.call_id,
                )
        await tell(self.core, tx, chat, told, About.ESCALATED)

    async def _escalated(self, tx: Tx, chat: ChatRow, row: QuestionRow) -> bool:
        """False when the policy of today does not want it, or not yet."""
        now, policies = self.core.now(), self.core.policies
        call, policy = await self._policy(tx, chat, row)
        at = escalates_at(policy, row)
        if at is None or at > now:
            await questions.postpone(tx, row, remind_at=row.remind_at, escalate_at=at)
            return False
        shown = audience(
            policy.escalated(),
            purpose=Purpose(row.purpose),
            askers=askers_of(call, chat),
            who=policies.who,
        )
        remind_at = row.remind_at
        if remind_at is not None and remind_at <= now:  # they are told of it now anyway
            remind_at = next_reminder(policy, row.reminders, now)
        if not await questions.escalate(tx, row, audience=shown, remind_at=remind_at, now=now):
            return False
        await audit.record_on(tx, "escalated", row, now=now, audience=shown)
        return True


async def _deciders(tx: Tx, row: QuestionRow) -> set[str]:
    """Those who may decide something on the card of a question."""
    return {key for one in await questions.beside(tx, row) for key in one.audience["deciders"]}


async def expire(core: Core, tx: Tx, question: QuestionRow) -> bool:
    """Ends a question whose deadline has passed, in a transaction that holds its chat: what would
    have run does not, and what a tool asked stays without an answer. False when it was settled."""
    now = core.now()
    call = await calls.get(tx, question.call_id or "", lock=True)
    assert call is not None
    if not await questions.settle(
        tx,
        question.id,
        to=QuestionState.EXPIRED,
        response=None,
        by=None,
        name=None,
        now=now,
    ):
        return False
    match Purpose(question.purpose):
        case Purpose.APPROVAL:
            await calls.settle(
                tx,
                call.id,
                was=[CallState.WAITING],
                to=CallState.FAILED,
                outcome="expired",
                result=(
                    f"{call.name} did not run: nobody decided in time. That is not a no. Do not "
                    "call it again by yourself; do it if somebody asks for it."
                ),
                now=now,
            )
            await supersede_open(core, tx, call.id)
        case Purpose.ASK:
            if not await calls.has_open_question(tx, call.id):
                await calls.move(tx, call.id, was=[CallState.WAITING], to=CallState.READY)
        case Purpose.OUTCOME:
            raise AssertionError("what came of a lost run is asked until a person says it")
        case unreachable:
            assert_never(unreachable)
    await audit.record_on(
        tx,
        "expired",
        question,
        now=now,
        purpose=question.purpose,
        expires_at=question.expires_at,
    )
    await redraw(core, tx, outbox.card_of(question), call_id=call.id)
    await chats.stir(tx, call.chat_id)
    await core.wake(tx, Job.CHAT, call.chat_id)
    return True
