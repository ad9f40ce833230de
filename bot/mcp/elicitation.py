"""What a server asks, as questions for people; and what people answered, as the server wants it.

Pure: it reads and makes values of the SDK, and sends nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, assert_never
from urllib.parse import urlsplit

import mcp.types as t
import pydantic

from bot import address
from bot.field import Choice, Field, FieldType, Value, coerce
from bot.form_schema import SchemaError, fields_from_schema
from bot.loopback import is_loopback
from bot.question import Asked, Kind
from bot.tool import Action, Answered
from bot.value import storable
from storage.database import canonical

QUESTION_LIMIT: Final = 100_000  # characters of one question, its choices included

# A form that asks for nothing wants a yes or a no: one button, which sends no content.
CONFIRMATION: Final = Field(
    "confirm", FieldType.CHOICE, title="Confirmation", choices=[Choice("confirm", "Confirm")]
)

Params = t.ElicitRequestFormParams | t.ElicitRequestURLParams

# What a callback settles a question with: a value for the only field, a mapping of several, or
# what to do with the question as it is (Action.ACCEPT takes the server's defaults).
Answer = Action | Value | Sequence[Value] | Mapping[str, Any]


class Kinds(StrEnum):
    """The kinds of questions that are accepted from a server (spec: MCP)."""

    BOTH = "both"
    FORM = "form"
    PAGE = "page"
    NONE = "none"

    def accepts(self, kind: Kind) -> bool:
        return self is Kinds.BOTH or self.value == kind.value


@dataclass(frozen=True, slots=True)
class Refused:
    """A question that is declined before a person sees it. `reason` is a sentence for the log; it
    quotes neither an address nor a message of the server."""

    reason: str

    @property
    def result(self) -> t.ElicitResult:
        """What the server is told at once."""
        return _bare(Action.DECLINE)


class Unsupported(Exception):
    """The server asks for what we do not give; one sentence. The call fails, nothing is sent."""


# --- What a server asks


def questions_of(result: t.InputRequiredResult) -> list[tuple[str, Params]]:
    """The questions of one round, each under the server's own name for it, in its order. None at
    all: the server only wants to be asked again, with its state.

    Raises Unsupported for a round that asks for anything but answers of people."""
    found: list[tuple[str, Params]] = []
    for key, request in (result.input_requests or {}).items():
        match request:
            case t.ElicitRequest():
                found.append((key, request.params))
            case t.CreateMessageRequest():
                raise Unsupported("The server wants to use the bot's model, which is not offered.")
            case t.ListRootsRequest():
                raise Unsupported("The server wants to know folders (roots), and there are none.")
            case _:
                assert_never(request)
    return found


def url_error(data: object) -> list[t.ElicitRequestURLParams]:
    """The pages of error -32042 from its `data`, not yet judged: `asked` judges them. None at all
    when the data cannot be read: then it is an error like any other."""
    try:
        return t.ElicitationRequiredErrorData.model_validate(data).elicitations
    except pydantic.ValidationError:
        return []


def asked(
    params: Params | Mapping[str, Any],
    *,
    server: str,
    key: str,
    kinds: Kinds,
    plain_http: bool = False,
) -> Asked | Refused:
    """The question as a person is shown it, or why nobody is. Never raises.

    `params` may be as they came over the wire; there a request without a mode is a form
    (row M19). `server` is our own name of the server. `plain_http`: pages that are not encrypted
    may be anywhere, not only on this machine."""
    try:
        read = _read(params) if isinstance(params, Mapping) else params
    except pydantic.ValidationError:
        return Refused("The question is neither a form nor a page as MCP describes them.")
    kind = Kind.PAGE if isinstance(read, t.ElicitRequestURLParams) else Kind.FORM
    if not kinds.accepts(kind):
        return Refused(f"Questions of the kind {kind} are not accepted from the server {server}.")
    notice = f"The server {server} asks this."
    if isinstance(read, t.ElicitRequestURLParams):
        if reason := why_not_open(read.url, plain_http=plain_http):
            return Refused(reason)
        question = Asked(message=read.message, url=read.url, key=key, notice=notice)
    else:
        try:
            fields = _fields(read.requested_schema)
        except SchemaError as error:
            return Refused(str(error))
        warned = " ".join([notice, *_warning(fields)])
        question = Asked(message=read.message, fields=fields, key=key, notice=warned)
    patterns = [field.pattern or "" for field in question.fields]
    if not all(map(storable, [question.message, question.url, *patterns])):
        return Refused("The question has a character that cannot be kept.")
    if len(canonical(question.body())) > QUESTION_LIMIT:
        return Refused(f"The question is longer than {QUESTION_LIMIT} characters.")
    return question


def why_not_open(url: str, *, plain_http: bool = False) -> str:
    """Why nobody is sent to this address, in a sentence that does not quote it; "" when people
    may decide for themselves (rows M11, B98)."""
    if not address.read(url).host:
        return "The address of the page is not one of http or https that every program reads alike."
    parts = urlsplit(url)
    if parts.scheme == "https" or plain_http or is_loopback(parts.hostname or ""):
        return ""
    return "The connection to the page would not be encrypted (http)."


def _read(params: Mapping[str, Any]) -> Params:
    if params.get("mode") == "url":
        return t.ElicitRequestURLParams.model_validate(dict(params))
    return t.ElicitRequestFormParams.model_validate(dict(params))


def _fields(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    fields = fields_from_schema(schema)
    for field in fields:
        texts = all(isinstance(choice.value, str) for choice in field.choices)
        if field.type is FieldType.CHOICES and not texts:
            name = repr(field.name[:80])
            raise SchemaError(f"The form's field {name} lists values that MCP cannot carry back.")
    return fields or (CONFIRMATION,)


# --- Secrets


# Words next to each other are also looked up as one: "API key", "api_key" and "apiKey".
_SECRETS: Final = frozenset(
    [
        "password",
        "passwords",
        "passwd",
        "pwd",
        "passphrase",
        "passcode",
        "token",
        "accesstoken",
        "authtoken",
        "refreshtoken",
        "bearertoken",
        "secret",
        "secrets",
        "secretkey",
        "clientsecret",
        "credential",
        "credentials",
        "apikey",
        "apitoken",
        "accesskey",
        "privatekey",
        "sshkey",
        "encryptionkey",
        "signingkey",
        "seedphrase",
        "recoverycode",
        "backupcode",
        "otp",
        "totp",
        "onetimecode",
        "verificationcode",
        "securitycode",
        "authenticationcode",
        "pin",
        "pincode",
        "cvv",
        "cvc",
        "cardnumber",
        "creditcard",
        "debitcard",
        "ssn",
    ]
)
_JOINED_LIMIT: Final = 3  # words
_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def looks_secret(field: Field) -> bool:
    """Whether its name or title says that a secret is to be typed in. A form must not ask for
    one (MCP: client/elicitation), and not every server keeps to that."""
    typed = field.type in (FieldType.TEXT, FieldType.INTEGER, FieldType.NUMBER)
    return typed and (_names_secret(field.name) or _names_secret(field.title))


def _names_secret(text: str) -> bool:
    # Accents and invisible characters would hide a word from us and not from people.
    plain = "".join(
        char
        for char in unicodedata.normalize("NFKD", text)
        if unicodedata.category(char) not in ("Mn", "Cf")
    )
    words = [word.casefold().rstrip("0123456789") for word in _WORD.findall(_HUMP.sub(" ", plain))]
    return any(
        "".join(words[start : start + count]) in _SECRETS
        for start in range(len(words))
        for count in range(1, _JOINED_LIMIT + 1)
    )


def _warning(fields: Sequence[Field]) -> list[str]:
    named = [f"“{field.label[:60]}”" for field in fields if looks_secret(field)]
    if not named:
        return []
    more = f" and {len(named) - 5} more" if len(named) > 5 else ""
    looks = "looks like a secret" if len(named) == 1 else "look like secrets"
    return [
        f"{', '.join(named[:5])}{more} {looks}: a form is no place for that, "
        "so do not type it here."
    ]


# --- What people answered


def result_of(answered: Answered, fields: Sequence[Field]) -> t.ElicitResult:
    """The answer as it is sent: accepted with a value for each of `fields` (those of the `Asked`;
    what was left out has the server's default), or without content for a page; declined; or
    cancelled.

    Raises AnswerError when the content does not fit the fields: nothing may be sent then."""
    if answered.action is not Action.ACCEPT:
        return _bare(answered.action)
    return _accepted(fields, answered.content, lenient=True)


def settled_by(answer: Answer, question: Asked) -> t.ElicitResult:
    """What is sent when a callback settled the question before any person saw it.

    Raises AnswerError when its answer does not fit, also when it names what was not asked."""
    if not isinstance(answer, Action):
        return _accepted(question.fields, answer)
    if answer is not Action.ACCEPT:
        return _bare(answer)
    return _accepted(question.fields, None)


def _bare(action: Action) -> t.ElicitResult:
    return t.ElicitResult(action=action.value)


def _accepted(fields: Sequence[Field], given: object, *, lenient: bool = False) -> t.ElicitResult:
    if tuple(fields) == (CONFIRMATION,):
        # Accepting confirms; only an answer that says something else does not fit.
        coerce(fields, CONFIRMATION.choices[0].value if given in (None, {}) else given)
        return t.ElicitResult(action="accept", content={})
    content = coerce(fields, given, lenient=lenient)
    # Through validation: the SDK's type of the content is narrower than that of our values.
    shown = {"content": content} if fields else {}
    return t.ElicitResult.model_validate({"action": "accept", **shown})
