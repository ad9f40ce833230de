"""A question as a card that no surface is named in: what is shown, and which verbs it offers.

A card is a view of rows and can be drawn from them at any time. Every text in it is untrusted:
each adapter makes it inert for its own markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, assert_never

from bot import difference, hosts
from bot.field import Field, FieldType
from bot.markdown import moment
from bot.question import Kind as Kind
from bot.question import Purpose, fields_of
from bot.text import LINES, is_unseen, reveal, visible, written_out
from storage.calls import CallRow, CallState
from storage.database import canonical
from storage.place import Place
from storage.questions import QuestionRow, QuestionState
from storage.redact import mask, mask_all, mask_named

ARGUMENTS_BUDGET = 8_000  # characters of all arguments that every surface can show in one card
PAGES_BUDGET = 100_000  # characters of all arguments that a person can leaf through beside it
FILE_LIMIT = 2_000_000  # bytes of all arguments that a person can be given to read


class Reach(StrEnum):
    """Where a person can read every byte of a call's arguments."""

    CARD = "card"
    PAGES = "pages"  # of the card, opened by a button where a surface has no room
    FILE = "file"  # attached in the thread
    NONE = "none"  # too large for anybody to read


class Attached(StrEnum):
    """How the file with a call's arguments stands, where they need one."""

    COMING = "coming"
    THERE = "there"
    FAILED = "failed"


HIDDEN = (
    "⚠️ There are characters in it that cannot be seen or that change how text reads; they are "
    "written as ⟨U+…⟩."
)
IMITATING = (
    "⚠️ There are characters in it that look like others; they are written as ⟨U+…⟩, so that they "
    "are not mistaken."
)


class CardState(StrEnum):
    OPEN = "open"
    DONE = "done"  # approved, answered, page finished
    REFUSED = "refused"  # declined, dismissed
    CLOSED = "closed"  # superseded, cancelled, expired: nobody decided


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the call, as the exact JSON text of the value that will run (a text value
    is itself, without quotes), but for secrets of known shapes: those are masked."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a person sees of a question.

    `deciders` are person keys (`surface:organisation/user`) of those who may decide; empty means
    nobody. `choosing` says that the form is an ask_user round: one question per field. `complete`
    is false when not every byte of the arguments can be reached from the card; Approve is then
    not offered. `file` is the name of the file in the thread that holds all arguments, if any.
    `exact` are the arguments with the secrets that `arguments` masks, if there are any: for who
    decides alone, and never for a channel. `remember` is the label of the standing approval that
    may come with Approve; None: not offered. `standing`: somebody may choose what else an approval
    stands for. `editable`: it may be approved with other arguments. `outcome` is the sentence of
    how it ended, set once the state is not OPEN. `again` says that it expired and can be asked
    again. `thread` is where it was asked and `askers` are the person keys of those who asked the
    agent for it, which a copy elsewhere shows."""

    nonce: str
    version: int
    kind: Kind
    state: CardState
    title: str
    agent: str
    tool: str = ""
    message: str = ""
    arguments: tuple[Argument, ...] = ()
    exact: tuple[Argument, ...] = ()
    fields: tuple[Field, ...] = ()
    url: str = ""
    choosing: bool = False
    deciders: tuple[str, ...] = ()
    remember: str | None = None
    standing: bool = False
    complete: bool = True
    editable: bool = False
    file: str = ""
    notices: tuple[str, ...] = ()
    outcome: str = ""
    again: bool = False
    thread: Place | None = None
    askers: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        return self.state is CardState.OPEN

    def for_one(self) -> Card:
        """As it is shown to one person who may read it, and to nobody else."""
        return replace(self, arguments=self.exact, exact=()) if self.exact else self

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
        status=mask(status),
        message=mask(str(call.task.get("message") or "")),
    )


def reach(args: Mapping[str, Any]) -> Reach:
    """Where every byte of the arguments can be read: no blind approval."""
    shown = sum(len(name) + len(_shown(value)) for name, value in args.items())
    if shown <= ARGUMENTS_BUDGET:
        return Reach.CARD
    if shown <= PAGES_BUDGET:
        return Reach.PAGES
    return Reach.FILE if len(canonical(args).encode()) <= FILE_LIMIT else Reach.NONE


def unreachable(call: CallRow, attached: Attached) -> str | None:
    """Why the call cannot be approved from its card, in a sentence; None: all can be read."""
    match reach(call.args), attached:
        case Reach.FILE, _ if mask_all(call.args) != call.args:
            return (
                f"The arguments of {call.name} are too long to be shown here and hold secrets that "
                "no file may have, so it cannot be approved here; decline it."
            )
        case (Reach.CARD | Reach.PAGES, _) | (Reach.FILE, Attached.THERE):
            return None
        case Reach.FILE, Attached.FAILED:
            return (
                f"The arguments of {call.name} are too long to be shown here and could not be "
                "attached to this thread as a file, so it cannot be approved here; decline it."
            )
        case Reach.FILE, _:
            return (
                f"The arguments of {call.name} are too long to be shown here and are being "
                "attached to this thread as a file; it can be approved once the file is there."
            )
        case _:
            return (
                f"The arguments of {call.name} are larger than {FILE_LIMIT // 1_000_000} MB, too "
                "long to be shown here in full, so it cannot be approved here; decline it."
            )


def file_name(call: CallRow) -> str:
    """The name of the file with all arguments: ours, whatever the tool is called."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', call.name)[:60]}-arguments.json"


