"""The desk where questions are decided: one transaction a decision, whoever and wherever from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

from bot.approvers import askers_of, may_remember, refusal
from bot.card import outcome_sentence
from bot.closing import redraw, supersede_open
from bot.core import Core, Job, new_id
from bot.drawing import unread
from bot.field import AnswerError, coerce
from bot.gate import AskFirst, Deny, digest, gate
from bot.outcome import GIVE_UP, RAN, interrupted, outcome_choice
from bot.question import (
    AlreadyRunning,
    Changed,
    Kind,
    NotAllowed,
    Purpose,
    Question,
    QuestionError,
    UnknownQuestion,
    Verb,
    WrongVerb,
    fields_of,
    question_of,
)
from bot.quorum import Tally, tally
from bot.surface import Actor, Place
from bot.tool import BadArguments
from storage import audit, calls, chats, outbox, questions, rules
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import Tx, canonical
from storage.questions import DecisionRow, QuestionRow, QuestionState
from storage.rules import RuleRow

API = "api"  # a program, which has the arguments whole; surfaces name themselves


@dataclass(frozen=True, slots=True)
class Ruling:
    """How a question stands after a decision. `first`: it was this decision that settled it;
    otherwise `name` and `at` say who was first and when, unless `recorded` says that it counts and
    that others have to approve too."""

    question_id: str
    first: bool
    state: QuestionState
    name: str
    at: float
    recorded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What lies on the desk: the rows, locked, and what the person did. `unread`: why they cannot
    have read what would run."""

    chat: ChatRow
    call: CallRow
    question: QuestionRow
    verb: Verb
    by: Actor
    via: str
    response: Any
    lenient: bool
    remember: str | None
    arguments: Mapping[str, Any] | None
    unread: str | None


@dataclass(frozen=True, slots=True)
class _Effect:
    """What a decision does to its question and call."""

    question: QuestionState
    response: Any
    call: CallState | None  # None: the call stays as it is
    values: Mapping[str, Any]


