"""A question as a card that no surface is named in: what is shown, and which verbs it offers.

A card is a view of rows and can be drawn from them at any time. Every text in it is untrusted:
each adapter makes it inert for its own markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, assert_never

from bot.field import Field, FieldType
from bot.question import Kind as Kind
from bot.question import Purpose, fields_of
from storage.calls import CallRow, CallState
from storage.database import canonical
from storage.questions import QuestionRow, QuestionState

ARGUMENTS_BUDGET = 8_000  # characters of all arguments that every surface can show in one card


class CardState(StrEnum):
    OPEN = "open"
    DONE = "done"  # approved, answered, page finished
    REFUSED = "refused"  # declined, dismissed
    CLOSED = "closed"  # superseded, cancelled, expired: nobody decided


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the call, as the exact JSON text of the value that will run (a text value
    is itself, without quotes)."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a person sees of a question.

    `deciders` are person keys (`surface:organisation/user`) of those who may decide; empty means
    nobody. `choosing` says that the form is an ask_user round: one question per field. `complete`
    is false when not every byte of the arguments is on the card; Approve is then not offered.
    `remember` is the label of the standing approval that may come with Approve; None: not
    offered. `outcome` is the sentence of how it ended, set once the state is not OPEN."""

    nonce: str
    version: int
    kind: Kind
    state: CardState
    title: str
    agent: str
    tool: str = ""
    message: str = ""
    arguments: tuple[Argument, ...] = ()
    fields: tuple[Field, ...] = ()
    url: str = ""
    choosing: bool = False
    deciders: tuple[str, ...] = ()
    remember: str | None = None
    complete: bool = True
    notices: tuple[str, ...] = ()
    outcome: str = ""

    @property
    def open(self) -> bool:
        return self.state is CardState.OPEN

    @property
    def quick(self) -> Field | None:
        """The field whose choices can be buttons: one question, one pick, up to four."""
        if self.kind is not Kind.FORM or len(self.fields) != 1:
            return None
        only = self.fields[0]
        return only if only.type == "choice" and 1 <= len(only.choices) <= 4 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCard:
    """A call that a server goes on with in the background. `nonce` names it to a Cancel button;
    `status` is the server's own word, `message` its own sentence: untrusted both."""

    nonce: str
    version: int
    state: CardState
    title: str
    agent: str
    tool: str
    status: str
    message: str

    @property
    def open(self) -> bool:
        return self.state is CardState.OPEN


def draw_task(call: CallRow, agent: str, version: int) -> TaskCard:
    """The card of a background call as its row stands now."""
    status = str(call.task.get("status", ""))
    match CallState(call.state):
        case CallState.DONE:
            state, title = CardState.DONE, f"{call.name} is done"
        case CallState.FAILED | CallState.DECLINED:
            cancelled = status == "cancelled" or call.outcome == "cancelled"
            state = CardState.CLOSED if cancelled else CardState.REFUSED
            title = f"{call.name} was cancelled" if cancelled else f"{call.name} failed"
        case _:
            state, title = CardState.OPEN, f"{call.name} is running"
    return TaskCard(
        nonce=call.id,
        version=version,
        state=state,
        title=title,
        agent=agent,
        tool=call.name,
        status=status,
        message=str(call.task.get("message") or ""),
    )


def fits(args: Mapping[str, Any]) -> bool:
    """Whether every byte of the arguments can be shown on a card: no blind approval."""
    return sum(len(name) + len(_shown(value)) for name, value in args.items()) <= ARGUMENTS_BUDGET


