"""What a review of the Teams surface found, over real HTTP."""

from __future__ import annotations

import json

import pytest

from bot.surface import Place, Reply
from storage.database import Database
from tests.fakes.teams import TENANT, Entra, FakeTeams
from tests.scenario.slack_world import StubEntry
from tests.scenario.teams_world import entra, running
from tests.scenario.test_teams_transport import World, world

__all__ = ["entra", "world"]
pytestmark = pytest.mark.usefixtures("entra")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
async def test_a_body_that_is_not_encoded_as_it_says_is_refused(
    world: World, encoding: str
) -> None:
    raw = json.dumps(world.message()).encode()
    answer = await world.teams.deliver(None, raw=raw, **{"Content-Encoding": encoding})
    assert answer.status == 400
