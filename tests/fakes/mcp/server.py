"""A real MCP server for the tests, on the SDK, with a tool for everything that can happen.

`python -m tests.fakes.mcp.server http PORT [--legacy]`, or `... stdio [--legacy]`. Everything it
keeps is in the directory FAKE_MCP_DIR (the working directory without it):

- `effects`: one line for each run of a tool that changes something;
- `seen`: one JSON line for each request: method, id, params, headers;
- `tasks.json`: its tasks, which survive a restart;
- `pid`: its process.

FAKE_MCP_KEY seals request states with a key that survives a restart, FAKE_MCP_TTL is their life in
seconds; FAKE_MCP_HIDE names tools that are not offered; FAKE_MCP_PAGE is the tools of one page.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import mcp.types as t
import uvicorn
from mcp import MCPError, UrlElicitationRequiredError
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, RequestStateSecurity
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from pydantic import BaseModel, Field

from tests.fakes.mcp.tasks import Tasks

HOME = Path(os.environ.get("FAKE_MCP_DIR", "."))
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4"
    "2mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PAGE = "https://auth.example.com/start?user=42"
READ_ONLY = t.ToolAnnotations(read_only_hint=True)
IDEMPOTENT = t.ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, title="Set it"
)
DESTRUCTIVE = t.ToolAnnotations(read_only_hint=False, destructive_hint=True)
CONFIRM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "env": {"type": "string", "enum": ["staging", "production"], "title": "Environment"},
        "reason": {"type": "string", "maxLength": 80, "default": "none given"},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 5, "default": 1},
        "notify": {"type": "boolean", "default": True},
    },
    "required": ["env"],
}
WHO: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}},
    "required": ["name"],
}


def effect(line: str) -> None:
    with (HOME / "effects").open("a") as file:
        file.write(f"{line}\n")


async def watch(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Writes down what arrived, and serves the tool list in pages when it is told to."""
    headers = getattr(ctx.request, "headers", None)
    seen = {
        "method": ctx.method,
        "id": ctx.request_id,
        "params": ctx.params,
        "headers": dict(headers) if headers is not None else None,
    }
    with (HOME / "seen").open("a") as file:
        file.write(f"{json.dumps(seen, default=str)}\n")
    size = int(os.environ.get("FAKE_MCP_PAGE", "0"))
    if ctx.method != "tools/list" or not size:
        return await call_next(ctx)
    params: Mapping[str, Any] = ctx.params or {}
    start = int(params.get("cursor") or 0)
    whole = {key: value for key, value in params.items() if key != "cursor"}
    result = await call_next(replace(ctx, params=whole))
    assert isinstance(result, dict)
    tools = result["tools"]
    page = {**result, "tools": tools[start : start + size]}
    return page | ({"nextCursor": str(start + size)} if start + size < len(tools) else {})


def form(message: str, schema: dict[str, Any]) -> t.ElicitRequest:
    return t.ElicitRequest(
        params=t.ElicitRequestFormParams(mode="form", message=message, requested_schema=schema)
    )


def page(message: str, url: str) -> t.ElicitRequest:
    return t.ElicitRequest(params=t.ElicitRequestURLParams(mode="url", message=message, url=url))


def told(answers: Mapping[str, Any] | None) -> str:
    """The answers as text, in one order."""
    plain = {
        key: answer.model_dump(mode="json", exclude_none=True) if answer is not None else None
        for key, answer in (answers or {}).items()
    }
    return json.dumps(plain, sort_keys=True)


KEY = os.environ.get("FAKE_MCP_KEY")
server = MCPServer(
    "fake",
    version="1.2.3",
    instructions="A server of the tests.",
    log_level="WARNING",
    extensions=[Tasks(HOME / "tasks.json")],
    middleware=[watch],
    request_state_security=RequestStateSecurity(
        keys=[KEY], ttl=float(os.environ.get("FAKE_MCP_TTL", "600"))
    )
    if KEY
    else None,
)


class Weather(BaseModel):
    city: str
    degrees: float


class Confirm(BaseModel):
    env: str = Field(json_schema_extra={"enum": ["staging", "production"]})
    reason: str = "none given"


@server.tool(annotations=READ_ONLY)
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def slow(n: int, ctx: Context, step: float = 0.05) -> str:
    """Takes n steps and tells of each."""
    for done in range(1, n + 1):
        await ctx.report_progress(done, n, f"step {done}")
        await asyncio.sleep(step)
    effect("slow")
    return "slow done"


@server.tool()
def boom() -> str:
    """Fails, and says why."""
    raise ToolError("the disk is full")


@server.tool()
def refuse() -> str:
    """Answers with an error of the protocol."""
    raise MCPError(code=-32010, message="not today", data={"until": "monday"})


