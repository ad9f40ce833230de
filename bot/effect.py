"""What a decision does to its question and its call: a pure function of the case on the desk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from bot.approvers import Policy
from bot.argument_form import FormAnswer
from bot.field import coerce
from bot.outcome import GIVE_UP, RAN, interrupted, outcome_choice
from bot.question import Kind, NotAllowed, Purpose, QuestionError, Verb, WrongVerb, fields_of
from bot.remember import Remember
from bot.surface import Actor
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import canonical
from storage.questions import QuestionRow, QuestionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What lies on the desk: the rows, locked, and what the person did. `policy` is the one that
    counts now. `unread`: why they cannot have read what would run."""

    chat: ChatRow
    call: CallRow
    question: QuestionRow
    policy: Policy
    verb: Verb
    by: Actor
    via: str
    response: Any
    lenient: bool
    remember: Remember | None
    arguments: Mapping[str, Any] | FormAnswer | None
    unread: str | None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a decision does to its question and call."""

    question: QuestionState
    response: Any
    call: CallState | None  # None: the call stays as it is
    values: Mapping[str, Any]


def effect_of(case: Case) -> Effect:
    """What the verb does. Raises QuestionError and bot.field.AnswerError."""
    if case.arguments is not None and case.verb is not Verb.APPROVE:
        raise WrongVerb("Only an approval can change the arguments.")
    if case.remember is not None and case.verb is not Verb.APPROVE:
        raise WrongVerb("Only an approval can be remembered.")
    match Purpose(case.question.purpose):
        case Purpose.APPROVAL:
            return _approval(case)
        case Purpose.ASK:
            return _ask(case)
        case Purpose.OUTCOME:
            return _lost_run(case)
        case unreachable:
            assert_never(unreachable)


def _approval(case: Case) -> Effect:
    match case.verb:
        case Verb.ANSWER if case.response not in (None, {}):
            raise WrongVerb("This asks for an approval: approve or decline it.")
        case Verb.APPROVE | Verb.ANSWER:
            if case.unread is not None:
                raise NotAllowed(case.unread)
            response = None if case.remember is None else {"remember": case.remember.to_json()}
            values = {"allowed_by": case.by.key}
            return Effect(QuestionState.APPROVED, response, CallState.READY, values)
        case Verb.DECLINE | Verb.DISMISS:
            note = _note(case.response) if case.verb is Verb.DECLINE else None
            result = f"The user denied the call to {case.call.name}." if note is None else note
            state = QuestionState.DECLINED if case.verb is Verb.DECLINE else QuestionState.DISMISSED
            return Effect(state, {"note": note}, CallState.DECLINED, _settled("declined", result))
        case unreachable:
            assert_never(unreachable)


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


def _ask(case: Case) -> Effect:
    kind = Kind(case.question.kind)
    match case.verb:
        case Verb.APPROVE:
            what = "a form: answer" if kind is Kind.FORM else "a page to visit: finish"
            raise WrongVerb(f"This is {what} or decline it.")
        case Verb.ANSWER if kind is Kind.PAGE:
            if case.response not in (None, {}):
                raise WrongVerb("A page takes no answer: say that you finished, or decline.")
            return Effect(QuestionState.ANSWERED, {"answer": True}, CallState.READY, {})
        case Verb.ANSWER:
            answer = coerce(fields_of(case.question), case.response, lenient=case.lenient)
            return Effect(QuestionState.ANSWERED, {"answer": answer}, CallState.READY, {})
        case Verb.DECLINE:
            note = _note(case.response)
            return Effect(
                QuestionState.DECLINED,
                {"note": note},
                CallState.READY,
                {} if note is None else {"note": _joined(case.call.note, note)},
            )
        case Verb.DISMISS:
            return Effect(QuestionState.DISMISSED, {"note": None}, CallState.READY, {})
        case unreachable:
            assert_never(unreachable)


def _lost_run(case: Case) -> Effect:
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
        return Effect(state, response, CallState.FAILED, _settled("interrupted", result))
    return Effect(state, response, CallState.READY, {"allowed_by": case.by.key})
