"""The fake Slack is a judge, so it is judged here: with a real Bolt app, over both transports."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from tests.fakes.clock import FakeClock
from tests.fakes.slack import (
    APP_TOKEN,
    BOT_USER,
    SIGNING_SECRET,
    FakeSlack,
    buttons_of,
    text_of,
)
from tests.unit.slack_samples import CARD, FORM, Json


@pytest.fixture
def app(client: AsyncWebClient, monkeypatch: pytest.MonkeyPatch) -> AsyncApp:
    """A small bot: a card for each mention, a form behind a button, a command."""
    monkeypatch.delenv("SLACK_CLIENT_ID", raising=False)
    monkeypatch.delenv("SLACK_CLIENT_SECRET", raising=False)
    bolt = AsyncApp(client=client, signing_secret=SIGNING_SECRET)

    @bolt.event("app_mention")
    async def asked(event: Json, say: Any) -> None:
        await say(text="Restart web?", blocks=CARD, thread_ts=event["ts"])

    @bolt.event("message")
    async def written(event: Json) -> None:
        del event

    @bolt.event("app_home_opened")
    async def home(event: Json, client: AsyncWebClient) -> None:
        blocks = [{"type": "section", "text": {"type": "plain_text", "text": "Nothing waits"}}]
        await client.views_publish(user_id=event["user"], view={"type": "home", "blocks": blocks})

    @bolt.action("yes")
    async def approved(ack: Any, body: Json, client: AsyncWebClient, respond: Any) -> None:
        await ack()
        where = {"channel": body["channel"]["id"], "ts": body["message"]["ts"]}
        await client.chat_update(**where, text="Approved")
        await respond(text="Thank you", replace_original=False)

    @bolt.action("form")
    async def details(ack: Any, body: Json, client: AsyncWebClient) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=FORM)

    @bolt.view("details")
    async def submitted(ack: Any, view: Json) -> None:
        values = view["state"]["values"]
        if values["hours"]["v"]["value"] == "7":
            await ack(response_action="errors", errors={"hours": "not seven"})
        else:
            await ack()

    @bolt.command("/interlock")
    async def command(ack: Any, command: Json) -> None:
        await ack(f"you said {command['text']}")

    @bolt.shortcut("note")
    async def noted(ack: Any) -> None:
        await ack()

    return bolt


@pytest.fixture(params=["http", "socket"])
async def bot(
    request: pytest.FixtureRequest, app: AsyncApp, slack: FakeSlack
) -> AsyncIterator[str]:
    """The small bot, connected over one of the two transports."""
    if request.param == "http":
        async with serving(app, slack):
            yield "http"
        return
    handler = AsyncSocketModeHandler(app, APP_TOKEN)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    await slack.until(lambda: len(slack.sockets) == 1)
    yield "socket"
    await handler.close_async()  # type: ignore[no-untyped-call]
    await handler.client.aiohttp_client_session.close()


class serving:
    """The bot's HTTP server, for as long as the block runs."""

    def __init__(self, app: AsyncApp, slack: FakeSlack) -> None:
        self.runner = web.AppRunner(app.web_app(path="/slack/events"), access_log=None)
        self.slack = slack

    async def __aenter__(self) -> None:
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        port = self.runner.addresses[0][1]
        self.slack.events_url = f"http://127.0.0.1:{port}/slack/events"

    async def __aexit__(self, *failure: object) -> None:
        del failure
        await self.runner.cleanup()


async def answered(slack: FakeSlack, thread: str) -> Json:
    """The bot's first answer in a thread of C_OPS."""
    found = await slack.until(lambda: slack.thread("C_OPS", thread)[1:])
    return found[0]


# People and the bot, over both transports


@pytest.mark.usefixtures("bot")
async def test_a_mention_is_answered_with_a_card_in_its_thread(slack: FakeSlack) -> None:
    ts = await slack.mention("U_ANA", "C_OPS", "restart web")
    card = await answered(slack, ts)
    assert "Restart *web*?" in text_of(card)
    assert buttons_of(card) == ["Approve", "Details"]
    kinds = [body["event"]["type"] for body, _ in slack.deliveries.sent]
    ids = {body["event_id"] for body, _ in slack.deliveries.sent}
    assert sorted(kinds) == ["app_mention", "message"]
    assert len(ids) == 2
    assert slack.refused == []