class Desk:
    """Decides questions from rows alone."""

    def __init__(self, core: Core) -> None:
        self.core = core

    async def pending(self, chat_id: str) -> list[Question]:
        """The open questions of a chat, oldest first."""
        async with self.core.db.read() as tx:
            return [
                question_of(row, await self._call(tx, row), self)
                for row in await questions.open_in_chat(tx, chat_id)
            ]

    async def question(self, question_id: str) -> Question | None:
        async with self.core.db.read() as tx:
            row = await questions.get(tx, question_id)
            return None if row is None else question_of(row, await self._call(tx, row), self)

    async def decide(
        self,
        key: str,
        verb: Verb,
        *,
        by: Actor,
        via: str = API,
        response: Any = None,
        lenient: bool = False,
        remember: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        place: Place | None = None,
        chat_id: str | None = None,
    ) -> Ruling:
        """Decides the question with this nonce or id; durable when it returns.

        `place` is where the decision came from and must be the question's thread (or, without a
        channel, its organisation), `chat_id` the chat it must belong to. Raises QuestionError and
        bot.field.AnswerError; then nothing changed, save that a refusal is on record."""
        async with self.core.db.transaction("decide") as tx:
            ruling = await self._decide(
                tx, key, verb, by, via, response, lenient, remember, arguments, place, chat_id
            )
        if isinstance(ruling, Exception):
            raise ruling
        return ruling

    async def look(self, nonce: str, verb: Verb, *, by: Actor, place: Place | None) -> str | None:
        """Why this person could not do `verb` to the question now; None: they could."""
        async with self.core.db.read() as tx:
            row = await self._find(tx, nonce)
            call = None if row is None else await self._call(tx, row)
            if row is None or call is None:
                return str(UnknownQuestion())
            chat = await chats.get(tx, call.chat_id)
            if chat is None or not await self._belongs(tx, row, chat, place, None, by):
                return str(UnknownQuestion())
            refused = self._refusal(chat, call, row, by)
            if refused is None and row.state != QuestionState.OPEN:
                return late_sentence(row)
            return refused

    async def read(self, nonce: str, *, by: Actor, place: Place | None) -> str | None:
        """Why this person may not read the question in full; None: they asked for it, or are
        among its approvers."""
        async with self.core.db.read() as tx:
            row = await self._find(tx, nonce)
            call = None if row is None else await self._call(tx, row)
            chat = None if call is None else await chats.get(tx, call.chat_id)
            if row is None or call is None or chat is None:
                return str(UnknownQuestion())
            if not await self._belongs(tx, row, chat, place, None):
                return str(UnknownQuestion())
            if self._refusal(chat, call, replace(row, purpose=Purpose.ASK), by) is None:
                return None
            return "Only the person who asked the agent and its approvers can read all of this."

    # What follows runs inside the one transaction.

    async def _decide(
        self,
        tx: Tx,
        key: str,
        verb: Verb,
        by: Actor,
        via: str,
        response: Any,
        lenient: bool,
        remember: str | None,
        arguments: Mapping[str, Any] | None,
        place: Place | None,
        chat_id: str | None,
    ) -> Ruling | QuestionError | AnswerError:
        found = await self._find(tx, key)
        if found is None or found.chat_id is None or found.call_id is None:
            return UnknownQuestion()
        chat = await chats.lock(tx, found.chat_id)
        call = await calls.get(tx, found.call_id, lock=True)
        question = await questions.get(tx, found.id)
        assert chat is not None
        assert call is not None
        assert question is not None
        if not await self._belongs(tx, question, chat, place, chat_id, by):
            await self._record(tx, "refused", question, by, via, why="another thread", verb=verb)
            return UnknownQuestion()
        refused = self._refusal(chat, call, question, by)
        if refused is not None:
            await self._record(tx, "refused", question, by, via, why=refused, verb=verb)
            return NotAllowed(refused)
        if question.state != QuestionState.OPEN:
            return self._late(question, call, verb)
        case = _Case(
            chat=chat,
            call=call,
            question=question,
            verb=verb,
            by=by,
            via=via,
            response=response,
            lenient=lenient,
            remember=remember,
            arguments=arguments,
            unread=None if via == API else await unread(tx, call, chat, place),
        )
        if question.purpose == Purpose.APPROVAL and not _untouched(question, call):
            return await self._void(tx, case, via)
        try:
            effect = self._effect(case)
            await self._remember(tx, case, effect)
            counted = await self._count(tx, case, effect)
        except (QuestionError, AnswerError) as error:
            return error
        if counted is not None and not counted.reached:
            return await self._one_of_several(tx, case, counted)
        return await self._apply(tx, case, effect, counted)

    async def _find(self, tx: Tx, key: str) -> QuestionRow | None:
        return await questions.by_nonce(tx, key) or await questions.get(tx, key)

    async def _call(self, tx: Tx, row: QuestionRow) -> CallRow | None:
        return None if row.call_id is None else await calls.get(tx, row.call_id)

    async def _belongs(
        self,
        tx: Tx,
        row: QuestionRow,
        chat: ChatRow,
        place: Place | None,
        chat_id: str | None,
        by: Actor | None = None,
    ) -> bool:
        if chat_id is not None and chat_id != chat.id:
            return False
        if place is None or place.covers(chat.place):
            return True
        subject = outbox.card_of(row)
        if by is not None and (surface := self.core.surfaces.get(by.surface)) is not None:
            direct = surface.direct(place.organisation, by.user)
            if direct is not None and await outbox.is_arriving(tx, subject, direct):
                return True  # pressed before its post was recorded; looked at first: see `sent`
        copies = await outbox.postings_of(tx, subject)
        return any(place.covers(copy.place) for copy in copies)

    def _refusal(self, chat: ChatRow, call: CallRow, row: QuestionRow, by: Actor) -> str | None:
        return refusal(
            by,
            purpose=Purpose(row.purpose),
            policy=self.core.policies.of_call(chat.agent, call),
            askers=askers_of(call, chat),
            tool=call.name,
            who=self.core.policies.who,
        )

    def _late(self, question: QuestionRow, call: CallRow, verb: Verb) -> Ruling | QuestionError:
        no = verb in (Verb.DECLINE, Verb.DISMISS)
        if no and call.state == CallState.RUNNING and question.state == QuestionState.APPROVED:
            return AlreadyRunning(
                f"{question.settled_name} approved it and {call.name} is already running; "
                "its result will reach the agent."
            )
        return Ruling(
            question.id,
            first=False,
            state=QuestionState(question.state),
            name=question.settled_name or "",
            at=question.settled_at or 0.0,
        )

    def _effect(self, case: _Case) -> _Effect:
        """What the verb does. Pure; raises QuestionError or AnswerError."""
        if case.arguments is not None and case.verb is not Verb.APPROVE:
            raise WrongVerb("Only an approval can change the arguments.")
        match Purpose(case.question.purpose):
            case Purpose.APPROVAL:
                return self._approval(case)
            case Purpose.ASK:
                return _ask(case)
            case Purpose.OUTCOME:
                return _lost_run(case)
            case unreachable:
                assert_never(unreachable)

    def _approval(self, case: _Case) -> _Effect:
        match case.verb:
            case Verb.ANSWER if case.response not in (None, {}):
                raise WrongVerb("This asks for an approval: approve or decline it.")
            case Verb.APPROVE | Verb.ANSWER:
                if case.unread is not None:
                    raise NotAllowed(case.unread)
                values: dict[str, Any] = {"allowed_by": case.by.key}
                if case.arguments is not None:
                    values |= self._edited(case)
                response = None if case.remember is None else {"remember": case.remember}
                return _Effect(QuestionState.APPROVED, response, CallState.READY, values)
            case Verb.DECLINE | Verb.DISMISS:
                note = _note(case.response) if case.verb is Verb.DECLINE else None
                result = f"The user denied the call to {case.call.name}." if note is None else note
                state = (
                    QuestionState.DECLINED if case.verb is Verb.DECLINE else QuestionState.DISMISSED
                )
                return _Effect(
                    state, {"note": note}, CallState.DECLINED, _settled("declined", result)
                )
            case unreachable:
                assert_never(unreachable)

    def _edited(self, case: _Case) -> dict[str, Any]:
        """The call with other arguments: validated and judged anew (row D23)."""
        call, assert_given = case.call, case.arguments
        assert assert_given is not None
        tool = self.core.tool(case.chat.agent, call.name)
        if tool is None:
            raise QuestionError(
                f"{call.name} is not loaded here, so its arguments cannot be changed; "
                "approve or decline it as it is."
            )
        if tool.schema_digest != call.schema_digest:
            raise Changed(f"{call.name} was changed since this was asked; decline it.")
        try:
            args = tool.validate(assert_given)
        except BadArguments as error:
            raise QuestionError(str(error)) from error
        edited = replace(call, args=args)
        policy, who = self.core.policies.of_call(case.chat.agent, edited), self.core.policies.who
        judged = gate(tool, args, policy=policy, askers=askers_of(call, case.chat), who=who)
        if isinstance(judged, Deny):
            raise NotAllowed(judged.reason)
        if isinstance(judged, AskFirst):
            refused = self._refusal(case.chat, edited, case.question, case.by)
            if refused is None and policy.quorum > 1:
                refused = (
                    f"{policy.quorum} people must approve these arguments of {call.name}, so they "
                    "cannot be put in by one; decline it and say what it should be."
                )
            if refused is not None:
                raise NotAllowed(refused)
        return {
            "args": args,
            "digest": digest(call.server, call.name, call.schema_digest, args),
            "edited": {"by": case.by.label, "from": call.args},
        }

    async def _remember(self, tx: Tx, case: _Case, effect: _Effect) -> None:
        if case.remember is None:
            return
        policies = self.core.policies
        policy = policies.of_call(case.chat.agent, case.call)
        if effect.question is not QuestionState.APPROVED:
            raise WrongVerb("Only an approval can be remembered.")
        if case.remember != "chat":
            raise QuestionError("An approval can be remembered for this thread only.")
        askers = askers_of(case.call, case.chat)
        if not may_remember(policy, case.by.key, askers=askers, who=policies.who):
            raise NotAllowed(
                f"The policy {policy.name} does not let your approvals of {case.call.name} be "
                "remembered; approve it once."
            )
        rule = RuleRow(
            id=new_id("rule"),
            effect="allow",
            scope="chat",
            scope_key=case.chat.id,
            server=case.call.server,
            tool=case.call.name,
            schema_digest=case.call.schema_digest,
            conditions=[],
            created_by=case.by.key,
            created_name=case.by.label,
            created_at=self.core.now(),
        )
        await rules.add(tx, rule)

    async def _void(self, tx: Tx, case: _Case, via: str) -> QuestionError:
        """The stored call is no longer what the card showed: nothing runs (row B52)."""
        now = self.core.now()
        await questions.settle(
            tx,
            case.question.id,
            to=QuestionState.CANCELLED,
            response={"note": "changed"},
            by=None,
            name=None,
            now=now,
        )
        await calls.settle(
            tx,
            case.call.id,
            was=[CallState.WAITING],
            to=CallState.FAILED,
            outcome="changed",
            result=f"{case.call.name} did not run: its arguments changed after they were shown.",
            now=now,
        )
        await self._record(tx, "changed", case.question, case.by, via, verb=case.verb)
        await self._redraw(tx, case)
        return Changed(
            f"What would run is not what this card showed, so {case.call.name} does not run."
        )

    async def _count(self, tx: Tx, case: _Case, effect: _Effect) -> Tally | None:
        """How many have approved, with this one; None for what one person settles. Changed
        arguments are approved by whoever changed them: see `_edited`."""
        if effect.question is not QuestionState.APPROVED or case.arguments is not None:
            return None
        policies = self.core.policies
        policy = policies.of_call(case.chat.agent, case.call)
        return await tally(tx, case.question, policy, case.by, policies.who)

    async def _one_of_several(self, tx: Tx, case: _Case, counted: Tally) -> Ruling:
        """It counts, and the question stays open for the others."""
        question, now = case.question, self.core.now()
        await questions.rewrite(tx, question.id, counted.body(question.body))
        await self._decided(tx, case, None, case.call.digest, QuestionState.OPEN)
        await redraw(self.core, tx, outbox.card_of(question))
        return Ruling(
            question.id,
            first=False,
            state=QuestionState.OPEN,
            name=case.by.label,
            at=now,
            recorded=counted.sentence,
        )

    async def _decided(
        self, tx: Tx, case: _Case, response: Any, digest: str, state: QuestionState
    ) -> None:
        row = DecisionRow(
            question_id=case.question.id,
            actor=case.by.key,
            verb=case.verb,
            response=response,
            via=case.via,
            digest=digest,
            created_at=self.core.now(),
        )
        await questions.record_decision(tx, row)
        await self._record(
            tx,
            "decided",
            case.question,
            case.by,
            case.via,
            verb=case.verb,
            state=state,
            digest=digest,
            remember=case.remember,
            edited=case.arguments is not None,
        )

    async def _apply(self, tx: Tx, case: _Case, effect: _Effect, counted: Tally | None) -> Ruling:
        now = self.core.now()
        call, question = case.call, case.question
        await questions.settle(
            tx,
            question.id,
            to=effect.question,
            response=effect.response,
            by=case.by.key,
            name=case.by.label if counted is None else counted.label,
            now=now,
        )
        values = dict(effect.values)
        if effect.call is not None:
            if effect.call is not CallState.READY:
                values |= {"settled_at": now, "wake_at": None}
            if effect.call is not CallState.READY or not await calls.has_open_question(tx, call.id):
                await calls.move(
                    tx,
                    call.id,
                    was=[CallState.WAITING, CallState.UNKNOWN],
                    to=effect.call,
                    **values,
                )
        if effect.call is not None and effect.call is not CallState.READY:
            await supersede_open(self.core, tx, case.call.id)
        decided = replace(call, **{k: v for k, v in values.items() if k in ("args", "digest")})
        await self._decided(tx, case, effect.response, decided.digest, effect.question)
        await self._redraw(tx, case)
        return Ruling(question.id, first=True, state=effect.question, name=case.by.label, at=now)

    async def _redraw(self, tx: Tx, case: _Case) -> None:
        """Every copy loses its buttons before the call starts; the chat goes on after that."""
        subject = outbox.card_of(case.question)
        await redraw(self.core, tx, subject, call_id=case.call.id)
        await chats.stir(tx, case.chat.id)
        await self.core.wake(tx, Job.CHAT, case.chat.id)

    async def _record(
        self, tx: Tx, event: str, question: QuestionRow, by: Actor, via: str, **detail: Any
    ) -> None:
        await audit.record(
            tx,
            event,
            now=self.core.now(),
            chat_id=question.chat_id,
            call_id=question.call_id,
            question_id=question.id,
            actor=by.key,
            via=via,
            **detail,
        )


