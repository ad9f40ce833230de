"""A question: what a tool call waits on until a person answers (spec: Question)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from bot.field import Field, field_from_json, field_to_json
from storage.calls import CallRow
from storage.database import canonical
from storage.questions import QuestionRow, QuestionState

if TYPE_CHECKING:
    from bot.desk import Desk, Ruling
    from bot.remember import Remember
    from bot.surface import Actor


class Kind(StrEnum):
    """What a question looks like to the person."""

    APPROVAL = "approval"
    FORM = "form"
    PAGE = "page"


class Purpose(StrEnum):
    """Why it is asked, and so who may answer it."""

    APPROVAL = "approval"  # may this call run?
    ASK = "ask"  # what the tool wants to know
    OUTCOME = "outcome"  # what came of a call whose runner was lost?


class Verb(StrEnum):
    """What a person can do with a question."""

    APPROVE = "approve"
    ANSWER = "answer"
    DECLINE = "decline"
    DISMISS = "dismiss"


class QuestionError(Exception):
    """A decision that was refused; nothing changed. The text is one sentence for the person."""


class UnknownQuestion(QuestionError):
    def __init__(self) -> None:
        super().__init__("There is no such question here; it may belong to another thread.")


class WrongVerb(QuestionError):
    """The verb does not fit the kind of question (rows A7, A11)."""


class NotAllowed(QuestionError):
    """This person may not decide this question."""


class AlreadyRunning(QuestionError):
    """The call began to run (row A22)."""


class Changed(QuestionError):
    """What would run is not what the card showed."""


def new_nonce() -> str:
    """Unguessable, 128 bits and a bit (spec: a nonce)."""
    return secrets.token_urlsafe(18)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a tool asks, before it is a row: a form (fields) or a page (url). `key` is how the
    other side names it; it is no part of what is asked, and so not of the fingerprint.
    `notice` is a sentence of ours that the card shows beside it."""

    message: str
    fields: tuple[Field, ...] = ()
    url: str = ""
    choosing: bool = False
    key: str = ""
    notice: str = ""

    @property
    def kind(self) -> Kind:
        return Kind.PAGE if self.url else Kind.FORM

    def body(self) -> dict[str, Any]:
        return {
            "message": self.message,
            "fields": [field_to_json(one) for one in self.fields],
            "url": self.url,
            "choosing": self.choosing,
        }

    @property
    def fingerprint(self) -> str:
        """With the ordinal, the identity of an ask: the same one replays its answer."""
        return hashlib.sha256(canonical(self.body()).encode()).hexdigest()


def fields_of(row: QuestionRow) -> tuple[Field, ...]:
    return tuple(field_from_json(one) for one in row.body.get("fields", ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as a chat lists it. Its verbs decide it, for whoever is named in `by`; whether
    that person may is for the one authoriser to say.

    An approval's id is its tool call's id; a form's or page's is `<call id>/<nonce>`."""

    id: str
    nonce: str
    kind: Kind
    purpose: Purpose
    message: str | None
    fields: tuple[Field, ...]
    url: str | None
    tool: str
    arguments: Mapping[str, Any]
    state: QuestionState
    response: Any
    settled_by: str | None
    settled_at: float | None
    desk: Desk = field(repr=False, compare=False)

    @property
    def answered(self) -> bool:
        """Settled by a person, whatever they said (row Q22)."""
        return self.state is not QuestionState.OPEN

    async def approve(
        self,
        *,
        by: Actor,
        remember: Remember | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Ruling:
        """Lets the call run. `remember`: later calls too (bot.remember.THREAD: any of the same
        tool, for the rest of this chat). `arguments` replaces the call's arguments; they are
        validated and judged again. Raises QuestionError."""
        return await self.desk.decide(
            self.nonce, Verb.APPROVE, by=by, remember=remember, arguments=arguments
        )

    async def answer(self, value: Any = None, *, by: Actor, **values: Any) -> Ruling:
        """Answers a form, by one value, a mapping or keywords; says that a page was visited.
        Raises bot.field.AnswerError with a sentence for every field that does not fit, and
        QuestionError."""
        return await self.desk.decide(self.nonce, Verb.ANSWER, by=by, response=values or value)

    async def answer_form(self, values: Mapping[str, Any], *, by: Actor) -> Ruling:
        """Answers as a web form does: keys that were not asked for are left aside (row Q12)."""
        return await self.desk.decide(self.nonce, Verb.ANSWER, by=by, response=values, lenient=True)

    async def decline(self, note: str | Mapping[str, Any] | None = None, *, by: Actor) -> Ruling:
        """Says no. For an approval a text or mapping becomes the call's result; for what a tool
        asked, the tool gets None and the note follows its result. Raises QuestionError."""
        return await self.desk.decide(self.nonce, Verb.DECLINE, by=by, response=note)

    async def dismiss(self, *, by: Actor) -> Ruling:
        """Closes it without an answer: a no without a note. Raises QuestionError."""
        return await self.desk.decide(self.nonce, Verb.DISMISS, by=by)


def question_of(row: QuestionRow, call: CallRow | None, desk: Desk) -> Question:
    """The row as the public object; needs no tools, model or server (row Q23)."""
    approval = row.purpose == Purpose.APPROVAL
    return Question(
        id=row.id,
        nonce=row.nonce,
        kind=Kind(row.kind),
        purpose=Purpose(row.purpose),
        message=None if approval else row.body.get("message"),
        fields=fields_of(row),
        url=row.body.get("url") or None,
        tool="" if call is None else call.name,
        arguments={} if call is None else call.args,
        state=QuestionState(row.state),
        response=row.response,
        settled_by=row.settled_by,
        settled_at=row.settled_at,
        desk=desk,
    )
