"""The client that the conformance suite judges: `python client.py ADDRESS`, once per scenario.

It uses a server as the product does (McpServer, then validate and run of its tools) and calls each
tool that is offered. A call that asks is parked as JSON and goes on with another McpServer, as
after a restart. People are played by somebody who accepts everything and fills in only what has no
default.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, assert_never

import httpx2

from bot.clock import WallClock
from bot.field import Field, FieldType, field_from_json
from bot.mcp.settings import server_settings
from bot.mcp.source import McpServer
from bot.question import Asked
from bot.tool import Action, Answered, Ask, BadArguments, Call, Detached, Done, Lost, Outcome, Tool

NAME = "judged"
SECRET = "CONFORMANCE_CLIENT_SECRET"

# Its server says that it speaks 2026-07-28 and answers tools/list in the form of 2025-11-25.
LEGACY = frozenset({"json-schema-ref-no-deref"})


def answered(ordinal: int, asked: Asked) -> Answered:
    """Yes to a question."""
    needed = [one for one in asked.fields if one.required and one.default is None]
    content = {one.name: filled(one) for one in needed} if asked.fields else None
    return Answered(
        ordinal, asked.key, asked.fingerprint, Action.ACCEPT, content, fields=asked.fields
    )


def filled(one: Field) -> Any:
    match one.type:
        case FieldType.TEXT:
            return "x" * (one.min_length or 1)
        case FieldType.INTEGER | FieldType.NUMBER:
            return one.minimum or 1
        case FieldType.BOOLEAN:
            return True
        case FieldType.CHOICE:
            return one.choices[0].value
        case FieldType.CHOICES:
            return [choice.value for choice in one.choices[: one.min_items or 1]]
        case _:
            assert_never(one.type)


@dataclass
class People:
    """A bot.tool.Journal whose questions are answered at once."""

    answers: dict[str, Answered] = field(default_factory=dict)

    async def step(self, key: str) -> tuple[bool, Any]:
        return False, None

    async def record_step(self, key: str, value: Any) -> None:
        pass

    async def progress(self, text: str) -> None:
        pass

    async def ask(self, asked: Asked, ordinal: int) -> str:
        self.answers[str(ordinal)] = answered(ordinal, asked)
        return str(ordinal)

    async def answer(self, question_id: str) -> Answered | None:
        return self.answers[question_id]


@asynccontextmanager
async def connected(settings: Mapping[str, Any]) -> AsyncIterator[McpServer]:
    server = McpServer(NAME, server_settings(NAME, settings), WallClock())
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def called(settings: Mapping[str, Any], name: str, args: Mapping[str, Any]) -> Outcome:
    """Calls a tool until it is done; what is kept between two runs is only text."""
    kept = json.dumps({"resume": None, "answers": []})
    while True:
        loaded = json.loads(kept)
        answers = [from_json(one) for one in loaded["answers"]]
        call = Call(
            id="1",
            tool=name,
            requester="",
            journal=People(),
            answers=answers,
            resume=loaded["resume"],
        )
        async with connected(settings) as server:
            tool = server.known(name)
            assert tool is not None, f"{name} is not offered any more"
            outcome = await tool.run(tool.validate(args), call)
        if not isinstance(outcome, Ask):
            return outcome
        answers += [answered(outcome.ordinal + n, one) for n, one in enumerate(outcome.questions)]
        kept = json.dumps(
            {"resume": outcome.resume, "answers": [to_json(one) for one in answers]}
        )
