"""Running one tool call: claim it, let it have its effect, record what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from bot.approvers import refusal
from bot.core import Core, Job
from bot.gate import AskFirst, Deny, Run, digest, gate
from bot.lease import Held
from bot.opening import open_approval, open_ask
from bot.question import Purpose
from bot.reply import say
from bot.surface import Actor
from bot.tool import Ask, Call, Detached, Done, InputRequired, NobodyToAsk, Outcome, Recorded, Tool
from storage import audit, calls, chats, outbox, questions, rules
from storage.calls import CallRow, CallState
from storage.database import DatabaseUnavailable, Tx
from storage.outbox import Priority
from storage.questions import QuestionRow, QuestionState

log = structlog.get_logger(__name__)

RECORD_SECONDS = 300.0  # how long a finished run waits for the database to take its outcome
RECORD_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class _Claimed:
    """A call that is ours to run, once."""

    row: CallRow
    tool: Tool
    recorded: tuple[Recorded, ...]


class CallRunner:
    """Runs the calls of a held chat."""

    def __init__(self, core: Core, held: Held) -> None:
        self.core = core
        self.held = held

    async def run(self, call_id: str) -> None:
        """Raises NobodyToAsk when the call asked where nobody can be asked; the call is closed."""
        claimed = await self._claim(call_id)
        if claimed is None:
            return
        call = Call(
            id=call_id,
            tool=claimed.row.name,
            requester=self.held.chat.requester,
            journal=_Journal(self.core, self.held, call_id),
            recorded=claimed.recorded,
        )
        try:
            outcome: Outcome = await claimed.tool.run(claimed.row.args, call)
        except NobodyToAsk as error:
            await self._record(claimed.row, Done(str(error), failed=True))
            raise
        except InputRequired as error:  # the tool called another tool by itself, which asked
            outcome = Done(f"{claimed.row.name} failed: {error}", failed=True)
        await self._record(claimed.row, outcome)

    # Claiming: everything that could have changed since it was allowed is looked at again.

    async def _claim(self, call_id: str) -> _Claimed | None:
        async with self.core.db.transaction("claim_call") as tx:
            await self.held.fence(tx)
            row = await calls.get(tx, call_id, lock=True)
            if row is None or row.state != CallState.READY:
                return None
            tool = self._tool(row)
            if tool is None or tool.schema_digest != row.schema_digest:
                await self._refuse(
                    tx,
                    row,
                    "changed",
                    f"{row.name} did not run: the tool was changed or removed after this call was "
                    "asked for. Call it again if it is still needed.",
                )
                return None
            if not await self._as_allowed(tx, row):
                await self._refuse(
                    tx,
                    row,
                    "changed",
                    f"{row.name} did not run: its arguments are not those that were allowed.",
                )
                return None
            if not await self._permitted(tx, row, tool):
                return None
            await calls.claim(tx, row.id, epoch=self.held.chat.epoch, now=self.core.now())
            await audit.record(
                tx,
                "run",
                now=self.core.now(),
                chat_id=row.chat_id,
                call_id=row.id,
                actor=row.allowed_by,
                digest=row.digest,
                attempt=row.attempt + 1,
            )
            claimed = await calls.get(tx, row.id)
            assert claimed is not None
            return _Claimed(claimed, tool, await _recorded(tx, row.id))

    def _tool(self, row: CallRow) -> Tool | None:
        agent = self.core.agents.get(self.held.chat.agent)
        return None if agent is None else agent.tool(row.server, row.name)

    async def _as_allowed(self, tx: Tx, row: CallRow) -> bool:
        """Whether what is stored is what was shown and allowed (rule 6)."""
        if digest(row.server, row.name, row.schema_digest, row.args) != row.digest:
            return False
        if row.allowed_by is None or row.allowed_by.startswith("rule:"):
            return True
        return row.digest in await _digests_allowed(tx, row, row.allowed_by)

    async def _permitted(self, tx: Tx, row: CallRow, tool: Tool) -> bool:
        """Asks the gate again: it can only have become stricter (rule 7)."""
        chat = self.held.chat
        policy = self.core.policies.of(chat.agent, row.name)
        in_force = await rules.in_force(tx, chat.id, self.core.now())
        verdict = gate(tool, row.args, policy=policy, requester=chat.requester, rules=in_force)
        match verdict:
            case Run():
                return True
            case Deny(reason):
                await self._refuse(tx, row, "denied", reason, to=CallState.DECLINED)
                return False
            case AskFirst():
                if row.allowed_by and self._still_approves(row, policy_actor(row.allowed_by)):
                    return True
                await calls.move(
                    tx, row.id, was=[CallState.READY], to=CallState.WAITING, allowed_by=None
                )
                await open_approval(self.core, tx, chat, row)
                return False
            case unreachable:
                assert_never(unreachable)

    def _still_approves(self, row: CallRow, actor: Actor | None) -> bool:
        if actor is None:
            return False
        chat = self.held.chat
        policy = self.core.policies.of(chat.agent, row.name)
        why = refusal(
            actor,
            purpose=Purpose.APPROVAL,
            policy=policy,
            requester=chat.requester,
            tool=row.name,
        )
        return why is None

    async def _refuse(
        self, tx: Tx, row: CallRow, outcome: str, result: str, to: CallState = CallState.FAILED
    ) -> None:
        await calls.settle(
            tx,
            row.id,
            was=[CallState.READY],
            to=to,
            outcome=outcome,
            result=result,
            now=self.core.now(),
        )
        await audit.record(
            tx, outcome, now=self.core.now(), chat_id=row.chat_id, call_id=row.id, why=result
        )

    # Recording

    async def _record(self, row: CallRow, outcome: Outcome) -> None:
        match outcome:
            case Done():
                await self._insist(lambda: self._done(row, outcome))
            case Ask():
                await self._insist(lambda: self._suspend(row, outcome))
            case Detached():
                await self._insist(lambda: self._detach(row, outcome))
            case unreachable:
                assert_never(unreachable)

    async def _insist(self, record: Callable[[], Awaitable[None]]) -> None:
        """The effect is there: its record must get in while this process lives, or the call
        becomes unknown."""
        give_up = self.core.now() + RECORD_SECONDS
        while True:
            try:
                return await record()
            except DatabaseUnavailable:
                if self.core.now() >= give_up:
                    raise
                log.warning("the database does not take the outcome of a call; trying again")
                await self.core.clock.sleep(RECORD_WAIT)

    async def _done(self, row: CallRow, done: Done) -> None:
        now = self.core.now()
        state = CallState.FAILED if done.failed else CallState.DONE
        async with self.core.db.transaction("record_result") as tx:
            await chats.lock(tx, row.chat_id)
            if not await calls.report(
                tx,
                row.id,
                epoch=row.epoch,
                to=state,
                outcome="failed" if done.failed else "done",
                result=done.result,
                now=now,
            ):
                log.warning("a late result came after the call was settled", call=row.id)
                return
            await audit.record(
                tx, "ran", now=now, chat_id=row.chat_id, call_id=row.id, failed=done.failed
            )
            await self._close_outcome_question(tx, row)
            await chats.stir(tx, row.chat_id)
            await self.core.wake(tx, Job.CHAT, row.chat_id)

    async def _close_outcome_question(self, tx: Tx, row: CallRow) -> None:
        """A late runner reports: the truth beats the question (rule 4)."""
        asked = await questions.of_call(tx, row.id, purpose=Purpose.OUTCOME)
        for question in asked:
            if question.state == QuestionState.OPEN:
                await self._supersede(tx, [question])

    async def _supersede(self, tx: Tx, rows: list[QuestionRow]) -> None:
        await questions.supersede(tx, [row.id for row in rows], now=self.core.now())
        for row in rows:
            subject = outbox.question_subject(row.id)
            for channel in await outbox.edit_all(
                tx, subject, priority=Priority.SETTLED, now=self.core.now()
            ):
                await self.core.wake(tx, Job.DELIVER, channel)

    async def _suspend(self, row: CallRow, ask: Ask) -> None:
        """The tool asked: earlier answers that no longer fit are discarded (row Q25)."""
        async with self.core.db.transaction("suspend_call") as tx:
            await self.held.fence(tx)
            if not await calls.move(
                tx,
                row.id,
                was=[CallState.RUNNING],
                to=CallState.WAITING,
                resume=ask.resume,
            ):
                return
            earlier = await questions.of_call(tx, row.id, purpose=Purpose.ASK)
            stale = [
                one
                for one in earlier
                if one.ordinal >= ask.ordinal and one.state != QuestionState.SUPERSEDED
            ]
            if stale:
                await self._supersede(tx, stale)
            for number, asked in enumerate(ask.questions):
                await open_ask(self.core, tx, self.held.chat, row, asked, ask.ordinal + number)

    async def _detach(self, row: CallRow, detached: Detached) -> None:
        async with self.core.db.transaction("detach_call") as tx:
            await self.held.fence(tx)
            await calls.move(
                tx,
                row.id,
                was=[CallState.RUNNING],
                to=CallState.WAITING,
                task=detached.task,
                wake_at=detached.wake_at,
            )


@dataclass(frozen=True, slots=True)
class _Journal:
    """The rows behind a running call."""

    core: Core
    held: Held
    call_id: str

    async def step(self, key: str) -> tuple[bool, Any]:
        async with self.core.db.read() as tx:
            return await calls.step(tx, self.call_id, key)

    async def record_step(self, key: str, value: Any) -> None:
        async with self.core.db.transaction("record_step") as tx:
            await self.held.fence(tx)
            await calls.record_step(tx, self.call_id, key, value, now=self.core.now())

    async def progress(self, text: str) -> None:
        async with self.core.db.transaction("show_progress") as tx:
            await say(
                self.core,
                tx,
                self.held.chat,
                f"progress:{self.call_id}",
                text,
                priority=Priority.LIVE,
            )


async def _digests_allowed(tx: Tx, row: CallRow, actor: str) -> set[str]:
    """The digests of this call that this person allowed."""
    found = set()
    for question in await questions.of_call(tx, row.id):
        if question.purpose != Purpose.ASK:
            for decision in await questions.decisions_on(tx, question.id):
                if decision.actor == actor and decision.verb in ("approve", "answer"):
                    found.add(decision.digest)
    return found


async def _recorded(tx: Tx, call_id: str) -> tuple[Recorded, ...]:
    """The settled asks of a call in their order, up to the first that is open."""
    found = []
    for row in await questions.of_call(tx, call_id, purpose=Purpose.ASK):
        if row.state == QuestionState.SUPERSEDED:
            continue
        if row.state == QuestionState.OPEN:
            break
        found.append(Recorded(row.fingerprint, _value(row)))
    return tuple(found)


def _value(row: QuestionRow) -> Any:
    """What the tool's ask gives: one field's value, a mapping for several, True for a page."""
    if row.state != QuestionState.ANSWERED:
        return None
    answer = row.response["answer"]
    fields = row.body["fields"]
    if isinstance(answer, Mapping) and len(fields) == 1:
        return answer.get(fields[0]["name"])
    return answer


def policy_actor(key: str) -> Actor | None:
    """The person behind a key of ours, to ask again whether they may; flags were judged at the
    click. None for a rule."""
    surface, colon, rest = key.partition(":")
    organisation, slash, user = rest.partition("/")
    if not colon or not slash:
        return None
    return Actor(surface, organisation, user)
