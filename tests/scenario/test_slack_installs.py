"""Many workspaces: they install the app themselves, and none gets anything of another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.slack.installs import FRESH_SECONDS
from bot.surface import DeliveryError, Place, Reply
from storage.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.slack import (
    BOT_TOKEN,
    CLIENT_SECRET,
    Elsewhere,
    FakeSlack,
    text_of,
)
from tests.scenario.slack_browser import (
    KEY,
    OLD_KEY,
    Browser,
    for_many_workspaces,
    installed,
    said,
)
from tests.scenario.slack_world import APPROVAL, FORM, Mode, StubEntry, running


@pytest.fixture(autouse=True)
def _oauth(_tokens: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for_many_workspaces(monkeypatch)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def slack(clock: FakeClock) -> AsyncIterator[FakeSlack]:
    async with FakeSlack(clock) as slack:
        yield slack


@pytest.fixture(params=["http", "socket"])
def mode(request: pytest.FixtureRequest) -> Mode:
    mode: Mode = request.param
    return mode


def texts(where: Elsewhere, place: Place) -> list[str]:
    return [text_of(one) for one in where.thread(place.channel, place.root)]


async def test_a_workspace_installs_the_app_and_is_answered_with_its_own_token(
    slack: FakeSlack, sqlite_db: Database, mode: Mode
) -> None:
    acme = slack.add_workspace("T_ACME")
    async with installed(slack, sqlite_db, mode=mode) as (surface, entry):
        page = await Browser(slack).install(acme)
        assert (page.status, page.sentence) == (
            200,
            "Interlock is installed: invite it to a channel and mention it.",
        )
        place = await said(acme)
        assert [one.place for one in entry.messages] == [place]
        assert entry.messages[0].actor.key == "slack:T_ACME/U_ANA"
        await surface.post(place, Reply("on it"), "n1")
        assert texts(acme, place)[1:] == ["on it"]
        assert surface.link(place).startswith("https://t_acme.slack.test/archives/C_OPS/p")
    assert {call.method for call in slack.calls} <= {"oauth.v2.access", "apps.connections.open"}


async def test_two_workspaces_alike_in_every_id_get_nothing_of_each_other(
    slack: FakeSlack, sqlite_db: Database, mode: Mode
) -> None:
    acme, bold = slack.add_workspace("T_ACME"), slack.add_workspace("T_BOLD")
    async with installed(slack, sqlite_db, acme, bold, mode=mode) as (surface, entry):
        first, second = await said(acme, "one"), await said(bold, "two")
        assert [(one.place, one.text) for one in entry.messages] == [
            (first, "one"),
            (second, "two"),
        ]
        posted = await surface.post(first, APPROVAL, "n1")
        await surface.post(second, Reply("yours"), "n2")
        assert texts(bold, second)[1:] == ["yours"]
        assert "yours" not in str(texts(acme, first))
        click = await acme.click("U_BEN", "C_OPS", posted.message_id, "Approve")
        assert click.acked
        assert [one.place for one in entry.decisions] == [first]
        assert entry.decisions[0].actor.key == "slack:T_ACME/U_BEN"


async def test_a_workspace_that_did_not_install_it_is_not_served(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    acme, stranger = slack.add_workspace("T_ACME"), slack.add_workspace("T_ELSE")
    async with installed(slack, sqlite_db, acme) as (surface, entry):
        place = await said(stranger)
        typed = await stranger.slash("U_ANA", "C_OPS", "/interlock", "status")
        assert (entry.messages, entry.commands) == ([], [])
        assert typed.acked
        assert "not installed" in text_of(stranger.ephemerals("U_ANA")[-1])
        with pytest.raises(DeliveryError) as refused:
            await surface.post(place, Reply("on it"), "n1")
        assert refused.value.permanent
        assert surface.link(place) is None
    assert acme.calls_of("chat.postMessage") == []
    assert acme.calls_of("auth.teams.list") == []


async def test_after_a_restart_every_workspace_is_spoken_to_again(
    slack: FakeSlack, sqlite_db: Database, mode: Mode
) -> None:
    acme, bold = slack.add_workspace("T_ACME"), slack.add_workspace("T_BOLD")
    async with installed(slack, sqlite_db, acme, bold):
        pass
    async with installed(slack, sqlite_db, mode=mode) as (surface, entry):
        for one in (acme, bold):
            place = await said(one)
            assert surface.link(place)
            await surface.post(place, Reply("back"), "n1")
            assert texts(one, place)[1:] == ["back"]
        assert len(entry.messages) == 2


async def test_a_workspace_that_slack_refuses_at_the_start_does_not_keep_the_others(
    slack: FakeSlack, sqlite_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    acme, bold = slack.add_workspace("T_ACME"), slack.add_workspace("T_BOLD")
    async with installed(slack, sqlite_db, acme, bold):
        pass
    token = acme.kill_token()
    async with installed(slack, sqlite_db) as (surface, _):
        assert "Slack refuses the token of T_ACME (token_revoked)" in caplog.text
        assert token not in caplog.text
        await surface.post(await said(bold), Reply("back"), "n1")
        with pytest.raises(DeliveryError) as refused:
            await surface.post(await said(acme), Reply("back"), "n1")
        assert refused.value.permanent


async def test_a_slack_that_is_away_at_the_start_is_asked_again(
    slack: FakeSlack, clock: FakeClock, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    async with installed(slack, sqlite_db, acme):
        pass
    slack.fail_next("auth.test", status=503)
    async with installed(slack, sqlite_db) as (surface, entry):
        place = await said(acme)
        assert len(entry.messages) == 1
        assert surface.link(place) is None
        clock.advance(FRESH_SECONDS)
        await surface.post(place, Reply("back"), "n1")
        assert surface.link(place) is not None


async def test_the_way_to_install_is_logged_while_nobody_did(
    slack: FakeSlack, sqlite_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with installed(slack, sqlite_db):
        assert "no workspace has installed the app yet; it is done at /slack/install" in caplog.text


# --- Tokens at rest


def written(directory: Path) -> list[Path]:
    return list(directory.glob("one.db*"))


async def test_no_token_is_in_the_database_in_clear_text(
    slack: FakeSlack, tmp_path: Path, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    slack.installing.rotating = True
    async with installed(slack, sqlite_db, acme):
        async with sqlite_db.read() as tx:
            rows = (await tx.connection.exec_driver_sql("SELECT * FROM slack_bots")).fetchall()
        assert len(rows) == 1
        files = [path.read_bytes() for path in written(tmp_path)]
        assert len(files) >= 2  # also the journal beside it
        assert b"T_ACME" in b"".join(files)
        for secret in (acme.token, "xoxb-", "xoxe-"):
            assert secret not in str(rows)
            assert secret.encode() not in b"".join(files)


async def test_a_key_is_replaced_by_putting_the_new_one_first(
    slack: FakeSlack, sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = slack.add_workspace("T_ACME")
    monkeypatch.setenv("SLACK_TOKEN_KEY", OLD_KEY)
    async with installed(slack, sqlite_db, acme):
        pass
    for keys in (f"{KEY}, {OLD_KEY}", KEY):  # at the first start it is written under the new one
        monkeypatch.setenv("SLACK_TOKEN_KEY", keys)
        async with installed(slack, sqlite_db) as (surface, _):
            await surface.post(await said(acme), Reply("back"), "n1")


async def test_a_token_that_no_key_opens_counts_as_not_installed(
    slack: FakeSlack,
    sqlite_db: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    acme = slack.add_workspace("T_ACME")
    monkeypatch.setenv("SLACK_TOKEN_KEY", OLD_KEY)
    async with installed(slack, sqlite_db, acme):
        pass
    monkeypatch.setenv("SLACK_TOKEN_KEY", KEY)
    async with installed(slack, sqlite_db) as (surface, entry):
        place = await said(acme)
        await said(acme)
        assert entry.messages == []
        with pytest.raises(DeliveryError) as refused:
            await surface.post(place, Reply("back"), "n1")
        assert refused.value.permanent
        assert caplog.text.count("The token of T_ACME cannot be read") == 1
        await Browser(slack).install(acme)
        await surface.post(place, Reply("back"), "n1")
    monkeypatch.setenv("SLACK_TOKEN_KEY", OLD_KEY)  # what could not be read was left as it was
    async with installed(slack, sqlite_db) as (surface, _):
        with pytest.raises(DeliveryError):
            await surface.post(place, Reply("back"), "n1")


async def test_a_token_that_runs_out_is_replaced_once_and_goes_on_being_sealed(
    slack: FakeSlack, clock: FakeClock, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    slack.installing.rotating = True
    slack.installing.token_seconds = 7_300  # of which two hours are enough
    async with installed(slack, sqlite_db, acme) as (surface, _):
        first, place = acme.token, await said(acme)
        assert len(slack.calls_of("oauth.v2.access")) == 1
    slack.installing.token_seconds = 43_200
    async with installed(slack, sqlite_db) as (surface, _):
        assert acme.token == first
        async with sqlite_db.transaction("test") as tx:
            await tx.connection.exec_driver_sql(
                "UPDATE slack_bots SET bot_token_expires_at = datetime('now', '+119 minutes')"
            )
        clock.advance(FRESH_SECONDS)
        posts = [surface.post(place, Reply("now"), f"n{number}") for number in range(3)]
        await asyncio.gather(*posts)
        assert acme.token != first
        assert len(slack.calls_of("oauth.v2.access")) == 2
        async with sqlite_db.read() as tx:
            rows = (await tx.connection.exec_driver_sql("SELECT * FROM slack_bots")).fetchall()
        assert len(rows) == 1
        assert "xox" not in str(rows)


async def test_a_refused_rotation_leaves_the_token_that_is_still_good(
    slack: FakeSlack, sqlite_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    acme = slack.add_workspace("T_ACME")
    slack.installing.rotating = True
    slack.installing.token_seconds = 3_600
    async with installed(slack, sqlite_db) as (surface, _):
        slack.installing.refuse_refresh = True
        await Browser(slack).install(acme)
        await surface.post(await said(acme), Reply("still"), "n1")
        assert "Slack gives no new token for T_ACME" in caplog.text
        assert "xox" not in caplog.text


# --- Removed, and installed again


async def test_a_workspace_that_removes_the_app_is_forgotten_and_the_others_go_on(
    slack: FakeSlack, sqlite_db: Database, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    acme, bold = slack.add_workspace("T_ACME"), slack.add_workspace("T_BOLD")
    async with installed(slack, sqlite_db, acme, bold, mode=mode) as (surface, entry):
        here, there = await said(acme), await said(bold)
        await acme.remove_app()
        assert caplog.text.count("T_ACME removed the app") == 1
        for table in ("slack_bots", "slack_installations"):
            async with sqlite_db.read() as tx:
                rows = await tx.connection.exec_driver_sql(f"SELECT team_id FROM {table}")
                assert rows.fetchall() == [("T_BOLD",)]
        with pytest.raises(DeliveryError) as refused:
            await surface.post(here, Reply("hi"), "n1")
        assert refused.value.permanent
        await surface.post(there, Reply("hi"), "n1")
        assert texts(bold, there)[1:] == ["hi"]
        entry.messages.clear()
        await said(acme)
        assert entry.messages == []

        await Browser(slack).install(acme)
        await surface.post(await said(acme), Reply("again"), "n2")
        await surface.post(here, Reply("again"), "n3")
        assert texts(acme, here)[1:] == ["again"]


async def test_an_installation_counts_at_once_although_no_removal_was_told_before(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    async with installed(slack, sqlite_db, acme) as (surface, _):
        acme.kill_token()
        await Browser(slack).install(acme)
        await surface.post(await said(acme), Reply("again"), "n1")


async def test_what_another_process_removed_is_known_within_a_minute(
    slack: FakeSlack, clock: FakeClock, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    async with installed(slack, sqlite_db, acme) as (surface, entry):
        async with sqlite_db.transaction("test") as tx:
            await tx.connection.exec_driver_sql("DELETE FROM slack_bots")
        clock.advance(FRESH_SECONDS)
        place = await said(acme)
        assert entry.messages == []
        assert surface.link(place) is None


async def test_news_of_a_removal_that_comes_after_the_next_installation_removes_nothing(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    async with installed(slack, sqlite_db, acme) as (surface, _):
        await acme.remove_app()
        await Browser(slack).install(acme)
        await acme.deliveries.redeliver_last()
        await surface.post(await said(acme), Reply("still here"), "n1")


async def test_a_person_who_takes_their_own_token_back_removes_nothing(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    async with installed(slack, sqlite_db, acme) as (surface, _):
        await acme.send_event({"type": "tokens_revoked", "tokens": {"oauth": ["U_CYN"]}})
        await surface.post(await said(acme), Reply("still here"), "n1")


async def test_whether_a_token_is_dead_is_asked_again_when_slack_does_not_say(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    async with installed(slack, sqlite_db, acme) as (surface, _):
        acme.kill_token()
        slack.fail_next("auth.test", status=503)
        delivered = await acme.send_event({"type": "app_uninstalled"})
        assert delivered.acked  # at the second time
        with pytest.raises(DeliveryError, match="not installed") as lost:
            await surface.post(Place("slack", "T_ACME", "C_OPS", "1.000001"), Reply("hi"), "n1")
        assert lost.value.locked_out  # what is kept back goes out once it is installed again


async def test_with_one_token_its_removal_is_said_once(
    slack: FakeSlack,
    mode: Mode,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLACK_BOT_TOKEN", BOT_TOKEN)
    async with running(slack, StubEntry(), mode):
        await slack.send_event({"type": "tokens_revoked", "tokens": {"oauth": ["U_CYN"]}})
        assert "removed" not in caplog.text
        slack.world.token = None
        for _ in range(2):
            assert (await slack.send_event({"type": "app_uninstalled"})).acked
    assert caplog.text.count("The app was removed from the Slack workspace") == 1


async def test_what_is_sent_in_a_modal_is_held_to_its_workspace(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    async with installed(slack, sqlite_db, acme) as (surface, entry):
        entry.card = FORM
        posted = await surface.post(await said(acme), FORM, "n1")
        await acme.click("U_BEN", "C_OPS", posted.message_id, "Answer")
        [view] = await slack.until(
            lambda: [one for one in acme.open_views("U_BEN") if "submit" in one.body]
        )
        await acme.submit("U_BEN", view, {"amount": "5", "why": "late"})
        somewhere = Place("slack", "T_ACME", "", "")
        assert (entry.looks[-1][3], entry.decisions[-1].place) == (somewhere, somewhere)


# --- An Enterprise Grid


async def test_an_enterprise_that_installs_it_as_a_whole_is_served_in_all_its_workspaces(
    slack: FakeSlack, sqlite_db: Database, mode: Mode
) -> None:
    acme = slack.add_workspace("E_ACME", teams=("T_EAST", "T_WEST"))
    acme.add_user("U_WIM", "wim", team="T_WEST")
    acme.add_channel("C_WEST", ["U_WIM", "U_BOT"], team="T_WEST")
    acme.world.channels["C_OPS"].members.append("U_WIM")
    async with installed(slack, sqlite_db, mode=mode) as (surface, entry):
        page = await Browser(slack).install(acme)
        assert "/manage/E_ACME/integrations/profile/A_BOT/workspaces/add" in page.text
        east = await said(acme)
        west = Place("slack", "E_ACME", "C_WEST", await acme.mention("U_WIM", "C_WEST", "go"))
        assert [one.place for one in entry.messages] == [east, west]
        assert [one.actor.is_external for one in entry.messages] == [False, False]
        for place in (east, west):
            await surface.post(place, Reply("on it"), "n1")
            assert texts(acme, place)[1:] == ["on it"]
        assert surface.link(west).startswith("https://e_acme.slack.test/archives/C_WEST/")
        # A click says the person's team or none, never the channel's.
        posted = await surface.post(east, APPROVAL, "n2")
        await acme.click("U_WIM", "C_OPS", posted.message_id, "Approve")
        assert [(one.place, one.actor.key) for one in entry.decisions] == [
            (east, "slack:E_ACME/U_WIM")
        ]
        await acme.slash("U_WIM", "C_WEST", "/interlock", "status")
        assert entry.commands[0].place == Place("slack", "E_ACME", "C_WEST", "")


async def test_a_place_named_by_a_team_is_served_by_the_enterprise_that_has_it(
    slack: FakeSlack, clock: FakeClock, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("E_ACME", teams=("T_EAST", "T_WEST"))
    async with installed(slack, sqlite_db, acme) as (surface, _):
        place = await said(acme)
        await surface.post(Place("slack", "T_EAST", "C_OPS", place.root), Reply("on it"), "n1")
        assert texts(acme, place)[1:] == ["on it"]
        with pytest.raises(DeliveryError) as refused:
            await surface.post(Place("slack", "T_ELSE", "C_OPS", place.root), Reply("x"), "n1")
        assert refused.value.permanent
        assert len(acme.calls_of("auth.teams.list")) == 1
        clock.advance(FRESH_SECONDS)
        slack.fail_next("auth.teams.list", status=503)
        with pytest.raises(DeliveryError) as later:
            await surface.post(Place("slack", "T_EAST", "C_OPS", place.root), Reply("x"), "n1")
        assert not later.value.permanent


async def test_a_workspace_of_a_grid_that_installed_it_alone_is_one_of_its_own(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    whole = slack.add_workspace("E_ACME", teams=("T_EAST", "T_WEST"))
    alone = slack.add_workspace("T_LAB", enterprise="E_ACME")
    async with installed(slack, sqlite_db, whole, alone) as (surface, entry):
        there, here = await said(whole), await said(alone)
        assert [one.place.organisation for one in entry.messages] == ["E_ACME", "T_LAB"]
        assert entry.messages[1].actor.key == "slack:T_LAB/U_ANA"
        await surface.post(here, Reply("yours"), "n1")
        assert texts(alone, here)[1:] == ["yours"]
        await whole.remove_app()
        with pytest.raises(DeliveryError):
            await surface.post(there, Reply("x"), "n2")
        await surface.post(here, Reply("still"), "n3")


async def test_an_enterprise_token_does_not_serve_a_workspace_that_did_not_install_it(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    whole = slack.add_workspace("E_ACME", teams=("T_EAST",))
    alone = slack.add_workspace("T_LAB", enterprise="E_ACME")
    async with installed(slack, sqlite_db, whole) as (_, entry):
        await said(alone)
        assert entry.messages == []


async def test_what_a_person_of_another_workspace_says_in_a_shared_channel_is_of_ours(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    acme.add_user("U_EVE", "eve", team="T_ELSE")
    acme.add_channel("C_SHARED", ["U_EVE", "U_BOT"], ext_shared=True)
    async with installed(slack, sqlite_db, acme) as (_, entry):
        event = {"type": "app_mention", "user": "U_EVE", "channel": "C_SHARED", "text": "<@U_BOT>"}
        event |= {"ts": "1700000000.000100", "user_team": "T_ELSE", "team": "T_ELSE"}
        await acme.deliveries.event(event, team_id="T_ELSE", is_ext_shared_channel=True)
        [heard] = entry.messages
        assert heard.place.organisation == "T_ACME"
        assert (heard.actor.key, heard.actor.is_external) == ("slack:T_ELSE/U_EVE", True)


async def test_no_secret_is_logged(
    slack: FakeSlack, sqlite_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    acme = slack.add_workspace("T_ACME")
    with caplog.at_level(logging.DEBUG, "adapters"):
        async with installed(slack, sqlite_db, acme) as (surface, _):
            await surface.post(await said(acme), Reply("hi"), "n1")
    assert "T_ACME installed the app" in caplog.text
    for secret in (acme.token, CLIENT_SECRET, KEY):
        assert secret not in caplog.text


async def test_doctor_looks_at_every_workspace_that_installed_the_app(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    acme, bold = slack.add_workspace("T_ACME"), slack.add_workspace("T_BOLD")
    async with installed(slack, sqlite_db, acme, bold) as (surface, _):
        assert bold.world.token is not None
        bold.world.dead_tokens[bold.world.token] = "token_revoked"
        bold.world.token = "xoxb-another"
        found = await surface.check([], [])
    sentences = [f"{one.health}: {one.sentence}" for one in found]
    assert "ok: T_ACME knows @interlock by its token." in sentences
    assert (
        "problem: The token of T_BOLD is not good any more (token_revoked): an admin there has to "
        "install the app again."
    ) in sentences
    assert not [one for one in found if "xoxb" in one.sentence or "SLACK_BOT_TOKEN" in one.sentence]


async def test_doctor_looks_at_the_user_groups_that_policies_name_in_an_enterprise(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    whole = slack.add_workspace("E_ACME", teams=("T_EAST", "T_WEST"))
    whole.add_usergroup("S_ONCALL", "oncall", ["U_BEN"], team="T_WEST")
    named = ["slack:E_ACME/@T_WEST/S_ONCALL", "slack:E_ACME/@T_EAST/S_ONCALL"]
    async with installed(slack, sqlite_db, whole) as (surface, _):
        found = await surface.check([], named)
    sentences = [f"{one.health}: {one.sentence}" for one in found]
    assert "ok: slack:E_ACME/@T_WEST/S_ONCALL has 1 members." in sentences
    assert sum("T_EAST/S_ONCALL cannot be looked up (" in one for one in sentences) == 1
    assert not [one for one in found if one.what == "Slack user groups"]


async def test_doctor_says_when_nobody_has_installed_the_app(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    async with installed(slack, sqlite_db) as (surface, _):
        found = await surface.check([], [])
    assert "No workspace has installed the app yet: open /slack/install of this server." in [
        one.sentence for one in found
    ]
