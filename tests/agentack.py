"""A chat as a trace of agentack, a judge of approvals that we did not write.

Every event comes of a row: a proposal of the call's row, a presentation and a decision of `asked`
and `decided` in the audit log, an execution of `run` there. The identity of an action is our
digest, from a source of its own each time: the row of the call, the audit row of the question, and
(for what was executed) the arguments that the tool itself says it got. What agentack has no word
for:

- Of several approvals that a policy asks for, the one that is enough is the decision.
- An approval with other arguments is a no to the call as it was, and a yes to another.
- A use of a standing rule is an approval of its maker, for that call alone.
- A question that closed without a decision (stopped, expired, superseded) is a no.
- A run that goes on after the tool asked something is the same run; one that is repeated after its
  runner was lost needs an approval of its own, which is the answer "run it again". Only what is
  declared to do no harm when it runs twice is repeated by itself, and is the same run.
- Calls of one message of a person have one intent, so that none gets around a no to another. (Of
  two calls of one response, one approved before the other was declined would look like that.)
- A call that was refused at once, before anybody was asked, is no action but a wish (`propose`).
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bot.chat import Chat
from bot.gate import digest
from bot.outcome import AGAIN
from bot.question import Purpose
from bot.tool import Call, Tool, tool
from storage import audit, questions
from storage.audit import AuditRow
from storage.calls import CallRow
from storage.questions import QuestionRow, QuestionState

Event = dict[str, Any]

_SCHEMA: Final = 2
_APPROVED: Final = (QuestionState.APPROVED, QuestionState.ANSWERED)


@dataclass
class Witness:
    """What tools were really run with, told by themselves, by the id of the call. The first runs
    stay in their effect for ever: their process dies there."""

    runs: dict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    stays: int = 0
    idempotent: bool = False

    def tool(self, name: str = "refund") -> Tool:
        @tool(name=name, idempotent=self.idempotent)
        async def run(ctx: Call, order: str = "A1", amount: int = 1) -> str:
            """Has an effect on an order."""
            self.runs[ctx.id].append({"order": order, "amount": amount})
            if sum(len(runs) for runs in self.runs.values()) <= self.stays:
                await asyncio.Event().wait()
            return f"{name} {order} done"

        return run


@dataclass
class _Trace:
    session: str
    intents: Mapping[str, str]  # by call
    events: list[Event] = field(default_factory=list)

    def add(self, kind: str, at: float, **named: Any) -> None:
        when = datetime.fromtimestamp(at, UTC).isoformat()
        base = {"schema_version": _SCHEMA, "type": kind, "session_id": self.session}
        self.events.append({**base, "timestamp": when, **named})

    def of_call(self, kind: str, at: float, call: CallRow, **named: Any) -> None:
        intent = self.intents[call.id]
        self.add(kind, at, **{"action_id": call.id, "intent_id": intent, **named})


class _Call:
    """What became of one call so far."""

    def __init__(
        self, row: CallRow, trail: Sequence[AuditRow], runs: Sequence[Any], *, idempotent: bool
    ) -> None:
        self.row = row
        self.idempotent = idempotent
        self.ran = any(one.event == "run" for one in trail)
        self.asked = any(one.event in ("asked", "rule_used") for one in trail)
        self.trail = trail
        self.runs = list(runs)
        self.approval = ""  # that the next run is of
        self.action_id = row.id
        self.going_on = False

    def action(self, mark: str) -> Event:
        named = "run" if self.ran or self.asked else "propose"
        shown = {"digest": mark}
        return {
            "tool": self.row.name,
            "operation": named,
            "resource": self.row.server or "here",
            "parameters": shown,
        }

    def mark(self, args: Mapping[str, Any]) -> str:
        return digest(self.row.server, self.row.name, self.row.schema_digest, args)


async def trace(chat: Chat, witness: Witness) -> list[Event]:
    """The events of a chat in the order of its audit log; it ends once nothing is open."""
    async with chat.core.db.read() as tx:
        log = await audit.of_chat(tx, chat.id)
        rows = await chat.calls()
        asked = {q.id: q for row in rows for q in await questions.of_call(tx, row.id)}
    made = _Trace(chat.id, await _intents(chat, rows))
    calls = {
        row.id: _Call(
            row,
            [one for one in log if one.call_id == row.id],
            witness.runs[row.id],
            idempotent=witness.idempotent,
        )
        for row in rows
    }
    coming = list(calls.values())
    closed = sorted((q for q in asked.values() if _unanswered(q)), key=lambda q: q.settled_at or 0)
    for entry in [*log, None]:
        while coming and (entry is None or _is_there(coming[0], entry)):
            _propose(made, coming.pop(0))
        while closed and (entry is None or (closed[0].settled_at or 0) < entry.created_at):
            question = closed.pop(0)
            one = calls[question.call_id or ""]
            _decide(made, question.settled_at or 0, one, question.id, allow=False)
        if entry is not None:
            _event(made, entry, calls.get(entry.call_id or ""), asked)
    for one in calls.values():  # what a tool did that no row tells of
        for args in one.runs:
            made.of_call("action_executed", _end(log), one.row, action=one.action(one.mark(args)))
    if all(row.settled for row in rows) and not await chat.pending_questions():
        made.add("session_end", _end(log))
    return made.events


def _unanswered(question: QuestionRow) -> bool:
    """It closed without anybody's decision."""
    open_ = question.state == QuestionState.OPEN
    return question.purpose != Purpose.ASK and not open_ and question.settled_by is None


