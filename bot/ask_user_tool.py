"""The tool ask_user, and who answers it: its own handler, else the one of the process, else an
interactive console, else nobody (rows D14 to D16)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pydantic

from bot.ask_user import (
    TOOL_DESCRIPTION,
    TOOL_NAME,
    TOOL_SCHEMA,
    AskedQuestion,
    BadQuestions,
    check_questions,
    parse_line,
    render_lines,
    result_json,
    to_fields,
)
from bot.tool import BadArguments, Call, NobodyToAsk, Tool

Handler = Callable[[tuple[AskedQuestion, ...], Call], Awaitable[Mapping[str, Any] | None]]
"""Gets the questions, gives the answers by field name (`bot.ask_user.to_fields`), None when the
person declined. What it raises is told to the model, and the run goes on (row D15)."""

_of_process: Handler | None = None


def set_handler(handler: Handler | None) -> None:
    """Who answers in this process, where a chat has no handler of its own."""
    global _of_process
    _of_process = handler


async def in_thread(questions: tuple[AskedQuestion, ...], call: Call) -> Mapping[str, Any] | None:
    """Posts the questions as a card in the chat's thread; people may take days."""
    message = "\n".join(one.question for one in questions)
    fields = to_fields(questions)
    answers = await call.ask(message, *fields, choosing=True)
    if answers is None or len(fields) > 1:
        return answers  # type: ignore[no-any-return]
    return {fields[0].name: answers}


async def at_console(questions: tuple[AskedQuestion, ...], call: Call) -> Mapping[str, Any]:
    """Asks on standard input, one question after the other, until each has an answer."""
    answers: dict[str, Any] = {}
    for question, field in zip(questions, to_fields(questions), strict=True):
        prompt = "\n".join([*render_lines(question), "> "])
        picked = None
        while picked is None:
            picked = parse_line(question, await asyncio.to_thread(input, prompt))
        answers[field.name] = picked.to_json()
    return answers


def ask_user_tool(handler: Handler | None = None) -> Tool:
    """The tool; `handler` is the chat's own and wins over the one of the process (row D16)."""

    async def ask(call: Call, questions: list[dict[str, Any]]) -> str:
        asked = check_questions({"questions": questions})
        answers = await _handler(handler)(asked, call)
        if answers is None:
            return "The user declined to answer."
        return result_json(asked, answers)

    class Arguments(pydantic.BaseModel):
        questions: list[dict[str, Any]]

    return _AskUser(
        name=TOOL_NAME,
        description=TOOL_DESCRIPTION,
        parameters=TOOL_SCHEMA,
        approval="never",
        idempotent=True,
        function=ask,
        arguments=Arguments,
        takes_call=True,
    )


def _handler(own: Handler | None) -> Handler:
    found = own or _of_process
    if found is not None:
        return found
    if sys.stdin is not None and sys.stdin.isatty():
        return at_console
    raise NobodyToAsk(
        "ask_user has nobody to ask: give it a handler, or run it in a thread or at a console."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _AskUser(Tool):
    """Its arguments are checked by the rules of the questions, all faults at once (D1 to D6)."""

    def validate(self, given: str | Mapping[str, Any]) -> dict[str, Any]:
        try:
            arguments = json.loads(given or "{}") if isinstance(given, str) else given
            check_questions(arguments)
        except BadQuestions as error:
            raise BadArguments(str(error)) from error
        except (ValueError, RecursionError) as error:
            raise BadArguments("The arguments of ask_user are not JSON.") from error
        return {"questions": arguments["questions"]}