def draw(
    question: QuestionRow, call: CallRow, agent: str, attached: Attached = Attached.COMING
) -> Card:
    """The card of a question as its rows stand now; see `bot.arguments.card` for `attached`."""
    state = _state(QuestionState(question.state))
    asks = question.purpose == Purpose.ASK  # then the arguments are no part of the card
    exact = tuple(Argument(name, _shown(value)) for name, value in call.args.items())
    arguments = tuple(_argument(name, value) for name, value in call.args.items())
    unread = None if asks else unreachable(call, attached)
    filed = not asks and attached is Attached.THERE and reach(call.args) is Reach.FILE
    notices = [question.body[key] for key in ("notice", "stale") if question.body.get(key)]
    if state is CardState.OPEN and (several := _several(question)) is not None:
        notices.append(several)
    if state is CardState.OPEN:
        notices += _times(question)
    if unread is not None and state is CardState.OPEN and question.purpose == Purpose.APPROVAL:
        notices.append(unread)
    if filed:
        notices.append(f"All arguments are in the file {file_name(call)} in this thread.")
    policy = question.audience
    remember = (
        f"Approve, and do not ask again for {call.name} in this thread, until it is revoked"
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
        message=mask(question.body.get("message", "")),
        arguments=() if asks else arguments,
        exact=() if asks or exact == arguments else exact,
        fields=tuple(map(_masked, fields_of(question))),
        url=question.body.get("url", ""),
        choosing=bool(question.body.get("choosing")),
        deciders=tuple(policy.get("deciders", ())),
        remember=remember,
        standing=remember is not None
        or (question.purpose == Purpose.APPROVAL and bool(policy.get("rules"))),
        complete=unread is None,
        editable=question.purpose == Purpose.APPROVAL
        and bool(call.args)
        and unread is None
        and not filed
        and policy.get("quorum", 1) == 1,
        file=file_name(call) if filed else "",
        notices=tuple(map(mask, notices)),
        outcome="" if state is CardState.OPEN else mask(outcome_sentence(question)),
        again=may_ask_again(question),
    )


def may_ask_again(question: QuestionRow) -> bool:
    """Whether the call did not run because nobody decided in time, and nobody has asked for it
    again. What a tool asked is not asked again: its call has gone on."""
    return (
        question.state == QuestionState.EXPIRED
        and question.purpose == Purpose.APPROVAL
        and not question.body.get("again")
    )


def _times(question: QuestionRow) -> list[str]:
    """What an open question comes to if nobody decides."""
    told = []
    if question.escalate_at is not None and question.escalated_at is None:
        told.append(f"The next approvers may decide too from {moment(question.escalate_at)}.")
    if question.expires_at is not None:
        approval = question.purpose == Purpose.APPROVAL
        then = "and then does not run" if approval else "and then goes on without an answer"
        told.append(f"It expires on {moment(question.expires_at)} {then}.")
    return told


def _argument(name: str, value: Any) -> Argument:
    """With marks for secrets; inside a value a field's name tells of them too."""
    if isinstance(value, str):
        return Argument(mask(name), mask_named(name, value))
    return Argument(mask(name), mask(canonical(mask_all(value))))


def _masked(field: Field) -> Field:
    return _retold(field, mask)


