"""An MCP server's questions and tasks on Slack, across processes of the bot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.mcp.settings import server_settings
from bot.mcp.source import McpServer
from storage.database import Database
from tests.fakes.clock import WallClock
from tests.fakes.mcp.process import HttpServer, effects, seen
from tests.fakes.model import call
from tests.fakes.slack import FakeSlack, buttons_of, text_of
from tests.mcp_world import FREE, section
from tests.scenario.slack_product import ANA, BEN, CYN, OPS, Product, product


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[HttpServer]:
    running = HttpServer(tmp_path, env={"FAKE_MCP_KEY": "a key that survives restarts, 32 b"})
    await running.start()
    yield running
    running.stop()


@asynccontextmanager
async def bot(
    db: Database, server: HttpServer, slack: FakeSlack, *steps: Any, root: str = ""
) -> AsyncIterator[Product]:
    source = McpServer("srv", server_settings("srv", section(server, **FREE)), WallClock())
    await source.start()
    try:
        async with product(db, *steps, sources=[source], workspace=slack, root=root) as one:
            yield one
    finally:
        await source.stop()


async def test_a_form_and_a_page_are_answered_by_click_in_another_process(
    sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    steps = [call("srv__ask", service="api"), call("srv__ask_page"), "Done."]
    async with FakeSlack(WallClock()) as slack:
        async with bot(sqlite_db, server, slack, *steps) as first:
            await first.mention()
            await first.card("srv__ask asks")
            root = first.root
        async with bot(sqlite_db, server, slack, *steps, root=root) as second:
            card = await second.click(ANA, "srv__ask asks", "Answer")
            assert "The server srv asks this." in text_of(card)
            form = await second.modal(ANA)
            accepted = await slack.submit(ANA, form, {"Environment": "staging", "replicas": "2"})
            assert not accepted.errors
            await second.card("asks you to visit a page")
            assert effects(tmp_path) == ["ask api"]
        (tmp_path / "visited").touch()
        async with bot(sqlite_db, server, slack, *steps, root=root) as third:
            await third.click(ANA, "asks you to visit a page", "I have finished")
            await third.reads("Done.")
            assert third.count("asks you to visit a page") == 1
            assert not [ping for ping in slack.pings if ping.kind == "link"]
    assert effects(tmp_path) == ["ask api", "ask_page"]


async def test_a_task_is_one_card_from_start_to_result_across_a_restart(
    sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    steps = [call("srv__task_work", what="rollout", seconds=1.2), "Done."]
    async with FakeSlack(WallClock()) as slack:
        async with bot(sqlite_db, server, slack, *steps) as first:
            await first.mention()
            card = await first.card("srv__task_work is running")
            assert "Cancel" in str(card["blocks"])
            root = first.root
        async with bot(sqlite_db, server, slack, *steps, root=root) as second:
            await second.reads("Done.")
            await second.reads("srv__task_work is done")
            cards = [one for one in second.thread() if "srv__task_work" in text_of(one)]
            assert [one["ts"] for one in cards] == [card["ts"]]
            assert not buttons_of(cards[0])
    assert len(slack.calls_of("chat.update")) >= 1
    created = [one for one in seen(tmp_path, "tools/call") if one["params"]["name"] == "task_work"]
    assert len(created) == 1


async def test_a_task_is_cancelled_from_its_card_by_who_may(
    sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    steps = [call("srv__task_work", what="rollout", seconds=30), "I see."]
    async with FakeSlack(WallClock()) as slack, bot(sqlite_db, server, slack, *steps) as one:
        await one.mention()
        card = await one.card("srv__task_work is running")
        await slack.click(CYN, OPS, card["ts"], "Cancel")
        await one.told(CYN, "Only the person who asked")
        assert seen(tmp_path, "tasks/cancel") == []
        await slack.click(BEN, OPS, card["ts"], "Cancel")
        await one.told(BEN, "was asked to stop")
        await one.reads("I see.")
        await one.reads("was cancelled")