@server.tool()
def structured(city: str) -> Weather:
    """The weather."""
    return Weather(city=city, degrees=21.5)


@server.tool()
def bad_structured() -> Weather:
    """Promises the weather and returns something else (`spoil` sees to it)."""
    effect("bad_structured")
    return Weather(city="Ghent", degrees=1)


async def spoil(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    result = await call_next(ctx)
    named = (ctx.params or {}).get("name")
    if ctx.method == "tools/call" and named == "bad_structured" and isinstance(result, dict):
        return {**result, "structuredContent": {"city": 7}}
    if ctx.method == "tools/call" and named == "malformed" and isinstance(result, dict):
        return {**result, "content": "not a list"}
    return result


server.middleware.append(spoil)


@server.tool()
def malformed() -> str:
    """Runs, and answers with something that is no result (`spoil` sees to it)."""
    effect("malformed")
    return "ran"


@server.tool()
def image() -> list[t.TextContent | t.ImageContent]:
    """A picture of one pixel."""
    return [t.TextContent(text="one pixel"), t.ImageContent(data=PNG, mime_type="image/png")]


@server.tool()
def resource_link() -> list[t.ResourceLink | t.EmbeddedResource]:
    """A link to a file, and a file."""
    held = t.TextResourceContents(uri="mem://notes", text="the notes", mime_type="text/plain")
    blob = t.BlobResourceContents(
        uri="mem://data.bin",
        blob=base64.b64encode(b"\0\1\2").decode(),
        mime_type="application/octet-stream",
    )
    return [
        t.ResourceLink(name="report", uri="file:///report.txt", mime_type="text/plain"),
        t.EmbeddedResource(resource=held),
        t.EmbeddedResource(resource=blob),
    ]


@server.tool()
def big(n: int) -> str:
    """A text of n characters."""
    effect("big")
    return "x" * n


@server.tool(annotations=READ_ONLY)
def read_only(key: str = "") -> str:
    """Reads something, and counts that it did."""
    effect("read_only")
    return f"value of {key}"


@server.tool(annotations=IDEMPOTENT)
def idempotent(key: str = "") -> str:
    """Sets something; twice is as good as once."""
    effect("idempotent")
    return f"set {key}"


@server.tool(annotations=DESTRUCTIVE)
def counter(note: str = "counter") -> str:
    """Leaves one line each time it runs."""
    effect(note)
    return f"counted {note}"


@server.tool()
def die(note: str = "die") -> str:
    """Does its work and dies before it answers."""
    effect(note)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool(annotations=READ_ONLY)
def die_once() -> str:
    """Dies at its first run and answers at the next ones."""
    first = not (HOME / "died").exists()
    (HOME / "died").touch()
    if first:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


@server.tool(annotations=READ_ONLY)
def variables() -> str:
    """The names of its environment."""
    return " ".join(sorted(os.environ))


@server.tool()
async def grow(ctx: Context) -> str:
    """Adds the tool `extra` and announces it."""

    def extra() -> str:
        """Was not there before."""
        return "extra"

    server.add_tool(extra, name="extra")
    await ctx.notify_tools_changed()
    if ctx.request_context.protocol_version < "2026":
        await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def classic_ask(service: str, ctx: Context) -> str:
    """Asks in the middle of the call, as servers did before 2026."""
    effect("classic_ask asks")
    answer = await ctx.elicit(f"Deploy {service}?", schema=Confirm)
    data = getattr(answer, "data", None)
    effect(f"classic_ask {service} {answer.action}")
    return f"{service}: {answer.action} {data.env if data is not None else ''}".strip()


@server.tool()
async def classic_page(ctx: Context) -> str:
    """Sends people to a page in the middle of the call."""
    answer = await ctx.elicit_url("Connect your account", PAGE, "page-1")
    return f"page: {answer.action}"


@server.tool()
def page_required() -> str:
    """Ends the call with error -32042 until the file `visited` is there."""
    if (HOME / "visited").exists():
        effect("page_required")
        return "welcome"
    raise UrlElicitationRequiredError(
        [t.ElicitRequestURLParams(message="Authorize files", url=PAGE, elicitation_id="page-2")]
    )


@server.tool()
def ask(service: str, ctx: Context) -> str | t.InputRequiredResult:
    """Asks one form of several fields, then deploys."""
    answers = ctx.input_responses
    if not answers or "confirm" not in answers:
        return t.InputRequiredResult(
            input_requests={"confirm": form(f"Deploy {service}?", CONFIRM)},
            request_state=f"ask:{service}",
        )
    effect(f"ask {service}")
    return f"{service} {ctx.request_state}: {told(answers)}"


@server.tool()
def ask_two(service: str, ctx: Context) -> str | t.InputRequiredResult:
    """Asks two questions at once."""
    answers = ctx.input_responses
    if not answers or not {"confirm", "who"} <= set(answers):
        return t.InputRequiredResult(
            input_requests={
                "confirm": form(f"Deploy {service}?", CONFIRM),
                "who": form("Who asked for it?", WHO),
            },
            request_state=f"ask_two:{service}",
        )
    effect(f"ask_two {service}")
    return f"{service}: {told(answers)}"


@server.tool()
def ask_twice(service: str, ctx: Context) -> str | t.InputRequiredResult:
    """Asks who, and when that is answered, where."""
    asked: t.InputRequests
    match ctx.request_state:
        case None:
            asked = {"who": form("Who asked for it?", WHO)}
            return t.InputRequiredResult(input_requests=asked, request_state="first")
        case "first":
            asked = {"confirm": form(f"Deploy {service}?", CONFIRM)}
            state = f"second:{told(ctx.input_responses)}"
            return t.InputRequiredResult(input_requests=asked, request_state=state)
        case state:
            effect(f"ask_twice {service}")
            return f"{service} {state.partition(':')[2]} {told(ctx.input_responses)}"


@server.tool()
def ask_page(ctx: Context) -> str | t.InputRequiredResult:
    """Sends people to a page; asks again until the file `visited` is there."""
    answers = ctx.input_responses
    answer = answers.get("page") if answers else None
    refused = isinstance(answer, t.ElicitResult) and answer.action != "accept"
    if answer is None or not (refused or (HOME / "visited").exists()):
        return t.InputRequiredResult(
            input_requests={"page": page("Connect your account", PAGE)}, request_state="page"
        )
    effect("ask_page")
    return f"page: {told(answers)}"


@server.tool()
def ask_forever(ctx: Context) -> str | t.InputRequiredResult:
    """Never has enough."""
    state = str(int(ctx.request_state or "0") + 1)
    return t.InputRequiredResult(
        input_requests={"who": form(f"Who, for the {state}. time?", WHO)}, request_state=state
    )


@server.tool()
def ask_later(ctx: Context) -> str | t.InputRequiredResult:
    """Asks nothing: only wants to be called again, twice."""
    count = int(ctx.request_state or "0")
    if count < 2:
        return t.InputRequiredResult(request_state=str(count + 1))
    return f"called {count + 1} times"


@server.tool()
def task_work(what: str = "it", seconds: float = 1) -> str:
    """Works for some seconds, as a task."""
    raise AssertionError(f"{what} {seconds} is run by the extension")


@server.tool()
def task_ask(what: str = "it", questions: int = 1) -> str:
    """A task that waits for answers."""
    raise AssertionError(f"{what} {questions} is run by the extension")


@server.tool()
def task_fail(what: str = "it", seconds: float = 0) -> str:
    """A task that fails."""
    raise AssertionError(f"{what} {seconds} is run by the extension")


@server.tool()
def task_expire(what: str = "it", ttl_ms: int = 300) -> str:
    """A task that is forgotten soon."""
    raise AssertionError(f"{what} {ttl_ms} is run by the extension")


class Handshaking:
    """The HTTP server as it was before 2026-07-28: it does not know that version."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers") or ())
        if headers.get(b"mcp-protocol-version", b"") < b"2026":
            await self.app(scope, receive, send)
            return
        error = {"code": -32600, "message": "Bad Request: Unsupported protocol version"}
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
        start = {
            "type": "http.response.start",
            "status": 400,
            "headers": [(b"content-type", b"application/json")],
        }
        await send(start)
        await send({"type": "http.response.body", "body": body})


async def serve_stdio_legacy() -> None:
    lowlevel = server._lowlevel_server
    async with stdio_server() as (read, write), lowlevel.lifespan(lowlevel) as state:
        await serve_loop(lowlevel, read, write, lifespan_state=state)


def main(arguments: list[str]) -> None:
    legacy = "--legacy" in arguments
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / "pid").write_text(str(os.getpid()))
    print("the fake server starts", file=sys.stderr, flush=True)
    for name in filter(None, os.environ.get("FAKE_MCP_HIDE", "").split(",")):
        server.remove_tool(name)
    match [one for one in arguments if one != "--legacy"]:
        case ["http", port]:
            app: Any = server.streamable_http_app()
            if legacy:
                app = Handshaking(app)
            uvicorn.run(
                app,
                host="127.0.0.1",
                port=int(port),
                log_level="warning",
                timeout_graceful_shutdown=1,
            )
        case ["stdio"]:
            if legacy:
                anyio.run(serve_stdio_legacy)
            else:
                server.run("stdio")
        case _:
            sys.exit("python -m tests.fakes.mcp.server (http PORT | stdio) [--legacy]")


if __name__ == "__main__":
    main(sys.argv[1:])
