"""The desk where questions are decided: one transaction a decision, whoever and wherever from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot.approvers import Policy, askers_of, refusal
from bot.argument_form import FormAnswer
from bot.card import outcome_sentence
from bot.closing import redraw, supersede_open
from bot.core import Core, Job
from bot.deadlines import overdue
from bot.difference import changes_of
from bot.drawing import unread
from bot.editing import edited, tell_edit
from bot.effect import Case, Effect, effect_of
from bot.field import AnswerError
from bot.gate import digest
from bot.identity import learn, linked, same_people
from bot.question import (
    AlreadyRunning,
    Changed,
    NotAllowed,
    Purpose,
    Question,
    QuestionError,
    UnknownQuestion,
    Verb,
    question_of,
)
from bot.quorum import Tally, tally
from bot.remember import Remember, sentence
from bot.remembering import rule_of_case
from bot.rulebook import keep
from bot.surface import Actor, Place
from bot.timers import Expired, expire
from storage import audit, calls, chats, outbox, questions, rules
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import Tx
from storage.questions import DecisionRow, QuestionRow, QuestionState

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
        remember: Remember | None = None,
        arguments: Mapping[str, Any] | FormAnswer | None = None,
        place: Place | None = None,
        chat_id: str | None = None,
    ) -> Ruling:
        """Decides the question with this nonce or id; durable when it returns.

        `place` is where the decision came from and must be the question's thread (or, without a
        channel, its organisation), `chat_id` the chat it must belong to. `arguments`: an approval
        is of these instead of those that were asked for. Raises QuestionError and
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
            if chat is None or not await self.belongs(tx, row, chat, place, None, by):
                return str(UnknownQuestion())
            by = await linked(tx, self.core.policies, by)
            refused = self._refusal(chat, call, row, by)
            if refused is None and row.state != QuestionState.OPEN:
                return late_sentence(row)
            if refused is None and overdue(row, self.core.now()):
                return str(Expired(row, call))
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
            if not await self.belongs(tx, row, chat, place, None):
                return str(UnknownQuestion())
            if self._refusal(chat, call, replace(row, purpose=Purpose.ASK), by) is None:
                return None
            return "Only the person who asked the agent and its approvers can read all of this."

    async def stands(self, nonce: str, *, place: Place) -> bool:
        """Whether a card of the question stands there, or is about to."""
        async with self.core.db.read() as tx:
            row = await self._find(tx, nonce)
            call = None if row is None else await self._call(tx, row)
            chat = None if call is None else await chats.get(tx, call.chat_id)
            return (
                row is not None
                and chat is not None
                and await self.belongs(tx, row, chat, place, None)
            )

    async def refuse(self, key: str, verb: Verb, why: str, by: Actor, via: str) -> None:
        """Puts on record that somebody was refused before their decision came to the desk."""
        async with self.core.db.transaction("refuse") as tx:
            row = await self._find(tx, key)
            if row is not None:
                await self._record(tx, "refused", row, by, via, why=why, verb=verb)

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
        remember: Remember | None,
        arguments: Mapping[str, Any] | FormAnswer | None,
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
        if not await self.belongs(tx, question, chat, place, chat_id, by):
            await self._record(tx, "refused", question, by, via, why="another thread", verb=verb)
            return UnknownQuestion()
        await learn(tx, by, self.core.now())
        by = await linked(tx, self.core.policies, by)
        refused = self._refusal(chat, call, question, by)
        if refused is not None:
            await self._record(tx, "refused", question, by, via, why=refused, verb=verb)
            return NotAllowed(refused)
        if question.state != QuestionState.OPEN:
            return self._late(question, call, verb)
        if overdue(question, self.core.now()):  # nobody has woken it yet
            await expire(self.core, tx, question)
            return Expired(question, call)
        case = Case(
            chat=chat,
            call=call,
            question=question,
            policy=self._policy(chat, call, question),
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
            effect = effect_of(case)
            if arguments is not None:
                case, effect = await self._edit(tx, case, effect)
            effect = await self._remember(tx, case, effect)
            counted = await self._count(tx, case, effect)
        except (QuestionError, AnswerError) as error:
            if isinstance(error, NotAllowed):
                await self._record(tx, "refused", question, by, via, why=str(error), verb=verb)
            return error
        if counted is not None and not counted.reached:
            return await self._one_of_several(tx, case, counted)
        return await self._apply(tx, case, effect, counted)

    async def _find(self, tx: Tx, key: str) -> QuestionRow | None:
        return await questions.by_nonce(tx, key) or await questions.get(tx, key)

    async def _call(self, tx: Tx, row: QuestionRow) -> CallRow | None:
        return None if row.call_id is None else await calls.get(tx, row.call_id)

    async def belongs(
        self,
        tx: Tx,
        row: QuestionRow,
        chat: ChatRow,
        place: Place | None,
        chat_id: str | None,
        by: Actor | None = None,
    ) -> bool:
        """Whether the question may be acted upon from there: its thread, or a copy of its card."""
        if chat_id is not None and chat_id != chat.id:
            return False
        if place is None or place.covers(chat.place):
            return True
        subject = outbox.card_of(row)
        if by is not None and (surface := self.core.surfaces.get(by.surface)) is not None:
            direct = surface.direct(place.organisation, by.user)
            if direct is not None and await outbox.is_arriving(tx, subject, direct):
                # Pressed before its post was recorded (looked at first: see `sent`), and where it
                # was pressed is known of no copy yet: at least it is no other chat's thread.
                return await chats.at_place(tx, place) is None
        copies = await outbox.postings_of(tx, subject)
        return any(place.covers(copy.place) for copy in copies)

    def _refusal(self, chat: ChatRow, call: CallRow, row: QuestionRow, by: Actor) -> str | None:
        return refusal(
            by,
            purpose=Purpose(row.purpose),
            policy=self._policy(chat, call, row),
            askers=askers_of(call, chat),
            tool=call.name,
            who=self.core.policies.who,
        )

    def _policy(self, chat: ChatRow, call: CallRow, question: QuestionRow) -> Policy:
        """The policy that counts for the call now."""
        return self.core.policies.of_question(chat.agent, call, question)

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

    async def _edit(self, tx: Tx, case: Case, effect: Effect) -> tuple[Case, Effect]:
        """The approval of changed arguments; of unchanged ones it is one as any other."""
        in_force = await rules.in_force(tx, case.chat, self.core.now())
        alike = await same_people(tx, self.core.policies, askers_of(case.call, case.chat))
        edit = edited(self.core, case, in_force, alike)
        if edit is None:
            return replace(case, arguments=None), effect
        response = {"changes": [one.to_json() for one in edit.changes]}
        return case, replace(effect, response=response, values={**effect.values, **edit.values})

    async def _remember(self, tx: Tx, case: Case, effect: Effect) -> Effect:
        """Keeps the standing rule that comes of it, whose words the settled card says."""
        rule = rule_of_case(self.core, case)
        if rule is None:
            return effect
        await keep(self.core, tx, rule, via=case.via, call=case.call)
        return replace(effect, response={**effect.response, "promise": sentence(rule)})

    async def _void(self, tx: Tx, case: Case, via: str) -> QuestionError:
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

    async def _count(self, tx: Tx, case: Case, effect: Effect) -> Tally | None:
        """How many have approved, with this one; None for what one person settles. Changed
        arguments are approved by whoever changed them: see bot.editing."""
        if effect.question is not QuestionState.APPROVED or case.arguments is not None:
            return None
        return await tally(tx, case.question, case.policy, case.by, self.core.policies.who)

    async def _one_of_several(self, tx: Tx, case: Case, counted: Tally) -> Ruling:
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
        self, tx: Tx, case: Case, response: Any, digest: str, state: QuestionState
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
            remember=None if case.remember is None else case.remember.to_json(),
            edited=case.arguments is not None,
            changes=None if case.arguments is None else response["changes"],
        )

    async def _apply(self, tx: Tx, case: Case, effect: Effect, counted: Tally | None) -> Ruling:
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
        if case.arguments is not None:
            changes = changes_of(effect.response["changes"])
            await tell_edit(self.core, tx, case, changes)
        return Ruling(question.id, first=True, state=effect.question, name=case.by.label, at=now)

    async def _redraw(self, tx: Tx, case: Case) -> None:
        """Every copy loses its buttons before the call starts; the chat goes on after that."""
        subject = outbox.card_of(case.question)
        await redraw(self.core, tx, subject, call_id=case.call.id)
        await chats.stir(tx, case.chat.id)
        await self.core.wake(tx, Job.CHAT, case.chat.id)

    async def _record(
        self, tx: Tx, event: str, question: QuestionRow, by: Actor, via: str, **detail: Any
    ) -> None:
        now = self.core.now()
        await audit.record_on(tx, event, question, now=now, actor=by.key, via=via, **detail)


def late_sentence(row: QuestionRow) -> str:
    """What somebody who comes late is told."""

    return f"This was settled before: {outcome_sentence(row)}"


def _untouched(question: QuestionRow, call: CallRow) -> bool:
    now = digest(call.server, call.name, call.schema_digest, call.args)
    return question.digest == call.digest == now
