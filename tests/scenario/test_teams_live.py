"""A long reply in Teams while it grows, and when Teams refuses a call in the middle of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_ai.models.function import DeltaToolCalls

from adapters.teams import limits
from bot.scripted import Reply
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

    async def stream(self, position: int) -> AsyncIterator[str | DeltaToolCalls]:
        for start in range(0, len(self.words), 125):
            yield " ".join(self.words[start : start + 125]) + " "


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


async def test_a_reply_that_is_longer_than_five_messages_says_that_it_is_only_the_beginning(
    sqlite_db: Database,
) -> None:
    words = [f"w{number:05}" for number in range(9_000)]
    async with product(sqlite_db, Growing(words=words)) as world:
        await asked(world, "personal")
        await world.reads("could not be attached as a file")
        seen = read(world)
        assert seen == words[: len(seen)]
        assert len(seen) > 1_000
