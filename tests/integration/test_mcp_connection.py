"""Connections to real MCP servers, over HTTP and stdio, of 2026-07-28 and of before."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp.types as t
import pytest
import structlog

from bot.clock import WallClock
from bot.mcp.connection import (
    BadAnswer,
    Connection,
    ConnectionFailed,
    Lost,
    NotSent,
    Rejected,
)
from bot.mcp.extension import TASKS, CreatedTask
from bot.mcp.settings import server_settings
from tests.fakes.mcp.process import (
    ROOT,
    HttpServer,
    effects,
    environment,
    free_port,
    seen,
    stdio_command,
)

WAYS = ("http", "http-legacy", "stdio", "stdio-legacy")
YES = t.ElicitResult(action="accept", content={"env": "staging"})


Start = Callable[..., Awaitable[HttpServer]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mcp")


@pytest.fixture(scope="module")
def shared(directory: Path) -> Iterator[dict[bool, HttpServer]]:
    """The servers over HTTP that the tests share, since starting one takes a second; of before
    2026-07-28, or not."""
    servers = {legacy: HttpServer(directory, legacy=legacy) for legacy in (False, True)}
    yield servers
    for one in servers.values():
        one.kill()


@pytest.fixture
def home(directory: Path) -> Path:
    """Where every server of a test writes down what it saw and did; empty when it begins."""
    for name in ("effects", "seen", "died", "visited"):
        (directory / name).unlink(missing_ok=True)
    return directory


@pytest.fixture
def server_at(home: Path, shared: dict[bool, HttpServer]) -> Iterator[Start]:
    """Gives a server over HTTP that is up; one of the test's own with `env`."""
    own: list[HttpServer] = []

    async def start(*, legacy: bool = False, env: dict[str, str] | None = None) -> HttpServer:
        server = shared[legacy]
        if env is not None:
            server = HttpServer(home, legacy=legacy, env=env)
            own.append(server)
        if not server.running:
            await server.start()
        return server

    yield start
    for one in own:
        one.kill()


@asynccontextmanager
async def connected(section: dict[str, Any], **options: Any) -> AsyncIterator[Connection]:
    before = asyncio.all_tasks()
    connection = Connection("lab", server_settings("lab", section), WallClock(), **options)
    await connection.start()
    try:
        yield connection
    finally:
        await connection.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() <= before  # nothing is left running


Way = Callable[..., AbstractAsyncContextManager[Connection]]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def reach(way: str, home: Path, server_at: Start) -> Way:
    """A connection to a server, by each way there is."""

    @asynccontextmanager
    async def reach(**options: Any) -> AsyncIterator[Connection]:
        legacy = way.endswith("legacy")
        callback = options.pop("on_list_changed", lambda: None)
        if way.startswith("http"):
            server = await server_at(legacy=legacy)
            section = {"url": server.url, **options}
        else:
            section = stdio(home, legacy=legacy, **options)
        async with connected(section, on_list_changed=callback) as connection:
            yield connection

    return reach


def stdio(home: Path, *, legacy: bool = False, **options: Any) -> dict[str, Any]:
    return {
        "command": stdio_command(legacy=legacy),
        "cwd": str(ROOT),
        "env": environment(home),
        **options,
    }


def words(result: Any) -> str:
    assert isinstance(result, t.CallToolResult)
    return " ".join(one.text for one in result.content if isinstance(one, t.TextContent))


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not true():  # noqa: ASYNC110 -- it waits for another process
            await asyncio.sleep(0.02)


# Every way


async def test_tools_are_listed_and_called(reach: Way, way: str) -> None:
    async with reach() as connection:
        assert connection.era == "unknown"
        names = {one.name for one in await connection.list_tools()}

        result = await connection.call("add", {"a": 1, "b": 2})

        assert {"add", "counter", "task_work"} <= names
        assert words(result) == "3"
        assert connection.era == ("legacy" if way.endswith("legacy") else "modern")
        assert connection.health.startswith("lab is connected (202")


async def test_calls_run_beside_each_other(reach: Way) -> None:
    async with reach() as connection:
        calls = [connection.call("add", {"a": number, "b": 1}) for number in range(12)]

        results = await asyncio.gather(*calls)

        assert [words(one) for one in results] == [str(number + 1) for number in range(12)]


