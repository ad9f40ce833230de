"""Decisions and deliveries at the same time wait for each other in one order: nothing deadlocks."""

from __future__ import annotations

import asyncio

import pytest

from bot.surface import Content, Place
from storage.database import Database
from tests.group_world import asks, decide, group_world
from tests.world import effect


@pytest.mark.parametrize("directs", [False, True])
async def test_all_calls_of_shared_cards_are_approved_while_cards_are_redrawn(
    db: Database, directs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects: list[str] = []
    w = group_world(db, asks(15), [effect(effects)])
    edit = w.surface.edit

    async def slow(place: Place, message_id: str, content: Content) -> None:
        await asyncio.sleep(0.005)
        await edit(place, message_id, content)

    monkeypatch.setattr(w.surface, "edit", slow)
    w.surface.directs = directs
    await w.chat()
    await w.settle()
    groups = {one.nonce: one for one in w.surface.groups()}

    deciding = asyncio.gather(*(decide(w, one) for one in groups.values()))
    while not deciding.done():
        await w.settle()
        await asyncio.sleep(0)

    assert [one.sentence for one in deciding.result()] == [""]
    await w.settle()
    assert len(effects) == 15
    assert not any(one.open for one in w.surface.groups())