@pytest.mark.usefixtures("bot")
async def test_a_click_takes_the_buttons_away_and_thanks_one_person(slack: FakeSlack) -> None:
    card = await answered(slack, await slack.mention("U_ANA", "C_OPS", "restart web"))
    pressed = await slack.click("U_BEN", "C_OPS", card["ts"], "Approve")
    assert pressed.acked
    await slack.until(lambda: slack.ephemerals("U_BEN"))
    assert buttons_of(slack.message("C_OPS", card["ts"])) == []
    assert text_of(slack.ephemerals("U_BEN")[0]) == "Thank you"
    assert slack.ephemerals("U_ANA") == []
    with pytest.raises(AssertionError, match="nothing called 'Approve'"):
        await slack.click("U_BEN", "C_OPS", card["ts"], "Approve")


@pytest.mark.usefixtures("bot")
async def test_a_modal_is_filled_in_by_label_and_errors_keep_it_open(slack: FakeSlack) -> None:
    card = await answered(slack, await slack.mention("U_ANA", "C_OPS", "book"))
    pressed = await slack.click("U_ANA", "C_OPS", card["ts"], "form")
    view = await slack.until(lambda: pressed.view)
    assert slack.open_views("U_ANA") == [view]

    refused = await slack.submit("U_ANA", view, {"Hours": 7, "Seat": "Aisle"})
    assert refused.errors == {"hours": "not seven"}
    assert slack.open_views("U_ANA") == [view]

    accepted = await slack.submit("U_ANA", view, {"Hours": 2})
    assert accepted.action is None
    assert accepted.trouble == ""
    assert slack.open_views("U_ANA") == []


@pytest.mark.usefixtures("bot")
async def test_a_command_is_answered_to_one_person(slack: FakeSlack) -> None:
    typed = await slack.slash("U_CYN", "C_OPS", "/interlock", "status")
    assert typed.acked
    assert [text_of(m) for m in slack.ephemerals("U_CYN")] == ["you said status"]


@pytest.mark.usefixtures("bot")
async def test_a_shortcut_reaches_the_bot(
    slack: FakeSlack,
) -> None:
    assert (await slack.shortcut("U_ANA", "note")).acked


@pytest.mark.usefixtures("bot")
async def test_opening_the_home_tab_publishes_it(slack: FakeSlack) -> None:
    await slack.open_home("U_ANA")
    view = await slack.until(lambda: slack.home("U_ANA"))
    assert text_of(view.body) == "Nothing waits"


@pytest.mark.usefixtures("bot")
async def test_a_lost_acknowledgement_brings_the_same_event_again(slack: FakeSlack) -> None:
    await slack.direct("U_ANA", "hello")
    assert (await slack.redeliver_last()).acked
    first, again = [body["event_id"] for body, _ in slack.deliveries.sent]
    assert first == again


# HTTP only


async def test_only_a_right_and_fresh_signature_is_accepted(
    app: AsyncApp, slack: FakeSlack
) -> None:
    async with serving(app, slack):
        await slack.direct("U_ANA", "hello")
        assert slack.deliveries.last is not None
        body = '{"type": "event_callback", "event": {"type": "message"}}'
        assert (await slack.deliver_http(body)).status == 200
        assert (await slack.deliver_http(body, secret="other")).status == 401
        assert (await slack.deliver_http(body, timestamp=1_700_000_000)).status == 401
        assert (await slack.deliver_http(body, signed=False)).status == 401


async def test_an_event_is_retried_at_once_then_after_a_minute_then_after_five(
    slack: FakeSlack, clock: FakeClock
) -> None:
    seen: list[tuple[str, str | None, str | None]] = []

    async def failing(request: web.Request) -> web.Response:
        head = request.headers
        event_id = (await request.json())["event_id"]
        seen.append((event_id, head.get("x-slack-retry-num"), head.get("x-slack-retry-reason")))
        return web.Response(status=500)

    server = web.Application()
    server.router.add_post("/events", failing)
    runner = web.AppRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    slack.events_url = f"http://127.0.0.1:{runner.addresses[0][1]}/events"
    await slack.say("U_ANA", "C_OPS", "hello")
    assert [num for _, num, _ in seen] == [None, "1"]
    assert await slack.redeliver() == 0
    clock.advance(60)
    assert await slack.redeliver() == 1
    clock.advance(300)
    assert await slack.redeliver() == 1
    assert [(num, why) for _, num, why in seen] == [
        (None, None),
        ("1", "http_error"),
        ("2", "http_error"),
        ("3", "http_error"),
    ]
    assert len({event_id for event_id, _, _ in seen}) == 1
    assert slack.deliveries.pending == []
    assert len(slack.deliveries.lost) == 1
    await runner.cleanup()