def late_sentence(row: QuestionRow) -> str:
    """What somebody who comes late is told."""

    return f"This was settled before: {outcome_sentence(row)}"


def _untouched(question: QuestionRow, call: CallRow) -> bool:
    now = digest(call.server, call.name, call.schema_digest, call.args)
    return question.digest == call.digest == now


def _note(response: Any) -> str | Mapping[str, Any] | None:
    """A decline's note: text, a mapping, or none when it is blank."""
    if isinstance(response, str):
        return response.strip() or None
    if response is None or isinstance(response, Mapping):
        return response
    raise QuestionError("A note is a text or a mapping.")


def _joined(earlier: Any, note: str | Mapping[str, Any]) -> Any:
    """The notes of all declined asks of a call: the model reads every one."""
    if earlier is None:
        return note
    return "\n".join(one if isinstance(one, str) else canonical(one) for one in (earlier, note))


def _settled(outcome: str, result: Any) -> dict[str, Any]:
    return {"outcome": outcome, "result": result}


def _ask(case: _Case) -> _Effect:
    kind = Kind(case.question.kind)
    match case.verb:
        case Verb.APPROVE:
            what = "a form: answer" if kind is Kind.FORM else "a page to visit: finish"
            raise WrongVerb(f"This is {what} or decline it.")
        case Verb.ANSWER if kind is Kind.PAGE:
            if case.response not in (None, {}):
                raise WrongVerb("A page takes no answer: say that you finished, or decline.")
            return _Effect(QuestionState.ANSWERED, {"answer": True}, CallState.READY, {})
        case Verb.ANSWER:
            answer = coerce(fields_of(case.question), case.response, lenient=case.lenient)
            return _Effect(QuestionState.ANSWERED, {"answer": answer}, CallState.READY, {})
        case Verb.DECLINE:
            note = _note(case.response)
            return _Effect(
                QuestionState.DECLINED,
                {"note": note},
                CallState.READY,
                {} if note is None else {"note": _joined(case.call.note, note)},
            )
        case Verb.DISMISS:
            return _Effect(QuestionState.DISMISSED, {"note": None}, CallState.READY, {})
        case unreachable:
            assert_never(unreachable)


def _lost_run(case: _Case) -> _Effect:
    """A person says what came of a run that was lost (design: unknown)."""
    answer: dict[str, Any] | None
    note: str | Mapping[str, Any] | None
    match case.verb:
        case Verb.APPROVE:
            raise WrongVerb("Say what happened: it ran, run it again, or give it up.")
        case Verb.ANSWER:
            answer = coerce(fields_of(case.question), case.response, lenient=case.lenient)
            choice, note = outcome_choice(answer)
            state = QuestionState.ANSWERED
        case Verb.DECLINE | Verb.DISMISS:
            answer, choice, note = None, GIVE_UP, _note(case.response)
            state = QuestionState.DECLINED
        case unreachable:
            assert_never(unreachable)
    response = {"answer": answer, "note": note}
    if choice in (RAN, GIVE_UP):
        result = interrupted(case.call.name, case.by.label, ran=choice == RAN, note=note)
        return _Effect(state, response, CallState.FAILED, _settled("interrupted", result))
    return _Effect(state, response, CallState.READY, {"allowed_by": case.by.key})
