"""A long reply in Teams while it grows, and when Teams refuses a call in the middle of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_ai.models.function import DeltaToolCalls

from adapters.teams import limits
from adapters.teams.stream import Streams
from adapters.teams.transport import TeamsSurface
from bot.scripted import Reply
from bot.surface import Pace
from storage.database import Database
from tests.scenario.teams_world import Product, entra, product

__all__ = ["entra"]
pytestmark = [pytest.mark.usefixtures("entra"), pytest.mark.row("B78")]

WORDS = [f"w{number:05}" for number in range(2_500)]  # 17,500 characters: two messages


@dataclass(frozen=True)
class Growing(Reply):
    """A response whose text comes in twenty pieces."""

    parts: tuple[Any, ...] = ()
    words: list[str] = field(default_factory=lambda: WORDS)
    pause: float = 0.0  # between two pieces

    async def stream(self, position: int) -> AsyncIterator[str | DeltaToolCalls]:
        for start in range(0, len(self.words), 125):
            yield " ".join(self.words[start : start + 125]) + " "
            await asyncio.sleep(self.pause)


@pytest.fixture(autouse=True)
def _every_piece_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.reply.LIVE_SECONDS", 0.0)
    monkeypatch.setattr(limits, "LIVE_SECONDS", 0.0)
    monkeypatch.setattr(limits, "REPEAT_SECONDS", 0.0)
    monkeypatch.setattr(limits, "QUIET_SECONDS", 0.2)


async def asked(world: Product, where: str) -> None:
    if where == "channel":
        await world.mention("why?")
        return
    world.thread = world.teams.personal("ana") if where == "personal" else world.teams.group
    await world.teams.say("ana", world.thread, "why?")


def read(world: Product) -> list[str]:
    shown = " ".join(one.text for one in world.teams.in_thread(world.thread))
    return re.findall(r"w\d{5}", shown)


FAULTS = [
    ("post", 502, None),
    ("post", 429, None),
    ("post", 429, 1),
    ("put", 502, None),
    ("put", 429, None),
    ("put", 429, 1),
]


@pytest.mark.parametrize("where", ["channel", "group", "personal"])
@pytest.mark.parametrize(("what", "status", "after"), [("", 0, None), *FAULTS])
async def test_a_long_reply_ends_complete_and_in_order(
    sqlite_db: Database, where: str, what: str, status: int, after: int | None
) -> None:
    async with product(sqlite_db, Growing()) as world:
        if what:
            world.teams.fail_next(what, status, retry_after=after)
        await asked(world, where)
        await world.teams.until(lambda: len(read(world)) >= len(WORDS), seconds=12)
        assert read(world) == WORDS
        assert not world.teams._faults
        assert world.teams.complaints == []


async def test_a_reply_of_more_than_five_messages_is_posted_whole_where_none_can_be_attached(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TeamsSurface, "pace", Pace())
    words = [f"w{number:05}" for number in range(9_000)]
    async with product(sqlite_db, Growing(words=words)) as world:
        await asked(world, "group")
        await world.teams.until(lambda: read(world) == words, seconds=20)
        assert len(world.teams.in_thread(world.thread)) > 5


SHORT = [f"w{number:05}" for number in range(400)]


async def whole(world: Product) -> None:
    await world.teams.until(lambda: read(world) == SHORT, seconds=12)
    assert world.teams.complaints == []


async def test_a_reply_is_streamed_in_a_personal_chat_and_then_drawn_as_it_is(
    sqlite_db: Database,
) -> None:
    async with product(sqlite_db, Growing(words=SHORT, pause=0.1)) as world:
        await asked(world, "personal")
        await whole(world)
        (pieces,) = world.teams.streamed
        assert pieces >= 2
        (shown,) = world.teams.in_thread(world.thread)
        assert shown.edits == 1
        assert shown.activity["textFormat"] == "xml"


@pytest.mark.parametrize("where", ["channel", "group"])
async def test_nothing_is_streamed_where_others_read(sqlite_db: Database, where: str) -> None:
    async with product(sqlite_db, Growing(words=SHORT)) as world:
        await asked(world, where)
        await whole(world)
        assert world.teams.count("stream") == 0


@pytest.mark.parametrize("kept", [True, False])
async def test_a_stream_that_somebody_stopped_ends_as_the_whole_reply(
    sqlite_db: Database, kept: bool
) -> None:
    async with product(sqlite_db, Growing(words=SHORT)) as world:
        world.teams.stops_streams, world.teams.keeps_stopped = True, kept
        await asked(world, "personal")
        await whole(world)
        assert len(world.teams.in_thread(world.thread)) == 1


@pytest.mark.parametrize("status", [403, 502, 429])
async def test_where_no_stream_begins_the_reply_is_posted(sqlite_db: Database, status: int) -> None:
    async with product(sqlite_db, Growing(words=SHORT)) as world:
        world.teams.fail_next("stream", status, retry_after=1 if status == 429 else None)
        await asked(world, "personal")
        await whole(world)
        assert not world.teams._faults


async def test_a_stream_takes_less_than_its_two_minutes(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STREAM_SECONDS", 0.0)
    async with product(sqlite_db, Growing(words=SHORT)) as world:
        world.teams.keeps_stopped = False
        await asked(world, "personal")
        await whole(world)
        assert world.teams.streamed == []
        assert len(world.teams.in_thread(world.thread)) == 1


async def test_a_stream_of_a_process_that_is_gone_ends_as_the_whole_reply(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Streams, "runs", lambda *_: False)
    async with product(sqlite_db, Growing(words=SHORT)) as world:
        await asked(world, "personal")
        await whole(world)
        assert len(world.teams.in_thread(world.thread)) >= 1
