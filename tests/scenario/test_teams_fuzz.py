"""Thousands of requests that nobody of Teams sends, from one seed, over real HTTP: none is a 500,
none that is forged is heard, none that is said again counts twice."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sized
from typing import Any, Final

import pytest

from adapters.teams import actions
from bot.surface import Response
from storage.database import Database
from tests.fakes.teams import APP, TENANT, Entra, FakeTeams, signed
from tests.fakes.teams.server import OTHER_TENANT
from tests.fakes.teams.tokens import ISSUER
from tests.scenario.slack_world import StubEntry
from tests.scenario.teams_world import entra, running
from tests.scenario.test_teams_transport import hs256, unsigned

__all__ = ["entra"]
pytestmark = pytest.mark.usefixtures("entra")

SECRET: Final = "s3cret"  # of teams_world.running
VERBS: Final = sorted(
    {one for name, one in vars(actions).items() if name.isupper() and isinstance(one, str)}
)
ODD: Final[list[Callable[[], Any]]] = [
    lambda: None,
    lambda: True,
    lambda: -1,
    lambda: 10**400,
    lambda: 1e308,
    lambda: float("nan"),
    lambda: "",
    lambda: "x" * 70_000,
    lambda: "a\x00b",
    lambda: "\ud800",
    lambda: "\u202e\u200b",
    lambda: "19:a@thread.tacv2;messageid=",
    lambda: "../../etc/passwd?x#y",
    list,
    dict,
    lambda: [[[]]],
    lambda: {"id": {}},
    lambda: [None, {"type": "mention", "mentioned": None}],
    lambda: json.loads("[" * 400 + "]" * 400),
]


class World:
    def __init__(self, teams: FakeTeams, entry: StubEntry) -> None:
        self.teams = teams
        self.entry = entry
        self.thread = f"{teams.channel};messageid=1699"

    @property
    def heard(self) -> int:
        entry = self.entry
        heard: tuple[Sized, ...] = (
            entry.messages,
            entry.changes,
            entry.decisions,
            entry.groups,
            entry.looks,
            entry.reads,
            entry.cancelled,
            entry.again,
            entry.commands,
            entry.homes,
            entry.previews,
            entry.rules,
            entry.revoked,
        )
        return sum(map(len, heard))

    def recorded(self) -> Iterator[dict[str, Any]]:
        """One of everything that Teams sends, and of what it does not."""
        teams, thread = self.teams, self.thread
        yield teams.said("ana", thread, "restart it")
        yield teams.said("ana", teams.personal("ana"), "restart it")
        yield teams.said("ben", teams.group, "status")
        for verb in [*VERBS, "no_such_verb"]:
            yield self.pressed(verb)
            yield teams.activity(
                "ana", thread, text=None, value={"interlock": "n0nce", "do": verb}, replyToId="1"
            )
        for kind in ("messageUpdate", "messageDelete"):
            yield teams.said("ana", thread, "restart that", type=kind)
        for kind in ("add", "remove", "add-upgrade", "odd"):
            yield teams.activity("ana", thread, type="installationUpdate", action=kind)
        yield teams.activity(
            "ana", thread, type="conversationUpdate", membersAdded=[{"id": "29:x"}]
        )
        for kind in ("typing", "messageReaction", "event", "endOfConversation", "somethingNew"):
            yield teams.activity("ana", thread, type=kind)
        for name in ("task/fetch", "composeExtension/query", "fileConsent/invoke", "", "new/one"):
            yield teams.activity("ana", thread, type="invoke", name=name, value={"data": {}})

    def pressed(self, verb: str) -> dict[str, Any]:
        data = {"interlock": "n0nce", "do": verb, "page": 1, "home": True, "f0": "7"}
        return self.teams.activity(
            "ana",
            self.thread,
            type="invoke",
            name="adaptiveCard/action",
            replyToId="1",
            value={"action": {"type": "Action.Execute", "verb": verb, "data": data}},
        )


@pytest.fixture
async def world(sqlite_db: Database, entra: type[Entra]) -> AsyncIterator[World]:
    async with FakeTeams() as teams:
        entry = StubEntry()
        async with running(teams, entry, sqlite_db):
            yield World(teams, entry)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing failed inside, and nothing that is secret was written down."""
    caplog.set_level(logging.INFO)
    yield
    for record in caplog.get_records("call"):
        assert record.levelno < logging.ERROR, record.getMessage()
        assert record.exc_info is None, record.getMessage()
        assert SECRET not in record.getMessage()
        assert "eyJ" not in record.getMessage()  # a token


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key in it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


