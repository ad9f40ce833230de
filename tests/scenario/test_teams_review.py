"""What a review of the Teams surface found, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from adapters.teams import limits
from bot.card import Card, CardState, Kind
from bot.surface import DeliveryError, Place, Reply, Response, Status
from bot.tool import tool
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.teams import TENANT, Entra, FakeTeams
from tests.scenario.slack_world import StubEntry
from tests.scenario.teams_world import entra, person, product, running
from tests.scenario.test_teams_transport import World, world

__all__ = ["entra", "world"]
pytestmark = pytest.mark.usefixtures("entra")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
async def test_a_body_that_is_not_encoded_as_it_says_is_refused(
    world: World, encoding: str
) -> None:
    raw = json.dumps(world.message()).encode()
    encoded: dict[str, Any] = {"Content-Encoding": encoding}
    answer = await world.teams.deliver(None, raw=raw, **encoded)
    assert answer.status == 400


async def test_a_bot_that_was_removed_and_comes_back_speaks_again(world: World) -> None:
    await world.teams.say("ana", world.thread, "one")
    gone = world.teams.activity(
        "ana", world.teams.channel, type="installationUpdate", action="remove"
    )
    del gone["conversation"]["conversationType"]
    assert (await world.teams.deliver(gone)).status == 200
    await world.teams.say("ana", world.thread, "two")
    await world.surface.post(Place("teams", TENANT, world.teams.channel, "1699"), Reply("x"), "n")
    assert world.teams.in_thread(world.thread)


async def test_what_runs_at_the_end_can_still_speak(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    async with FakeTeams() as teams:
        thread = f"{teams.channel};messageid=1699"
        async with running(teams, StubEntry(), sqlite_db) as surface:
            await teams.say("ana", thread, "one")
        place = Place("teams", TENANT, teams.channel, "1699")
        await surface.status(place, Status.PROCESSING)  # which nobody would end any more
        assert not surface._typing._tasks
        await surface.post(place, Reply("the end"), "n")
        assert [one.text for one in teams.in_thread(thread)] == ["<p>the end</p>"]


async def test_unauthenticated_requests_are_not_taken_from_a_tunnel(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    async with FakeTeams() as teams, running(teams, StubEntry(), sqlite_db, insecure=True):
        sent = teams.said("ana", f"{teams.channel};messageid=1699", "one")
        passed_on: list[dict[str, Any]] = [
            {"X-Forwarded-For": "203.0.113.9"},
            {"Host": "evil.test"},
        ]
        for named in passed_on:
            assert (await teams.deliver(sent, token=None, **named)).status == 403


async def test_a_reminder_reaches_those_who_may_decide(world: World) -> None:
    await world.teams.say("ana", world.thread, "one")
    reminder = Reply("Still waiting.", mentions=(person("ben", world.teams), "slack:T1/U1"))
    await world.surface.post(Place("teams", TENANT, world.teams.channel, "1699"), reminder, "n")
    (shown,) = world.teams.in_thread(world.thread)
    (entity,) = shown.activity["entities"]
    assert entity["mentioned"]["id"] == world.teams.people["ben"].member
    assert shown.text == "<p><at>ben</at>, slack:T1/U1</p>\n<p>Still waiting.</p>"


async def test_what_a_clicker_is_told_hides_nothing(world: World) -> None:
    await world.teams.say("ana", world.thread, "one")
    place = Place("teams", TENANT, world.teams.channel, "1699")
    card = Card(
        nonce="n",
        version=1,
        kind=Kind.APPROVAL,
        state=CardState.OPEN,
        title="ops wants to run refund",
        agent="ops",
    )
    await world.surface.post(place, card, "n")
    (shown,) = world.teams.in_thread(world.thread)
    world.entry.answer = Response(done=False, sentence="Declined by B\u202een <at>all</at>.")
    refused = await world.teams.click("ben", shown, "Approve")
    assert refused.body["value"]["message"] == "Declined by B⟨U+202E⟩en <\u200bat>all<\u200b/at>."
    world.entry.answer = Response(done=True, sentence="1 of 2 approved: B\u202een.")
    told = await world.teams.click("ben", shown, "Approve")
    assert told.body["value"] == "1 of 2 approved: B⟨U+202E⟩en."


async def test_a_click_is_answered_while_the_conversation_is_still_being_noted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = asyncio.Event()

    async def note(*_: object) -> None:
        await busy.wait()

    monkeypatch.setattr(world.surface._conversations, "note", note)
    pressed = world.teams.activity(
        "ben",
        world.thread,
        type="invoke",
        name="adaptiveCard/action",
        value={"action": {"verb": "approve", "data": {"interlock": "n"}}},
    )
    try:
        async with asyncio.timeout(2):
            assert (await world.teams.deliver(pressed)).status == 200
    finally:
        busy.set()
    assert len(world.entry.decisions) == 1


async def test_a_redirection_is_an_answer_that_did_not_come(world: World) -> None:
    await world.teams.say("ana", world.thread, "one")
    world.teams.fail_next("post", 301)
    with pytest.raises(DeliveryError) as failed:
        await world.surface.post(
            Place("teams", TENANT, world.teams.channel, "1699"), Reply("x"), "n"
        )
    assert failed.value.maybe_sent
    assert world.teams.messages == []


async def test_a_name_is_one_that_every_database_keeps(world: World) -> None:
    world.teams.people["ana"].name = "A\x00" + "b" * 300
    await world.teams.say("ana", world.thread, "one")
    (message,) = world.entry.messages
    assert message.actor.name == "A\ufffd" + "b" * 198


async def test_a_token_that_does_not_come_holds_nobody_up_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.teams.say("ana", world.thread, "one")
    free = threading.Event()
    monkeypatch.setattr(limits, "CALL_MOST_SECONDS", 0.05)
    monkeypatch.setattr(Entra, "acquire_token_silent", lambda *_a, **_b: free.wait(5) and None)
    try:
        with pytest.raises(DeliveryError, match="in time"):
            await world.surface.post(
                Place("teams", TENANT, world.teams.channel, "1699"), Reply("x"), "n"
            )
    finally:
        free.set()


async def test_what_cannot_be_read_is_not_approved_by_a_client_that_was_not_offered_it(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    ran: list[str] = []

    @tool
    async def refund(order: str) -> str:
        """Refunds an order."""
        ran.append(order)
        return "ok"

    step = call("refund", order="A" * 200_000)
    async with product(sqlite_db, step, "Done.", tools=[refund]) as one:
        await one.mention()
        card = await one.card("wants to run refund")
        sent = one.teams.invoked("ben", card, "Decline")
        for verb in ("approve", "remember"):
            sent["value"]["action"]["verb"] = verb
            answer = await one.teams.deliver(sent)
            assert "too long to be shown here" in answer.body["value"]["message"]
        await one.teams.click("ben", card, "Decline")
        await one.reads("Done.")
    assert ran == []