def _end(log: Sequence[AuditRow]) -> float:
    return log[-1].created_at if log else 0.0


def _is_there(one: _Call, entry: AuditRow) -> bool:
    """The row of the call is there before the first audit row of it, and by its time."""
    first = one.trail[0].id if one.trail else None
    return one.row.created_at <= entry.created_at and (first is None or first <= entry.id)


def _propose(made: _Trace, one: _Call) -> None:
    args = one.row.args if one.row.edited is None else one.row.edited["from"]
    action = one.action(one.mark(args))
    made.of_call("action_proposed", one.row.created_at, one.row, action=action)


async def _intents(chat: Chat, rows: Collection[CallRow]) -> dict[str, str]:
    """What a person said last before the response that a call is of."""
    last, found = "nothing", {}
    wanted = defaultdict(list)
    for row in rows:
        wanted[row.message_id].append(row.id)
    for message in await chat.transcript():
        if message.author is not None:
            last = f"message {message.id}"
        found.update(dict.fromkeys(wanted[message.id], last))
    return found


def _event(
    made: _Trace, entry: AuditRow, one: _Call | None, asked: Mapping[str, QuestionRow]
) -> None:
    at, detail = entry.created_at, entry.detail
    if entry.event == "stop_chat":
        made.add("interrupt", at)
    if one is None:
        return
    question = asked.get(entry.question_id or "")
    match entry.event:
        case "asked" if detail["purpose"] == Purpose.ASK:
            one.going_on = True
        case "asked":
            assert question is not None
            mark = detail["digest"] or one.row.digest  # what came of a run is asked of the same
            shown = {"approval_id": question.id, "action": one.action(mark)}
            made.of_call("approval_requested", at, one.row, **shown)
        case "decided" if question is not None and question.purpose != Purpose.ASK:
            if detail["edited"]:
                _replace(made, at, one, question, detail["digest"])
            elif detail["state"] != QuestionState.OPEN:
                allow = _allows(detail["state"], question)
                _decide(made, at, one, question.id, allow=allow, until=question.expires_at)
        case "rule_used":
            name = f"{detail['rule']}/{one.row.id}"
            shown = {"approval_id": name, "action": one.action(detail["digest"])}
            made.of_call("approval_requested", at, one.row, **shown)
            _decide(made, at, one, name, allow=True)
        case "run":
            _run(made, at, one, detail["digest"], detail["attempt"])
        case "not_run" | "changed" | "expired" if not one.ran and question is None:
            named = {"approval_id": one.approval} if one.approval else {}
            made.of_call("action_blocked", at, one.row, **named)
        case _:
            pass


def _allows(state: str, question: QuestionRow) -> bool:
    if question.purpose == Purpose.OUTCOME:
        answer = (question.response or {}).get("answer") or {}
        return AGAIN in answer.values()
    return state in _APPROVED


def _decide(
    made: _Trace, at: float, one: _Call, approval: str, *, allow: bool, until: float | None = None
) -> None:
    named: Event = {"approval_id": approval, "action_id": one.action_id}
    expiry = {} if until is None else {"expires_at": datetime.fromtimestamp(until, UTC).isoformat()}
    decision = "allow" if allow else "deny"
    made.of_call("approval_decision", at, one.row, **named, decision=decision, **expiry)
    if allow:
        one.approval = approval
    elif not one.ran:
        made.of_call("action_blocked", at, one.row, **named)


def _replace(made: _Trace, at: float, one: _Call, question: QuestionRow, mark: str) -> None:
    """A person approved the call with other arguments: as it was it does not run."""
    one.ran, ran = False, one.ran
    _decide(made, at, one, question.id, allow=False)
    one.ran, one.action_id = ran, f"{one.row.id}/edited"
    action = one.action(mark)
    named = {"action_id": one.action_id, "action": action}
    made.of_call("action_proposed", at, one.row, **named)
    approval = f"{question.id}/edited"
    made.of_call("approval_requested", at, one.row, **named, approval_id=approval)
    _decide(made, at, one, approval, allow=True, until=question.expires_at)


def _run(made: _Trace, at: float, one: _Call, mark: str, attempt: int) -> None:
    """The run that a claim allowed: with what the tool says it got; with what the row says where
    it did not come so far."""
    if one.runs:
        mark = one.mark(one.runs.pop(0))
    if one.going_on or (one.idempotent and attempt > 1):
        one.going_on = False
        return
    named = {"approval_id": one.approval} if one.approval else {}
    action = one.action(mark)
    made.of_call("action_executed", at, one.row, action_id=one.action_id, action=action, **named)


def write(path: Path, events: Sequence[Event]) -> None:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in events))
