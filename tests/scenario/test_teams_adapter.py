"""The Teams surface against the fake, without the product: what is posted, edited and clicked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from botframework.connector.auth import (  # type: ignore[import-untyped]
    managedidentity_app_credentials,
)

from adapters.teams import limits
from adapters.teams.botbuilder import NoToken, SafeAdapter
from adapters.teams.clouds import CLOUDS
from adapters.teams.gate import Gate
from adapters.teams.outcome import NO_ANSWER
from adapters.teams.settings import TeamsSettings
from adapters.teams.transport import TeamsSurface
from bot.card import Argument, Card, CardState, Kind
from bot.field import Field, FieldType
from bot.finding import Health
from bot.remember import THREAD
from bot.surface import DeliveryError, File, Place, Reply, Response, Status, Verb
from storage.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.teams import TENANT, Entra, FakeTeams, Shown, buttons_of
from tests.scenario.slack_world import StubEntry
from tests.scenario.teams_world import entra, running

__all__ = ["entra"]
pytestmark = pytest.mark.usefixtures("entra")


def card(kind: Kind = Kind.APPROVAL, **given: Any) -> Card:
    base: dict[str, Any] = {
        "nonce": "n0nce",
        "version": 1,
        "state": CardState.OPEN,
        "title": "ops wants to run refund",
        "agent": "ops",
        "tool": "refund",
        "deciders": (f"teams:{TENANT}/00000000-0000-0000-0000-000000000002",),
    }
    return Card(kind=kind, **(base | given))


APPROVAL = card(arguments=(Argument("order", "4711"),), remember="do not ask again")
SETTLED = replace(APPROVAL, state=CardState.DONE, outcome="Approved by ben.")


class World:
    def __init__(
        self, teams: FakeTeams, entry: StubEntry, surface: TeamsSurface, clock: FakeClock
    ) -> None:
        self.teams = teams
        self.entry = entry
        self.surface = surface
        self.clock = clock
        self.place = Place("teams", TENANT, "", "")

    async def begin(self) -> None:
        thread = await self.teams.mention("ana", "hello")
        channel, _, root = thread.partition(";messageid=")
        self.place = Place("teams", TENANT, channel, root)
        self.entry.messages.clear()

    async def posted(self, drawn: Card = APPROVAL, nonce: str = "p1") -> Shown:
        self.entry.card = drawn
        posted = await self.surface.post(self.place, drawn, nonce)
        assert posted.place == self.place
        return self.teams.messages[-1]


@pytest.fixture
async def world(sqlite_db: Database, entra: type[Entra]) -> AsyncIterator[World]:
    clock = FakeClock()
    async with FakeTeams() as teams:
        entry = StubEntry()
        async with running(teams, entry, sqlite_db) as surface:
            one = World(teams, entry, surface, clock)
            await one.begin()
            yield one
            entry.pause = None


async def test_a_card_is_posted_in_its_thread_and_edited_there(world: World) -> None:
    shown = await world.posted()
    assert shown.thread == f"{world.place.channel};messageid={world.place.root}"
    assert "<at>ben</at>" in shown.text
    await world.surface.edit(world.place, shown.id, SETTLED)
    assert "Approved by ben." in shown.text
    assert buttons_of(shown.card or {}) == []


@pytest.mark.parametrize(
    ("button", "inputs", "verb", "response", "remembered"),
    [
        ("Approve", {"note": "x"}, Verb.APPROVE, None, False),
        ("Approve for this thread", {}, Verb.APPROVE, None, True),
        ("Decline", {"note": "x"}, Verb.DECLINE, None, False),
        ("Decline with the note", {"note": " no "}, Verb.DECLINE, " no ", False),
        ("Decline with the note", {"note": " "}, Verb.DECLINE, None, False),
    ],
)
async def test_what_each_button_of_an_approval_does(
    world: World, button: str, inputs: dict[str, str], verb: Verb, response: Any, remembered: bool
) -> None:
    shown = await world.posted()
    world.entry.answer = Response(done=True, sentence="Approved by ben.", card=SETTLED)
    await world.teams.click("ben", shown, button, inputs)
    (decision,) = world.entry.decisions
    assert (decision.verb, decision.response, decision.nonce) == (verb, response, "n0nce")
    assert decision.remember == (THREAD if remembered else None)
    assert decision.place == world.place
    assert decision.actor.user == world.teams.people["ben"].user
    assert "Approved by ben." in str(shown.own["ben"])


async def test_old_clients_do_the_same_by_a_message(world: World) -> None:
    shown = await world.posted()
    world.entry.answer = Response(done=True, card=SETTLED)
    assert (await world.teams.submit("ben", shown, "Decline with the note", note="no")).body is None
    assert world.entry.decisions[0].response == "no"
    world.entry.answer = Response(done=False, sentence="You may not decide this.")
    await world.teams.submit("cyn", shown, "Approve")
    (told,) = await world.teams.until(lambda: world.teams.whispers)
    assert told.text == "You may not decide this."
    assert told.seen_by == world.teams.people["cyn"].member


async def test_where_several_must_approve_the_card_stays_and_the_clicker_is_told(
    world: World,
) -> None:
    shown = await world.posted()
    world.entry.answer = Response(done=True, sentence="One more must approve.", card=APPROVAL)
    answer = await world.teams.click("ben", shown, "Approve")
    assert answer.body["type"] == "application/vnd.microsoft.activity.message"
    assert answer.body["value"] == "One more must approve."


async def test_a_form_that_is_wrong_says_what_is_and_keeps_what_was_typed(world: World) -> None:
    form = card(Kind.FORM, fields=(Field("amount", FieldType.INTEGER, maximum=9),))
    shown = await world.posted(form)
    answer = await world.teams.click("ben", shown, "Send", {"f0": "70"})
    assert "amount" in answer.body["value"]["message"]
    assert answer.body["statusCode"] == 400
    world.entry.refusal = "You may not answer this."
    answer = await world.teams.click("ben", shown, "Send", {"f0": "7"})
    assert answer.body["value"]["message"] == "You may not answer this."
    assert world.entry.decisions[-1].response == NO_ANSWER  # who tried is on record


async def test_a_page_is_finished(world: World) -> None:
    page = card(Kind.PAGE, url="https://login.test/a")
    await world.teams.click("ben", await world.posted(page), "I have finished")
    assert world.entry.decisions[0].verb is Verb.ANSWER


async def test_a_button_that_is_none_of_ours_decides_nothing(world: World) -> None:
    sent = world.teams.invoked("ben", await world.posted(), "Approve")
    sent["value"]["action"]["verb"] = "grant_everything"
    answer = await world.teams.deliver(sent)
    assert answer.body["type"] == "application/vnd.microsoft.error"
    assert world.entry.decisions == []


async def test_nothing_is_decided_for_somebody_teams_does_not_know(world: World) -> None:
    shown = await world.posted()
    world.surface._people._known.clear()
    world.teams.fail_next("member", 502)
    world.teams.fail_next("member", 502)
    answer = await world.teams.click("ben", shown, "Approve")
    assert "did not say who you are" in answer.body["value"]["message"]
    world.entry.failing = 1
    answer = await world.teams.click("ben", shown, "Approve")
    assert "nothing was decided" in answer.body["value"]["message"]
    assert world.entry.decisions == []


async def test_a_slow_decision_is_answered_in_time_and_told_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INVOKE_SECONDS", 0.1)
    shown = await world.posted()
    release = asyncio.Event()
    world.entry.pause = release.wait
    world.entry.answer = Response(done=False, sentence="You may not decide this.")
    answer = await world.teams.click("ben", shown, "Approve")
    assert "being recorded" in answer.body["value"]
    release.set()
    (told,) = await world.teams.until(lambda: world.teams.whispers)
    assert told.text == "You may not decide this."


async def test_a_person_is_written_to_alone(world: World) -> None:
    ben = world.teams.people["ben"]
    direct = world.surface.direct(TENANT, ben.user)
    assert direct is not None
    posted = await world.surface.post(direct, APPROVAL, "p1")
    assert posted.place == Place("teams", TENANT, world.teams.personal("ben"), "chat")
    await world.surface.edit(posted.place, posted.message_id, SETTLED)
    assert "Approved by ben." in world.teams.messages[-1].text
    world.entry.answer = Response(done=True, card=SETTLED)
    assert world.surface.direct(TENANT, "ben") is None
    stranger = world.surface.direct(TENANT, ben.user[:-1] + "9")
    assert stranger is not None
    with pytest.raises(DeliveryError) as failed:
        await world.surface.post(stranger, APPROVAL, "p2")
    assert failed.value.permanent


async def test_a_new_thread_is_begun_in_a_channel(world: World) -> None:
    posted = await world.surface.post(replace(world.place, root=""), Reply("Good morning"), "p1")
    assert posted.place.root == posted.message_id
    assert world.teams.messages[-1].thread.endswith(f";messageid={posted.message_id}")
    await world.surface.post(posted.place, Reply("and more"), "p2")
    assert len(world.teams.in_thread(world.teams.messages[-1].thread)) == 2


async def test_a_whisper_is_seen_by_one_person_wherever_they_are(world: World) -> None:
    ben = world.teams.people["ben"]
    await world.surface.whisper(world.place, ben.user, "psst <b>")
    (told,) = world.teams.whispers
    assert (told.seen_by, told.text) == (ben.member, "psst <b>")
    world.teams.targeted = False
    await world.surface.whisper(world.place, ben.user, "psst again")
    assert world.teams.messages[-1].thread == world.teams.personal("ben")
    assert world.teams.messages[-1].text == "psst again"
    assert "recipient" not in world.teams.messages[-1].activity


async def test_a_text_that_grows_is_edited_every_two_seconds_and_at_its_end(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    clock = FakeClock()
    async with FakeTeams() as teams, running(teams, StubEntry(), sqlite_db) as surface:
        surface._delivery._clock = clock
        one = World(teams, StubEntry(), surface, clock)
        await one.begin()
        posted = await surface.post(one.place, Reply("a", live=True), "p1")
        for text in ("ab", "abc"):
            await surface.edit(one.place, posted.message_id, Reply(text, live=True))
        assert teams.messages[-1].text == "<p>ab</p>"
        clock.advance(2.1)
        await surface.edit(one.place, posted.message_id, Reply("abcd", live=True))
        await surface.edit(one.place, posted.message_id, Reply("abcde"))
        assert (teams.messages[-1].text, teams.messages[-1].edits) == ("<p>abcde</p>", 3)


async def test_it_is_seen_that_the_agent_is_at_work(world: World) -> None:
    await world.surface.status(world.place, Status.PROCESSING)
    await world.surface.status(world.place, Status.PROCESSING)
    await world.teams.until(lambda: world.teams.typing)
    await world.surface.status(world.place, Status.SUSPENDED)
    assert len(world.teams.typing) == 1
    await world.teams.until(lambda: not world.surface._typing._tasks)
    await world.surface.status(world.place, Status.PROCESSING)
    await world.teams.until(lambda: len(world.teams.typing) == 2)


@pytest.mark.parametrize("how", [{"status": 502}, {"status": 504}, {"drop": True}])
async def test_a_post_is_repeated_once_with_a_word_of_it_and_then_given_up(
    world: World, how: dict[str, Any]
) -> None:
    world.teams.fail_next("post", taken=True, **how)
    with pytest.raises(DeliveryError) as failed:
        await world.posted()
    assert failed.value.maybe_sent
    assert world.teams.count("post") == 1
    assert await world.surface.find(world.place, "p1") is None
    world.teams.fail_next("post", taken=True, **how)
    with pytest.raises(DeliveryError) as failed:
        await world.posted()
    assert "may stand here twice" in world.teams.messages[-1].text
    with pytest.raises(DeliveryError) as failed:
        await world.surface.find(world.place, "p1")
    assert failed.value.permanent
    assert "may stand here twice" not in (await world.posted(nonce="p2")).text


async def test_an_edit_is_repeated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPEAT_SECONDS", 0.0)
    shown = await world.posted()
    world.teams.fail_next("put", 412)
    await world.surface.edit(world.place, shown.id, SETTLED)
    assert "Approved by ben." in shown.text
    world.teams.fail_next("put", 429, retry_after=3)
    with pytest.raises(DeliveryError) as failed:
        await world.surface.edit(world.place, shown.id, SETTLED)
    assert failed.value.retry_after is not None


async def test_where_the_bot_was_never_or_is_not_any_more_nothing_is_sent(world: World) -> None:
    unknown = replace(world.place, channel="19:other@thread.tacv2")
    with pytest.raises(DeliveryError) as failed:
        await world.surface.post(unknown, APPROVAL, "p1")
    assert failed.value.unreachable
    left = world.teams.activity(
        "ana", world.place.channel, type="installationUpdate", action="remove"
    )
    assert (await world.teams.deliver(left)).status == 200
    with pytest.raises(DeliveryError) as failed:
        await world.surface.post(world.place, APPROVAL, "p1")
    assert failed.value.unreachable
    came = left | {"action": "add"}
    assert (await world.teams.deliver(came)).status == 200
    await world.posted()


async def test_what_teams_does_not_have_yet_is_said(world: World) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: world.surface.post(world.place, File("a.txt", "text/plain", b"x"), "p1"),
        lambda: world.surface.fetch(world.place, {}, 1),
        lambda: world.surface.members(TENANT, "g"),
        lambda: world.surface.earlier(world.place, "1"),
    ]
    for one in calls:
        with pytest.raises(DeliveryError) as failed:
            await one()
        assert failed.value.permanent


async def test_who_calls_before_it_listens_is_asked_to_come_again(world: World) -> None:
    world.surface._listening = False
    answer = await world.teams.deliver(world.teams.said("ana", world.teams.group, "hi"))
    assert answer.status == 503
    assert not await world.surface.ready()
    assert world.entry.messages == []


async def test_one_token_serves_every_call_and_is_asked_for_again_when_it_is_gone(
    world: World,
) -> None:
    for number in range(3):
        await world.posted(nonce=f"p{number}")
    assert len(Entra.given) == 1
    assert Entra.made == [(world.surface._settings.app_id, "s3cret", login())]


def login() -> str:
    return f"https://login.microsoftonline.com/{TENANT}"


@pytest.mark.parametrize(
    ("cloud", "authority"),
    [("gcc", "https://login.microsoftonline.com/"), ("dod", "https://login.microsoftonline.us/")],
)
async def test_each_cloud_has_its_own_login(cloud: str, authority: str, entra: type[Entra]) -> None:
    settings = TeamsSettings("app", TENANT, "s3cret", frozenset(), CLOUDS[cloud], "/api/messages")
    gate = Gate("app", frozenset(), settings.cloud)
    adapter = SafeAdapter(settings, gate, FakeClock())
    await adapter.start()
    await adapter.token()
    adapter.stop()
    assert Entra.made == [("app", "s3cret", authority + TENANT)]


async def test_a_managed_identity_asks_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Identity:
        def __init__(self, identity: dict[str, str], **_given: Any) -> None:
            asked.append(identity["Id"])

        def acquire_token_for_client(self, resource: str) -> dict[str, str]:
            return {"access_token": resource} if len(asked) < 2 else {"error": "no identity"}

    monkeypatch.setattr(managedidentity_app_credentials.msal, "ManagedIdentityClient", Identity)
    settings = TeamsSettings("app", TENANT, "", frozenset(), CLOUDS["public"], "/api/messages")
    for refused in (False, True):
        adapter = SafeAdapter(settings, Gate("app", frozenset(), settings.cloud), FakeClock())
        await adapter.start()
        if refused:
            with pytest.raises(NoToken):
                await adapter.token()
        else:
            await adapter.token()
        adapter.stop()
    assert asked == ["app", "app"]


async def test_doctor_says_what_is_wrong(
    sqlite_db: Database, entra: type[Entra], caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeTeams() as teams, running(teams, StubEntry(), sqlite_db) as surface:
        healthy = await surface.check([], [])
        assert [one.health for one in healthy][:2] == [Health.OK, Health.OK]
    Entra.forget()
    Entra.refusing = True
    async with FakeTeams() as teams, running(teams, StubEntry(), sqlite_db) as surface:
        teams.keys = []
        await world_says(teams)
        found = await surface.check([], [])
        [token] = [one for one in found if one.what == "Teams token"]
        assert token.health is Health.PROBLEM
        assert "s3cret" not in str(found) + caplog.text
        assert "TEAMS_APP_PASSWORD" in token.sentence


async def world_says(teams: FakeTeams) -> None:
    answer = await teams.deliver(teams.said("ana", teams.group, "hi"))
    assert answer.status == 503  # the roster cannot be asked without a token
