"""The Slack surface against the strict fake: posts, requests, sockets and starting."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import web

from adapters.slack import open_surface, sockets
from bot.card import CardState
from bot.secrets import ConfigError
from bot.surface import (
    DeliveryError,
    File,
    Place,
    Reply,
)
from tests.fakes.clock import FakeClock
from tests.fakes.slack import (
    APP_TOKEN,
    BOT_TOKEN,
    SIGNING_SECRET,
    TEAM,
    FakeSlack,
    buttons_of,
    text_of,
)
from tests.scenario.slack_world import (
    APPROVAL,
    NOWHERE,
    Mode,
    StubEntry,
    World,
    card,
    living,
    running,
)


@pytest.fixture(params=["http", "socket"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async for made in living(request.param):
        yield made


@pytest.fixture
async def http() -> AsyncIterator[World]:
    async for made in living("http"):
        yield made


@pytest.fixture
async def socket() -> AsyncIterator[World]:
    async for made in living("socket"):
        yield made


# --- Posting


async def test_a_card_is_posted_into_its_thread_and_its_buttons_go_when_it_settles(
    world: World,
) -> None:
    place = await world.thread()
    ts = (await world.surface.post(place, APPROVAL, "post-1")).message_id
    [_, posted] = world.slack.thread("C_OPS", place.root)
    assert posted["ts"] == ts
    assert posted["metadata"]["event_payload"] == {"nonce": "post-1"}
    assert posted["unfurls"] == {"unfurl_links": False, "unfurl_media": False}
    assert "4711" in text_of(posted)
    assert "Approve" in buttons_of(posted)
    settled = card(state=CardState.DONE, outcome="Approved by ana at 10:00.")
    await world.surface.edit(place, ts, settled)
    assert buttons_of(world.slack.message("C_OPS", ts)) == []
    assert "Approved by ana at 10:00." in text_of(world.slack.message("C_OPS", ts))
    assert world.slack.message("C_OPS", ts)["metadata"]["event_payload"] == {"nonce": "post-1"}


async def test_a_post_whose_connection_dropped_may_be_there_and_is_found(http: World) -> None:
    place = await http.thread()
    http.slack.drop_next("chat.postMessage")
    with pytest.raises(DeliveryError) as failed:
        await http.surface.post(place, APPROVAL, "post-1")
    assert failed.value.maybe_sent
    assert not failed.value.permanent
    assert len(http.slack.calls_of("chat.postMessage")) == 1
    found = await http.surface.find(place, "post-1")
    assert found is not None
    assert found.message_id == http.slack.thread("C_OPS", place.root)[1]["ts"]
    assert await http.surface.find(place, "post-2") is None


async def test_only_our_own_post_is_found_on_whatever_page_it_stands(http: World) -> None:
    place = await http.thread()
    forged = {"event_type": "interlock", "event_payload": {"nonce": "post-1"}}
    channel = http.slack.world.channels["C_OPS"]
    for number in range(250):
        said = {"user": "U_BEN", "text": str(number), "thread_ts": place.root}
        http.slack.world.store(channel, {**said, "metadata": forged})
    ts = (await http.surface.post(place, Reply("here"), "post-1")).message_id
    found = await http.surface.find(place, "post-1")
    assert found is not None
    assert found.message_id == ts


@pytest.mark.parametrize(
    ("fault", "retry_after", "maybe_sent", "permanent"),
    [
        ({"error": "ratelimited", "retry_after": 7.0}, 7.0, False, False),
        ({"error": "channel_not_found"}, None, False, True),
        ({"error": "is_archived"}, None, False, True),
        ({"error": "token_revoked"}, None, False, True),
        ({"error": "internal_error"}, None, True, False),
        ({"error": "service_unavailable"}, None, False, False),
        ({"status": 503}, None, True, False),
        ({"status": 500}, None, True, False),
    ],
)
async def test_a_failed_post_says_whether_and_when_to_try_again(
    http: World,
    fault: dict[str, Any],
    retry_after: float | None,
    maybe_sent: bool,
    permanent: bool,
) -> None:
    place = await http.thread()
    http.slack.fail_next("chat.postMessage", **fault)
    with pytest.raises(DeliveryError) as failed:
        await http.surface.post(place, Reply("hi"), "post-1")
    error = failed.value
    assert (error.retry_after, error.maybe_sent, error.permanent) == (
        retry_after,
        maybe_sent,
        permanent,
    )
    assert BOT_TOKEN not in str(error)


async def test_an_edit_that_failed_is_never_maybe_sent(http: World) -> None:
    place = await http.thread()
    ts = (await http.surface.post(place, Reply("hi"), "post-1")).message_id
    http.slack.drop_next("chat.update")
    with pytest.raises(DeliveryError) as failed:
        await http.surface.edit(place, ts, Reply("ho"))
    assert not failed.value.maybe_sent
    with pytest.raises(DeliveryError) as gone:
        await http.surface.edit(place, "1.000001", Reply("ho"))
    assert gone.value.permanent


async def test_content_that_slack_refuses_goes_out_plain_with_its_buttons(
    http: World, caplog: pytest.LogCaptureFixture
) -> None:
    place = await http.thread()
    http.slack.fail_next("chat.postMessage", "invalid_blocks")
    ts = (await http.surface.post(place, APPROVAL, "post-1")).message_id
    assert "4711" in text_of(http.slack.message("C_OPS", ts))
    assert "Approve" in buttons_of(http.slack.message("C_OPS", ts))
    assert "invalid_blocks" in caplog.text


async def test_a_hostile_reply_pings_nobody(http: World) -> None:
    place = await http.thread()
    await http.surface.post(place, Reply("<!channel> <@U_BEN> <https://x.test|ok>"), "post-1")
    assert [ping for ping in http.slack.pings if ping.kind != "link"] == []


async def test_a_whisper_reaches_one_person_in_the_thread_and_is_inert(http: World) -> None:
    place = await http.thread()
    await http.surface.whisper(place, "U_BEN", "not you, <!channel>")
    [told] = http.slack.ephemerals("U_BEN")
    assert told["thread_ts"] == place.root
    assert http.slack.pings == []
    with pytest.raises(DeliveryError):
        await http.surface.whisper(place, "U_NOBODY", "hi")


# --- Requests and sockets


async def test_unsigned_stale_and_malformed_requests_are_refused(http: World) -> None:
    slack = http.slack
    event = json.dumps({"type": "event_callback", "team_id": TEAM, "event": {"type": "message"}})
    assert (await slack.deliver_http(event, signed=False)).status == 401
    assert (await slack.deliver_http(event, secret="wrong")).status == 401
    assert (await slack.deliver_http(event, timestamp=1)).status == 401
    assert (await slack.deliver_http(event, timestamp="soon")).status == 401
    assert (await slack.deliver_http("{no json")).status == 400
    assert (await slack.deliver_http("payload={no json")).status == 400
    assert (await slack.deliver_http("payload=[1]")).status == 400
    assert http.entry.messages == []


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "block_actions"},
        {"type": "block_actions", "actions": []},
        {"type": "block_actions", "actions": [{"action_id": "interlock.approve"}]},
        {"type": "view_submission", "view": {"callback_id": "interlock.form"}},
        {"type": "view_submission", "view": {"callback_id": "x", "state": 1}, "user": {"id": "U1"}},
        {
            "type": "event_callback",
            "team_id": TEAM,
            "event": {"type": "message", "user": 7, "channel": []},
        },
        {"type": "event_callback", "event": "message"},
        {"type": "event_callback", "team_id": TEAM, "event": {"type": "app_mention", "user": "x"}},
    ],
)
async def test_a_signed_payload_that_slack_does_not_send_is_refused_with_a_log_line(
    http: World, payload: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps(payload)
    if payload["type"] != "event_callback":
        body = urlencode({"payload": body})
    delivered = await http.slack.deliver_http(body)
    assert delivered.status in (200, 400), "a 500 would only bring it again"
    assert "refused" in caplog.text
    assert (http.entry.messages, http.entry.decisions) == ([], [])


async def test_the_address_is_verified_by_its_challenge(http: World) -> None:
    body = json.dumps({"type": "url_verification", "challenge": "abc", "token": "t"})
    delivered = await http.slack.deliver_http(body)
    assert (delivered.status, delivered.body) == (200, {"challenge": "abc"})


async def test_before_slack_said_who_we_are_requests_come_again() -> None:
    async with FakeSlack(clock=FakeClock()) as slack:
        surface = open_surface(
            {"mode": "http", "base_url": slack.base_url}, StubEntry(), slack.clock, NOWHERE
        )
        app = web.Application()
        app.add_routes(surface.routes())
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        slack.events_url = f"http://{host}:{port}/slack/events"
        assert (await slack.send_event({"type": "message"})).status == 503
        with pytest.raises(DeliveryError) as early:
            await surface.post(Place("slack", TEAM, "C_OPS", "1.000001"), Reply("hi"), "n")
        assert not early.value.permanent
        await runner.cleanup()


async def test_a_refreshed_and_a_cut_socket_are_replaced(socket: World) -> None:
    await socket.slack.sockets.refresh()
    await socket.slack.until(lambda: len(socket.slack.sockets) == 1)
    await socket.slack.direct("U_ANA", "after the refresh")
    assert [message.text for message in socket.entry.messages] == ["after the refresh"]


async def test_a_deaf_socket_is_made_anew(socket: World, caplog: pytest.LogCaptureFixture) -> None:
    [reading] = [t for t in asyncio.all_tasks() if "receive_messages" in repr(t.get_coro())]
    reading.cancel()  # connected, and nobody reads
    for _ in range(sockets.DEAF_CHECKS + 1):
        await asyncio.sleep(0.02)
        socket.clock.advance(sockets.WATCH_SECONDS)
    await socket.slack.until(lambda: "made anew" in caplog.text)
    await socket.slack.until(lambda: len(socket.slack.calls_of("apps.connections.open")) == 3)
    await socket.slack.until(lambda: len(socket.slack.sockets) == 1)
    await socket.slack.direct("U_ANA", "hello")
    assert len(socket.entry.messages) == 1


async def test_nothing_of_the_sdks_is_logged_below_warning_and_no_secret_at_all(
    http: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await http.slack.deliver_http('{"secret": "body"}', secret="wrong")
        ts = await http.posted(APPROVAL)
        await http.slack.click("U_ANA", "C_OPS", ts, "Approve")
    assert "body" not in caplog.text
    for secret in (BOT_TOKEN, APP_TOKEN, SIGNING_SECRET, "4711"):
        assert secret not in caplog.text


# --- Starting


async def test_a_missing_scope_is_said_at_start(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeSlack(clock=FakeClock()) as slack:
        slack.world.scopes.discard("users:read")
        async with running(slack, StubEntry(), "socket"):
            assert "lacks the scope users:read" in caplog.text
            assert caplog.text.count("lacks the scope") == 1


@pytest.mark.parametrize(
    ("name", "value", "mode", "said"),
    [
        ("SLACK_BOT_TOKEN", "", "socket", "SLACK_BOT_TOKEN is missing"),
        ("SLACK_APP_TOKEN", "", "socket", "SLACK_APP_TOKEN is missing"),
        ("SLACK_APP_TOKEN", "xoxb-wrong", "socket", "SLACK_APP_TOKEN is missing"),
        ("SLACK_SIGNING_SECRET", "", "http", "SLACK_SIGNING_SECRET is missing"),
        ("SLACK_BOT_TOKEN", "xoxb-wrong", "http", "SLACK_BOT_TOKEN is refused"),
        ("SLACK_APP_TOKEN", "xapp-wrong", "socket", "SLACK_APP_TOKEN is refused"),
    ],
)
async def test_a_wrong_setting_is_named_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, mode: Mode, said: str
) -> None:
    monkeypatch.setenv(name, value)
    async with FakeSlack(clock=FakeClock()) as slack:
        with pytest.raises(ConfigError) as wrong:
            async with running(slack, StubEntry(), mode):
                pass
    assert said in str(wrong.value)
    assert not value or value not in str(wrong.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "carrier pigeon"}, "surfaces.slack.mode"),
        ({"path": "no slash"}, "surfaces.slack.path"),
        ({"colour": "red"}, "surfaces.slack.colour"),
    ],
)
def test_an_option_that_does_not_fit_is_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        open_surface(options, StubEntry(), FakeClock(), NOWHERE)


def test_the_mode_follows_the_secrets_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_surface({}, StubEntry(), FakeClock(), NOWHERE).routes() == []
    monkeypatch.setenv("SLACK_APP_TOKEN", "")
    assert len(open_surface({}, StubEntry(), FakeClock(), NOWHERE).routes()) == 1


async def test_a_slack_that_is_not_there_yet_is_waited_for() -> None:
    clock = FakeClock()
    async with FakeSlack(clock=clock) as slack:
        slack.fail_next("auth.test", status=503)
        surface = open_surface(
            {"mode": "http", "base_url": slack.base_url}, StubEntry(), clock, NOWHERE
        )
        started = asyncio.Event()
        task = asyncio.create_task(surface.run(started))
        await slack.until(lambda: slack.calls_of("auth.test"))
        await asyncio.sleep(0.05)
        assert not started.is_set()
        clock.advance(1.0)
        await asyncio.wait_for(started.wait(), 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_file_is_uploaded_into_the_thread_and_found_again(world: World) -> None:
    place = await world.thread()
    file = File("image-1.png", "image/png", b"\x89PNG\r\n")
    assert await world.surface.find(place, "file_n1") is None
    await world.surface.post(place, file, "file_n1")
    shared = [one for one in world.slack.thread("C_OPS", place.root) if one.get("files")]
    assert [one["title"] for one in shared[0]["files"]] == ["image-1.png"]
    assert await world.surface.find(place, "file_n1") is not None
