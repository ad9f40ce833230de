"""Tools: plain typed async functions, and the call that one of them runs in."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Literal, Protocol, get_type_hints, overload

import pydantic

from bot.field import Field
from bot.question import Asked
from storage.database import canonical

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider takes

RESULT_LIMIT = 100_000  # characters of one result that the model is given


class Verdict(Enum):
    """What an approval predicate may return, beside True, False and None."""

    RUN = True
    DENY = False
    ASK = None


Predicate = Callable[[Any], Verdict | bool | None]
Approval = Literal["always", "never"] | Predicate


class BadArguments(Exception):
    """The model's arguments do not fit; the text tells it all that is wrong."""


class ToolFailed(Exception):
    """Raised by a tool to tell the model, in its own words, why it could not do it."""


class Lost(Exception):
    """The answer to a call was lost, and nobody knows whether it had its effect. People are
    asked, unless the tool is idempotent: then it is called again."""


class InputRequired(Exception):
    """A tool asked while it was called outside a chat (row Q19): there is nobody to ask.
    `questions` are what it wants to know."""

    def __init__(self, questions: Sequence[Asked]) -> None:
        super().__init__("; ".join(f"{one.message} {one.url}".strip() for one in questions))
        self.questions = tuple(questions)


class NobodyToAsk(Exception):
    """ask_user has no handler and no thread to post in: the run stops (row D14)."""


class Stopped(BaseException):
    """Ends a run from within its journal: another process has the chat. Passes through tools."""


class Suspend(BaseException):
    """Leaves a tool that asked. A BaseException, so that `except Exception` in a tool cannot
    swallow it (rule 9). `discard`: recorded asks from this ordinal on no longer hold."""

    def __init__(self, asked: Asked, ordinal: int) -> None:
        super().__init__("this tool waits for a person")
        self.asked = asked
        self.ordinal = ordinal


@dataclass(frozen=True, slots=True)
class Produced:
    """A file that a call produced: posted to the thread, and shown to a model that sees images."""

    name: str
    mime_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The call is over. `failed`: the result tells the model what went wrong. `task`: how a
    background call ended, as its card shows it."""

    result: Any
    failed: bool = False
    task: Any = None
    files: tuple[Produced, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """The call waits for people. `resume` is what the other side wants echoed when it goes on;
    `ordinal` is the place of the first question among all asks of the call. Without questions it
    waits for those that it asked while it ran (`Journal.ask`)."""

    questions: tuple[Asked, ...]
    ordinal: int = 0
    resume: Any = None
    task: Any = None  # as it stands now, when it is a task that asks


@dataclass(frozen=True, slots=True)
class Detached:
    """The call goes on elsewhere, as a task that is polled."""

    task: Any
    wake_at: float


Outcome = Done | Ask | Detached


@dataclass(frozen=True, slots=True)
class Recorded:
    """An ask that was settled: its identity, and its value as the tool gets it (None: declined)."""

    fingerprint: str
    value: Any


class Action(StrEnum):
    """What people did with a question, in the words of MCP."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Answered:
    """A settled question as the other side of a call gets it: `key` is its own name for it,
    `ordinal` its place among all asks of the call, `content` the answers by field name."""

    ordinal: int
    key: str
    fingerprint: str
    action: Action
    content: Mapping[str, Any] | None
    fields: tuple[Field, ...] = ()


class Journal(Protocol):
    """What a call may do to the world of rows while it runs."""

    async def step(self, key: str) -> tuple[bool, Any]: ...

    async def record_step(self, key: str, value: Any) -> None: ...

    async def progress(self, text: str) -> None: ...

    async def ask(self, asked: Asked, ordinal: int) -> str:
        """Asks people while the call goes on; returns the question's id. The same question that
        is open already is not asked twice."""

    async def answer(self, question_id: str) -> Answered | None:
        """What people said to it; None while it is open."""