async def test_an_answer_after_three_seconds_is_late(slack: FakeSlack, clock: FakeClock) -> None:
    async def slow(request: web.Request) -> web.Response:
        del request
        clock.advance(3.5)
        return web.Response()

    server = web.Application()
    server.router.add_post("/events", slow)
    runner = web.AppRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    slack.events_url = f"http://127.0.0.1:{runner.addresses[0][1]}/events"
    pressed = await slack.shortcut("U_ANA", "note")
    assert not pressed.acked
    assert pressed.delivery.reason == "http_timeout"
    assert pressed.elapsed == 3.5
    assert len(slack.deliveries.sent) == 1
    await runner.cleanup()


async def test_an_event_for_a_dead_bot_arrives_when_it_lives_again(
    app: AsyncApp, slack: FakeSlack, clock: FakeClock
) -> None:
    async with serving(app, slack):
        pass
    ts = await slack.mention("U_ANA", "C_OPS", "restart web")
    assert {delivery.reason for _, delivery in slack.deliveries.sent} == {"connection_failed"}
    clock.advance(60)
    async with serving(app, slack):
        assert await slack.redeliver() == 2
        assert buttons_of(await answered(slack, ts)) == ["Approve", "Details"]


# Socket Mode only


async def test_a_refresh_and_a_cut_line_are_survived(app: AsyncApp, slack: FakeSlack) -> None:
    handler = AsyncSocketModeHandler(app, APP_TOKEN, ping_interval=0.2)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    await slack.until(lambda: len(slack.sockets) == 1)
    await slack.sockets.refresh()
    await slack.until(lambda: len(slack.sockets) == 1)
    assert buttons_of(await answered(slack, await slack.mention("U_ANA", "C_OPS", "one")))
    slack.sockets.abort()
    await slack.until(lambda: len(slack.sockets) == 1, seconds=5)
    assert buttons_of(await answered(slack, await slack.mention("U_ANA", "C_OPS", "two")))
    await handler.close_async()  # type: ignore[no-untyped-call]
    await handler.client.aiohttp_client_session.close()