async def test_progress_is_heard(reach: Way) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with reach() as connection:
        await connection.call("slow", {"n": 2}, on_progress=listen)

    assert heard == [(1, 2, "step 1"), (2, 2, "step 2")]


async def test_an_error_of_the_protocol_is_a_rejection(reach: Way) -> None:
    async with reach() as connection:
        with pytest.raises(Rejected) as caught:
            await connection.call("refuse", {})

        assert (caught.value.code, caught.value.message) == (-32010, "not today")
        assert caught.value.data == {"until": "monday"}
        assert str(caught.value) == "lab refused: not today."
        assert words(await connection.call("add", {"a": 1, "b": 1})) == "2"


@pytest.mark.parametrize("tool", ["bad_structured", "malformed"])
async def test_an_answer_of_no_use_says_that_the_tool_ran(
    reach: Way, home: Path, tool: str
) -> None:
    async with reach() as connection:
        with pytest.raises(BadAnswer, match=r"lab answered, but the answer is of no use: .+\."):
            await connection.call(tool, {})

    assert effects(home) == [tool]


async def test_an_answer_over_the_limit_is_of_no_use(reach: Way, home: Path) -> None:
    async with reach() as connection:
        with pytest.raises(BadAnswer, match="over 8388608 bytes"):
            await connection.call("big", {"n": 9_000_000})

        assert effects(home) == ["big"]
        assert words(await connection.call("add", {"a": 1, "b": 1})) == "2"


async def test_an_answer_of_more_than_a_mebibyte_arrives(reach: Way) -> None:
    async with reach() as connection:
        assert len(words(await connection.call("big", {"n": 2_000_000}))) == 2_000_000


async def test_a_server_that_dies_in_a_call_leaves_it_lost_and_not_repeated(
    reach: Way, home: Path
) -> None:
    async with reach() as connection:
        with pytest.raises(Lost, match="it may or may not have happened"):
            await connection.call("die", {"note": "died"})

        assert effects(home) == ["died"]


async def test_a_call_that_takes_too_long_is_lost(reach: Way, home: Path) -> None:
    async with reach(call_timeout=0.3) as connection:
        with pytest.raises(Lost):
            await connection.call("slow", {"n": 100})

        assert words(await connection.call("add", {"a": 1, "b": 1})) == "2"
        assert effects(home) == []


async def test_a_caller_may_be_cancelled(reach: Way, home: Path) -> None:
    async with reach() as connection:
        await connection.list_tools()
        call = asyncio.create_task(connection.call("slow", {"n": 40}))
        await eventually(lambda: len(seen(home, "tools/call")) == 1)

        call.cancel()

        with pytest.raises(asyncio.CancelledError):
            await call
        assert words(await connection.call("add", {"a": 1, "b": 1})) == "2"
        assert effects(home) == []


async def test_what_is_under_way_when_it_stops_is_lost(reach: Way, home: Path) -> None:
    async with reach() as connection:
        await connection.list_tools()
        call = asyncio.create_task(connection.call("slow", {"n": 200}))
        await eventually(lambda: len(seen(home, "tools/call")) == 1)

        await connection.stop()

        with pytest.raises(Lost):
            await call
        with pytest.raises(NotSent):
            await connection.call("add", {"a": 1, "b": 1})


async def test_a_tool_that_is_not_offered_is_not_asked_for(reach: Way, home: Path) -> None:
    async with reach() as connection:
        with pytest.raises(NotSent, match="lab offers no tool named nope"):
            await connection.call("nope", {})

    assert seen(home, "tools/call") == []


async def test_no_two_requests_have_the_same_id(reach: Way, home: Path) -> None:
    async with reach() as connection:
        for _ in range(4):
            await connection.call("counter", {})

    ids = [one["id"] for one in seen(home, "tools/call")]
    assert len(set(ids)) == 4
    assert min(ids) > 1000  # by a chance of one in a thousand million, 2**40 being the range


async def test_a_tool_is_listed_once_and_not_with_each_call(reach: Way, home: Path) -> None:
    async with reach() as connection:
        for _ in range(3):
            await connection.call("structured", {"city": "Ghent"})

    assert len(seen(home, "tools/list")) == 1


async def test_people_can_be_asked_unless_settings_say_none(reach: Way, home: Path) -> None:
    async with reach(questions="none") as connection:
        await connection.call("add", {"a": 1, "b": 2})

    assert "elicitation" not in capabilities(home)


