"""What Teams answers when it is busy or a thing is gone, for each kind of call."""

from __future__ import annotations

import pytest

from adapters.teams import limits
from bot.surface import DeliveryError
from tests.fakes.teams import Entra
from tests.scenario.teams_world import entra
from tests.scenario.test_teams_adapter import SETTLED, World, world

__all__ = ["entra", "world"]
pytestmark = pytest.mark.usefixtures("entra")


async def call(world: World, what: str) -> None:
    match what:
        case "post":
            await world.posted(nonce="p2")
        case "put":
            await world.surface.edit(world.place, world.teams.messages[0].id, SETTLED)
        case _:
            user = world.teams.people["ana"].user
            await world.surface.whisper(world.place, user, "psst")


@pytest.mark.parametrize("what", ["post", "put", "whisper"])
@pytest.mark.parametrize("after", [None, 7])
async def test_a_busy_teams_is_tried_later(
    world: World, entra: type[Entra], monkeypatch: pytest.MonkeyPatch, what: str, after: int | None
) -> None:
    monkeypatch.setattr(limits, "REPEAT_SECONDS", 0.0)
    await world.posted()
    world.teams.fail_next(what, 429, retry_after=after)  # not repeated at once
    with pytest.raises(DeliveryError) as failed:
        await call(world, what)
    assert not failed.value.permanent
    assert not failed.value.maybe_sent
    if after is not None:
        assert failed.value.retry_after is not None
        assert failed.value.retry_after >= after


@pytest.mark.parametrize("status", [412, 502, 503, 504])
@pytest.mark.parametrize("taken", [False, True])
async def test_an_edit_that_met_another_is_repeated_once_and_then_tried_later(
    world: World, entra: type[Entra], monkeypatch: pytest.MonkeyPatch, status: int, taken: bool
) -> None:
    monkeypatch.setattr(limits, "REPEAT_SECONDS", 0.0)
    shown = await world.posted()
    world.teams.fail_next("put", status, taken=taken)
    await call(world, "put")
    assert "Approved by ben." in shown.text
    for _ in range(2):
        world.teams.fail_next("put", status, taken=taken)
    with pytest.raises(DeliveryError) as failed:
        await call(world, "put")
    assert not failed.value.permanent
    assert world.teams.count("put") == 4


@pytest.mark.parametrize("status", [403, 404])
async def test_a_message_or_conversation_that_is_gone_is_given_up(
    world: World, entra: type[Entra], status: int
) -> None:
    shown = await world.posted()
    world.teams.messages.remove(shown)  # somebody deleted it
    with pytest.raises(DeliveryError) as failed:
        await world.surface.edit(world.place, shown.id, SETTLED)
    assert failed.value.permanent
    code = "BotNotInConversationRoster" if status == 403 else "ConversationNotFound"
    world.teams.fail_next("post", status, code)
    with pytest.raises(DeliveryError) as failed:
        await world.posted(nonce="p3")
    assert failed.value.permanent or failed.value.unreachable
