"""The example server over real HTTP and stdio, asked by a plain client of the SDK."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import mcp.types as t
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import ClaimContext, ClientExtension, ClientRequestContext, ResultClaim
from mcp.server.mcpserver import Context

from examples.deploy_server import Deploys, build, require_elicitation
from examples.server_tasks import LIFE, Task

ROOT = Path(__file__).parents[2]
TASKS = "io.modelcontextprotocol/tasks"
PATIENCE = 15.0  # seconds; two cores that others use too
STAGING = {"environment": "staging", "reason": "a fix"}
PRODUCTION = {"environment": "production", "reason": "a fix", "notify": False}
Action = Literal["accept", "decline", "cancel"]


class TaskFields(t.Result):
    task_id: str
    status: str
    status_message: str
    ttl_ms: int
    poll_interval_ms: int


class Created(TaskFields):
    result_type: Literal["task"] = "task"


class Snapshot(TaskFields):
    result_type: str = "complete"
    input_requests: dict[str, t.ElicitRequest] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class TaskParams(t.RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(t.Request[TaskParams, str]):
    method: str
    params: TaskParams
    name_param = "taskId"


class Nameless(t.Request[TaskParams, str]):
    method: str
    params: TaskParams


class Declared(ClientExtension):
    identifier = TASKS

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self.never)]

    async def never(self, claimed: Created, ctx: ClaimContext) -> t.CallToolResult:
        raise AssertionError(f"{claimed.task_id} is polled, {ctx} is not used")


class Server:
    """The example as a process; its directory and its port stay over `restart`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def options(self, *transport: str) -> list[str]:
        own = ["--state", str(self.directory / "state"), "--step", "0.05"]
        return ["-m", "examples.deploy_server", *transport, *own]

    def start(self) -> None:
        with (self.directory / "stderr").open("ab") as log:
            command = [sys.executable, *self.options("--port", str(self.port))]
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not self.listens():
            assert self.process.poll() is None, (self.directory / "stderr").read_text()
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)

    def listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    async def restart(self) -> None:
        self.kill()
        await asyncio.to_thread(self.start)

    def effects(self, version: str) -> list[dict[str, Any]]:
        """The rollouts of a version that completed."""
        log = self.directory / "state" / "effects.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [one for one in map(json.loads, lines) if one["version"] == version]

    @asynccontextmanager
    async def client(self, mode: str = "auto", declares: bool = True) -> AsyncIterator[Deployer]:
        async with connect(self.url, mode, declares) as deployer:
            yield deployer

    @asynccontextmanager
    async def stdio(self) -> AsyncIterator[Deployer]:
        target = StdioServerParameters(
            command=sys.executable, args=self.options("--stdio"), cwd=ROOT
        )
        async with connect(target) as deployer:
            yield deployer


async def unused(
    context: ClientRequestContext, params: t.ElicitRequestParams
) -> t.ElicitResult | t.ErrorData:
    """Only declares that we can be asked; in this version of the protocol nobody calls it."""
    raise AssertionError(f"{context} {params}")


@asynccontextmanager
async def connect(
    target: Any, mode: str = "auto", declares: bool = True
) -> AsyncIterator[Deployer]:
    extensions = [Declared()] if declares else []
    async with Client(
        target, mode=mode, elicitation_callback=unused, extensions=extensions
    ) as client:
        yield Deployer(client)