def _several(question: QuestionRow) -> str | None:
    """Who of the people who all must approve has; None where one is enough (see bot.quorum)."""
    approved = question.body.get("approved")
    if approved is not None:
        names = ", ".join(approved["by"])
        return f"{approved['count']} of {approved['needed']} approved: {names}"
    needed = question.audience.get("quorum", 1)
    return f"{needed} different people must approve this." if needed > 1 else None


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
            said = "Approved with changes" if _changes(question) else "Approved"
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
            again = question.body.get("again")
            more = f" {again} asked again." if again else ""
            return f"Expired {_when(question)} without an answer.{more}"
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
    if changes := _changes(question):
        return difference.sentence(changes)
    if promise := response.get("promise"):  # of the standing rule that came of it
        return str(promise)
    return "" if note is None else _shown(note)


def _changes(question: QuestionRow) -> tuple[difference.Change, ...]:
    """What an approval changed in the arguments."""
    response = question.response if isinstance(question.response, Mapping) else {}
    return difference.changes_of(response.get("changes", ()))


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


def revealed(card: Card) -> Card:
    """The card as a screen may show it: nothing in it hides or imitates, and that something did is
    said, and which addresses in it lead elsewhere than they seem to. Done before anything is
    measured, since it makes texts longer, and not twice."""
    return replace(_revealed(card), notices=(*map(visible, card.notices), *warnings(card)))


def warnings(card: Card) -> tuple[str, ...]:
    """What is said of a card beside its own notices: see `revealed`, which has said it."""
    told = (*hosts.warnings(_addressed(card)), *_warnings(card, _revealed(card)))
    return tuple(map(visible, told))


def _revealed(card: Card) -> Card:
    return replace(
        card,
        title=visible(card.title),
        agent=visible(card.agent),
        tool=visible(card.tool),
        message=visible(card.message),
        arguments=tuple(
            Argument(reveal(one.name, keep=LINES), reveal(one.value, keep=LINES))
            for one in card.arguments
        ),
        fields=tuple(_retold(field, visible) for field in card.fields),
        outcome=visible(card.outcome),
        remember=None if card.remember is None else visible(card.remember),
    )


def revealed_task(task: TaskCard) -> TaskCard:
    """As `revealed`."""
    return replace(
        task,
        title=visible(task.title),
        agent=visible(task.agent),
        tool=visible(task.tool),
        status=visible(task.status),
        message=visible(task.message),
    )


def _warnings(card: Card, shown: Card) -> list[str]:
    """That characters of the card are written as escapes, and why."""
    texts = zip(_texts(card), _texts(shown), strict=True)
    chars = frozenset[str]().union(*(written_out(*pair) for pair in texts))
    warned = [HIDDEN] if any(map(_hides, chars)) else []
    return warned if all(map(_hides, chars)) else [*warned, IMITATING]


def _hides(char: str) -> bool:
    return char == "⟨" or is_unseen(char)


def _texts(card: Card) -> Iterator[str]:
    yield from (card.title, card.agent, card.tool, card.message, card.outcome)
    for argument in card.arguments:
        yield from (argument.name, argument.value)
    for field in card.fields:
        yield from (field.title or "", field.description)
        for choice in field.choices:
            yield from (choice.title, choice.description)


def _addressed(card: Card) -> Iterator[tuple[str, str]]:
    """The texts that may have addresses, by what a person calls them."""
    yield from ((one.name, one.value) for one in card.arguments)
    yield "the message", card.message
    for field in card.fields:
        for text in (field.title or "", field.description):
            yield "the form", text
        for choice in field.choices:
            yield "a choice", f"{choice.title} {choice.description}"


def _retold(field: Field, told: Callable[[str], str]) -> Field:
    """The field with other words; what is chosen stays what it is."""
    choices = tuple(
        replace(one, title=told(one.title), description=told(one.description))
        for one in field.choices
    )
    title, description = told(field.label), told(field.description)
    if title == field.name:
        title = field.title
    if (title, description, choices) == (field.title, field.description, field.choices):
        return field
    return replace(field, title=title, description=description, choices=choices)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def _when(question: QuestionRow) -> str:
    at = question.settled_at
    if question.state == QuestionState.EXPIRED and question.expires_at is not None:
        at = question.expires_at  # whenever that was noticed
    return "" if at is None else f"on {moment(at)}"
