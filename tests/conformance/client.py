"""The client that the conformance suite judges: `python -m tests.conformance.client ADDRESS`, once
per scenario.

It uses a server as the product does (McpServer, then validate and run of its tools) and calls each
tool that is offered. A call that asks is parked as JSON and goes on with another McpServer, as
after a restart. People are played by somebody who accepts everything and fills in only what must
be filled in and has no default.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, assert_never
from urllib.parse import urlsplit

import httpx2

from bot.clock import WallClock
from bot.field import Field, FieldType, field_from_json
from bot.mcp.settings import server_settings
from bot.mcp.source import McpServer
from bot.question import Asked
from bot.tool import Action, Answered, Ask, BadArguments, Call, Lost, Outcome, Tool

NAME = "judged"
SECRET = "CONFORMANCE_CLIENT_SECRET"

# Its server promises 2026-07-28 and then lists its tools in the form of 2025-11-25.
LEGACY = "json-schema-ref-no-deref"

Settings = Mapping[str, Any]
Arguments = Mapping[str, Any]


# People


def accepted(ordinal: int, asked: Asked) -> Answered:
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


class Window:
    """The bot.tool.Journal of a call that asks while it is open."""

    def __init__(self) -> None:
        self.answers: dict[str, Answered] = {}

    async def step(self, key: str) -> tuple[bool, Any]:
        return False, None

    async def record_step(self, key: str, value: Any) -> None: ...

    async def progress(self, text: str) -> None: ...

    async def ask(self, asked: Asked, ordinal: int) -> str:
        self.answers[str(ordinal)] = accepted(ordinal, asked)
        return str(ordinal)

    async def answer(self, question_id: str) -> Answered | None:
        return self.answers[question_id]


# A call


def parked(ask: Ask, before: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        {"ordinal": ask.ordinal + place, "key": asked.key, **asked.body()}
        for place, asked in enumerate(ask.questions)
    ]
    return json.dumps({"resume": ask.resume, "rows": [*before, *rows]})


def answer_to(row: Mapping[str, Any]) -> Answered:
    fields = tuple(field_from_json(one) for one in row["fields"])
    asked = Asked(message=row["message"], fields=fields, url=row["url"], key=row["key"])
    return accepted(row["ordinal"], asked)


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[McpServer]:
    server = McpServer(NAME, server_settings(NAME, settings), WallClock())
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def outcome_of(settings: Settings, name: str, args: Arguments) -> Outcome:
    """Calls a tool to its end; nothing but a text is kept from one run to the next."""
    kept = json.dumps({"resume": None, "rows": []})
    while True:
        row = json.loads(kept)
        call = Call(
            id="1",
            tool=name,
            requester="",
            journal=Window(),
            answers=[answer_to(one) for one in row["rows"]],
            resume=row["resume"],
        )
        async with connected(settings) as server:
            tool = server.known(name)
            assert tool is not None, f"{name} is not offered any more"
            outcome = await tool.run(args, call)
        if not isinstance(outcome, Ask):
            return outcome
        kept = parked(outcome, row["rows"])


async def make(settings: Settings, name: str, args: Arguments) -> None:
    try:
        print(name, args, "->", await outcome_of(settings, name, args))
    except Lost as error:
        print(name, args, "->", "lost:", error)


def example(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each argument that a tool takes."""
    by_type = {"string": "x", "integer": 1, "number": 1, "boolean": True, "object": {}, "array": []}
    properties = schema.get("properties", {}).items()
    return {name: by_type.get(one.get("type"), "x") for name, one in properties}


# A scenario


async def settings_for(scenario: str, url: str, context: Mapping[str, Any]) -> Settings:
    settings = {"url": url, "protocol": "legacy" if scenario == LEGACY else "auto"}
    if "client_secret" not in context:
        return settings
    os.environ[SECRET] = context["client_secret"]
    oauth = {
        "client_id": context["client_id"],
        "client_secret": SECRET,
        "issuer": await issuer(url),
    }
    return settings | {"oauth": oauth}


async def issuer(url: str) -> str:
    """The authorization server, which an operator knows and the suite does not tell."""
    parts = urlsplit(url)
    about = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    async with httpx2.AsyncClient(trust_env=False) as client:
        found: str = (await client.get(about)).raise_for_status().json()["authorization_servers"][0]
        return found


def calls_of(
    tools: Sequence[Tool], context: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls that the suite wants, or one of each tool."""
    if "toolCalls" in context:  # as they are: one of them breaks the schema of its tool
        for one in context["toolCalls"]:
            yield f"{NAME}__{one['name']}", one.get("arguments") or {}
        return
    named = {one.name: one for one in tools}
    kept = named.get(f"{NAME}__json_schema_2020_12_tool")
    if kept is not None:  # it wants to see what came of the schema on its way to the model
        yield f"{NAME}__json_schema_echo", {"schema": dict(kept.parameters)}
        return
    for name, tool in named.items():
        try:
            yield name, tool.validate(example(tool.parameters))
        except BadArguments as error:
            print(name, "is not called:", error)


async def main(url: str) -> None:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    settings = await settings_for(scenario, url, context)
    async with connected(settings) as server:
        print(server.health())
        calls = list(calls_of(await server.tools(), context))
    await asyncio.gather(*(make(settings, name, args) for name, args in calls))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