async def test_every_key_of_every_activity_may_be_anything_or_missing(world: World) -> None:
    """Signed by Teams: what is inside may still be odd."""
    dice = random.Random(1)
    token = signed(world.teams.service_url)
    for recorded in list(world.recorded()):
        for number in range(len(list(places(recorded)))):
            sent = copy.deepcopy(recorded)
            holder, key = list(places(sent))[number]
            if dice.random() < 0.2:
                del holder[key]
            else:
                holder[key] = dice.choice(ODD)()
            answer = await world.teams.deliver(sent, token)
            assert answer.status in (200, 400, 401, 403, 413), (answer, str(sent)[:2_000])


async def test_what_is_forged_is_never_heard_whatever_it_says(world: World) -> None:
    teams, url = world.teams, world.teams.service_url
    now = time.time()
    tokens: list[str | None] = [
        None,
        "x",
        "a.b.c",
        ".." * 4_000,
        signed(url)[:-4] + "AAAA",
        signed(url, key="no-such"),
        signed(url, key=None),
        signed(url, signer="key-2"),
        signed(url, exp=now - 3_600),
        signed(url, exp=None),
        signed(url, nbf=now + 3_600),
        signed(url, aud="another"),
        signed(url, aud=[APP + "x"]),
        signed(url, iss=ISSUER + ".evil.test"),
        signed(url, iss=None),
        signed("https://evil.test/"),
        hs256(url),
        unsigned(url),
    ]
    for recorded in list(world.recorded()):
        for token in tokens:
            answer = await teams.deliver(recorded, token)
            assert answer.status in (400, 401, 403), (answer, token, recorded)
    assert world.heard == 0
    assert teams.calls == []
    assert teams.key_fetches <= 2


async def test_what_is_for_another_tenant_service_or_channel_is_never_heard(world: World) -> None:
    teams = world.teams
    evil = "https://evil.test/"
    for recorded in list(world.recorded()):
        place = recorded["conversation"] | {"tenantId": OTHER_TENANT}
        foreign = {"channelData": {"tenant": {"id": OTHER_TENANT}}}
        for wrong, token in (
            ({"conversation": place}, None),
            (foreign, None),
            ({"conversation": place} | foreign, None),
            ({"serviceUrl": evil}, None),
            ({"serviceUrl": evil}, signed(evil)),
            ({"channelId": "directline"}, None),
            ({"channelId": None}, None),
        ):
            answer = await teams.deliver(recorded | wrong, token or "")
            assert answer.status in (400, 401, 403), (answer, recorded | wrong)
    assert world.heard == 0
    assert teams.calls == []


async def test_bytes_that_are_no_activity_are_refused(world: World) -> None:
    dice = random.Random(3)
    good = json.dumps(world.pressed("approve")).encode()
    kinds = ("application/json", "text/plain", "application/json; charset=nonsense", "", "é/;;")
    for _ in range(600):
        raw = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(raw))
            match dice.randrange(4):
                case 0:
                    raw[at] = dice.randrange(256)
                case 1:
                    del raw[at:]
                    raw += b"\x00"
                case 2:
                    raw[at:at] = bytes(dice.randrange(256) for _ in range(8))
                case _:
                    raw[at:at] = b"[" * dice.choice((3, 3_000))
        content = dice.choice(kinds) if dice.random() < 0.3 else kinds[0]
        answer = await world.teams.deliver({}, raw=bytes(raw), **{"Content-Type": content})
        assert answer.status in (200, 400, 401, 403, 413, 415), (answer, bytes(raw)[:300])
    for encoded in ("utf-16", "utf-32", "utf-8-sig", "cp500"):
        text = good.decode().encode(encoded)
        assert (await world.teams.deliver({}, raw=text)).status in (200, 400), encoded
    for size in (257 * 1024, 1024 * 1024 + 1):
        assert (await world.teams.deliver({}, raw=b" " * size)).status == 413


async def test_what_is_sent_again_is_heard_once(world: World) -> None:
    teams, entry = world.teams, world.entry
    token = signed(teams.service_url)
    said = [teams.said("ana", world.thread, f"restart {number}") for number in range(40)]
    for sent in said:
        await asyncio.gather(*(teams.deliver(sent, token) for _ in range(3)))
    assert len(entry.messages) == len(said)
    entry.answer = Response(done=True)
    pressed = world.pressed(actions.APPROVE)
    for again in (pressed, pressed, pressed | {"id": "999999"}):
        assert (await teams.deliver(again, token)).status == 200
    # The entry takes a nonce once; the surface hands on nothing but who, what and the nonce.
    assert len({(one.nonce, one.verb, one.actor) for one in entry.decisions}) == 1
    assert {one.actor.organisation for one in entry.decisions} == {TENANT}
