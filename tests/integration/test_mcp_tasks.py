"""Background calls of MCP servers; rows T1 to T22 over a real server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.card import TaskCard
from bot.chat import Chat, ChatWaiting
from bot.mcp import tasks as mcp_tasks
from bot.question import Purpose
from bot.secrets import ConfigError
from bot.task import TaskFailed, TaskStatus, TaskTimeout, expires_at
from storage.database import Database
from tests.fakes.clock import WallClock
from tests.fakes.mcp.process import HttpServer, seen
from tests.fakes.model import call, script
from tests.mcp_world import FREE, mcp_world, section, settle_until
from tests.world import ANA, BEN, CYN, World, only_question, returned


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[HttpServer]:
    running = HttpServer(tmp_path)
    await running.start()
    yield running
    running.stop()


def work(seconds: float = 0.3) -> Any:
    return call("srv__task_work", what="rollout", seconds=seconds)


def task_cards(one: World) -> list[TaskCard]:
    return [s.content for s in one.surface.shown.values() if isinstance(s.content, TaskCard)]


async def run_to_the_task(one: World) -> Chat:
    """The chat up to its first task, without the sweeper: what a program does by itself."""
    chat = await one.chat()
    await chat.complete()
    return chat


@pytest.mark.row("T1")
@pytest.mark.row("T2")
@pytest.mark.row("T20")
async def test_a_task_is_parked_and_looked_at_once_each_time(
    db: Database, server: HttpServer, tmp_path: Path
) -> None:
    async with mcp_world(db, section(server, **FREE), work(0.4), "Done.") as one:
        chat = await run_to_the_task(one)
        (task,) = await chat.pending_tasks()
        assert task.status is TaskStatus.WORKING
        assert task.poll_interval > 0
        assert seen(tmp_path, "tasks/get") == []
        await chat.complete()
        assert len(seen(tmp_path, "tasks/get")) == 1
        assert await chat.waiting()
        await asyncio.sleep(0.5)
        await chat.complete()
        assert len(seen(tmp_path, "tasks/get")) == 2
        assert await chat.last_reply() == "Done."
        assert "rollout" in (await returned(chat))[0]
    polls = seen(tmp_path, "tasks/get")
    assert {one["headers"].get("mcp-name") for one in polls} == {task.id}


@pytest.mark.row("T3")
@pytest.mark.row("T4")
async def test_a_refresh_never_carries_the_chat_on(
    sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    async with mcp_world(sqlite_db, section(server, **FREE), work(0.2), "Done.") as one:
        chat = await run_to_the_task(one)
        (task,) = await chat.pending_tasks()
        await asyncio.sleep(0.3)
        task = await task.refresh()
        assert task.status is TaskStatus.COMPLETED
        assert "rollout" in str(task.result)
        assert len(one.model.requests) == 1
        asked = len(seen(tmp_path, "tasks/get"))
        await task.refresh()
        await task.cancel()
        assert len(seen(tmp_path, "tasks/get")) == asked
        assert seen(tmp_path, "tasks/cancel") == []
        await chat.complete()
        assert await chat.last_reply() == "Done."


@pytest.mark.row("T5")
@pytest.mark.row("T6")
@pytest.mark.row("T7")
async def test_a_task_that_asks_waits_for_people_and_never_asks_the_same_again(
    db: Database, server: HttpServer, tmp_path: Path
) -> None:
    step = call("srv__task_ask", what="rollout", questions=1)
    async with mcp_world(db, section(server, **FREE), step, "Done.") as one:
        chat = await run_to_the_task(one)
        await chat.complete()  # one look: it asks
        question = await only_question(chat)
        assert question.purpose is Purpose.ASK
        looks = len(seen(tmp_path, "tasks/get"))
        await chat.complete()
        assert len(seen(tmp_path, "tasks/get")) == looks  # it waits on people, not on the server
        await question.answer({"go": True}, by=ANA)

        async def over() -> bool:
            return await chat.last_reply() == "Done."

        await settle_until(one, over)
        (update,) = seen(tmp_path, "tasks/update")
        assert [one["action"] for one in update["params"]["inputResponses"].values()] == ["accept"]
        cards = [card for card in one.surface.cards() if card.tool == "srv__task_ask"]
        assert len(cards) == 1


@pytest.mark.row("T8")
@pytest.mark.row("T15")
async def test_a_failed_task_closes_the_call_with_the_servers_words(
    sqlite_db: Database, server: HttpServer
) -> None:
    step = call("srv__task_fail", what="rollout")
    async with mcp_world(sqlite_db, section(server, **FREE), step, "I see.") as one:
        chat = await run_to_the_task(one)
        (task,) = await chat.pending_tasks()
        assert task.result is None
        task = await task.wait(5, interval=0.05)
        with pytest.raises(TaskFailed, match="The task failed"):
            _ = task.result
        await chat.complete()
        assert await chat.last_reply() == "I see."
        assert "The task failed" in (await returned(chat))[0]


@pytest.mark.row("T9")
async def test_a_stopped_chat_cancels_its_tasks(
    sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    async with mcp_world(sqlite_db, section(server, **FREE), work(30), "Done.") as one:
        chat = await run_to_the_task(one)
        await chat.cancel(by=ANA)
        await one.settle()
        assert len(seen(tmp_path, "tasks/cancel")) == 1
        assert not await chat.waiting()
        assert "cancelled" in (await returned(chat))[0]
        assert [card.title for card in task_cards(one)] == ["srv__task_work was cancelled"]


@pytest.mark.row("T10")
async def test_a_chat_is_stopped_though_the_server_does_not_take_the_cancel(
    sqlite_db: Database, server: HttpServer
) -> None:
    async with mcp_world(sqlite_db, section(server, **FREE), work(30), "Done.") as one:
        chat = await run_to_the_task(one)
        server.kill()
        await chat.cancel(by=ANA)
        await one.settle()
        assert not await chat.waiting()


@pytest.mark.row("T11")
async def test_a_new_message_while_a_task_runs_is_refused_by_say(
    sqlite_db: Database, server: HttpServer
) -> None:
    async with mcp_world(sqlite_db, section(server, **FREE), work(30), "Done.") as one:
        chat = await run_to_the_task(one)
        with pytest.raises(ChatWaiting, match=r"srv__task_work \(a background task\)"):
            await chat.say("are we there yet?", by=ANA)


@pytest.mark.row("T12")
@pytest.mark.row("B96")
async def test_a_task_outlives_the_bot_and_its_server(
    db: Database, server: HttpServer, tmp_path: Path
) -> None:
    async with mcp_world(db, section(server, **FREE), work(0.6), "Done.") as first:
        chat = await first.chat()
        await first.settle()
        (before,) = await chat.pending_tasks()
        surface = first.surface
    server.kill()
    await server.start()
    async with mcp_world(db, section(server, **FREE), work(), "Done.", surface=surface) as second:
        here = second.here(chat)
        (task,) = await here.pending_tasks()
        assert (task.id, task.status) == (before.id, TaskStatus.WORKING)

        async def over() -> bool:
            return await here.last_reply() == "Done."

        await settle_until(second, over)
        (card,) = task_cards(second)
        assert card.title == "srv__task_work is done"
    created = [one for one in seen(tmp_path, "tools/call") if one["params"]["name"] == "task_work"]
    assert len(created) == 1


@pytest.mark.row("T13")
@pytest.mark.row("B100")
async def test_the_card_follows_the_server_and_the_model_is_not_asked_meanwhile(
    sqlite_db: Database, server: HttpServer
) -> None:
    async with mcp_world(sqlite_db, section(server, **FREE), work(0.8), "Done.") as one:
        chat = await one.chat()
        messages: set[str] = set()

        async def over() -> bool:
            messages.update(card.message for card in task_cards(one))
            if await chat.pending_tasks():
                assert len(one.model.requests) == 1
            return await chat.last_reply() == "Done."

        await settle_until(one, over)
        assert any(messages)
        assert len(task_cards(one)) == 1
        assert len(one.model.requests) == 2


@pytest.mark.row("T14")
def test_a_task_expires_at_its_beginning_plus_its_time_to_live() -> None:
    created = "2026-11-30T10:00:00Z"
    assert expires_at({"created_at": created, "ttl_ms": 1500}) == 1796032801.5
    assert expires_at({"created_at": created, "ttl_ms": None}) is None
    assert expires_at({"created_at": "", "ttl_ms": 5}) is None
    assert expires_at({"created_at": "yesterday", "ttl_ms": 5}) is None


@pytest.mark.row("T16")
@pytest.mark.row("T17")
async def test_a_wait_looks_at_the_servers_pace_and_cancels_when_it_is_over(
    sqlite_db: Database, server: HttpServer, tmp_path: Path
) -> None:
    async with mcp_world(sqlite_db, section(server, **FREE), work(30), "Done.") as one:
        chat = await run_to_the_task(one)
        (task,) = await chat.pending_tasks()
        with pytest.raises(TaskTimeout, match=r"within 0\.5 seconds"):
            await task.wait(0.5, interval=0.2)
        assert len(seen(tmp_path, "tasks/cancel")) == 1


async def test_a_wait_ends_with_the_task(sqlite_db: Database, server: HttpServer) -> None:
    async with mcp_world(sqlite_db, section(server, **FREE), work(0.3), "Done.") as one:
        chat = await run_to_the_task(one)
        (task,) = await chat.pending_tasks()
        assert "rollout" in str((await task.wait(5, interval=0.1)).result)


@pytest.mark.row("T18")
async def test_without_its_server_a_refresh_is_a_configuration_error(
    sqlite_db: Database, server: HttpServer
) -> None:
    async with mcp_world(sqlite_db, section(server, **FREE), work(30), "Done.") as one:
        chat = await run_to_the_task(one)
    bare = World(sqlite_db, (), script("Done."), clock=WallClock())
    (task,) = await bare.here(chat).pending_tasks()  # listed from rows alone
    with pytest.raises(ConfigError, match=r"\[servers\]"):
        await task.refresh()


@pytest.mark.row("T21")
async def test_a_network_failure_keeps_waiting_says_so_and_goes_on(
    sqlite_db: Database, server: HttpServer
) -> None:
    async with mcp_world(sqlite_db, section(server, **FREE), work(0.2), "Done.") as one:
        chat = await run_to_the_task(one)
        server.kill()
        await chat.complete()
        (task,) = await chat.pending_tasks()
        assert task.status is TaskStatus.WORKING
        assert "does not answer" in task.message
        await server.start()
        await asyncio.sleep(0.3)
        await chat.complete()
        assert await chat.last_reply() == "Done."


@pytest.mark.row("T22")
async def test_a_task_that_the_server_forgot_closes_the_call(
    sqlite_db: Database, server: HttpServer
) -> None:
    step = call("srv__task_expire", ttl_ms=100)
    async with mcp_world(sqlite_db, section(server, **FREE), step, "I see.") as one:
        chat = await run_to_the_task(one)
        await asyncio.sleep(0.2)
        await chat.complete()
        assert "no longer knows this task" in (await returned(chat))[0]
        assert await chat.last_reply() == "I see."


async def test_cancelled_from_its_card_by_whoever_may(
    sqlite_db: Database, server: HttpServer
) -> None:
    async with mcp_world(sqlite_db, section(server, **FREE), work(30), "I see.") as one:
        chat = await one.chat()
        await one.settle()
        (card,) = task_cards(one)
        refused = await one.service.cancel_task(card.nonce, CYN, via="test")
        assert not refused.done
        assert "Only the person who asked" in refused.sentence
        taken = await one.service.cancel_task(card.nonce, BEN, via="test")
        assert taken.done

        async def over() -> bool:
            return await chat.last_reply() == "I see."

        await settle_until(one, over)
        assert "cancelled" in (await returned(chat))[0]
        late = await one.service.cancel_task(card.nonce, BEN, via="test")
        assert "ended already" in late.sentence


def test_looks_back_off_and_are_spread() -> None:
    look = mcp_tasks.TaskLook(
        connection=None,  # type: ignore[arg-type]
        judge=None,  # type: ignore[arg-type]
        now=lambda: 0.0,
        dice=random.Random(3),
    )
    row = {"poll_ms": 2000, "failures": 0}
    waits = [look.detached({**row, "failures": n}).wake_at for n in range(12)]
    assert 2.0 <= waits[0] <= 2.2
    assert 4.0 <= waits[1] <= 4.4
    assert max(waits) <= mcp_tasks.LONGEST_POLL * 1.1
    assert 1.0 <= look.detached({"poll_ms": None, "failures": 0}).wake_at <= 1.1


async def test_of_two_looks_at_once_one_is_recorded(db: Database, server: HttpServer) -> None:
    step = call("srv__task_ask", what="rollout", questions=1)
    async with mcp_world(db, section(server, **FREE), step, "Done.") as one:
        chat = await run_to_the_task(one)
        (task,) = await chat.pending_tasks()
        await asyncio.gather(task.refresh(), task.refresh(), task.refresh())
        assert len(await chat.pending_questions()) == 1
