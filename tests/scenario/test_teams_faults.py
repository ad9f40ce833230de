"""What Teams answers when it is busy or a thing is gone, for each kind of call."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from adapters.teams import limits
from bot.surface import DeliveryError, Response
from bot.tool import tool
from storage import audit
from storage.database import Database
from tests.fakes.model import call as model_call
from tests.fakes.teams import Entra
from tests.scenario.teams_world import entra, product
from tests.scenario.test_teams_adapter import APPROVAL, SETTLED, World, world

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


async def slow(
    world: World, monkeypatch: pytest.MonkeyPatch, button: str, answer: Response | None
) -> str:
    """What is answered at once to a press that takes longer than Teams waits."""
    monkeypatch.setattr(limits, "INVOKE_SECONDS", 0.05)
    shown = await world.posted(replace(APPROVAL, editable=True))
    go = asyncio.Event()
    world.entry.pause, world.entry.answer = go.wait, answer
    said = await world.teams.click("ben", shown, button)
    go.set()
    return str(said.body["value"])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Response(done=True, sentence="Approved by ben.", card=SETTLED), ""),
        (Response(done=True, sentence="One more must approve.", card=APPROVAL), "One more must"),
        (Response(done=False, sentence="You may not decide this."), "You may not decide this."),
    ],
)
async def test_who_waited_too_long_is_told_what_the_card_does_not_say(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: Response, told: str
) -> None:
    said = await slow(world, monkeypatch, "Approve", answer)
    assert said == "It is being recorded; the card shows what came of it."
    await world.teams.until(lambda: len(world.entry.decisions) == 1)
    if told:
        await world.teams.until(lambda: any(told in one.text for one in world.teams.whispers))
    else:
        await asyncio.sleep(0.05)
        assert world.teams.whispers == []


async def test_what_is_only_looked_at_is_looked_at_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = await slow(world, monkeypatch, "Edit and approve", None)
    assert said == "That took longer than Teams waits: please press it again."
    await asyncio.sleep(0.05)
    assert world.teams.whispers == []


async def test_a_press_that_comes_again_under_another_id_while_the_first_runs_decides_once(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    ran: list[str] = []

    @tool
    async def refund(order: str) -> str:
        """Refunds an order."""
        ran.append(order)
        return "ok"

    async with product(sqlite_db, model_call("refund", order="A1"), "Done.", tools=[refund]) as one:
        await one.mention()
        card = await one.card("wants to run refund")
        sent = one.teams.invoked("ben", card, "Approve")
        again = [sent | {"id": f"{sent['id']}{number}"} for number in range(8)]
        answers = await asyncio.gather(*map(one.teams.deliver, [sent, sent, *again]))
        assert all("Approved by ben" in str(answer.body["value"]) for answer in answers)
        await one.reads("Done.")
        async with sqlite_db.read() as tx:
            rows = [row async for row in audit.since(tx) if row.event == "decided"]
        assert len(rows) == len(ran) == 1