@pytest.mark.row("T19")
async def test_tasks_are_declared_to_modern_servers_only(reach: Way, home: Path, way: str) -> None:
    async with reach() as connection:
        await connection.call("add", {"a": 1, "b": 2})

    declared = capabilities(home)
    assert (TASKS in declared.get("extensions", {})) == (not way.endswith("legacy"))
    assert set(declared["elicitation"]) == {"form", "url"}


def capabilities(home: Path) -> dict[str, Any]:
    """What we said of ourselves: in the handshake, or with each request."""
    handshakes = seen(home, "initialize")
    if handshakes:
        found = handshakes[0]["params"]["capabilities"]
    else:
        call = seen(home, "tools/call")[0]
        found = call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert isinstance(found, dict)
    return found


# Restarts


async def test_a_modern_server_over_http_may_restart_between_calls(
    server_at: Start, home: Path
) -> None:
    server = await server_at()
    async with connected({"url": server.url}) as connection:
        await connection.call("counter", {"note": "one"})
        await server.restart()

        await connection.call("counter", {"note": "two"})

    assert effects(home) == ["one", "two"]
    assert len(seen(home, "server/discover")) == 1


async def test_a_legacy_session_that_is_forgotten_is_made_anew(
    server_at: Start, home: Path
) -> None:
    server = await server_at(legacy=True)
    async with connected({"url": server.url}) as connection:
        await connection.call("counter", {"note": "one"})
        await server.restart()

        with pytest.raises(NotSent, match="has forgotten the session"):
            await connection.call("counter", {"note": "two"})
        await connection.call("counter", {"note": "two"})

    assert effects(home) == ["one", "two"]


async def test_the_list_is_asked_for_again_by_itself(server_at: Start) -> None:
    server = await server_at(legacy=True)
    async with connected({"url": server.url}) as connection:
        await connection.list_tools()
        await server.restart()

        assert await connection.list_tools()


async def test_a_server_that_is_down_is_found_when_it_is_up(server_at: Start, home: Path) -> None:
    server = await server_at()
    async with connected({"url": server.url}) as connection:
        await connection.call("counter", {"note": "one"})
        server.kill()

        with pytest.raises(NotSent, match=r"lab could not be reached: .+"):
            await connection.call("counter", {"note": "two"})
        assert "lab could not be reached" in connection.health
        assert "last answer" in connection.health
        await server.start()
        await connection.call("counter", {"note": "three"})

        assert connection.health.startswith("lab is connected")
    assert effects(home) == ["one", "three"]


async def test_a_server_that_was_down_at_the_start_is_found_later(home: Path) -> None:
    server = HttpServer(home)
    async with connected({"url": server.url}) as connection:
        with pytest.raises(NotSent):
            await connection.list_tools()
        await server.start()

        assert await connection.list_tools()
        server.kill()


async def test_a_server_that_became_an_older_one_is_met_as_such(
    server_at: Start, home: Path
) -> None:
    server = await server_at(env={})
    async with connected({"url": server.url}) as connection:
        await connection.call("counter", {"note": "one"})
        server.legacy = True
        await server.restart()

        with pytest.raises((NotSent, Rejected)):
            await connection.call("counter", {"note": "two"})
        await connection.call("counter", {"note": "three"})

        assert connection.era == "legacy"
    assert effects(home) == ["one", "three"]


@pytest.mark.parametrize("legacy", [False, True])
async def test_a_child_that_dies_while_idle_is_started_again(home: Path, legacy: bool) -> None:
    async with connected(stdio(home, legacy=legacy)) as connection:
        await connection.call("counter", {"note": "one"})
        first = (home / "pid").read_text()
        os.kill(int(first), signal.SIGKILL)
        await eventually(lambda: not connection.health.startswith("lab is connected"))

        await connection.call("counter", {"note": "two"})

        assert (home / "pid").read_text() != first
    assert effects(home) == ["one", "two"]


async def test_a_child_that_died_in_a_call_serves_the_next(home: Path) -> None:
    async with connected(stdio(home)) as connection:
        with pytest.raises(Lost):
            await connection.call("die_once", {})

        assert words(await connection.call("die_once", {})) == "alive"


# One failure is one failure