async def test_without_a_connection_a_click_is_lost(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    posted = await client.chat_postMessage(channel="C_OPS", text="x", blocks=CARD)
    pressed = await slack.click("U_ANA", "C_OPS", posted["ts"], "yes")
    assert not pressed.acked
    assert pressed.delivery.reason == "connection_failed"
    assert slack.deliveries.pending == []


# Events


async def test_edits_deletions_bots_and_outsiders_look_like_slack_sends_them(
    app: AsyncApp, slack: FakeSlack
) -> None:
    slack.add_user("U_EXT", team="T2")
    slack.add_channel("C_SHARED", ["U_EXT", BOT_USER], ext_shared=True)
    async with serving(app, slack):
        ts = await slack.say("U_ANA", "C_OPS", "first")
        await slack.edit("U_ANA", "C_OPS", ts, "second")
        await slack.delete("U_ANA", "C_OPS", ts)
        await slack.bot_message("C_OPS", "beep")
        await slack.say("U_EXT", "C_SHARED", "hi")
    bodies = [body for body, _ in slack.deliveries.sent]
    events = [body["event"] for body in bodies]
    assert [event.get("subtype") for event in events] == [
        None,
        "message_changed",
        "message_deleted",
        None,
        None,
    ]
    assert events[1]["message"]["text"] == "second"
    assert events[1]["previous_message"]["text"] == "first"
    assert events[3]["bot_id"] == "B_OTHER"
    assert events[4]["user_team"] == "T2"
    assert bodies[4]["is_ext_shared_channel"] is True


async def test_files_tombstones_unfolding_and_reactions_look_like_slack_sends_them(
    app: AsyncApp, slack: FakeSlack
) -> None:
    async with serving(app, slack):
        file = slack.file("a.png", b"pixels")
        ts = await slack.send_files("U_ANA", "C_OPS", [file], f"<@{BOT_USER}> look")
        await slack.until(lambda: slack.thread("C_OPS", ts)[1:])
        await slack.unfurl("C_OPS", ts)
        await slack.react("U_ANA", "C_OPS", ts, "eyes")  # nobody subscribed to it
        slack.bot_events.add("reaction_added")
        slack.world.scopes.add("reactions:read")
        await slack.react("U_ANA", "C_OPS", ts, "+1")
        await slack.delete("U_ANA", "C_OPS", ts)
    sent = {body["event_id"]: body["event"] for body, _ in slack.deliveries.sent}
    *both, unfolded, reaction, gone = sent.values()
    mention, message = sorted(both, key=lambda event: str(event["type"]))
    assert "files" not in mention
    (shared,) = message["files"]
    assert message["subtype"] == "file_share"
    assert "content" not in shared
    assert unfolded["message"]["text"] == unfolded["previous_message"]["text"]
    assert reaction["reaction"] == "+1"
    assert gone["subtype"] == "message_changed"  # it has an answer
    assert gone["message"]["subtype"] == "tombstone"
    assert gone["previous_message"]["user"] == "U_ANA"


async def test_the_bot_hears_channels_only_as_a_member_and_with_the_scope(
    app: AsyncApp, slack: FakeSlack
) -> None:
    slack.add_channel("C_OPEN", ["U_ANA"])
    async with serving(app, slack):
        await slack.say("U_ANA", "C_OPEN", "unheard")
        slack.world.scopes.discard("channels:history")
        await slack.mention("U_ANA", "C_OPS", "heard as a mention")
    assert [body["event"]["type"] for body, _ in slack.deliveries.sent] == ["app_mention"]


async def test_closing_is_told_only_to_those_who_asked(
    app: AsyncApp, slack: FakeSlack, client: AsyncWebClient
) -> None:
    closed: list[Json] = []

    @app.view_closed("details")
    async def heard(ack: Any, body: Json) -> None:
        closed.append(body)
        await ack()

    async with serving(app, slack):
        for notify in (False, True):
            trigger = slack.world.new_trigger("U_ANA")
            form = {**FORM, "notify_on_close": notify}
            await client.views_open(trigger_id=trigger.id, view=form)
            await slack.close("U_ANA", slack.open_views("U_ANA")[0])
    assert [body["is_cleared"] for body in closed] == [False]
    assert slack.open_views("U_ANA") == []


async def test_what_a_person_selects_in_a_message_comes_with_what_they_press_next(
    app: AsyncApp, slack: FakeSlack, client: AsyncWebClient
) -> None:
    """Their own selection only, without options that are gone meanwhile."""
    menu: Json = {
        "type": "multi_static_select",
        "action_id": "which",
        "options": [
            {"text": {"type": "plain_text", "text": name}, "value": name[0]}
            for name in ("One", "Two")
        ],
    }
    choose: Json = {
        "type": "section",
        "block_id": "choose",
        "text": {"type": "plain_text", "text": "Which?"},
        "accessory": menu,
    }
    blocks = [choose, CARD[1]]
    async with serving(app, slack):
        posted = await client.chat_postMessage(channel="C_OPS", text="Which?", blocks=blocks)
        ts = posted["ts"]

        async def sent(user: str) -> list[str]:
            pressed = await slack.click(user, "C_OPS", ts, "form")
            values = pressed.payload["state"]["values"]["choose"]["which"]
            return [one["value"] for one in values["selected_options"]]

        assert await sent("U_ANA") == []
        await slack.click("U_ANA", "C_OPS", ts, "which", ["Two", "One"])
        assert await sent("U_ANA") == ["T", "O"]
        assert await sent("U_BEN") == []
        fewer = [{**choose, "accessory": {**menu, "options": menu["options"][:1]}}, CARD[1]]
        await client.chat_update(channel="C_OPS", ts=ts, text="Which?", blocks=fewer)
        assert await sent("U_ANA") == ["O"]
