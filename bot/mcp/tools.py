"""Tools of MCP servers, as the loop runs them."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import mcp.types as t
import pydantic
import structlog

from bot.clock import Clock
from bot.mcp import results
from bot.mcp.connection import Connection
from bot.mcp.elicitation import Refused, Unsupported, questions_of, url_error
from bot.mcp.extension import CreatedTask
from bot.mcp.failure import BadAnswer, Lost, NotSent, Rejected
from bot.mcp.rounds import ROUNDS, Judge, Record, Resume
from bot.mcp.schema import Unchecked, faults
from bot.mcp.settings import ServerSettings
from bot.mcp.tasks import TaskLook, created
from bot.tool import (
    Action,
    Approval,
    Ask,
    BadArguments,
    Call,
    Done,
    Outcome,
    Tool,
    takes,
)
from bot.tool import Lost as OutcomeLost
from storage.database import canonical

log = structlog.get_logger(__name__)

NAME_LIMIT: Final = 64  # what every provider of models takes
SEND_TRIES: Final = 5  # how often a request that surely did not arrive is sent again
LIVE_SECONDS: Final = 45.0  # how long a call is held open for people; TypeScript servers wait 60
LOOK_SECONDS: Final = 0.3
PROGRESS_SECONDS: Final = 1.2


def visible_name(server: str, tool: str) -> str:
    """What the model calls it: our name of the server, and the tool's, within what providers
    take. A name that has to be changed gets a digest of the whole, so that no two are alike."""
    name = f"{server}__{re.sub(r'[^a-zA-Z0-9_-]', '_', tool)}"
    if len(name) <= NAME_LIMIT and name == f"{server}__{tool}":
        return name
    mark = hashlib.sha256(tool.encode()).hexdigest()[:8]
    return f"{name[: NAME_LIMIT - 9]}_{mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How the tools of one server reach it."""

    connection: Connection
    settings: ServerSettings
    judge: Judge
    clock: Clock
    dice: random.Random

    @property
    def look(self) -> TaskLook:
        return TaskLook(self.connection, self.judge, self.clock.now, self.dice)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool(Tool):
    """A tool that a server offers. `remote` is the server's own name of it, `schema` the whole
    schema of its arguments, `fixed` those that configuration sets and the model never sees."""

    remote: str
    schema: Mapping[str, Any]
    fixed: Mapping[str, Any]
    link: Link

    @property
    def behind(self) -> Any:
        return self.link.settings.identity

    def may_take(self, argument: str) -> bool:
        if not self.schema.get("properties"):  # it says nothing of its arguments
            return True
        return any(takes(self.schema, one) for one in (argument, argument.split(".")[0]))

    def validate(self, given: str | Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the server gets them, with the fixed ones. Raises BadArguments."""
        if isinstance(given, str):
            try:
                given = pydantic.TypeAdapter(dict[str, Any]).validate_json(given or "{}")
            except pydantic.ValidationError as error:
                raise BadArguments(
                    f"The arguments of {self.name} are not a JSON object."
                ) from error
        for name, value in self.fixed.items():
            if name in given and given[name] != value:
                raise BadArguments(f"The argument {name} of {self.name} cannot be chosen.")
        args = {**given, **self.fixed}
        try:
            wrong = faults(self.schema, args, "arguments")
            kept: dict[str, Any] = pydantic.TypeAdapter(dict[str, Any]).validate_json(
                canonical(args)
            )
        except Unchecked as error:
            raise BadArguments(
                f"The arguments of {self.name} cannot be checked: {error}."
            ) from error
        except (ValueError, TypeError) as error:
            raise BadArguments(f"The arguments of {self.name} are not plain JSON.") from error
        if wrong:
            raise BadArguments(f"The arguments of {self.name} do not fit: {'; '.join(wrong)}.")
        return kept

    async def run(self, args: Mapping[str, Any], call: Call) -> Outcome:
        """One leg of the call. Raises bot.tool.Lost when its answer was lost."""
        if call.task is not None:
            return await self.link.look.answer(call.task, call.resume, tuple(call.answers))
        return await _Leg(self, dict(args), call).go()

    async def poll(self, task: Any) -> Outcome:
        return await self.link.look.look(task)

    async def cancel_task(self, task: Any) -> None:
        await self.link.connection.cancel_task(task["id"])


class _Leg:
    """One run of a call: from its first request, or from where it was parked, to what it comes
    to."""

    def __init__(self, tool: McpTool, args: dict[str, Any], call: Call) -> None:
        self.tool = tool
        self.args = args
        self.call = call
        self.link = tool.link
        # After a lost run there are answers and no state: identical questions are answered from
        # the record, others are asked anew.
        self.record = Record(call.answers if call.resume is None else ())
        self.asks = 0 if call.resume is None else len(call.answers)
        self.shown_at = 0.0
        self.parked = False  # a question of a classic server outlived the time it waits

    async def go(self) -> Outcome:
        state: str | None = None
        answers: t.InputResponses | None = None
        rounds = 0
        if self.call.resume is not None:
            resume = Resume.from_json(self.call.resume)
            state, rounds = resume.state, resume.rounds
            answers = dict(resume.answers(self.call.answers)) or None
        while True:
            try:
                answer = await self._send(answers, state)
            except NotSent as error:
                return Done(f"{self.tool.name} did not run: {error}", failed=True)
            except Lost as error:
                raise OutcomeLost(str(error)) from error
            except BadAnswer as error:
                return _finished(results.ran_but(str(error)))
            except Rejected as error:
                if error.code == t.INVALID_PARAMS and state is not None:
                    # The state lapsed: the server is asked anew (spec: a lapsed state).
                    self.record, self.asks = Record(self.call.answers), 0
                    state, answers = None, None
                    continue
                return await self._refused(error, rounds)
            if self.parked:
                return self._park()
            match answer:
                case t.CallToolResult():
                    return _finished(results.done(answer))
                case CreatedTask():
                    row = created(answer) | {"asks": len(self.call.answers)}
                    return self.link.look.detached(row)
                case t.InputRequiredResult():
                    rounds += 1
                    if rounds > ROUNDS:
                        words = f"{self.tool.name} asked more than {ROUNDS} times, so it was left."
                        return Done(words, failed=True)
                    going_on = await self._round(answer, rounds)
                    if isinstance(going_on, Ask | Done):
                        return going_on
                    state, answers = answer.request_state, going_on or None

    async def _round(
        self, asks: t.InputRequiredResult, rounds: int
    ) -> t.InputResponses | Ask | Done:
        """The answers to a round, or the questions that are left for people."""
        try:
            questions = questions_of(asks)
        except Unsupported as error:
            return Done(f"{self.tool.name} was left: {error}", failed=True)
        if not questions:  # only its state: it wants to be asked again in a while
            await self.link.clock.sleep(min(2.0, 0.25 * 2 ** (rounds - 1)))
            return {}
        judged = await self.link.judge.round(questions, self.record)
        if not judged.open:
            return dict(judged.settled)
        first = self.asks + self.record.used
        settled = {key: one.model_dump(mode="json") for key, one in judged.settled.items()}
        resume = Resume(asks.request_state, rounds, first, settled)
        return Ask(judged.open, ordinal=first, resume=resume.to_json())

    async def _refused(self, error: Rejected, rounds: int) -> Outcome:
        """The server refused. With -32042 it names pages to visit first (row M18)."""
        pages = url_error(error.data) if error.code == t.URL_ELICITATION_REQUIRED else []
        found = [self.link.judge.read(str(number), page) for number, page in enumerate(pages)]
        shown = tuple(one for one in found if not isinstance(one, Refused))
        declined = any(one.action is not Action.ACCEPT for one in self.call.answers)
        if self.call.journal is None or not shown or declined or rounds >= ROUNDS:
            data = error.data if shown else None
            return _finished(
                results.rejected(error.code, error.message, server=self.tool.server, data=data)
            )
        first = len(self.call.answers)
        # What it asked is no answer to anything: the call is made anew once people were there.
        resume = Resume(None, rounds + 1, len(self.call.answers) + len(shown))
        return Ask(shown, ordinal=first, resume=resume.to_json())

    async def _send(
        self, answers: t.InputResponses | None, state: str | None
    ) -> t.CallToolResult | t.InputRequiredResult | CreatedTask:
        """One request; one that surely did not arrive is sent again for a while."""
        for attempt in range(SEND_TRIES):
            try:
                return await self.link.connection.call(
                    self.tool.remote,
                    self.args,
                    answers=answers,
                    state=state,
                    on_progress=self._progress,
                    on_elicit=self._elicit,
                )
            except NotSent:
                if attempt == SEND_TRIES - 1:
                    raise
                await self.link.clock.sleep(0.5 * 2**attempt)
        raise AssertionError

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        now = self.link.clock.now()
        if self.call.journal is not None and now - self.shown_at >= PROGRESS_SECONDS:
            self.shown_at = now
            part = f"{progress / total:.0%}" if total else f"{progress:g}"
            said = f"{self.tool.name}: {part}" + (f", {message}" if message else "")
            await self.call.journal.progress(said)

    # Classic servers ask while the call is open (platforms/mcp.md 2b).

    async def _elicit(self, params: Any) -> t.ElicitResult:
        question = await self.link.judge.judge("", params, self.record)
        if isinstance(question, t.ElicitResult):
            return question
        if self.call.journal is None:
            return t.ElicitResult(action="cancel")
        ordinal, self.asks = self.asks + self.record.used, self.asks + 1
        question_id = await self.call.journal.ask(question, ordinal)
        deadline = self.link.clock.now() + LIVE_SECONDS
        while self.link.clock.now() < deadline:
            answer = await self.call.journal.answer(question_id)
            if answer is not None:
                return Resume(None, 0, 0).answers([answer])[answer.key]
            await self.link.clock.sleep(LOOK_SECONDS)
        self.parked = True
        return t.ElicitResult(action="cancel")

    def _park(self) -> Outcome:
        """Nobody answered while the server waited. The question stays; the call is made anew with
        the answer if that does no harm, or once an approver says so."""
        if self.tool.idempotent:
            return Ask(())
        raise OutcomeLost(
            f"{self.tool.name} asked, and its server stopped waiting before anybody answered."
        )


def _finished(produced: results.Produced) -> Done:

    return Done(produced.result, produced.failed, files=produced.files)


def tool_of(link: Link, server: str, offered: t.Tool) -> McpTool:
    """A tool of a server's list, as configuration lets it through."""
    settings = link.settings
    schema = dict(offered.input_schema)
    # What is fixed for a tool by its name is always sent, whatever its schema looks like.
    everywhere = settings.fixed.get("*", {})
    fixed = {k: v for k, v in everywhere.items() if k in schema.get("properties", {})}
    fixed |= settings.fixed.get(offered.name, {})
    shown = dict(schema)
    if fixed:
        properties = schema.get("properties", {})
        shown["properties"] = {k: v for k, v in properties.items() if k not in fixed}
        shown["required"] = [one for one in schema.get("required", ()) if one not in fixed]
    hints = offered.annotations if settings.trusted_annotations else None
    return McpTool(
        name=visible_name(server, offered.name),
        description=offered.description or offered.title or "",
        parameters=shown,
        approval=_approval(settings, offered),
        idempotent=bool(hints and (hints.read_only_hint or hints.idempotent_hint)),
        function=_never,
        arguments=pydantic.BaseModel,
        takes_call=True,
        server=server,
        carrier=settings.carries(offered.name),
        remote=offered.name,
        schema=schema,
        fixed=fixed,
        link=link,
    )


def _approval(settings: ServerSettings, offered: t.Tool) -> Approval:
    """By name, else by what a trusted server says of the tool, else the server's default."""
    by_name = settings.approval_by_tool.get(offered.name)
    if by_name is not None:
        return "never" if by_name == "never" else "always"
    hints = offered.annotations
    match settings.approval_by_annotation:
        case "destructive":
            harmless = hints is not None and (
                bool(hints.read_only_hint) or hints.destructive_hint is False
            )
            return "never" if harmless else "always"
        case "not_read_only":
            return "never" if hints is not None and hints.read_only_hint else "always"
        case "off":
            return "never" if settings.approval == "never" else "always"


async def _never(*_args: Any, **_named: Any) -> Any:
    raise AssertionError("a server's tool runs by McpTool.run")