def draw(question: QuestionRow, call: CallRow, agent: str) -> Card:
    """The card of a question as its rows stand now."""
    state = _state(QuestionState(question.state))
    arguments = tuple(Argument(name, _shown(value)) for name, value in call.args.items())
    complete = fits(call.args)
    notices = [question.body[key] for key in ("notice", "stale") if question.body.get(key)]
    if not complete:
        arguments = ()
        notices.append(
            f"The arguments of {call.name} are too long to be shown here in full, "
            "so it cannot be approved from this card."
        )
    policy = question.audience
    remember = (
        f"Approve, and do not ask again for {call.name} in this thread"
        if question.purpose == Purpose.APPROVAL and policy.get("remember")
        else None
    )
    return Card(
        nonce=question.nonce,
        version=question.version,
        kind=Kind(question.kind),
        state=state,
        title=_title(question, call, agent),
        agent=agent,
        tool=call.name,
        message=question.body.get("message", ""),
        arguments=arguments if question.purpose != Purpose.ASK else (),
        fields=fields_of(question),
        url=question.body.get("url", ""),
        choosing=bool(question.body.get("choosing")),
        deciders=tuple(policy.get("deciders", ())),
        remember=remember,
        complete=complete,
        notices=tuple(notices),
        outcome="" if state is CardState.OPEN else outcome_sentence(question),
    )


def _title(question: QuestionRow, call: CallRow, agent: str) -> str:
    match Purpose(question.purpose):
        case Purpose.APPROVAL:
            return f"{agent} wants to run {call.name}"
        case Purpose.OUTCOME:
            return f"What came of {call.name}?"
        case Purpose.ASK if question.kind == Kind.PAGE:
            return f"{call.name} asks you to visit a page"
        case Purpose.ASK:
            return f"{agent} asks" if question.body.get("choosing") else f"{call.name} asks"
        case unreachable:
            assert_never(unreachable)


def _state(state: QuestionState) -> CardState:
    match state:
        case QuestionState.OPEN:
            return CardState.OPEN
        case QuestionState.ANSWERED | QuestionState.APPROVED:
            return CardState.DONE
        case QuestionState.DECLINED | QuestionState.DISMISSED:
            return CardState.REFUSED
        case QuestionState.SUPERSEDED | QuestionState.CANCELLED | QuestionState.EXPIRED:
            return CardState.CLOSED
        case unreachable:
            assert_never(unreachable)


def outcome_sentence(question: QuestionRow) -> str:
    """How a question ended: who decided what, and when."""
    who = f"by {question.settled_name}" if question.settled_name else ""
    match QuestionState(question.state):
        case QuestionState.OPEN:
            return ""
        case QuestionState.APPROVED:
            said = "Approved"
        case QuestionState.ANSWERED:
            said = "Finished" if question.kind == Kind.PAGE else "Answered"
        case QuestionState.DECLINED:
            said = "Declined"
        case QuestionState.DISMISSED:
            said = "Dismissed"
        case QuestionState.SUPERSEDED:
            return f"Superseded {_when(question)}: something else is asked now."
        case QuestionState.CANCELLED:
            said = "Closed"
        case QuestionState.EXPIRED:
            return f"Expired {_when(question)} without an answer."
        case unreachable:
            assert_never(unreachable)
    sentence = " ".join(part for part in (said, who, _when(question)) if part)
    details = _details(question)
    return f"{sentence}: {details}" if details else f"{sentence}."


def _details(question: QuestionRow) -> str:
    """What was answered, or the note of a decline."""
    response = question.response if isinstance(question.response, Mapping) else {}
    answer, note = response.get("answer"), response.get("note")
    if isinstance(answer, Mapping):
        return "; ".join(
            f"{one.label}: {_answered(one, answer[one.name])}"
            for one in fields_of(question)
            if one.name in answer
        )
    if response.get("remember"):
        return "later calls to it in this thread run without asking"
    return "" if note is None else _shown(note)


def _answered(field: Field, value: Any) -> str:
    titles = {canonical(one.value): one.title for one in field.choices}
    if isinstance(value, Mapping):  # an answer that allows own words: bot.field.Selection
        picked = [titles.get(canonical(one), _shown(one)) for one in value["selected"]]
        return ", ".join([*picked, *([value["other_text"]] if value["other_text"] else [])])
    if field.type is FieldType.BOOLEAN:
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(titles.get(canonical(one), _shown(one)) for one in value)
    return titles.get(canonical(value), _shown(value))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def _when(question: QuestionRow) -> str:
    if question.settled_at is None:
        return ""
    at = datetime.fromtimestamp(question.settled_at, UTC)
    return f"on {at:%Y-%m-%d} at {at:%H:%M} UTC"
