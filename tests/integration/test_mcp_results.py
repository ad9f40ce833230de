"""What MCP tools return, how they are offered, and what happens when their servers fail."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent, UserPromptPart

from bot.app import App
from bot.approvers import Policies
from bot.core import Agent
from bot.mcp.settings import server_settings
from bot.mcp.source import McpServer
from bot.mcp.tools import visible_name
from bot.question import Purpose
from bot.secrets import ConfigError
from bot.surface import File
from storage.database import Database
from tests.fakes.clock import WallClock
from tests.fakes.mcp.process import HttpServer, effects, seen
from tests.fakes.model import call, script
from tests.mcp_world import FREE, TRUSTED, mcp_world, section
from tests.world import BEN, only_question, returned


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[HttpServer]:
    running = HttpServer(tmp_path)
    await running.start()
    yield running
    running.stop()


async def result_of(db: Database, server: HttpServer, step: Any, **settings: Any) -> str:
    async with mcp_world(db, section(server, **(FREE | settings)), step, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        assert await chat.last_reply() == "Done."
        return (await returned(chat))[0]


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (call("srv__add", a=1, b=2), "3"),
        (call("srv__structured", city="Ghent"), '"degrees":21.5'),
        (call("srv__boom"), "the disk is full"),
        (call("srv__refuse"), "The server srv refused the call: not today"),
        (call("srv__resource_link"), "report"),
        (call("srv__bad_structured"), "DID run"),
        (call("srv__malformed"), "DID run"),
        (call("srv__big", n=9_000_000), "DID run"),
        (call("srv__big", n=200_000), "only the first"),
        (call("srv__nothing"), "There is no tool named srv__nothing"),
        (call("srv__add", a="x", b=2), "do not fit: a:"),
    ],
)
async def test_a_result_is_words_for_the_model(
    step: Any, found: str, sqlite_db: Database, server: HttpServer
) -> None:
    result = await result_of(sqlite_db, server, step)
    assert found.replace(" ", "") in result.replace(" ", "").replace("[Cut", "onlythefirst[Cut")


async def test_an_image_is_posted_and_shown_to_a_model_that_sees(
    sqlite_db: Database, server: HttpServer
) -> None:
    async with mcp_world(
        sqlite_db, section(server, **FREE), call("srv__image"), "Done.", sees_images=True
    ) as world:
        chat = await world.chat()
        await world.settle()
        shown = [s.content for s in world.surface.shown.values() if isinstance(s.content, File)]
        assert [one.mime_type for one in shown] == ["image/png"]
        assert shown[0].data.startswith(b"\x89PNG")
        prompts = [
            part
            for message in world.model.requests[-1].messages
            for part in message.parts
            if isinstance(part, UserPromptPart)
        ]
        assert any(isinstance(one, BinaryContent) for p in prompts for one in p.content)
        assert "one pixel" in (await returned(chat))[0]


async def test_progress_is_shown_in_the_thread(sqlite_db: Database, server: HttpServer) -> None:
    step = call("srv__slow", n=3, step=0.01)
    async with mcp_world(sqlite_db, section(server, **FREE), step, "Done.") as world:
        await world.chat()
        await world.settle()
        # The latest wins, so which step is shown depends on how fast it was posted.
        assert any(
            re.fullmatch(r"srv__slow: \d+%, step \d", text) for text in world.surface.replies()
        )


# What is asked first


@pytest.mark.parametrize(
    ("settings", "tool", "asks"),
    [
        ({}, "read_only", True),
        ({"approval": "never"}, "counter", False),
        ({"approval_by_tool": {"counter": "never"}}, "counter", False),
        ({"approval": "never", "approval_by_tool": {"counter": "ask"}}, "counter", True),
        ({"approval_by_annotation": "destructive", "trusted_annotations": True}, "counter", True),
        (
            {"approval_by_annotation": "destructive", "trusted_annotations": True},
            "idempotent",
            False,
        ),
        (
            {"approval_by_annotation": "not_read_only", "trusted_annotations": True},
            "idempotent",
            True,
        ),
        (
            {"approval_by_annotation": "not_read_only", "trusted_annotations": True},
            "read_only",
            False,
        ),
    ],
)
async def test_what_needs_an_approval_is_set_by_the_operator(
    settings: dict[str, Any], tool: str, asks: bool, sqlite_db: Database, server: HttpServer
) -> None:
    async with mcp_world(
        sqlite_db, section(server, **settings), call(f"srv__{tool}"), "Done."
    ) as world:
        chat = await world.chat()
        await world.settle()
        asked = [one.purpose for one in await chat.pending_questions()]
        assert asked == ([Purpose.APPROVAL] if asks else [])


async def test_fixed_arguments_are_hidden_from_the_model_and_shown_to_people(
    sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    settings = section(server, fixed={"counter": {"note": "by rule"}})
    async with mcp_world(sqlite_db, settings, call("srv__counter"), "Done.") as world:
        chat = await world.chat()
        await world.settle()
        offered = {one.name: one for one in world.model.requests[0].tools}
        assert "note" not in str(offered["srv__counter"].parameters)
        (card,) = world.surface.cards()
        assert [(one.name, one.value) for one in card.arguments] == [("note", "by rule")]
        await (await only_question(chat)).approve(by=BEN)
        await world.settle()
    assert effects(tmp_path) == ["by rule"]


async def test_a_fixed_argument_cannot_be_chosen(
    sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    step = call("srv__counter", note="mine")
    result = await result_of(sqlite_db, server, step, fixed={"*": {"note": "by rule"}})
    assert "cannot be chosen" in result
    assert effects(tmp_path) == []


async def test_only_tools_that_are_let_through_are_offered(
    sqlite_db: Database, server: HttpServer
) -> None:
    settings = section(server, **FREE, allow=["ask*", "add"], deny=["ask_forever"])
    async with mcp_world(sqlite_db, settings, "Hi.") as world:
        await world.chat()
        await world.settle()
        names = [one.name for one in world.model.requests[0].tools]
        assert names == sorted(names)
        assert "srv__add" in names
        assert "srv__ask" in names
        assert "srv__ask_forever" not in names
        assert "srv__boom" not in names


async def test_a_name_that_the_server_does_not_offer_is_an_error_at_the_start(
    server: HttpServer,
) -> None:
    settings = server_settings("srv", section(server, allow=["add", "ad"]))
    source = McpServer("srv", settings, WallClock())
    with pytest.raises(ConfigError, match="names ad, which the server does not offer"):
        await source.start()
    assert "does not offer" in source.health()
    await source.stop()


async def test_a_name_that_disappears_later_is_said(server: HttpServer, tmp_path: Path) -> None:
    settings = server_settings("srv", section(server, allow=["add", "counter"]))
    source = McpServer("srv", settings, WallClock())
    await source.start()
    assert "does not offer" not in source.health()
    server.kill()
    server.env["FAKE_MCP_HIDE"] = "counter"
    await server.start()
    source._changed()
    assert [one.name for one in await source.tools()] == ["srv__add"]
    assert "names counter, which the server does not offer" in source.health()
    await source.stop()


# Failures


async def test_an_answer_that_was_lost_is_an_unknown_outcome(
    db: Database, server: HttpServer, tmp_path: Path
) -> None:
    step = call("srv__die", note="paid")
    async with mcp_world(db, section(server, **FREE), step, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        question = await only_question(chat)
        assert question.purpose is Purpose.OUTCOME
        assert effects(tmp_path) == ["paid"]
        await question.answer({"outcome": "ran", "note": "I looked"}, by=BEN)
        await world.settle()
        assert "I looked" in (await returned(chat))[0]
    assert effects(tmp_path) == ["paid"]


async def test_a_lost_answer_of_a_tool_that_only_reads_is_asked_for_again(
    sqlite_db: Database, server: HttpServer
) -> None:
    async with mcp_world(
        sqlite_db, section(server, **TRUSTED), call("srv__die_once"), "Done."
    ) as world:
        chat = await world.chat()
        back = asyncio.create_task(_start_again(server))
        await world.settle()
        await back
        assert await returned(chat) == ["alive"]


async def _start_again(server: HttpServer) -> None:
    await server.died()
    await server.start()


async def test_a_server_that_is_not_there_fails_the_call_and_not_the_chat(
    sqlite_db: Database, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.mcp.tools.SEND_TRIES", 1)
    async with mcp_world(
        sqlite_db, section(server, approval="ask"), call("srv__counter"), "I see."
    ) as world:
        chat = await world.chat()
        await world.settle()
        server.kill()
        await (await only_question(chat)).approve(by=BEN)
        await world.settle()
        assert "did not run" in (await returned(chat))[0]
        assert await chat.last_reply() == "I see."
        assert not await chat.waiting()


@pytest.mark.row("D25")
async def test_a_tool_whose_schema_changed_after_the_approval_is_refused_and_asked_again(
    sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    settings = section(server)
    step = call("srv__counter", note="x")
    async with mcp_world(sqlite_db, settings, step, step, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        question = await only_question(chat)
        surface = world.surface
    changed = section(server, fixed={"counter": {"note": "x"}})
    async with mcp_world(sqlite_db, changed, step, step, "Done.", surface=surface) as world:
        await (await only_question(world.here(chat))).approve(by=BEN)
        await world.settle()
        assert effects(tmp_path) == []
        again = await only_question(world.here(chat))
        assert again.id != question.id
        assert "changed or removed" in (await returned(world.here(chat)))[0]


@pytest.mark.row("M8")
@pytest.mark.parametrize("kinds", ["both", "none"])
async def test_what_is_declared_is_what_is_accepted(
    kinds: str, sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    settings = section(server, **FREE, questions=kinds)
    async with mcp_world(sqlite_db, settings, call("srv__add", a=1, b=1), "Done.") as world:
        await world.chat()
        await world.settle()
    (request,) = seen(tmp_path, "tools/call")
    assert ("elicitation" in str(request)) is (kinds == "both")


def test_names_are_what_providers_take_and_never_alike() -> None:
    assert visible_name("srv", "add") == "srv__add"
    dotted, dashed = visible_name("srv", "a.b"), visible_name("srv", "a_b")
    assert dotted != dashed
    long = [visible_name("srv", "x" * 100 + end) for end in "ab"]
    assert len(set(long)) == 2
    assert all(len(name) <= 64 for name in long)


async def test_an_argument_that_is_fixed_and_that_the_tool_lacks_is_an_error_at_the_start(
    server: HttpServer,
) -> None:
    settings = server_settings("srv", section(server, fixed={"counter": {"nte": "x"}}))
    source = McpServer("srv", settings, WallClock())
    with pytest.raises(ConfigError, match=r"names counter\.nte, which the server does not offer"):
        await source.start()
    await source.stop()


async def test_what_a_person_approved_is_looked_at_as_it_is_when_it_runs(
    sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    """The server changed the tool while the card waited, and its list still counted as fresh."""
    step = call("srv__counter", note="x")
    async with mcp_world(sqlite_db, section(server), step, "I see.") as world:
        chat = await world.chat()
        await world.settle()
        server.kill()
        server.env["FAKE_MCP_HIDE"] = "counter"
        await server.start()
        await (await only_question(chat)).approve(by=BEN)
        await world.settle()
        assert "changed or removed" in (await returned(chat))[0]
    assert effects(tmp_path) == []


async def test_a_servers_tools_that_nobody_may_approve_are_named_at_the_start(
    server: HttpServer, tmp_path: Path
) -> None:
    source = McpServer("srv", server_settings("srv", section(server, allow=["add"])), WallClock())
    agent = Agent(name="ops", model=script("Hi."), sources=[source])
    url = f"sqlite:///{tmp_path / 'app.db'}"
    app = App(database=url, agents={"ops": agent}, policies=Policies())
    with pytest.raises(ConfigError, match="The tool srv__add of the agent ops asks for approval"):
        async with app.started():
            pass
