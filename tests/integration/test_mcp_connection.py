"""Connections to real MCP servers, over HTTP and stdio, of 2026-07-28 and of before."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import mcp.types as t
import pytest

from bot.mcp.connection import (
    BadAnswer,
    Connection,
    Lost,
    NotSent,
    Rejected,
)
from bot.mcp.extension import TASKS, CreatedTask
from tests.fakes.mcp.process import (
    effects,
    seen,
)
from tests.fakes.mcp.reach import Start, Way, connected, eventually, words

YES = t.ElicitResult(action="accept", content={"env": "staging"})


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


# Structured content


async def test_a_server_cannot_stop_us_with_the_schema_of_a_result(reach: Way, home: Path) -> None:
    async with reach() as connection:
        # As if the server had listed it so: the SDK keeps these very schemas too.
        (schema,) = [
            one.output_schema for one in await connection.list_tools() if one.name == "structured"
        ]
        assert schema is not None
        schema["properties"]["city"]["pattern"] = "^(a+)+$"
        start = time.thread_time()

        with pytest.raises(BadAnswer, match="its structured content does not fit: city: 'aaa"):
            await connection.call("structured", {"city": "a" * 26 + "!"})
        await connection.call("structured", {"city": "a" * 26})

        assert time.thread_time() - start < 1  # seconds; `re` needs some for the first


async def test_a_result_whose_schema_cannot_be_checked_is_of_no_use(server_at: Start) -> None:
    server = await server_at()
    async with connected({"url": server.url}) as connection:
        (tool,) = [one for one in await connection.list_tools() if one.name == "structured"]
        tool.output_schema = {"$ref": "https://schemas.example.com/weather.json"}

        with pytest.raises(BadAnswer, match="its structured content cannot be checked: the schema"):
            await connection.call("structured", {"city": "Ghent"})


async def test_structured_content_that_was_promised_has_to_come(server_at: Start) -> None:
    server = await server_at()
    async with connected({"url": server.url}) as connection:
        (tool,) = [one for one in await connection.list_tools() if one.name == "image"]
        tool.output_schema = {"type": "object"}

        with pytest.raises(BadAnswer, match="it has no structured content, which the tool"):
            await connection.call("image", {})


async def test_an_error_of_a_tool_need_not_fit_its_schema(server_at: Start) -> None:
    server = await server_at()
    async with connected({"url": server.url}) as connection:
        (tool,) = [one for one in await connection.list_tools() if one.name == "boom"]
        tool.output_schema = {"type": "object", "required": ["x"]}

        assert "the disk is full" in words(await connection.call("boom", {}))


async def test_the_sdk_lists_no_tools_of_its_own_accord(
    server_at: Start, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "_teach", lambda *_: None)
    server = await server_at()
    async with connected({"url": server.url}) as connection:
        await connection.call("structured", {"city": "Ghent"})

    assert len(seen(home, "tools/list")) == 1


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