class Deployer:
    """One client: calls, answers and polls, each as one request."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def deploy(self, version: str, **leg: Any) -> Any:
        return await self.client.session.call_tool(
            "deploy",
            {"service": "api", "version": version},
            allow_input_required=True,
            allow_claimed=True,
            **leg,
        )

    async def answer(
        self, version: str, asked: Any, action: Action = "accept", content: Any = None
    ) -> Any:
        """Calls again with the answer to the one question that was asked."""
        assert isinstance(asked, t.InputRequiredResult)
        assert asked.input_requests is not None
        (key,) = asked.input_requests
        answers = {key: t.ElicitResult(action=action, content=content)}
        return await self.deploy(
            version, input_responses=answers, request_state=asked.request_state
        )

    async def start(self, version: str) -> str:
        """The id of a rollout to staging."""
        created = await self.answer(version, await self.deploy(version), content=STAGING)
        assert isinstance(created, Created)
        return created.task_id

    async def poll(self, task_id: str) -> Snapshot:
        request = TaskRequest(method="tasks/get", params=TaskParams(task_id=task_id))
        return await self.client.session.send_request(request, Snapshot)

    async def until(self, task_id: str, *statuses: str) -> Snapshot:
        async with asyncio.timeout(PATIENCE):
            while True:
                snapshot = await self.poll(task_id)
                if snapshot.status in statuses:
                    return snapshot
                await asyncio.sleep(0.02)

    async def update(self, task_id: str, answers: dict[str, Any]) -> None:
        params = TaskParams(task_id=task_id, input_responses=answers)
        request = TaskRequest(method="tasks/update", params=params)
        await self.client.session.send_request(request, t.EmptyResult)

    async def decide(self, task_id: str, decision: str, action: Action = "accept") -> Snapshot:
        """Answers the question at half of the hosts, and waits for the end."""
        key = open_key(await self.until(task_id, "input_required"))
        content = {"decision": decision} if action == "accept" else None
        await self.update(task_id, {key: {"action": action, "content": content}})
        return await self.until(task_id, "completed")

    async def cancel(self, task_id: str) -> None:
        request = TaskRequest(method="tasks/cancel", params=TaskParams(task_id=task_id))
        await self.client.session.send_request(request, t.EmptyResult)


def open_key(snapshot: Snapshot) -> str:
    assert snapshot.input_requests is not None
    (key,) = snapshot.input_requests
    return key


def asked(result: Any) -> Any:
    """The parameters of the one question in a result."""
    assert isinstance(result, t.InputRequiredResult)
    assert result.input_requests is not None
    (request,) = result.input_requests.values()
    return request.params


def outcome(result: Any) -> tuple[str, str]:
    """What became of it, for machines and in words."""
    if isinstance(result, Snapshot):
        result = t.CallToolResult.model_validate(result.result)
    assert result.is_error is False
    return result.structured_content["outcome"], result.content[0].text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("deploys"))
    one.start()
    yield one
    one.kill()


async def test_form_page_task_question_and_result(server: Server) -> None:
    async with server.client() as client:
        form = await client.deploy("v2")
        environment = asked(form).requested_schema["properties"]["environment"]
        assert [one["const"] for one in environment["oneOf"]] == ["staging", "production"]
        page = await client.answer("v2", form, content=PRODUCTION)
        assert asked(page).url == "https://change.example.com/requests/new?service=api&version=v2"
        created = await client.answer("v2", page)
        assert isinstance(created, Created)
        assert (created.status, created.ttl_ms, created.poll_interval_ms) == (
            "working",
            86_400_000,
            50,
        )
        half = await client.until(created.task_id, "input_required")
        assert half.status_message == "50 % of hosts run v2"
        done = await client.decide(created.task_id, "go_on")
        assert outcome(done) == ("completed", "api v2 runs on all hosts of production.")
        assert done.status_message == "100 % of hosts run v2"
        assert [one["notify"] for one in server.effects("v2")] == [False]
        listed = await client.client.session.call_tool("deployments", {})
        assert listed.structured_content is not None
        assert listed.structured_content["result"][0]["production"] == "v2"


async def test_staging_needs_no_page_and_a_default_is_filled_in(server: Server) -> None:
    async with server.client() as client:
        await client.decide(await client.start("v3"), "go_on")
        assert [one["notify"] for one in server.effects("v3")] == [True]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_refusing_the_form_or_the_page_ends_in_words(server: Server, action: Action) -> None:
    async with server.client() as client:
        form = await client.deploy("v4")
        refused = await client.answer("v4", form, action)
        assert outcome(refused) == (
            "not_started",
            "api v4 was not deployed: the form was not filled in.",
        )
        page = await client.answer("v4", form, content=PRODUCTION)
        refused = await client.answer("v4", page, action)
        assert outcome(refused) == (
            "not_started",
            "api v4 was not deployed: the change request was not filed.",
        )
    assert server.effects("v4") == []


@pytest.mark.parametrize(
    ("action", "decision"), [("accept", "roll_back"), ("decline", ""), ("cancel", "")]
)
async def test_half_of_the_hosts_roll_back_unless_somebody_goes_on(
    server: Server, action: Action, decision: str
) -> None:
    async with server.client() as client:
        done = await client.decide(await client.start("v5"), decision, action)
        assert outcome(done)[0] == "rolled_back"
    assert server.effects("v5") == []


async def test_a_task_is_cancelled_while_it_asks_and_stays_so(server: Server) -> None:
    async with server.client() as client:
        task = await client.start("v6")
        key = open_key(await client.until(task, "input_required"))
        await client.cancel(task)
        ended = await client.until(task, "cancelled")
        assert (
            ended.status_message
            == "Cancelled at 50 %: every host of staging runs the old version again"
        )
        await client.update(task, {key: {"action": "accept", "content": {"decision": "go_on"}}})
        assert (await client.poll(task)).status == "cancelled"
    assert server.effects("v6") == []


async def test_a_task_is_cancelled_while_it_works(server: Server) -> None:
    async with server.client() as client:
        task = await client.start("v7")
        await client.cancel(task)
        ended = await client.until(task, "cancelled", "input_required")
        assert ended.status == "cancelled"
    assert server.effects("v7") == []


async def test_answers_that_do_not_fit_are_asked_for_again_under_a_new_key(server: Server) -> None:
    async with server.client() as client:
        form = await client.deploy("v8")
        again = await client.answer("v8", form, content={"environment": "mars", "reason": "why?"})
        assert asked(again).message.startswith("The last answer did not fit the form.")
        created = await client.answer("v8", again, content=STAGING)
        first = open_key(await client.until(created.task_id, "input_required"))
        nonsense = {"action": "accept", "content": {"decision": "perhaps"}}
        await client.update(created.task_id, {first: nonsense})
        assert open_key(await client.until(created.task_id, "input_required")) != first
        assert outcome(await client.decide(created.task_id, "go_on"))[0] == "completed"


async def test_unknown_keys_are_ignored_and_no_answer_is_refused(server: Server) -> None:
    async with server.client() as client:
        task = await client.start("v9")
        key = open_key(await client.until(task, "input_required"))
        await client.update(task, {})
        await client.update(task, {"other": {"action": "accept"}})
        with pytest.raises(MCPError, match="Not the answer") as refused:
            await client.update(task, {key: {"action": "perhaps"}})
        assert refused.value.code == t.INVALID_PARAMS
        assert open_key(await client.poll(task)) == key
        await client.cancel(task)


async def test_a_round_that_arrives_twice_is_one_rollout(server: Server) -> None:
    async with server.client() as client:
        form = await client.deploy("v10")
        first = await client.answer("v10", form, content=STAGING)
        second = await client.answer("v10", form, content=STAGING)
        assert first.task_id == second.task_id
        await client.decide(first.task_id, "go_on")
    assert len(server.effects("v10")) == 1


async def test_what_a_client_cannot_do_is_said_before_anybody_is_asked(server: Server) -> None:
    async with server.client() as client:
        task = await client.start("v11")
    async with server.client(declares=False) as client:
        with pytest.raises(MCPError) as deploying:
            await client.deploy("v11")
        with pytest.raises(MCPError) as polling:
            await client.poll(task)
    async with server.client(mode="legacy") as client:
        with pytest.raises(MCPError) as legacy:
            await client.deploy("v11")
    async with Client(server.url, extensions=[Declared()]) as silent:
        with pytest.raises(MCPError) as formless:
            await Deployer(silent).deploy("v11")
    codes = [one.value.code for one in (deploying, polling, legacy, formless)]
    assert codes == [t.MISSING_REQUIRED_CLIENT_CAPABILITY] * 4
    assert formless.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}


def test_a_client_that_shows_only_forms_is_sent_no_page() -> None:
    capabilities = t.ClientCapabilities(elicitation=t.ElicitationCapability())
    ctx = cast(Context, SimpleNamespace(client_capabilities=capabilities))
    require_elicitation(ctx, "form")
    with pytest.raises(MCPError) as refused:
        require_elicitation(ctx, "url")
    assert refused.value.code == t.MISSING_REQUIRED_CLIENT_CAPABILITY


async def test_a_task_is_named_in_the_header_and_an_unknown_one_is_refused(server: Server) -> None:
    async with server.client() as client:
        with pytest.raises(MCPError) as unknown:
            await client.poll("../key")
        nameless = Nameless(method="tasks/get", params=TaskParams(task_id="x"))
        with pytest.raises(MCPError) as unnamed:
            await client.client.session.send_request(nameless, Snapshot)
    assert (unknown.value.code, unnamed.value.code) == (t.INVALID_PARAMS, t.HEADER_MISMATCH)


async def test_tools_say_what_they_do(server: Server) -> None:
    async with server.client() as client:
        capabilities = client.client.server_capabilities
        assert capabilities is not None
        assert capabilities.extensions == {TASKS: {}}
        tools = {one.name: one.annotations for one in (await client.client.list_tools()).tools}
        for _ in range(2):
            silenced = await client.client.session.call_tool(
                "silence", {"service": "search", "minutes": 5}
            )
        listed = await client.client.session.call_tool("deployments", {})
    assert set(tools) == {"deployments", "silence", "deploy"}
    looks, again, changes = tools["deployments"], tools["silence"], tools["deploy"]
    assert looks is not None
    assert looks.read_only_hint
    assert again is not None
    assert again.idempotent_hint
    assert changes is not None
    assert changes.destructive_hint
    assert silenced.is_error is False
    assert listed.structured_content is not None
    assert listed.structured_content["result"][2]["silent_until"] > time.time()


async def test_a_question_outlives_kill_9_of_the_server(server: Server) -> None:
    async with server.client() as client:
        form = await client.deploy("v12")
    await server.restart()
    async with server.client() as client:
        created = await client.answer("v12", form, content=STAGING)
        await client.decide(created.task_id, "go_on")
    assert len(server.effects("v12")) == 1


async def test_a_task_outlives_kill_9_while_it_works_and_while_it_asks(server: Server) -> None:
    async with server.client() as client:
        task = await client.start("v13")
        assert (await client.poll(task)).status == "working"
    await server.restart()
    async with server.client() as client:
        key = open_key(await client.until(task, "input_required"))
    await server.restart()
    async with server.client() as client:
        assert open_key(await client.until(task, "input_required")) == key
        assert outcome(await client.decide(task, "go_on"))[0] == "completed"
    assert len(server.effects("v13")) == 1


async def test_over_stdio_a_task_goes_on_in_the_next_process(tmp_path: Path) -> None:
    local = Server(tmp_path)
    async with local.stdio() as client:
        task = await client.start("v2")
    async with local.stdio() as client:
        done = await client.decide(task, "go_on")
    assert outcome(done) == ("completed", "api v2 runs on all hosts of staging.")
    assert len(local.effects("v2")) == 1


async def test_a_rollout_killed_after_its_effect_has_it_once(tmp_path: Path) -> None:
    deploys = Deploys(tmp_path, step=0)
    plan = {"service": "api", "version": "v2", "environment": "staging", "percent": 100}
    for _ in range(2):
        await deploys.roll_out(Task(tmp_path / "one.json", dict(plan)))
    assert len(deploys.effects()) == 1


async def test_a_task_is_forgotten_when_its_time_is_over(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    Task(tmp_path / "tasks" / "old.json", {}, created=time.time() - LIFE).save()
    deploys = Deploys(tmp_path, step=0)
    async with connect(build(tmp_path, deploys)) as client:
        with pytest.raises(MCPError, match="Unknown or expired task") as refused:
            await client.poll("old")
    assert refused.value.code == t.INVALID_PARAMS


async def test_work_that_breaks_is_a_failed_task_that_tells_no_details(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    Task(tmp_path / "tasks" / "broken.json", {}).save()
    deploys = Deploys(tmp_path, step=0)
    async with deploys.tasks.running(), connect(build(tmp_path, deploys)) as client:
        failed = await client.until("broken", "failed")
    assert failed.error == {"code": t.INTERNAL_ERROR, "message": "The work failed; see the log"}


def test_two_servers_do_not_share_a_directory(server: Server) -> None:
    second = subprocess.run(
        [sys.executable, *server.options("--stdio")], cwd=ROOT, capture_output=True, text=True
    )
    assert second.returncode == 2
    assert "another server uses" in second.stderr