class Failing(httpx2.AsyncBaseTransport):
    """Fails the requests that hold a word, after `takes` the server has had them or before."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, word: bytes, failure: Any) -> None:
        self.inner = inner
        self.word = word
        self.failure = failure
        self.times = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.word not in await request.aread():
            return await self.inner.handle_async_request(request)
        self.times += 1
        if isinstance(self.failure, httpx2.Response):
            return self.failure
        raise self.failure

    async def aclose(self) -> None:
        await self.inner.aclose()


def failing(connection: Connection, word: str, failure: Any) -> Failing:
    guarded = connection._guarded
    assert guarded is not None
    guarded._inner = Failing(guarded._inner, word.encode(), failure)
    return guarded._inner


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (httpx2.ConnectError("refused"), NotSent),
        (httpx2.ConnectTimeout("too slow"), NotSent),
        (httpx2.ReadError("reset"), Lost),
        (httpx2.RemoteProtocolError("hung up"), Lost),
        (httpx2.Response(503), Lost),
        (httpx2.Response(202), Lost),
        (httpx2.Response(200, text="<html>"), Lost),
        (httpx2.Response(401), Rejected),
        (httpx2.Response(200, json={"jsonrpc": "2.0", "ID": 1}), BadAnswer),
    ],
    ids=repr,
)
async def test_a_request_that_fails_leaves_the_others_alone(
    server_at: Start, home: Path, legacy: bool, failure: Any, kind: type[ConnectionFailed]
) -> None:
    server = await server_at(legacy=legacy)
    async with connected({"url": server.url}) as connection:
        await connection.list_tools()
        failing(connection, "unlucky", failure)
        slow = asyncio.create_task(connection.call("slow", {"n": 10}))
        await eventually(lambda: len(seen(home, "tools/call")) == 1)

        with pytest.raises(kind):
            await connection.call("counter", {"note": "unlucky"})

        assert words(await slow) == "slow done"
        assert words(await connection.call("add", {"a": 1, "b": 1})) == "2"
        assert effects(home) == ["slow"]


async def test_only_what_does_no_harm_is_tried_twice(server_at: Start) -> None:
    server = await server_at()
    async with connected({"url": server.url}) as connection:
        await connection.list_tools()
        lists = failing(connection, "tools/list", httpx2.ReadError("reset"))
        calls = failing(connection, "read_only", httpx2.ReadError("reset"))
        polls = failing(connection, "tasks/get", httpx2.ConnectError("refused"))

        with pytest.raises(Lost):
            await connection.list_tools()
        with pytest.raises(Lost):
            await connection.call("read_only", {})
        with pytest.raises(NotSent):
            await connection.get_task("one")

        assert (lists.times, calls.times, polls.times) == (2, 1, 2)


async def test_a_hint_says_what_to_do_about_a_refused_bearer(server_at: Start) -> None:
    server = await server_at()
    async with connected({"url": server.url}) as connection:
        await connection.list_tools()
        failing(connection, "counter", httpx2.Response(403))

        with pytest.raises(
            Rejected, match=r"HTTP 403: check bearer, headers or oauth of servers.lab"
        ):
            await connection.call("counter", {})


async def test_nobody_at_the_port_is_said_in_a_sentence() -> None:
    async with connected({"url": f"http://127.0.0.1:{free_port()}/mcp"}) as connection:
        with pytest.raises(NotSent, match=r"^lab could not be reached: .+\.$"):
            await connection.call("add", {"a": 1, "b": 1})


async def test_a_program_that_is_not_there_is_said_in_a_sentence() -> None:
    async with connected({"command": ["/nowhere/at-all"]}) as connection:
        with pytest.raises(
            NotSent, match=r"^lab cannot be started: No such file .*: /nowhere/at-all\.$"
        ):
            await connection.list_tools()


async def test_a_child_that_ends_at_once_is_not_waited_for() -> None:
    async with connected({"command": ["true"]}) as connection:
        async with asyncio.timeout(5):
            with pytest.raises(NotSent):
                await connection.list_tools()


# What the other side learns


async def test_headers_and_bearer_come_from_the_environment(
    server_at: Start, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TOKEN", "tok-123")
    monkeypatch.setenv("LAB_KEY", "key-456")
    server = await server_at()
    headers = {"X-Api-Key": "env:LAB_KEY", "X-Team": "ops"}
    section = {"url": server.url, "bearer": "LAB_TOKEN", "headers": headers}
    async with connected(section) as connection:
        await connection.call("add", {"a": 1, "b": 2})

        told = f"{connection!r} {connection.settings!r} {connection.health} {vars(connection)}"
    sent = seen(home, "tools/call")[0]["headers"]
    assert sent["authorization"] == "Bearer tok-123"
    assert (sent["x-api-key"], sent["x-team"]) == ("key-456", "ops")
    assert "tok-123" not in told
    assert "key-456" not in told


async def test_a_server_cannot_have_a_secret_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_TOKEN", "tok-123")
    body = json.dumps(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no Bearer tok-123!"}}
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
        writer.write(f"HTTP/1.1 400 No\r\nConnection: close\r\n{head}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening:
        section = {"url": f"http://127.0.0.1:{port}/mcp", "bearer": "LAB_TOKEN"}
        with structlog.testing.capture_logs() as logs:
            async with connected(section) as connection:
                with pytest.raises(NotSent, match=r"no Bearer \[secret\]!") as caught:
                    await connection.list_tools()
                health = connection.health

    assert "tok-123" not in f"{caught.value} {health} {logs}"


async def test_a_child_gets_a_small_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    monkeypatch.setenv("LAB_KEY", "key-456")
    env = {**environment(home), "API_KEY": "env:LAB_KEY"}
    async with connected(stdio(home, env=env)) as connection:
        names = set(words(await connection.call("variables", {})).split())

    assert {"API_KEY", "FAKE_MCP_DIR", "PATH"} <= names
    assert not {"SLACK_BOT_TOKEN", "LAB_KEY"} & names


async def test_what_a_child_says_on_standard_error_is_logged(home: Path) -> None:
    with structlog.testing.capture_logs() as logs:
        async with connected(stdio(home)) as connection:
            await connection.list_tools()

    said = [one["line"] for one in logs if one["event"] == "mcp server says"]
    assert "the fake server starts" in said


# Lists


async def test_a_list_is_read_to_its_last_page(server_at: Start, home: Path) -> None:
    server = await server_at(env={"FAKE_MCP_PAGE": "7"})
    async with connected({"url": server.url}) as connection:
        tools = await connection.list_tools()

        assert len(seen(home, "tools/list")) == -(-len(tools) // 7)
        assert len({one.name for one in tools}) == len(tools) > 21


@pytest.mark.parametrize("way", ["http-legacy", "stdio", "stdio-legacy"], indirect=True)
async def test_a_standing_connection_hears_that_the_list_changed(reach: Way) -> None:
    changed = asyncio.Event()
    async with reach(on_list_changed=changed.set) as connection:
        await connection.list_tools()
        await asyncio.sleep(0.2)  # until the server knows that we listen
        changed.clear()
        await connection.call("grow", {})

        async with asyncio.timeout(5):
            await changed.wait()
        assert "extra" in {one.name for one in await connection.list_tools()}


# Questions


async def test_a_question_is_parked_and_answered_by_another_connection(
    server_at: Start, home: Path
) -> None:
    server = await server_at(env={"FAKE_MCP_KEY": "k" * 32})
    async with connected({"url": server.url}) as connection:
        asked = await connection.call("ask", {"service": "web"})
    assert isinstance(asked, t.InputRequiredResult)
    await server.restart()

    async with connected({"url": server.url}) as connection:
        result = await connection.call(
            "ask", {"service": "web"}, answers={"confirm": YES}, state=asked.request_state
        )

    # The state is sealed with a key: it opens only if it came back byte for byte.
    assert words(result).startswith("web ask:web")
    assert effects(home) == ["ask web"]
    first, second = seen(home, "tools/call")
    assert first["id"] != second["id"]


@pytest.mark.parametrize("way", ["http-legacy", "stdio-legacy"], indirect=True)
async def test_each_call_is_asked_its_own_questions(reach: Way) -> None:
    async def one(connection: Connection, service: str) -> str:
        async def answer(params: t.ElicitRequestParams) -> t.ElicitResult:
            assert params.message == f"Deploy {service}?"
            await asyncio.sleep(0.05)
            return YES

        return words(await connection.call("classic_ask", {"service": service}, on_elicit=answer))

    async with reach() as connection:
        said = await asyncio.gather(*(one(connection, name) for name in ("web", "api", "db")))

    assert said == [f"{name}: accept staging" for name in ("web", "api", "db")]


@pytest.mark.parametrize("way", ["http-legacy", "stdio-legacy"], indirect=True)
async def test_the_deadline_of_a_call_rests_while_people_are_asked(reach: Way) -> None:
    async def answer(params: t.ElicitRequestParams) -> t.ElicitResult:
        await asyncio.sleep(1.2)
        return YES

    async with reach(call_timeout=0.6) as connection:
        result = await connection.call("classic_ask", {"service": "web"}, on_elicit=answer)

    assert words(result) == "web: accept staging"


@pytest.mark.parametrize("way", ["http-legacy", "stdio-legacy"], indirect=True)
async def test_a_question_that_cannot_be_asked_is_cancelled_without_a_word(reach: Way) -> None:
    async def answer(params: t.ElicitRequestParams) -> t.ElicitResult:
        raise ValueError("our secret")

    async with reach() as connection:
        failed = await connection.call("classic_ask", {"service": "web"}, on_elicit=answer)
        unasked = await connection.call("classic_ask", {"service": "web"})

    assert words(failed) == words(unasked) == "web: cancel"


async def test_the_page_of_an_older_server_is_in_the_rejection(server_at: Start) -> None:
    server = await server_at(legacy=True)
    async with connected({"url": server.url}) as connection:
        with pytest.raises(Rejected) as caught:
            await connection.call("page_required", {})

    assert caught.value.code == t.URL_ELICITATION_REQUIRED
    assert caught.value.data["elicitations"][0]["url"].startswith("https://auth.example.com/")


async def test_a_server_may_be_taken_for_an_older_one(server_at: Start) -> None:
    server = await server_at()

    async def answer(params: t.ElicitRequestParams) -> t.ElicitResult:
        return YES

    async with connected({"url": server.url, "protocol": "legacy"}) as connection:
        result = await connection.call("classic_ask", {"service": "web"}, on_elicit=answer)

        assert connection.era == "legacy"
    assert words(result) == "web: accept staging"


# Tasks


async def created(connection: Connection, tool: str, **arguments: Any) -> CreatedTask:
    task = await connection.call(tool, arguments)
    assert isinstance(task, CreatedTask)
    return task


@pytest.mark.row("T20")
async def test_a_task_outlives_its_server_and_our_connection(server_at: Start, home: Path) -> None:
    server = await server_at()
    async with connected({"url": server.url}) as connection:
        task = await created(connection, "task_work", what="the rollout", seconds=0.1)
        assert (task.status, task.poll_interval_ms, task.ttl_ms) == ("working", 200, 3_600_000)
    await server.restart()
    await asyncio.sleep(0.1)

    async with connected({"url": server.url}) as connection:
        snapshot = await connection.get_task(task.task_id)

    assert snapshot.status == "completed"
    assert snapshot.result is not None
    assert snapshot.result["content"][0]["text"].startswith("the rollout is done")
    assert seen(home, "tasks/get")[0]["headers"]["mcp-name"] == task.task_id


@pytest.mark.parametrize("way", ["http", "stdio"], indirect=True)
async def test_a_task_takes_answers_one_by_one(reach: Way) -> None:
    async with reach() as connection:
        task = await created(connection, "task_ask", questions=2)
        asking = await connection.get_task(task.task_id)
        assert asking.status == "input_required"
        first, second = asking.input_requests or {}
        yes = t.ElicitResult(action="accept", content={"go": True})

        await connection.update_task(task.task_id, {first: yes})
        left = await connection.get_task(task.task_id)
        await connection.update_task(task.task_id, {first: yes, second: yes})
        done = await connection.get_task(task.task_id)

        assert list(left.input_requests or {}) == [second]
        assert done.status == "completed"


async def test_a_task_fails_is_cancelled_and_is_forgotten(server_at: Start) -> None:
    server = await server_at()
    async with connected({"url": server.url}) as connection:
        failed = await created(connection, "task_fail")
        cancelled = await created(connection, "task_work", seconds=60)
        expired = await created(connection, "task_expire", ttl_ms=1)

        await connection.cancel_task(cancelled.task_id)

        assert (await connection.get_task(failed.task_id)).error == {
            "code": -32603,
            "message": "the disk is full",
        }
        assert (await connection.get_task(cancelled.task_id)).status == "cancelled"
        for unknown in (expired.task_id, "no-such-task"):
            with pytest.raises(Rejected) as caught:
                await connection.get_task(unknown)
            assert caught.value.code == t.INVALID_PARAMS
