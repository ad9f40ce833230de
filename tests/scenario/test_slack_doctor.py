"""`interlock doctor` on Slack: what is wrong with an installation, and what to do about it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import pytest
from slack_bolt.response import BoltResponse

from adapters.slack import credentials, open_surface
from adapters.slack.people import People
from adapters.slack.settings import SCOPES
from bot import finding
from bot.finding import Finding, Health
from bot.surface import Place
from tests.fakes.clock import Clock, FakeClock
from tests.fakes.slack import APP_TOKEN, BOT_TOKEN, BOT_USER, SIGNING_SECRET, TEAM, FakeSlack, web
from tests.fakes.slack.workspace import Channel, Json, SlackError
from tests.scenario.slack_world import NOWHERE, Mode, StubEntry, living

ANA = f"slack:{TEAM}/U_ANA"
OPS = Place("slack", TEAM, "C_OPS", "")


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack(clock=FakeClock()) as made:
        made.world.scopes = set(SCOPES)
        yield made


async def checked(
    slack: FakeSlack,
    *,
    mode: Mode = "socket",
    clock: Clock | None = None,
    places: Iterable[Place] = (OPS,),
    people: Iterable[str] = (ANA,),
) -> list[Finding]:
    """What doctor finds; never a secret."""
    options = {"mode": mode, "base_url": slack.base_url}
    surface = open_surface(options, StubEntry(), clock or slack.clock, NOWHERE)
    found = await surface.check(list(places), list(people))
    for one in found:
        for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET"):
            assert not os.environ[name] or os.environ[name] not in f"{one}"
        assert one.sentence.endswith(".")
    return found


def of(found: list[Finding], what: str) -> list[Finding]:
    return [one for one in found if one.what == what]


def only(found: list[Finding], what: str) -> tuple[Health, str]:
    (one,) = of(found, what)
    return one.health, one.sentence


# --- All is well


@pytest.mark.parametrize(
    ("mode", "second"), [("socket", "Slack app token"), ("http", "Slack signing secret")]
)
async def test_a_sound_installation_is_well_in_every_respect(
    slack: FakeSlack, mode: Mode, second: str
) -> None:
    found = await checked(slack, mode=mode)
    assert [one.what for one in found] == [
        "Slack bot token",
        second,
        "Clock",
        "Slack scopes",
        "Slack channels",
        "Slack approvers",
        "Slack user groups",
    ]
    assert [one for one in found if one.health is not Health.OK] == []


async def test_a_bot_that_runs_does_not_notice(slack: FakeSlack) -> None:
    async for world in living("socket"):
        await world.surface.check([OPS], [ANA])
        assert len(world.slack.sockets) == 1
        posted = ("chat.postMessage", "chat.postEphemeral", "conversations.join", "views.publish")
        assert not [call for call in world.slack.calls if call.method in posted]
        await world.slack.direct("U_ANA", "hello")
        assert len(world.entry.messages) == 1


# --- Tokens


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("invalid_auth", "copy the Bot User OAuth Token"),
        ("token_revoked", "install the app in the workspace again"),
        ("account_inactive", "install the app in the workspace again"),
        ("token_expired", "install the app in the workspace again"),
        ("internal_error", "try again in a minute"),
    ],
)
async def test_a_bot_token_that_slack_refuses_says_what_to_do_and_hides_nothing_else(
    slack: FakeSlack, error: str, told: str
) -> None:
    slack.fail_next("auth.test", error)
    found = await checked(slack)
    health, sentence = only(found, "Slack bot token")
    assert health is Health.PROBLEM
    assert error in sentence
    assert told in sentence
    assert only(found, "Slack app token")[0] is Health.OK
    assert len(of(found, "Clock")) == 1
    assert [one.what for one in found] == ["Slack bot token", "Slack app token", "Clock"]


async def test_a_wrong_bot_token_is_not_known(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-wrong")
    found = await checked(slack)
    assert "Slack does not know SLACK_BOT_TOKEN" in only(found, "Slack bot token")[1]
    assert only(found, "Clock")[0] is Health.OK


async def test_the_token_of_a_person_is_none_of_a_bot(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_a_person(*_: Any) -> Json:
        return {"url": "https://t1.slack.test/", "team_id": TEAM, "user_id": "U_ANA", "user": "ana"}

    method = replace(web.METHODS["auth.test"], run=of_a_person)
    monkeypatch.setitem(web.METHODS, "auth.test", method)
    health, sentence = only(await checked(slack), "Slack bot token")
    assert health is Health.PROBLEM
    assert "token of a person" in sentence


async def test_a_slack_that_cannot_be_reached_is_said_once_for_each_token(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack.world, "base_url", "http://127.0.0.1:1/api/")
    found = await checked(slack)
    for what in ("Slack bot token", "Slack app token"):
        health, sentence = only(found, what)
        assert health is Health.PROBLEM
        assert "cannot be reached (ClientConnectorError)" in sentence


async def test_an_answer_that_is_none_of_slacks_hides_nothing(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = replace(web.METHODS["auth.test"], run=lambda *_: {"welcome": "to the hotel"})
    monkeypatch.setitem(web.METHODS, "auth.test", method)
    found = await checked(slack)
    assert "cannot be reached (something else answers)" in only(found, "Slack bot token")[1]
    assert only(found, "Slack app token")[0] is Health.OK


async def test_a_slack_that_is_down_is_said(slack: FakeSlack) -> None:
    slack.down = True
    found = await checked(slack)
    assert "status 503" in only(found, "Slack bot token")[1]
    assert "status 503" in only(found, "Slack app token")[1]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("missing_scope", "has not the scope connections:write"),
        ("invalid_auth", "does not know SLACK_APP_TOKEN"),
        ("token_revoked", "is no longer valid"),
        ("not_allowed_token_type", "is no app-level token"),
        ("forbidden_team", "see that Socket Mode is on"),
    ],
)
async def test_an_app_token_without_its_scope_is_told_from_a_wrong_one(
    slack: FakeSlack, error: str, told: str
) -> None:
    slack.fail_next("apps.connections.open", error)
    found = await checked(slack)
    health, sentence = only(found, "Slack app token")
    assert health is Health.PROBLEM
    assert told in sentence
    assert only(found, "Slack bot token")[0] is Health.OK


# --- Scopes


@pytest.mark.parametrize("scope", sorted(SCOPES))
async def test_a_missing_scope_says_what_stops_working(slack: FakeSlack, scope: str) -> None:
    slack.world.scopes.discard(scope)
    health, sentence = only(await checked(slack), "Slack scopes")
    spared = scope in ("channels:read", "groups:read", "usergroups:read", "users:read.email")
    assert health is (Health.WARNING if spared else Health.PROBLEM)
    assert sentence.startswith(f"{scope} is missing, so {credentials.LOST[scope]}: add it under")
    assert "install the app again" in sentence


async def test_scopes_that_nothing_uses_are_a_warning(slack: FakeSlack) -> None:
    slack.world.scopes |= {"admin", "channels:join"}
    warned, well = of(await checked(slack), "Slack scopes")
    assert (warned.health, well.health) == (Health.WARNING, Health.OK)
    assert "does not use admin, channels:join: take it out" in warned.sentence


async def test_scopes_that_slack_does_not_tell_are_no_problem(slack: FakeSlack) -> None:
    slack.world.scopes = set()
    health, sentence = only(await checked(slack), "Slack scopes")
    assert health is Health.WARNING
    assert "manifest.yaml" in sentence


# --- The signing secret


async def test_a_signing_secret_of_another_shape_is_a_problem(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_SIGNING_SECRET", "xoxb-pasted-by-mistake")
    shape, works = of(await checked(slack, mode="http"), "Slack signing secret")
    assert (shape.health, works.health) == (Health.PROBLEM, Health.OK)
    assert "copy it from Basic Information" in shape.sentence


async def test_a_sound_signing_secret_is_not_said_to_be_slacks(slack: FakeSlack) -> None:
    _, sentence = only(await checked(slack, mode="http"), "Slack signing secret")
    assert "only a delivery of Slack proves" in sentence


@pytest.mark.parametrize("status", [200, 401])
async def test_a_verifier_that_takes_all_or_nothing_is_found_out(
    slack: FakeSlack, status: int
) -> None:
    async def dispatch(_request: object) -> BoltResponse:
        return BoltResponse(status=status)

    found = [one async for one in credentials.signing_secret(SIGNING_SECRET, dispatch)]
    assert [one.health for one in found] == [Health.PROBLEM]


# --- The clock


@pytest.mark.parametrize(
    ("skew", "health", "told"),
    [
        (0, Health.OK, "that of Slack"),
        (59, Health.OK, "that of Slack"),
        (-59, Health.OK, "that of Slack"),
        (62, Health.WARNING, "62 s ahead of Slack"),
        (-62, Health.WARNING, "62 s behind Slack"),
        (239, Health.WARNING, "239 s ahead"),
        (242, Health.PROBLEM, "242 s ahead"),
        (-242, Health.PROBLEM, "242 s behind"),
    ],
)
@pytest.mark.parametrize("mode", ["http", "socket"])
async def test_a_clock_that_is_wrong_is_found_by_the_time_that_slack_says(
    slack: FakeSlack, mode: Mode, skew: float, health: Health, told: str
) -> None:
    clock = FakeClock(slack.clock.now() + skew)
    found, sentence = only(await checked(slack, mode=mode, clock=clock), "Clock")
    assert found is health
    assert told in sentence
    assert ("every request of Slack is refused" in sentence) == (abs(skew) > 60 and mode == "http")


# --- Channels


async def test_a_bot_without_chats_is_told_how_to_begin(slack: FakeSlack) -> None:
    health, sentence = only(await checked(slack, places=[]), "Slack channels")
    assert health is Health.OK
    assert "/invite @interlock" in sentence


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({}, "is no member: type /invite @interlock there"),
        ({"private": True}, "which it cannot see"),
        ({"archived": True}, "is archived"),
        (None, "which it cannot see"),
    ],
    ids=["left", "left a private one", "archived", "deleted"],
)
async def test_a_channel_where_chats_live_and_the_bot_does_not_is_a_warning(
    slack: FakeSlack, flags: dict[str, Any] | None, told: str
) -> None:
    if flags is not None:
        slack.add_channel("C_WEB", ["U_ANA"], **flags)
    found = await checked(slack, places=[OPS, replace(OPS, channel="C_WEB")])
    health, sentence = only(found, "Slack channels")
    assert health is Health.WARNING
    assert "C_WEB" in sentence
    assert told in sentence


async def test_direct_messages_and_other_workspaces_are_not_asked_about(slack: FakeSlack) -> None:
    direct, foreign = replace(OPS, channel="D1"), replace(OPS, organisation="T9")
    health, _ = only(await checked(slack, places=[direct, foreign, OPS]), "Slack channels")
    assert health is Health.OK
    assert [call.args["channel"] for call in slack.calls_of("conversations.info")] == ["C_OPS"]


async def test_a_group_message_needs_no_scope_of_its_own(slack: FakeSlack) -> None:
    slack.world.channels["G1"] = Channel("G1", "mpdm", "mpim", ["U_ANA", "U_BEN", BOT_USER])
    found = await checked(slack, places=[OPS, replace(OPS, channel="G1")])
    assert only(found, "Slack channels")[0] is Health.OK


async def test_channels_that_cannot_be_looked_at_say_why(slack: FakeSlack) -> None:
    slack.world.scopes.discard("channels:read")
    health, sentence = only(await checked(slack), "Slack channels")
    assert health is Health.WARNING
    assert "channels:read or groups:read is missing" in sentence


async def test_a_slack_that_asks_for_a_pause_is_obeyed(slack: FakeSlack) -> None:
    slack.fail_next("conversations.info", "ratelimited", retry_after=30.0)
    found = await checked(slack, places=[OPS, replace(OPS, channel="C_WEB")])
    health, sentence = only(found, "Slack channels")
    assert health is Health.WARNING
    assert "wait 30 s" in sentence
    assert len(slack.calls_of("conversations.info")) == 1


# --- Approvers


@pytest.mark.parametrize(
    ("user", "flags", "health", "told"),
    [
        ("U_NONE", None, Health.PROBLEM, "Slack knows no slack:T1/U_NONE"),
        ("U_OLD", {"deleted": True}, Health.PROBLEM, "is deactivated"),
        ("U_CI", {"bot": True}, Health.PROBLEM, "a bot decides nothing"),
        ("U_EXT", {"team": "T9"}, Health.PROBLEM, "name them slack:T9/U_EXT"),
        ("U_GUEST", {"guest": True}, Health.WARNING, "is a guest, and may decide"),
        ("U_BEN", {}, Health.OK, "All 2"),
    ],
)
async def test_an_approver_who_could_never_approve_is_found(
    slack: FakeSlack, user: str, flags: dict[str, Any] | None, health: Health, told: str
) -> None:
    if flags:
        slack.add_user(user, **flags)
    found = await checked(slack, people=[ANA, f"slack:{TEAM}/{user}"])
    assert only(found, "Slack approvers")[0] is health
    assert told in only(found, "Slack approvers")[1]


async def test_approvers_of_another_workspace_are_a_warning(slack: FakeSlack) -> None:
    found = of(await checked(slack, people=[ANA, "slack:T0123/U1"]), "Slack approvers")
    assert [one.health for one in found] == [Health.WARNING, Health.OK]
    assert "slack:T0123/U1 is of another workspace than T1" in found[0].sentence
    [call] = slack.calls_of("users.info")
    assert call.args["user"] == "U_ANA"


async def test_a_workspace_without_any_approver_is_a_warning(slack: FakeSlack) -> None:
    health, sentence = only(await checked(slack, people=[]), "Slack approvers")
    assert health is Health.WARNING
    assert "write approvers as slack:T1/USER" in sentence


async def test_an_approver_whom_slack_does_not_tell_about_is_a_warning(slack: FakeSlack) -> None:
    slack.fail_next("users.info", "internal_error")
    health, sentence = only(await checked(slack), "Slack approvers")
    assert health is Health.WARNING
    assert "internal_error" in sentence


@pytest.mark.parametrize(
    ("group", "health", "told"),
    [
        ("slack:T1/@S1", Health.OK, "slack:T1/@S1 has 1 members"),
        ("slack:T1/@S2", Health.WARNING, "has no members"),
        ("slack:T1/@S9", Health.PROBLEM, "no_such_subteam"),
        ("slack:T1/#C_NONE", Health.PROBLEM, "channel_not_found"),
        ("slack:T2/@S1", Health.PROBLEM, "is of another workspace than T1"),
    ],
)
async def test_a_group_that_lets_nobody_decide_is_found(
    slack: FakeSlack, group: str, health: Health, told: str
) -> None:
    slack.add_usergroup("S1", "oncall", ["U_ANA"])
    slack.add_usergroup("S2", "empty", [])
    found = await checked(slack, people=[group])
    assert of(found, "Slack approvers") == []
    assert only(found, "Slack groups of approvers")[0] is health
    assert told in only(found, "Slack groups of approvers")[1]


# --- User groups


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("plan_upgrade_required", "has no user groups: name people"),
        ("missing_scope", "usergroups:read"),
        ("ratelimited", "Slack asks to wait"),
        ("internal_error", "run doctor again"),
    ],
)
async def test_user_groups_that_cannot_be_read_are_a_warning(
    slack: FakeSlack, error: str, told: str
) -> None:
    slack.fail_next("usergroups.list", error)
    health, sentence = only(await checked(slack), "Slack user groups")
    assert health is Health.WARNING
    assert told in sentence


async def test_user_groups_that_can_be_read_are_counted(slack: FakeSlack) -> None:
    slack.add_usergroup("S1", "oncall", ["U_ANA"])
    assert "there are 1" in only(await checked(slack), "Slack user groups")[1]


# --- One check never hides another


async def test_a_check_that_hangs_is_given_up_and_the_others_are_told(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "CHECK_SECONDS", 0.3)
    slack.delay_next("usergroups.list", 60)  # of the fake's clock, which nobody moves
    slack.add_channel("C_WEB", [])
    slack.delay_next("users.info", 60)
    found = await checked(slack, people=["slack:T0/U1", ANA])
    assert only(found, "Slack user groups")[0] is Health.PROBLEM
    assert "took too long" in only(found, "Slack user groups")[1]
    told = [one.sentence for one in of(found, "Slack approvers")]
    assert "another workspace" in told[0]  # what was found before is kept
    assert "took too long" in told[1]
    for what in ("Slack bot token", "Slack app token", "Slack scopes", "Slack channels"):
        assert only(found, what)[0] is Health.OK


async def test_a_check_that_fails_is_a_finding_without_what_it_failed_on(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise SlackError(f"{BOT_TOKEN} {APP_TOKEN}")

    monkeypatch.setattr(People, "actor", fails)
    found = await checked(slack)
    health, sentence = only(found, "Slack approvers")
    assert health is Health.PROBLEM
    assert "could not be looked at (SlackError)" in sentence
    assert only(found, "Slack user groups")[0] is Health.OK


async def test_the_checks_go_on_at_once(slack: FakeSlack) -> None:
    slack.delay_next("usergroups.list", 1)
    slack.delay_next("conversations.info", 1)
    checking = asyncio.create_task(checked(slack))
    await slack.until(lambda: slack.calls_of("users.info"))
    await asyncio.sleep(0.05)
    assert isinstance(slack.clock, FakeClock)
    slack.clock.advance(1)
    assert len(await checking) == 7


def test_every_scope_says_what_stops_without_it() -> None:
    assert set(credentials.LOST) >= SCOPES
