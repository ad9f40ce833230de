"""An MCP server that deploys: how a server asks people, and how it runs work that takes long.

`python -m examples.deploy_server --port 8900 --state DIR` serves http://127.0.0.1:8900/mcp, and
`--stdio` serves one client. A `deploy` has three parts:

1. It asks where and why: the call ends with a form, and the client repeats it with the answer.
2. For production it asks again, this time for a visit to a page.
3. It answers with a task (server_tasks.py), which asks once more when half of the hosts are done.

Between the rounds the server keeps nothing: what it knows travels as the request state, sealed by
the SDK. What has to survive a restart is in DIR: `key` (which seals), `tasks`, `silences.json`, and
`effects.log`, one line for each rollout that completed.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import secrets
import tempfile
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlencode

import mcp.types as t
from jsonschema import Draft202012Validator
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, RequestStateSecurity, require_client_extension
from pydantic import Field

from examples.server_tasks import LIFE, TASKS, Stopped, Task, Tasks

Service = Literal["api", "checkout", "search"]
Version = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$", examples=["v2"])]
Minutes = Annotated[int, Field(ge=1, le=1440)]

CHANGES = "https://change.example.com/requests/new"
REFUSED = "The last answer did not fit the form. "


def choice(title: str, **choices: str) -> dict[str, Any]:
    named = [{"const": value, "title": words} for value, words in choices.items()]
    return {"type": "string", "title": title, "oneOf": named}


PLAN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "environment": choice(
            "Environment", staging="Staging", production="Production (needs a change request)"
        ),
        "reason": {"type": "string", "title": "Reason", "minLength": 3, "maxLength": 200},
        "notify": {"type": "boolean", "title": "Tell the release channel", "default": True},
    },
    "required": ["environment", "reason"],
}
HALFWAY: dict[str, Any] = {
    "type": "object",
    "properties": {"decision": choice("Decision", go_on="Go on", roll_back="Roll back")},
    "required": ["decision"],
}


@dataclass(frozen=True)
class Running:
    """The versions of one service. `silent_until` is in seconds since 1970."""

    service: str
    staging: str
    production: str
    silent_until: float | None


@dataclass(frozen=True)
class Rollout:
    """What became of a deploy: the structured content of its result."""

    outcome: Literal["not_started", "started", "completed", "rolled_back"]
    service: str
    version: str
    environment: str | None = None


def form(words: str, schema: dict[str, Any]) -> t.ElicitRequest:
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=words, requested_schema=schema))


def ask(key: str, request: t.ElicitRequest, state: dict[str, Any]) -> t.InputRequiredResult:
    return t.InputRequiredResult(input_requests={key: request}, request_state=json.dumps(state))


def fits(content: dict[str, Any] | None, schema: dict[str, Any]) -> bool:
    """Clients should check the answers of people; a server that acts on them does."""
    return Draft202012Validator(schema).is_valid(content or {})


def said(words: str, rollout: Rollout, meta: dict[str, Any] | None = None) -> t.CallToolResult:
    content: list[t.ContentBlock] = [t.TextContent(text=words)]
    return t.CallToolResult(content=content, structured_content=asdict(rollout), _meta=meta)


def require_elicitation(ctx: Context, mode: Literal["form", "url"]) -> None:
    """Raises -32021 for a client that cannot ask in that way: it must not be sent such a question.

    A client that declares no mode at all means forms (specification, elicitation capability)."""
    capabilities = ctx.client_capabilities
    declared = capabilities.elicitation if capabilities else None
    match mode:
        case "form":
            able = declared and (declared.form is not None or declared.url is None)
        case "url":
            able = declared and declared.url is not None
    if not able:
        raise MCPError(
            code=t.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message=f"Deploying asks a question in {mode} mode, which the client cannot show",
            data={"requiredCapabilities": {"elicitation": {mode: {}}}},
        )


class Deploys:
    """The tools. `step` is the time, in seconds, in which a tenth of the hosts is served."""

    def __init__(self, directory: Path, step: float) -> None:
        self.log = directory / "effects.log"
        self.silences = directory / "silences.json"
        self.step = step
        self.tasks = Tasks(directory / "tasks", self.roll_out, poll_ms=max(50, int(step * 1000)))

    async def deployments(self) -> list[Running]:
        """Tells which version of each service runs where, and until when its alerts are silent."""
        versions = {(one["service"], one["environment"]): one["version"] for one in self.effects()}
        silent = self.silent()
        return [
            Running(
                service,
                versions.get((service, "staging"), "v1"),
                versions.get((service, "production"), "v1"),
                silent.get(service),
            )
            for service in get_args(Service)
        ]

    async def silence(self, service: Service, minutes: Minutes) -> str:
        """Silences the alerts of a service from now on. Doing it twice is as good as once."""
        until = time.time() + 60 * minutes
        self.silences.write_text(json.dumps(self.silent() | {service: until}))
        return f"Alerts of {service} are silent for {minutes} minutes."

    async def deploy(
        self, service: Service, version: Version, ctx: Context
    ) -> Annotated[t.CallToolResult, Rollout] | t.InputRequiredResult:
        """Rolls a version of a service out. People are asked where and why, for production also
        for a change request, and once more when half of the hosts are done."""
        require_client_extension(ctx.request_context, TASKS)
        require_elicitation(ctx, "form")
        # The id is drawn before the first question: the same round sent twice is one rollout.
        state = json.loads(ctx.request_state or "{}") or {"id": secrets.token_urlsafe(16)}
        answers = ctx.input_responses or {}
        if "plan" not in state:
            message = f"Deploy {service} {version}: where and why?"
            answer = answers.get("plan")
            if not isinstance(answer, t.ElicitResult):
                return ask("plan", form(message, PLAN), state)
            if answer.action != "accept":
                return self.not_started(service, version, "the form was not filled in")
            if not fits(answer.content, PLAN):
                return ask("plan", form(REFUSED + message, PLAN), state)
            given = {"notify": PLAN["properties"]["notify"]["default"], **(answer.content or {})}
            state["plan"] = {name: given[name] for name in PLAN["properties"]}
        if state["plan"]["environment"] == "production":
            answer = answers.get("change")
            if not isinstance(answer, t.ElicitResult):
                require_elicitation(ctx, "url")
                message = f"A change request for {service} {version} in production is needed."
                url = f"{CHANGES}?{urlencode({'service': service, 'version': version})}"
                page = t.ElicitRequest(params=t.ElicitRequestURLParams(message=message, url=url))
                return ask("change", page, state)
            if answer.action != "accept":
                return self.not_started(service, version, "the change request was not filed")
            # `accept` says only that somebody wanted to open the page. Where the page is our own
            # we would now look what was done on it, and ask again until something is.
        plan = {"service": service, "version": version, "percent": 0, **state["plan"]}
        begun = Rollout("started", service, version, plan["environment"])
        return said("The rollout began.", begun, meta=self.tasks.start(state["id"], plan))

    def not_started(self, service: str, version: str, why: str) -> t.CallToolResult:
        words = f"{service} {version} was not deployed: {why}."
        return said(words, Rollout("not_started", service, version))

    async def roll_out(self, task: Task) -> t.CallToolResult:
        """The work of a task; `task.data` is the plan and how much of it is done, in percent.

        It may begin in the middle: the server was killed, and the plan is what was kept last."""
        plan = task.data
        service, version, environment = plan["service"], plan["version"], plan["environment"]
        back = f"every host of {environment} runs the old version again"
        try:
            while plan["percent"] < 100:
                if plan["percent"] == 50 and not await self.go_on(task, f"{service} {version}"):
                    task.report(f"Rolled back: {back}")
                    words = f"{service} {version} was rolled back: {back}."
                    return said(words, Rollout("rolled_back", service, version, environment))
                await task.sleep(self.step)
                percent = plan["percent"] + 10
                task.report(f"{percent} % of hosts run {version}", percent=percent)
        except Stopped:
            task.report(f"Cancelled at {plan['percent']} %: {back}")
            raise
        if all(one["task"] != task.id for one in self.effects()):  # not killed right after it
            with self.log.open("a") as log:
                log.write(f"{json.dumps({'task': task.id, **plan})}\n")
        words = f"{service} {version} runs on all hosts of {environment}."
        return said(words, Rollout("completed", service, version, environment))

    async def go_on(self, task: Task, what: str) -> bool:
        """Asks until the answer is one of the choices, each time with a key of its own."""
        number, message = 1, f"Half of the hosts run {what}: go on?"
        while True:
            answer = await task.ask(f"halfway-{number}", form(message, HALFWAY))
            if answer.action != "accept":
                return False
            if fits(answer.content, HALFWAY):
                return (answer.content or {})["decision"] == "go_on"
            number, message = number + 1, f"{REFUSED}Half of the hosts run {what}: go on?"

    def effects(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines]

    def silent(self) -> dict[str, float]:
        found = json.loads(self.silences.read_text()) if self.silences.exists() else {}
        return {service: until for service, until in found.items() if until > time.time()}


def state_key(file: Path) -> bytes:
    """The key that seals request states. Kept, so that a question outlives a restart."""
    if not file.exists():
        file.touch(mode=0o600)
        file.write_bytes(secrets.token_bytes(32))
    return file.read_bytes()


def build(directory: Path, deploys: Deploys) -> MCPServer:
    server = MCPServer(
        "deploys",
        version="1.0.0",
        instructions="Deploys services. Look at `deployments` before you deploy.",
        log_level="WARNING",
        extensions=[deploys.tasks],
        request_state_security=RequestStateSecurity(keys=[state_key(directory / "key")], ttl=LIFE),
    )
    looks = t.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    again = t.ToolAnnotations(destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    changes = t.ToolAnnotations(destructive_hint=True, idempotent_hint=False, open_world_hint=False)
    server.add_tool(deploys.deployments, title="What runs where", annotations=looks)
    server.add_tool(deploys.silence, title="Silence alerts", annotations=again)
    server.add_tool(deploys.deploy, title="Deploy a version", annotations=changes)
    return server


async def serve(directory: Path, step: float, port: int | None) -> None:
    deploys = Deploys(directory, step)
    server = build(directory, deploys)
    async with deploys.tasks.running():
        if port is None:
            await server.run_stdio_async()
        else:
            await server.run_streamable_http_async(host="127.0.0.1", port=port)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.deploy_server")
    transport = parser.add_mutually_exclusive_group(required=True)
    transport.add_argument("--port", type=int, help="serve HTTP at 127.0.0.1:PORT/mcp")
    transport.add_argument("--stdio", action="store_true", help="serve one client over stdio")
    parser.add_argument("--state", type=Path, help="directory to keep; without it nothing is kept")
    parser.add_argument("--step", type=float, default=2.0, help="seconds for a tenth of the hosts")
    options = parser.parse_args()
    place = nullcontext(options.state) if options.state else tempfile.TemporaryDirectory()
    with place as name:
        directory = Path(name)
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "lock").open("w") as lock:
            try:  # two servers of one directory would both run its tasks
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                parser.error(f"another server uses {directory}: stop it or use another directory")
            asyncio.run(serve(directory, options.step, options.port))


if __name__ == "__main__":
    main()
