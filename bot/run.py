"""Running one tool call: claim it, let it have its effect, record what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from bot.approvers import askers_of, refusal
from bot.core import Core, ToolsUnavailable
from bot.gate import AskFirst, Deny, Run, digest, gate
from bot.groups import with_groups
from bot.identity import different, linked, same_people
from bot.lease import Held
from bot.notify import tell_impossible
from bot.opening import open_approval, open_ask
from bot.question import Asked, Purpose, fields_of
from bot.quorum import YES
from bot.record import Recorder
from bot.reply import say
from bot.rule_use import tell_rule_use
from bot.surface import Actor, person_of
from bot.tool import (
    Action,
    Answered,
    Call,
    Done,
    InputRequired,
    Lost,
    NobodyToAsk,
    Outcome,
    Recorded,
    Tool,
)
from storage import audit, calls, questions, rules
from storage.calls import CallRow, CallState
from storage.database import DatabaseUnavailable, Tx
from storage.outbox import Priority
from storage.questions import DecisionRow, QuestionRow, QuestionState
from storage.rules import RuleRow

log = structlog.get_logger(__name__)

RECORD_SECONDS = 300.0  # how long a finished run waits for the database to take its outcome
RECORD_WAIT = 1.0
REMOVED = (
    "the tool was changed or removed after this call was asked for. "
    "Call it again if it is still needed."
)
ATTEMPTS = 3  # how often an idempotent call whose outcome was lost is repeated by itself


@dataclass(frozen=True, slots=True)
class _Claimed:
    """A call that is ours to run, once."""

    row: CallRow
    tool: Tool
    asked: list[QuestionRow]  # what it asked and got answered, in order
    resume: Any


class CallRunner:
    """Runs the calls of a held chat."""

    def __init__(self, core: Core, held: Held) -> None:
        self.core = core
        self.held = held

    async def run(self, call_id: str) -> None:
        """Raises NobodyToAsk when the call asked where nobody can be asked; the call is closed."""
        tool, missing = await self._tool(call_id)
        approvers = await self._approvers(call_id)
        claimed = await self._claim(call_id, tool, missing, approvers)
        if claimed is None:
            return
        row, tool = claimed.row, claimed.tool
        call = Call(
            id=call_id,
            tool=row.name,
            requester=self.held.chat.requester,
            journal=_Journal(self.core, self.held, call_id),
            recorded=tuple(Recorded(one.fingerprint, _value(one)) for one in claimed.asked),
            answers=tuple(_answered(one) for one in claimed.asked),
            resume=claimed.resume,
            task=row.task,
        )
        recorder = Recorder(self.core, CallState.RUNNING)
        outcome: Outcome
        try:
            outcome = await tool.run(row.args, call)
        except NobodyToAsk as error:
            done = Done(str(error), failed=True)
            await self._insist(lambda: recorder.record(row, done))
            raise
        except Lost as lost:
            sentence, again = str(lost), tool.idempotent and row.attempt < ATTEMPTS
            await self._insist(lambda: recorder.lost(row, sentence, again=again))
            return
        except InputRequired as error:  # the tool called another tool by itself, which asked
            outcome = Done(f"{row.name} failed: {error}", failed=True)
        await self._insist(lambda: recorder.record(row, outcome))

    # Claiming: everything that could have changed since it was allowed is looked at again.

    async def _tool(self, call_id: str) -> tuple[Tool | None, str]:
        """The tool of a call, or why it cannot be run; asked for before the transaction, since a
        server may have to be reached for it."""
        async with self.core.db.read() as tx:
            row = await calls.get(tx, call_id)
        if row is None:
            return None, REMOVED
        try:
            # What a person approved may have waited for days: the tool is looked at as it is now.
            tool = await self.core.find_tool(
                self.held.chat.agent, row.name, fresh=row.allowed_by is not None
            )
            return tool, REMOVED
        except ToolsUnavailable as error:
            return None, str(error)

    async def _approvers(self, call_id: str) -> dict[str, Actor]:
        """Who allowed the call, by their keys, with the groups they are in by now; asked before the
        transaction as well."""
        async with self.core.db.read() as tx:
            row = await calls.get(tx, call_id)
            keys = () if row is None or row.allowed_by is None else await _allowed(tx, row)
        people = [person for key in keys if (person := person_of(key)) is not None]
        return {one.key: await with_groups(self.core, one) for one in people}

    async def _claim(
        self, call_id: str, tool: Tool | None, missing: str, approvers: Mapping[str, Actor]
    ) -> _Claimed | None:
        async with self.core.db.transaction("claim_call") as tx:
            await self.held.fence(tx)
            row = await calls.get(tx, call_id, lock=True)
            if row is None or row.state != CallState.READY:
                return None
            if tool is None or tool.schema_digest != row.schema_digest:
                why = missing if tool is None else REMOVED
                await self._refuse(tx, row, "changed", f"{row.name} did not run: {why}")
                return None
            if not await self._as_allowed(tx, row):
                await self._refuse(
                    tx,
                    row,
                    "changed",
                    f"{row.name} did not run: its arguments are not those that were allowed.",
                )
                return None
            if not await self._permitted(tx, row, tool, approvers):
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
            return _Claimed(claimed, tool, await _asked(tx, row.id), row.resume)

    async def _as_allowed(self, tx: Tx, row: CallRow) -> bool:
        """Whether what is stored is what was shown and allowed (rule 6)."""
        if digest(row.server, row.name, row.schema_digest, row.args) != row.digest:
            return False
        if row.allowed_by is None or row.allowed_by.startswith("rule:"):
            return True
        return row.digest in (await _allowed(tx, row)).get(row.allowed_by, ())

    async def _permitted(
        self, tx: Tx, row: CallRow, tool: Tool, approvers: Mapping[str, Actor]
    ) -> bool:
        """Asks the gate again: it can only have become stricter (rule 7)."""
        chat = self.held.chat
        policies = self.core.policies
        policy = policies.of_call(chat.agent, row)
        in_force = await rules.in_force(tx, chat, self.core.now())
        in_force += await self._last_use(tx, row, in_force)
        askers = askers_of(row, chat)
        verdict = gate(
            tool,
            row.args,
            policy=policy,
            askers=askers,
            alike=await same_people(tx, policies, askers),
            rules=in_force,
            who=policies.who,
        )
        match verdict:
            case Run(rule):
                if rule is None or await self._still_approved(tx, row, approvers):
                    return True
                return await self._allowed_by(tx, row, rule)
            case Deny(reason, rule):
                if rule is not None and not await self._used(tx, row, rule):
                    return False
                await self._refuse(tx, row, "denied", reason, to=CallState.DECLINED)
                await tell_impossible(self.core, tx, chat, row, reason)
                return False
            case AskFirst(rule):
                if await self._still_approved(tx, row, approvers):
                    return True
                if rule is not None and not await self._used(tx, row, rule):
                    return False
                await calls.move(
                    tx, row.id, was=[CallState.READY], to=CallState.WAITING, allowed_by=None
                )
                await open_approval(self.core, tx, chat, row)
                return False
            case unreachable:
                assert_never(unreachable)

    async def _allowed_by(self, tx: Tx, row: CallRow, rule: RuleRow) -> bool:
        """Counts the use of a rule that allows what was allowed otherwise: by a rule that ended
        meanwhile, or by people whose word no longer counts."""
        if row.allowed_by == f"rule:{rule.id}":
            return True
        if not await self._used(tx, row, rule):
            return False
        await calls.move(
            tx, row.id, was=[CallState.READY], to=CallState.READY, allowed_by=f"rule:{rule.id}"
        )
        return True

    async def _used(self, tx: Tx, row: CallRow, rule: RuleRow) -> bool:
        """Counts a use of a rule and tells of it; False: it ended this moment, and the next look
        judges anew."""
        if not await rules.count_use(tx, rule.id, self.core.now()):
            return False
        await tell_rule_use(self.core, tx, self.held.chat, row, rule)
        return True

    async def _last_use(self, tx: Tx, row: CallRow, in_force: list[RuleRow]) -> list[RuleRow]:
        """The rule that allowed this call, where the call was its last use."""
        kind, _, rule_id = (row.allowed_by or "").partition(":")
        if kind != "rule" or any(one.id == rule_id for one in in_force):
            return []
        rule = await rules.get(tx, rule_id)
        if rule is None or rule.revoked_at is not None or rule.uses_left is None:
            return []
        return [] if rule.expires_at is not None and rule.expires_at <= self.core.now() else [rule]

    async def _still_approved(self, tx: Tx, row: CallRow, approvers: Mapping[str, Actor]) -> bool:
        """Whether as many different people as today's policy wants have allowed this very call,
        each of whom it lets approve today."""
        chat, policies = self.held.chat, self.core.policies
        quorum = policies.of_call(chat.agent, row).quorum
        people = []
        for question, decision in await _approvals(tx, row):
            actor = approvers.get(decision.actor)
            if actor is None or row.digest != decision.digest:
                continue
            actor = await linked(tx, policies, actor)
            why_not = refusal(
                actor,
                purpose=Purpose.APPROVAL,
                policy=policies.of_question(chat.agent, row, question),
                askers=askers_of(row, chat),
                tool=row.name,
                who=policies.who,
            )
            if why_not is None:
                people.append(actor)
        return different(people, policies.who) >= max(1, quorum)

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

    async def ask(self, asked: Asked, ordinal: int) -> str:
        async with self.core.db.transaction("ask_meanwhile") as tx:
            await self.held.fence(tx)
            row = await calls.get(tx, self.call_id)
            assert row is not None
            for one in await questions.of_call(tx, self.call_id, purpose=Purpose.ASK):
                if one.fingerprint == asked.fingerprint and one.state == QuestionState.OPEN:
                    return one.id
            return await open_ask(self.core, tx, self.held.chat, row, asked, ordinal)

    async def answer(self, question_id: str) -> Answered | None:
        async with self.core.db.read() as tx:
            row = await questions.get(tx, question_id)
        return None if row is None or row.state == QuestionState.OPEN else _answered(row)

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


async def _allowed(tx: Tx, row: CallRow) -> dict[str, set[str]]:
    """Who allowed this call to run, with the digests of it that they allowed."""
    found: dict[str, set[str]] = {}
    for _, decision in await _approvals(tx, row):
        found.setdefault(decision.actor, set()).add(decision.digest)
    return found


async def _approvals(tx: Tx, row: CallRow) -> list[tuple[QuestionRow, DecisionRow]]:
    """Every yes to this call, with the question that it answered."""
    return [
        (question, decision)
        for question in await questions.of_call(tx, row.id)
        if question.purpose != Purpose.ASK
        for decision in await questions.decisions_on(tx, question.id)
        if decision.verb in YES
    ]


async def _asked(tx: Tx, call_id: str) -> list[QuestionRow]:
    """The settled asks of a call in their order, up to the first that is open."""
    found = []
    for row in await questions.of_call(tx, call_id, purpose=Purpose.ASK):
        if row.state == QuestionState.SUPERSEDED:
            continue
        if row.state == QuestionState.OPEN:
            break
        found.append(row)
    return found


def _answered(row: QuestionRow) -> Answered:
    """A settled ask as the other side of a call gets it."""
    match QuestionState(row.state):
        case QuestionState.ANSWERED:
            action = Action.ACCEPT
        case QuestionState.DECLINED:
            action = Action.DECLINE
        case _:
            action = Action.CANCEL
    answer = row.response.get("answer") if isinstance(row.response, Mapping) else None
    content = answer if isinstance(answer, Mapping) else None
    key = row.body.get("key", "")
    return Answered(row.ordinal, key, row.fingerprint, action, content, fields_of(row))


def _value(row: QuestionRow) -> Any:
    """What the tool's ask gives: one field's value, a mapping for several, True for a page."""
    if row.state != QuestionState.ANSWERED:
        return None
    answer = row.response["answer"]
    fields = row.body["fields"]
    if isinstance(answer, Mapping) and len(fields) == 1:
        return answer.get(fields[0]["name"])
    return answer
