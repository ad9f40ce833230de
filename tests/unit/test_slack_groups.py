"""Who is in a user group or a channel: asked of Slack, believed for a minute, nobody on failure."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from adapters.slack.groups import Groups
from adapters.slack.workspaces import web_client
from bot.surface import DeliveryError
from tests.fakes.clock import FakeClock
from tests.fakes.slack import BOT_TOKEN, FakeSlack

ANA, BEN = "U_ANA", "U_BEN"


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack(FakeClock()) as fake:
        fake.add_usergroup("S1", "oncall", [ANA])
        yield fake


def groups(slack: FakeSlack, clock: FakeClock | None = None) -> Groups:
    return Groups(web_client(slack.base_url, BOT_TOKEN), clock or FakeClock())


async def test_the_members_of_a_user_group_are_believed_for_a_minute(slack: FakeSlack) -> None:
    clock = FakeClock()
    known = groups(slack, clock)
    assert await known.members("@S1") == {ANA}

    slack.world.usergroups["S1"].users.append(BEN)
    clock.advance(59)
    assert await known.members("@S1") == {ANA}
    clock.advance(1)
    assert await known.members("@S1") == {ANA, BEN}
    assert len(slack.calls_of("usergroups.users.list")) == 2


async def test_every_page_of_a_channel_is_read(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [f"U_{number}" for number in range(5)]
    for one in people:
        slack.add_user(one)
    slack.add_channel("C_ROOM", [*people])
    monkeypatch.setattr("adapters.slack.groups._PAGE", 2)

    assert await groups(slack).members("#C_ROOM") == set(people)
    assert len(slack.calls_of("conversations.members")) == 3


@pytest.mark.parametrize("group", ["@S9", "#C_NONE", "role:ops", ""])
async def test_what_slack_does_not_know_is_an_error(slack: FakeSlack, group: str) -> None:
    with pytest.raises(DeliveryError):
        await groups(slack).members(group)


async def test_a_channel_beyond_all_pages_is_an_error(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    slack.add_channel("C_ROOM", [ANA, BEN])
    monkeypatch.setattr("adapters.slack.groups._PAGE", 1)
    monkeypatch.setattr("adapters.slack.groups._PAGES", 1)
    with pytest.raises(DeliveryError, match="too many"):
        await groups(slack).members("#C_ROOM")


async def test_what_was_known_is_not_believed_when_slack_fails_later(slack: FakeSlack) -> None:
    clock = FakeClock()
    known = groups(slack, clock)
    await known.members("@S1")
    clock.advance(60)
    slack.fail_next("usergroups.users.list", "ratelimited")

    with pytest.raises(DeliveryError, match="ratelimited"):
        await known.members("@S1")
    assert await known.members("@S1") == {ANA}


async def test_a_user_group_that_was_disabled_has_no_members(slack: FakeSlack) -> None:
    slack.world.usergroups["S1"].disabled = True
    with pytest.raises(DeliveryError, match="no_such_subteam"):
        await groups(slack).members("@S1")


async def test_a_whole_enterprise_names_the_workspace_that_a_user_group_is_of(
    slack: FakeSlack,
) -> None:
    whole = slack.add_workspace("E_ACME", teams=("T_EAST", "T_WEST"))
    whole.world.token = "xoxb-whole"
    whole.add_usergroup("S7", "oncall", [ANA], team="T_WEST")
    known = Groups(web_client(slack.base_url, "xoxb-whole"), FakeClock())

    assert await known.members("@T_WEST/S7") == {ANA}
    for group, why in (
        ("@S7", "missing_argument"),
        ("@T_EAST/S7", "no_such_subteam"),
        ("@T_ELSE/S7", "invalid_team"),
    ):
        with pytest.raises(DeliveryError, match=why):
            await known.members(group)


async def test_a_workspace_of_its_own_needs_not_be_named(slack: FakeSlack) -> None:
    assert await groups(slack).members("@S1") == {ANA}
    (asked,) = slack.calls_of("usergroups.users.list")
    assert "team_id" not in asked.args
