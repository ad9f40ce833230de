"""The endpoint of Teams over real HTTP with signed tokens: who gets in, what is heard, what is sent
again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest

from adapters.teams.transport import TeamsSurface
from bot.surface import Actor, Place
from storage.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.teams import APP, TENANT, Entra, FakeTeams, signed
from tests.fakes.teams.server import OTHER_TENANT
from tests.fakes.teams.tokens import ISSUER, KEY, jwk, private
from tests.scenario.slack_world import StubEntry
from tests.scenario.teams_world import entra, running

__all__ = ["entra"]
pytestmark = pytest.mark.usefixtures("entra")


class World:
    def __init__(self, teams: FakeTeams, entry: StubEntry, surface: TeamsSurface) -> None:
        self.teams = teams
        self.entry = entry
        self.surface = surface
        self.thread = f"{teams.channel};messageid=1699"

    def message(self, text: Any = "restart it", **given: Any) -> dict[str, Any]:
        return self.teams.said("ana", self.thread, text, **given)


@pytest.fixture
async def world(sqlite_db: Database, entra: type[Entra]) -> AsyncIterator[World]:
    async with FakeTeams() as teams:
        entry = StubEntry()
        async with running(teams, entry, sqlite_db) as surface:
            yield World(teams, entry, surface)


async def test_what_a_person_says_is_heard_with_who_they_are(world: World) -> None:
    assert (await world.teams.deliver(world.message())).status == 200
    (message,) = world.entry.messages
    ana = world.teams.people["ana"]
    assert message.actor == Actor("teams", TENANT, ana.user, "ana")
    assert message.place == Place("teams", TENANT, world.teams.channel, "1699")
    assert message.text == "restart it"
    assert message.starts


async def test_guests_and_people_of_other_tenants_are_known_as_such(world: World) -> None:
    world.teams.people["ana"].role = "guest"
    world.teams.people["ben"].tenant = OTHER_TENANT
    await world.teams.say("ana", world.thread, "one")
    await world.teams.say("ben", world.thread, "two")
    guest, foreigner = (one.actor for one in world.entry.messages)
    assert guest.is_guest
    assert not guest.is_external
    assert foreigner.is_external
    assert foreigner.organisation == OTHER_TENANT


async def test_who_the_roster_does_not_know_is_not_heard(world: World) -> None:
    sent = world.message()
    sent["from"]["aadObjectId"] = world.teams.people["ben"].user  # another's account
    assert (await world.teams.deliver(sent)).status == 403
    sent = world.message()
    sent["from"] = {"id": "29:nobody", "aadObjectId": world.teams.people["ben"].user}
    assert (await world.teams.deliver(sent)).status == 403
    world.teams.fail_next("member", 404, "MemberNotFoundInConversation")
    world.surface._people._known.clear()
    assert (await world.teams.deliver(world.message())).status == 403
    world.surface._people._known.clear()
    world.teams.fail_next("member", 429, retry_after=9)
    assert (await world.teams.deliver(world.message())).status == 503  # Teams tries again
    assert world.entry.messages == []


def hs256(service_url: str) -> str:
    """Signed with the public key as if it were a secret."""
    claims = {"iss": ISSUER, "aud": APP, "exp": time.time() + 60, "serviceurl": service_url}
    return jwt.encode(claims, "k" * 64, algorithm="HS256", headers={"kid": KEY})


def unsigned(service_url: str) -> str:
    claims = {"iss": ISSUER, "aud": APP, "exp": time.time() + 60, "serviceurl": service_url}
    return jwt.encode(claims, "", algorithm="none", headers={"kid": KEY})


async def test_forged_tokens_are_refused_and_never_a_500(world: World) -> None:
    url = world.teams.service_url
    now = time.time()
    tokens: list[str | None] = [
        None,
        "x",
        "a.b.c",
        "é.é.é",
        signed(url)[:-4] + "AAAA",
        signed(url, key="key-2"),  # unknown
        signed(url, key=None, signer=KEY),
        signed(url, key=KEY, signer="key-2"),  # somebody else's under our id
        signed(url, exp=now - 600),
        signed(url, exp=None),
        signed(url, nbf=now + 3_600),
        signed(url, iss="https://evil.test"),
        signed(url, iss="https://sts.windows.net/d6d49420-f39b-4df7-a1dc-d59a935871db/", ver="1.0"),
        signed(url, aud="another"),
        signed(url, aud=None),
        signed(url, serviceurl=None),
        signed(url, serviceurl="https://smba.trafficmanager.net/x/"),
        signed(url, ver="1.0", appid="another-bot"),
        hs256(url),
        unsigned(url),
    ]
    for token in tokens:
        answer = await world.teams.deliver(world.message(), token)
        assert answer.status == 401, token
    for header in ("Basic abc", "Bearer", "bearer " + signed(url), "Bearer a b"):
        assert (
            await world.teams.deliver(world.message(), None, Authorization=header)
        ).status == 401
    assert world.entry.messages == []
    assert world.teams.key_fetches <= 2  # strangers make nobody fetch keys again and again


async def test_what_is_for_somebody_else_is_refused(world: World) -> None:
    teams = world.teams
    evil = "https://evil.test/"
    foreign = {"conversation": {"id": world.thread, "tenantId": OTHER_TENANT}}
    cases: list[tuple[dict[str, Any], str]] = [
        (world.message(channelId="webchat"), signed(teams.service_url)),
        (world.message(channelId=None), signed(teams.service_url)),
        (world.message(serviceUrl=evil), signed(evil)),
        (world.message(serviceUrl=None), signed(teams.service_url)),
        (world.message() | foreign, signed(teams.service_url)),
        (
            world.message() | foreign | {"channelData": {"tenant": {"id": OTHER_TENANT}}},
            signed(teams.service_url),
        ),
    ]
    for sent, token in cases:
        assert (await teams.deliver(sent, token)).status in (401, 403), sent
    assert world.entry.messages == []
    assert teams.calls == []  # nobody was asked anything for them


async def test_what_is_no_activity_is_refused(world: World) -> None:
    deliver = world.teams.deliver
    deep = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
    for raw in (b"", b"{", b"[]", b"7", b"null", b"{}", b'{"type": 7}', b"\xff", deep):
        assert (await deliver({}, raw=raw)).status == 400, raw[:20]
    assert (await deliver({}, raw=b"{}", **{"Content-Type": "text/plain"})).status == 415
    assert (await deliver({"type": "message", "text": "x" * 300_000})).status == 413
    assert (await deliver(world.message(conversation={"tenantId": TENANT}))).status == 400
    assert (await deliver(world.message(type="somethingNew"))).status == 200
    assert (await deliver(world.message(type="invoke", name="task/fetch"))).status == 400


async def test_a_small_fuzz_finds_no_500(world: World) -> None:
    dice = random.Random(7)
    odd: list[Any] = [None, 7, "", "x" * 400, [], {}, [[]], {"id": {}}, "19:a;messageid=", "\ud800"]
    for _ in range(150):
        sent = world.message() if dice.random() < 0.5 else click(world)
        for _ in range(dice.randint(1, 3)):
            key = dice.choice(sorted(sent))
            if isinstance(sent[key], dict) and sent[key] and dice.random() < 0.6:
                sent[key][dice.choice(sorted(sent[key]))] = dice.choice(odd)
            else:
                sent[key] = dice.choice(odd)
        answer = await world.teams.deliver(sent)
        assert answer.status in (200, 400, 401, 403, 503), (answer, sent)


def click(world: World) -> dict[str, Any]:
    data = {"interlock": "n0nce", "do": "approve"}
    return world.teams.activity(
        "ana",
        world.thread,
        type="invoke",
        name="adaptiveCard/action",
        replyToId="1",
        value={"action": {"type": "Action.Execute", "verb": "approve", "data": data}},
    )


async def test_the_same_request_twice_counts_once(world: World) -> None:
    sent, token = world.message(), signed(world.teams.service_url)
    for _ in range(3):
        assert (await world.teams.deliver(sent, token)).status == 200
    assert len(world.entry.messages) == 1
    await world.teams.say("ana", world.thread, "restart it")  # said again, a moment later
    assert len(world.entry.messages) == 2


async def test_what_was_answered_late_and_comes_under_another_id_counts_once(
    sqlite_db: Database,
) -> None:
    clock, entry = FakeClock(), StubEntry()
    async with FakeTeams() as teams, running(teams, entry, sqlite_db) as surface:
        surface._redeliveries._clock = clock
        thread = f"{teams.channel};messageid=1699"
        entered, release = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            entered.set()
            await release.wait()

        entry.pause = slow
        first = asyncio.create_task(teams.deliver(teams.said("ana", thread, "restart it")))
        await entered.wait()
        again = asyncio.create_task(teams.deliver(teams.said("ana", thread, "restart it")))
        clock.advance(20)
        release.set()
        assert {(await first).status, (await again).status} == {200}
        entry.pause = None
        clock.advance(30)
        await teams.say("ana", thread, "restart it")
        assert len(entry.messages) == 1
        clock.advance(200)
        await teams.say("ana", thread, "restart it")
        assert len(entry.messages) == 2


async def test_a_message_that_could_not_be_stored_is_delivered_again(world: World) -> None:
    world.entry.failing = 1
    sent = world.message()
    assert (await world.teams.deliver(sent)).status == 503
    sent["id"] += "1"  # Teams may give it another id
    assert (await world.teams.deliver(sent)).status == 200
    assert len(world.entry.messages) == 1


async def test_a_key_that_teams_begins_to_use_is_fetched(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    clock, entry = FakeClock(time.time()), StubEntry()
    async with FakeTeams() as teams, running(teams, entry, sqlite_db, clock) as surface:
        sent = teams.said("ana", teams.group, "hi")
        fresh = signed(teams.service_url, key="key-2", exp=time.time() + 7_200)
        assert (await teams.deliver(sent, fresh)).status == 401
        teams.keys = [jwk("key-2")]
        clock.advance(61)
        assert (await teams.deliver(sent, fresh)).status == 200
        assert await surface.ready()
        assert private("key-2") is not private(KEY)


async def test_a_key_begun_just_after_the_start_is_fetched_at_once_and_strangers_fetch_once(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    clock = FakeClock(time.time())
    async with FakeTeams() as teams, running(teams, StubEntry(), sqlite_db, clock):
        sent = teams.said("ana", teams.group, "hi")
        assert (await teams.deliver(sent)).status == 200
        before = teams.key_fetches
        teams.keys.append(jwk("key-2"))
        fresh = signed(teams.service_url, key="key-2")
        assert (await teams.deliver(teams.said("ana", teams.group, "ho"), fresh)).status == 200
        for number in range(5):
            forged = signed(teams.service_url, key=f"evil-{number}", signer="key-3")
            assert (await teams.deliver(sent, forged)).status == 401
        assert teams.key_fetches == before + 1


async def test_keys_that_are_not_endorsed_for_teams_sign_nothing(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    async with FakeTeams() as teams:
        teams.keys = [jwk(KEY, endorsements=("webchat",))]
        async with running(teams, StubEntry(), sqlite_db):
            assert (await teams.deliver(teams.said("ana", teams.group, "hi"))).status == 401


async def test_without_keys_nobody_is_heard_and_it_is_not_ready(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    async with FakeTeams() as teams:
        teams.keys = []
        async with running(teams, StubEntry(), sqlite_db) as surface:
            assert (await teams.deliver(teams.said("ana", teams.group, "hi"))).status == 401
            assert not await surface.ready()


async def test_unauthenticated_requests_are_for_this_machine_with_the_flag(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    async with FakeTeams() as teams:
        entry = StubEntry()
        async with running(teams, entry, sqlite_db, insecure=True):
            Entra.given.append("")  # the fake asks for a token; here there is none
            sent = teams.said("ana", teams.group, "hi")
            assert (await teams.deliver(sent, None)).status == 200
            sent = teams.said("ana", teams.group, "hi", serviceUrl="https://evil.test/")
            assert (await teams.deliver(sent, None)).status == 403
        assert len(entry.messages) == 1


async def test_commands_are_answered_for_the_person_alone(world: World) -> None:
    await world.teams.say("ana", world.thread, "status")
    (answer,) = await world.teams.until(lambda: world.teams.whispers)
    assert answer.text == "<p>the answer to status</p>"
    assert answer.seen_by == world.teams.people["ana"].member
    assert world.entry.messages == []
    assert world.teams.messages == []


async def test_edits_and_deletions_are_told(world: World) -> None:
    await world.teams.deliver(world.message(type="messageUpdate", id="1701"))
    gone = world.message(type="messageDelete", id="1701") | {"text": None}
    await world.teams.deliver(gone)
    assert [(one.source, one.text) for one in world.entry.changes] == [
        ("1701", "restart it"),
        ("1701", None),
    ]
