"""Connections to real MCP servers that restart, die, fail and pry."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from bot.mcp.connection import (
    BadAnswer,
    ConnectionFailed,
    Lost,
    NotSent,
    Rejected,
)
from tests.fakes.mcp.process import (
    HttpServer,
    effects,
    environment,
    free_port,
    seen,
)
from tests.fakes.mcp.reach import Start, connected, eventually, failing, stdio, words

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
        slow = asyncio.create_task(connection.call("slow", {"n": 5}))
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


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", "lab has ended (exit code 0) without a word."),
        (
            "echo one >&2; echo no module named $KEY >&2; exit 3",
            "lab has ended (exit code 3) and last said: no module named [secret].",
        ),
        (
            "read line; printf unfinished >&2; kill -9 $$",
            "lab has ended (killed by signal 9) and last said: unfinished.",
        ),
    ],
)
async def test_a_child_that_ends_at_once_says_how(
    script: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", "key-456")
    section = {"command": ["sh", "-c", script], "env": {"KEY": "env:LAB_KEY"}}
    async with connected(section) as connection:
        async with asyncio.timeout(5):
            with pytest.raises(NotSent) as caught:
                await connection.list_tools()

        assert str(caught.value) == said
        assert connection.health == said


async def test_a_child_that_dies_later_says_how_too(home: Path) -> None:
    with structlog.testing.capture_logs() as logs:
        async with connected(stdio(home)) as connection:
            await connection.list_tools()
            os.kill(int((home / "pid").read_text()), signal.SIGKILL)
            await eventually(lambda: any("killed by signal 9" in str(one) for one in logs))


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
