"""The fake Slack of several workspaces is judged: strict about codes, secrets and tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.fakes.clock import FakeClock
from tests.fakes.slack import CLIENT_ID, CLIENT_SECRET, Elsewhere, FakeSlack

ADDRESS = f"https://slack.com/oauth/v2/authorize?state=s&client_id={CLIENT_ID}&scope=chat:write,users:read"


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack(FakeClock()) as slack:
        yield slack


@pytest.fixture
def acme(slack: FakeSlack) -> Elsewhere:
    return slack.add_workspace("T_ACME")


def client(slack: FakeSlack, token: str | None = None) -> AsyncWebClient:
    return AsyncWebClient(token=token, base_url=slack.base_url, retry_handlers=[])


async def exchanged(slack: FakeSlack, secret: str = CLIENT_SECRET, **given: Any) -> Any:
    made = await client(slack).oauth_v2_access(client_id=CLIENT_ID, client_secret=secret, **given)
    return made.data


async def test_a_code_is_good_once_and_gives_the_token_of_its_workspace(
    slack: FakeSlack, acme: Elsewhere
) -> None:
    code = acme.allow(ADDRESS)
    made = await exchanged(slack, code=code)
    assert (made["access_token"], made["team"]["id"]) == (acme.token, "T_ACME")
    assert made["scope"] == "chat:write,users:read"
    assert (await client(slack, acme.token).auth_test())["team_id"] == "T_ACME"
    with pytest.raises(SlackApiError, match="invalid_code"):
        await exchanged(slack, code=code)


async def test_a_code_is_not_given_out_for_a_wrong_secret_nor_after_ten_minutes(
    slack: FakeSlack, acme: Elsewhere
) -> None:
    code = acme.allow(ADDRESS)
    with pytest.raises(SlackApiError, match="bad_client_secret"):
        await exchanged(slack, "wrong", code=code)
    slack.clock.advance(601)  # type: ignore[attr-defined]
    with pytest.raises(SlackApiError, match="invalid_code"):
        await exchanged(slack, code=code)
    assert acme.world.token is None


async def test_an_exchange_needs_basic_authentication_and_a_form(
    slack: FakeSlack, acme: Elsewhere
) -> None:
    url = f"{slack.base_url}oauth.v2.access"
    async with aiohttp.ClientSession() as http:
        async with http.post(url, data={"code": acme.allow(ADDRESS)}) as answer:
            assert (await answer.json())["error"] == "invalid_client_id"
        login = aiohttp.encode_basic_auth(CLIENT_ID, CLIENT_SECRET)
        headers = {"Authorization": login}
        async with http.post(url, json={"code": acme.allow(ADDRESS)}, headers=headers) as answer:
            assert (await answer.json())["error"] == "invalid_form_data"


async def test_a_token_reaches_its_own_workspace_only(slack: FakeSlack, acme: Elsewhere) -> None:
    bold = slack.add_workspace("T_BOLD")
    for one in (acme, bold):
        await exchanged(slack, code=one.allow(ADDRESS))
    bold.add_channel("C_BOLD", ["U_BOT"])
    with pytest.raises(SlackApiError, match="channel_not_found"):
        await client(slack, acme.token).chat_postMessage(channel="C_BOLD", text="hi")
    await client(slack, bold.token).chat_postMessage(channel="C_BOLD", text="hi")
    assert acme.world.channels["C_OPS"].messages == {}


async def test_a_token_lives_until_the_app_is_removed_and_the_next_one_is_another(
    slack: FakeSlack, acme: Elsewhere
) -> None:
    await exchanged(slack, code=acme.allow(ADDRESS))
    first = acme.token
    await exchanged(slack, code=acme.allow(ADDRESS))
    assert acme.token == first
    acme.kill_token("account_inactive")
    with pytest.raises(SlackApiError, match="account_inactive"):
        await client(slack, first).auth_test()
    await exchanged(slack, code=acme.allow(ADDRESS))
    assert acme.token != first


async def test_a_refresh_token_is_good_once(slack: FakeSlack, acme: Elsewhere) -> None:
    slack.installing.rotating = True
    made = await exchanged(slack, code=acme.allow(ADDRESS))
    again = {"grant_type": "refresh_token", "refresh_token": made["refresh_token"]}
    fresh = await exchanged(slack, **again)
    assert fresh["access_token"] == acme.token != made["access_token"]
    with pytest.raises(SlackApiError, match="invalid_refresh_token"):
        await exchanged(slack, **again)


async def test_an_enterprise_as_a_whole_has_one_token_for_its_teams(slack: FakeSlack) -> None:
    whole = slack.add_workspace("E1", teams=("T_EAST", "T_WEST"))
    made = await exchanged(slack, code=whole.allow(ADDRESS))
    assert (made["team"], made["enterprise"]["id"]) == (None, "E1")
    assert made["is_enterprise_install"] is True
    speaking = client(slack, whole.token)
    assert (await speaking.auth_test())["team_id"] is None
    teams = await speaking.auth_teams_list()
    assert [team["id"] for team in teams["teams"]] == ["T_EAST", "T_WEST"]
