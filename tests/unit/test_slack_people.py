"""Who a person of Slack is: their standing, and the address that Slack has confirmed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.slack.events import Person
from adapters.slack.people import People, Unknown
from adapters.slack.workspaces import web_client
from bot.surface import Actor
from tests.fakes.clock import FakeClock
from tests.fakes.slack import BOT_TOKEN, TEAM, FakeSlack

ADDRESS = "Dan@Acme.test"


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack(FakeClock()) as fake:
        yield fake


async def seen(slack: FakeSlack, clock: FakeClock | None = None, **flags: Any) -> Actor:
    """Dan, as the surface sees them. `flags`: of tests.fakes.slack.workspace.User."""
    slack.add_user("U_DAN", **{"email": ADDRESS, **flags})
    people = People(web_client(slack.base_url, BOT_TOKEN), clock or FakeClock(), TEAM)
    return await people.actor(Person("U_DAN", TEAM))


async def test_an_address_that_slack_confirmed_comes_with_the_person(slack: FakeSlack) -> None:
    dan = await seen(slack)

    assert dan.email == ADDRESS
    assert ADDRESS not in repr(dan)
    assert dan.key == f"slack:{TEAM}/U_DAN"


async def test_an_address_that_is_not_confirmed_is_none(slack: FakeSlack) -> None:
    assert (await seen(slack, email_confirmed=False)).email == ""


async def test_an_address_is_not_taken_where_slack_says_nothing_of_a_confirmation(
    slack: FakeSlack,
) -> None:
    assert (await seen(slack, email_confirmed=None)).email is None


async def test_without_the_scope_slack_says_no_address(slack: FakeSlack) -> None:
    slack.world.scopes.discard("users:read.email")

    assert (await seen(slack)).email is None


@pytest.mark.parametrize("flags", [{"guest": True}, {"bot": True}, {"team": "T9"}])
async def test_the_address_of_a_guest_a_bot_or_an_outsider_is_not_taken(
    slack: FakeSlack, flags: dict[str, Any]
) -> None:
    assert (await seen(slack, **flags)).email is None


async def test_nobody_is_somebody_who_was_deleted(slack: FakeSlack) -> None:
    with pytest.raises(Unknown) as error:
        await seen(slack, deleted=True)
    assert error.value.gone


@pytest.mark.parametrize("change", ["deleted", "guest", "team"])
async def test_what_a_person_was_is_believed_for_a_minute_and_no_longer(
    slack: FakeSlack, change: str
) -> None:
    slack.add_user("U_DAN")
    clock = FakeClock()
    people = People(web_client(slack.base_url, BOT_TOKEN), clock, TEAM)
    dan = Person("U_DAN", TEAM)
    before = await people.actor(dan)

    setattr(slack.world.users["U_DAN"], change, "T9" if change == "team" else True)
    clock.advance(59)
    assert await people.actor(dan) == before
    clock.advance(2)
    if change == "deleted":
        with pytest.raises(Unknown):
            await people.actor(dan)
    else:
        after = await people.actor(dan)
        assert after.is_guest or after.is_external
    slack.fail_next("users.info", "internal_error")
    clock.advance(61)
    with pytest.raises(Unknown):
        await people.actor(dan)