@dataclass(slots=True, kw_only=True)
class Call:
    """What a tool is given when its first parameter is annotated `Call`."""

    id: str
    tool: str
    requester: str
    journal: Journal | None = None
    recorded: Sequence[Recorded] = ()
    answers: Sequence[Answered] = ()  # the same asks, for a tool whose other side wants them
    resume: Any = None  # what the call left with when it asked (`Ask.resume`)
    task: Any = None  # what it left with when it went on elsewhere (`Detached.task`)
    asks: int = field(default=0, init=False)
    suspended: Suspend | None = field(default=None, init=False)

    async def ask(self, message: str, *fields: Field, url: str = "", choosing: bool = False) -> Any:
        """Asks the people of the thread and gives what they answered: the value of a single
        field, a mapping for several, True for a page that was visited; None if they declined.

        The tool leaves here and is run again from its start once there is an answer, so whatever
        it did before is done again: put effects into `once`. Raises InputRequired outside a
        chat."""
        asked = Asked(message=message, fields=tuple(fields), url=url, choosing=choosing)
        if not asked.fields and not asked.url:
            raise ValueError("ask() needs at least one field, or the address of a page.")
        if asked.fields and asked.url:
            raise ValueError("ask() takes fields or the address of a page, not both.")
        if self.journal is None:
            raise InputRequired([asked])
        if self.suspended is not None:  # an earlier ask, which the tool swallowed, comes first
            raise self.suspended
        ordinal, self.asks = self.asks, self.asks + 1
        if ordinal < len(self.recorded):
            earlier = self.recorded[ordinal]
            if earlier.fingerprint == asked.fingerprint:
                return earlier.value
        self.suspended = Suspend(asked, ordinal)
        raise self.suspended

    async def once(self, key: str, effect: Callable[[], Awaitable[Any]]) -> Any:
        """Runs `effect` unless a run of this call already journaled `key`; its (JSON) value is
        what later runs get. A crash between the effect and its record makes the whole call
        unknown: a person is asked, nothing is repeated."""
        if self.journal is None:
            return await effect()
        if self.suspended is not None:
            raise self.suspended
        known, value = await self.journal.step(key)
        if known:
            return value
        value = _plain(await effect())
        await self.journal.record_step(key, value)
        return value

    async def progress(self, text: str) -> None:
        """Shows people how far the call is; the latest text wins."""
        if self.journal is not None:
            await self.journal.progress(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool the model may call.

    `idempotent`: running it twice does no harm, so a run that was lost is repeated without
    asking a person. `approval` is judged on the validated arguments, never at definition.
    `carrier`: what it does is all in its arguments (a shell, an HTTP request), so that no standing
    rule lets it run whatever they are."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    approval: Approval
    idempotent: bool
    function: Callable[..., Awaitable[Any]]
    arguments: type[pydantic.BaseModel]
    takes_call: bool
    server: str = ""
    carrier: bool = False

    @property
    def behind(self) -> Any:
        """What stands behind the name of its server; None for a tool of our own."""
        return None

    @property
    def schema_digest(self) -> str:
        """Changes with whatever the model or an approver was told of the tool (row D25), and with
        the server behind its name."""
        told = [self.server, self.name, self.description, self.parameters]
        if self.behind is not None:
            told.append(self.behind)
        return hashlib.sha256(canonical(told).encode()).hexdigest()

    def may_take(self, argument: str) -> bool:
        """Whether it may have an argument of this name, or of the first part of it."""
        return takes(self.parameters, argument) or takes(self.parameters, argument.split(".")[0])

    def validate(self, given: str | Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as they would run: coerced, defaults filled in, plain JSON.

        Raises BadArguments with all faults at once."""
        try:
            if isinstance(given, str):
                parsed = self.arguments.model_validate_json(given or "{}")
            else:
                parsed = self.arguments.model_validate(given)
            return json.loads(canonical(parsed.model_dump(mode="json")))  # type: ignore[no-any-return]
        except pydantic.ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}"
                for one in error.errors(include_url=False, include_input=False)
            )
            raise BadArguments(f"The arguments of {self.name} do not fit: {faults}.") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise BadArguments(f"The arguments of {self.name} are not plain JSON.") from error

    async def run(self, args: Mapping[str, Any], call: Call) -> Outcome:
        """Runs the function on validated arguments. What it raises becomes a failed result;
        only NobodyToAsk and cancellation pass through."""
        try:
            result = await self._result(args, call)
        except (NobodyToAsk, InputRequired):
            raise
        except ToolFailed as error:
            return self._unless_asked(call, Done(_fit(str(error), self.name), failed=True))
        except (Stopped, KeyboardInterrupt):
            raise
        except BaseException as error:
            # Suspend (by itself or in the group of a tool's own tasks), what the tool raised, or
            # its sys.exit(): all but the end of our own task is the tool's affair.
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise
            why = f"{self.name} failed: {type(error).__name__}: {error}"
            return self._unless_asked(call, Done(_fit(why, self.name), failed=True))
        return self._unless_asked(call, self._done(result))

    async def _result(self, args: Mapping[str, Any], call: Call) -> Any:
        values = self.arguments.model_validate(args)
        named = {name: getattr(values, name) for name in type(values).model_fields}
        return await (self.function(call, **named) if self.takes_call else self.function(**named))

    def _unless_asked(self, call: Call, done: Done) -> Outcome:
        """A tool that swallowed the suspension waits all the same."""
        if call.suspended is None:
            return done
        return Ask((call.suspended.asked,), call.suspended.ordinal)

    def _done(self, result: Any) -> Done:
        try:
            return Done(_fit(_plain(result), self.name))
        except (TypeError, ValueError, RecursionError):
            return Done(
                f"{self.name} ran, but what it returned ({type(result).__name__}) is not JSON, "
                "so its result is lost.",
                failed=True,
            )

    async def poll(self, task: Any) -> Outcome:
        """Looks once at a call that went on elsewhere. Never raises for what the other side says
        or does not say."""
        raise NotImplementedError(f"{self.name} has no tasks")

    async def cancel_task(self, task: Any) -> None:
        """Asks the other side to stop. May raise: the caller only logs it (row T10)."""
        raise NotImplementedError(f"{self.name} has no tasks")

    async def __call__(self, *args: Any, **named: Any) -> Any:
        """Calls the function outside a chat; an ask raises InputRequired (row Q19)."""
        if not self.takes_call:
            return await self.function(*args, **named)
        call = Call(id="", tool=self.name, requester="")
        return await self.function(call, *args, **named)


def takes(schema: Mapping[str, Any], argument: str) -> bool:
    """Whether a tool may know this argument; a schema that is put together may know any."""
    parts = ("allOf", "anyOf", "oneOf", "$ref", "patternProperties", "if")
    return argument in schema.get("properties", {}) or any(part in schema for part in parts)


def _plain(value: Any) -> Any:
    """The value as JSON has it. Raises TypeError or ValueError when JSON does not."""
    if isinstance(value, pydantic.BaseModel):
        value = value.model_dump(mode="json")
    return json.loads(canonical(value))


def _fit(value: Any, name: str) -> Any:
    size = len(value) if isinstance(value, str) else len(canonical(value))
    if size <= RESULT_LIMIT:
        return value
    text = value if isinstance(value, str) else canonical(value)
    return (
        f"{text[:RESULT_LIMIT]}\n[{name} returned {size} characters; "
        f"only the first {RESULT_LIMIT} are here.]"
    )


@overload
def tool(function: Callable[..., Awaitable[Any]], /) -> Tool: ...


@overload
def tool(
    *, approval: Approval = ..., idempotent: bool = ..., name: str = ..., carrier: bool = ...
) -> Callable[[Callable[..., Awaitable[Any]]], Tool]: ...


def tool(
    function: Callable[..., Awaitable[Any]] | None = None,
    /,
    *,
    approval: Approval = "always",
    idempotent: bool = False,
    name: str = "",
    carrier: bool = False,
) -> Tool | Callable[[Callable[..., Awaitable[Any]]], Tool]:
    """Makes a tool of a typed async function; its docstring tells the model what it does.

    `approval`: "always" (the default: a person is asked), "never", or a predicate of the
    validated arguments (one object with an attribute each) that returns True to run, False to
    deny and None to ask. Whatever else it returns or raises denies. `carrier`: mark a tool so whose
    arguments say what it does, like a shell: see Tool."""

    def make(function: Callable[..., Awaitable[Any]]) -> Tool:
        return _make(function, approval, idempotent, name or function.__name__, carrier)

    return make if function is None else make(function)


def _make(
    function: Callable[..., Awaitable[Any]],
    approval: Approval,
    idempotent: bool,
    name: str,
    carrier: bool,
) -> Tool:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"The tool {name} must be an async function.")
    if not _NAME.fullmatch(name):
        raise ValueError(f"The tool name {name!r} must be 1 to 64 letters, digits, _ or -.")
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())
    takes_call = bool(parameters) and hints.get(parameters[0].name) is Call
    fields: dict[str, Any] = {}
    for one in parameters[1:] if takes_call else parameters:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY):
            raise TypeError(f"The tool {name} must name each of its parameters.")
        if one.name not in hints:
            raise TypeError(f"The parameter {one.name} of the tool {name} has no type.")
        fields[one.name] = (hints[one.name], ... if one.default is one.empty else one.default)
    config = pydantic.ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())
    with warnings.catch_warnings():  # a parameter may be named like a method of the model
        warnings.simplefilter("ignore", UserWarning)
        arguments = pydantic.create_model(name, __config__=config, **fields)
    return Tool(
        name=name,
        description=inspect.cleandoc(function.__doc__ or ""),
        parameters=_schema(arguments),
        approval=approval,
        idempotent=idempotent,
        function=function,
        arguments=arguments,
        takes_call=takes_call,
        carrier=carrier,
    )


def _schema(arguments: type[pydantic.BaseModel]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    return schema
