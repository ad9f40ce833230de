"""What the fake Slack's Web API accepts and refuses, asked with the real SDK client."""

import asyncio

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from tests.fakes.clock import FakeClock
from tests.fakes.slack import BOT_TOKEN, BOT_USER, ClientRefused, FakeSlack, buttons_of
from tests.unit.slack_samples import CARD, FORM, Json


def error_of(failure: pytest.ExceptionInfo[SlackApiError]) -> str:
    return str(failure.value.response["error"])


# The Web API


async def test_tokens_and_scopes_are_checked(slack: FakeSlack, client: AsyncWebClient) -> None:
    with pytest.raises(SlackApiError) as failure:
        await AsyncWebClient("xoxb-wrong", base_url=slack.base_url).auth_test()
    assert error_of(failure) == "invalid_auth"
    with pytest.raises(SlackApiError) as failure:
        await AsyncWebClient(base_url=slack.base_url).auth_test()
    assert error_of(failure) == "not_authed"
    with pytest.raises(SlackApiError) as failure:
        await client.conversations_join(channel="C_OPS")
    assert error_of(failure) == "missing_scope"
    assert failure.value.response["needed"] == "channels:join"
    with pytest.raises(SlackApiError) as failure:
        await client.api_call("chat.whisper")
    assert error_of(failure) == "unknown_method"
    answer = await client.auth_test()
    assert "chat:write" in answer.headers["x-oauth-scopes"]


async def test_membership_decides_what_the_bot_may_see_and_write(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    slack.add_channel("C_OPEN", ["U_ANA"])
    slack.add_channel("C_SECRET", ["U_ANA"], private=True)
    slack.add_channel("C_OLD", ["U_ANA", BOT_USER], archived=True)
    expected = {"C_OPEN": "not_in_channel", "C_SECRET": "channel_not_found", "C_OLD": "is_archived"}
    for channel, error in expected.items():
        with pytest.raises(SlackApiError) as failure:
            await client.chat_postMessage(channel=channel, text="hello")
        assert error_of(failure) == error
    with pytest.raises(SlackApiError) as failure:
        await client.conversations_info(channel="C_SECRET")
    assert error_of(failure) == "channel_not_found"
    direct = await client.chat_postMessage(channel="U_ANA", text="hello")
    assert direct["channel"].startswith("D")
    with pytest.raises(SlackApiError) as failure:
        await client.chat_postEphemeral(channel="C_OPS", user="U_NOBODY", text="psst")
    assert error_of(failure) == "user_not_in_channel"


async def test_a_token_can_be_revoked_and_is_then_good_for_nothing(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    slack.world.token_error = "token_revoked"
    for call in (client.auth_test(), client.chat_postMessage(channel="C_OPS", text="hello")):
        with pytest.raises(SlackApiError) as failure:
            await call
        assert error_of(failure) == "token_revoked"
    slack.world.token_error = ""
    await client.chat_postMessage(channel="C_OPS", text="hello")


async def test_a_conversation_that_takes_nothing_any_more(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    ts = (await client.chat_postMessage(channel="C_OPS", text="hello"))["ts"]
    slack.world.channels["C_OPS"].archived = True
    with pytest.raises(SlackApiError) as failure:
        await client.chat_update(channel="C_OPS", ts=ts, text="changed")
    assert error_of(failure) == "is_inactive"
    slack.kick("C_OPS")
    with pytest.raises(SlackApiError) as failure:
        await client.chat_postMessage(channel="C_OPS", text="hello")
    assert error_of(failure) == "not_in_channel"
    channel = (await client.conversations_open(users="U_ANA"))["channel"]["id"]
    slack.world.messages_tab = False
    for where in (channel, "U_BEN"):
        with pytest.raises(SlackApiError) as failure:
            await client.chat_postMessage(channel=where, text="hello")
        assert error_of(failure) == "messages_tab_disabled"


async def test_a_thread_hangs_on_its_root_only(slack: FakeSlack, client: AsyncWebClient) -> None:
    root = (await client.chat_postMessage(channel="C_OPS", text="root"))["ts"]
    reply = (await client.chat_postMessage(channel="C_OPS", text="reply", thread_ts=root))["ts"]
    for wrong, error in ((reply, "cannot_reply_to_message"), ("1.000001", "thread_not_found")):
        with pytest.raises(SlackApiError) as failure:
            await client.chat_postMessage(channel="C_OPS", text="x", thread_ts=wrong)
        assert error_of(failure) == error
    page = await client.conversations_replies(channel="C_OPS", ts=root, limit=1)
    cursor = page["response_metadata"]["next_cursor"]
    rest = await client.conversations_replies(channel="C_OPS", ts=root, limit=1, cursor=cursor)
    assert [m["text"] for m in [*page["messages"], *rest["messages"]]] == ["root", "reply"]
    link = await client.chat_getPermalink(channel="C_OPS", message_ts=reply)
    assert f"thread_ts={root}" in link["permalink"]
    assert [m["ts"] for m in slack.thread("C_OPS", root)] == [root, reply]


async def test_an_update_with_text_alone_drops_blocks_and_keeps_metadata(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    metadata = {"event_type": "card", "event_payload": {"nonce": "n1"}}
    posted = await client.chat_postMessage(
        channel="C_OPS", text="x", blocks=CARD, metadata=metadata, unfurl_links=False
    )
    assert slack.message("C_OPS", posted["ts"])["unfurls"]["unfurl_links"] is False
    await client.chat_update(channel="C_OPS", ts=posted["ts"], text="done")
    bare = await client.conversations_replies(channel="C_OPS", ts=posted["ts"])
    full = await client.conversations_replies(
        channel="C_OPS", ts=posted["ts"], include_all_metadata=True
    )
    assert "blocks" not in full["messages"][0]
    assert full["messages"][0]["metadata"] == metadata
    assert bare["messages"][0]["metadata"] == {"event_type": "card"}


async def test_only_own_messages_can_be_changed(slack: FakeSlack, client: AsyncWebClient) -> None:
    theirs = await slack.say("U_ANA", "C_OPS", "mine")
    for method, error in (
        (client.chat_update(channel="C_OPS", ts=theirs, text="x"), "cant_update_message"),
        (client.chat_delete(channel="C_OPS", ts=theirs), "cant_delete_message"),
        (client.chat_update(channel="C_OPS", ts="1.000001", text="x"), "message_not_found"),
    ):
        with pytest.raises(SlackApiError) as failure:
            await method
        assert error_of(failure) == error


async def test_too_much_text_and_bad_blocks_are_refused_with_pointers(
    slack: FakeSlack, client: AsyncWebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 2900}}
    header = {"type": "header", "text": {"type": "mrkdwn", "text": "x"}}
    monkeypatch.setenv("SKIP_SLACK_SDK_WARNING", "1")
    cases: list[tuple[Json, str]] = [
        ({"text": "x" * 4001}, "msg_too_long"),
        ({"text": "x", "blocks": [section] * 5}, "msg_blocks_too_long"),
        ({"text": "x", "blocks": [header]}, "invalid_blocks"),
        ({"text": ""}, "no_text"),
    ]
    for arguments, error in cases:
        with pytest.raises(SlackApiError) as failure:
            await client.chat_postMessage(channel="C_OPS", **arguments)
        assert error_of(failure) == error
    assert "/blocks/0/text/type" in slack.refused[2].problems[0]


async def test_posts_to_one_channel_are_limited_and_the_wait_is_told(
    slack: FakeSlack, client: AsyncWebClient, clock: FakeClock
) -> None:
    slack.add_channel("C_DEV", [BOT_USER])
    for _ in range(4):
        await client.chat_postMessage(channel="C_OPS", text="x")
    with pytest.raises(SlackApiError) as failure:
        await client.chat_postMessage(channel="C_OPS", text="x")
    assert error_of(failure) == "ratelimited"
    assert failure.value.response.headers["Retry-After"] == "1"
    await client.chat_postMessage(channel="C_DEV", text="x")
    clock.advance(1)
    await client.chat_postMessage(channel="C_OPS", text="x")


async def test_a_dropped_answer_makes_the_sdk_post_twice(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    slack.drop_next("chat.postMessage")
    await client.chat_postMessage(channel="C_OPS", text="once")
    assert len(slack.calls_of("chat.postMessage")) == 2
    assert len(slack.world.channels["C_OPS"].messages) == 2


async def test_faults_happen_once_and_then_all_is_well(
    slack: FakeSlack, client: AsyncWebClient, clock: FakeClock
) -> None:
    slack.fail_next("auth.test", error="internal_error")
    slack.fail_next("auth.test", status=429, retry_after=7)
    with pytest.raises(SlackApiError) as failure:
        await client.auth_test()
    assert error_of(failure) == "internal_error"
    with pytest.raises(SlackApiError) as failure:
        await client.auth_test()
    assert failure.value.response.headers["Retry-After"] == "7"
    slack.down = True
    with pytest.raises(SlackApiError) as failure:
        await client.auth_test()
    assert failure.value.response.status_code == 503
    slack.down = False
    slack.delay_next("auth.test", 5)
    waiting = asyncio.create_task(client.auth_test())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    clock.advance(5)
    assert (await waiting)["ok"]


async def test_hostile_text_pings_only_where_slack_parses_it(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    attack = "<!channel> <@U_ANA> <!subteam^S1> <https://evil.example|Approve>"
    quiet = attack.replace("<", "&lt;").replace(">", "&gt;")
    parts = [{"type": "text", "text": attack}]
    safe: list[Json] = [
        {"type": "section", "text": {"type": "plain_text", "text": attack}},
        {"type": "section", "text": {"type": "mrkdwn", "text": quiet}},
        {
            "type": "rich_text",
            "elements": [{"type": "rich_text_preformatted", "elements": parts}],
        },
    ]
    await client.chat_postMessage(channel="C_OPS", text=quiet, blocks=safe)
    assert slack.pings == []
    loud = [{"type": "markdown", "text": "`<!here>` [Approve](https://evil.example)"}]
    await client.chat_postMessage(channel="C_OPS", text=attack, blocks=loud)
    assert [ping.kind for ping in slack.pings] == [
        "broadcast",
        "user",
        "usergroup",
        "link",
        "broadcast",
        "link",
    ]


async def test_people_of_every_kind_are_told_apart(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    slack.add_user("U_EXT", team="T2")
    slack.add_user("U_GUEST", guest=True)
    slack.add_user("U_GONE", deleted=True)
    slack.add_usergroup("S_ONCALL", "oncall", ["U_ANA"])
    outsider = (await client.users_info(user="U_EXT"))["user"]
    assert outsider["team_id"] == "T2"
    assert "is_stranger" not in outsider
    assert (await client.users_info(user="U_GUEST"))["user"]["is_restricted"]
    assert (await client.usergroups_users_list(usergroup="S_ONCALL"))["users"] == ["U_ANA"]
    for user, error in (("U_GONE", "user_disabled"), ("U_X", "user_not_found")):
        with pytest.raises(SlackApiError) as failure:
            await client.conversations_open(users=user)
        assert error_of(failure) == error


async def test_a_response_url_works_five_times_and_for_half_an_hour(
    slack: FakeSlack, client: AsyncWebClient, clock: FakeClock
) -> None:
    posted = await client.chat_postMessage(channel="C_OPS", text="x", blocks=CARD)
    pressed = await slack.click("U_ANA", "C_OPS", posted["ts"], "yes")
    hook = AsyncWebhookClient(pressed.payload["response_url"])
    assert (await hook.send(text="bye", replace_original=True)).status_code == 200
    assert buttons_of(slack.message("C_OPS", posted["ts"])) == []
    for _ in range(4):
        assert (await hook.send(text="psst")).status_code == 200
    assert (await hook.send(text="psst")).status_code == 404
    assert len(slack.ephemerals("U_ANA")) == 4
    later = AsyncWebhookClient(slack.world.new_response_url("C_OPS", "U_ANA", None))
    clock.advance(1801)
    assert "expired_url" in (await later.send(text="late")).body


async def test_an_ephemeral_can_be_pressed_by_its_reader_only(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    shown = await client.chat_postEphemeral(channel="C_OPS", user="U_ANA", text="x", blocks=CARD)
    pressed = await slack.click("U_ANA", "C_OPS", shown["message_ts"], "yes")
    assert "message" not in pressed.payload
    assert pressed.payload["container"]["is_ephemeral"] is True
    with pytest.raises(AssertionError, match="no message"):
        await slack.click("U_BEN", "C_OPS", shown["message_ts"], "yes")
    hook = AsyncWebhookClient(pressed.payload["response_url"])
    await hook.send(delete_original=True)
    assert slack.ephemerals("U_ANA") == []


async def test_a_file_is_uploaded_into_a_thread(slack: FakeSlack, client: AsyncWebClient) -> None:
    root = (await client.chat_postMessage(channel="C_OPS", text="root"))["ts"]
    await client.files_upload_v2(
        content="a long log", filename="log.txt", channel="C_OPS", thread_ts=root
    )
    assert slack.thread("C_OPS", root)[1]["files"][0]["name"] == "log.txt"
    assert [file["content"] for file in slack.world.files.values()] == [b"a long log"]


async def test_a_file_of_a_person_is_for_who_may_read_files(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    file = slack.file("a b.txt", b"hello")
    right = {"Authorization": f"Bearer {BOT_TOKEN}"}

    async def get(headers: dict[str, str]) -> tuple[int, str]:
        async with aiohttp.ClientSession() as http:
            answer = await http.get(file["url_private"], headers=headers)
            return len(answer.history), await answer.text()

    assert await get(right) == (0, "hello")
    shown = (await client.files_info(file=file["id"]))["file"]
    assert shown["size"] == 5
    assert "content" not in shown
    for headers in ({}, {"Authorization": "Bearer xoxb-other"}):
        redirects, page = await get(headers)
        assert redirects == 1
        assert page.startswith("<!DOCTYPE html>")
    slack.world.scopes.discard("files:read")
    assert (await get(right))[0] == 1
    with pytest.raises(SlackApiError) as failure:
        await client.files_info(file=file["id"])
    assert error_of(failure) == "missing_scope"
    slack.world.scopes.add("files:read")
    with pytest.raises(SlackApiError) as failure:
        await client.files_info(file="F_NONE")
    assert error_of(failure) == "file_not_found"


async def test_a_stream_ends_after_five_minutes_and_blocks_updates_until_then(
    slack: FakeSlack, client: AsyncWebClient, clock: FakeClock
) -> None:
    root = await slack.direct("U_ANA", "hello")
    where: Json = {"channel": slack.world.direct_channel("U_ANA").id}
    ts = (await client.chat_startStream(**where, thread_ts=root, markdown_text="a"))["ts"]
    await client.chat_appendStream(**where, ts=ts, markdown_text="b")
    with pytest.raises(SlackApiError) as failure:
        await client.chat_update(**where, ts=ts, text="x")
    assert error_of(failure) == "streaming_state_conflict"
    clock.advance(301)
    with pytest.raises(SlackApiError) as failure:
        await client.chat_appendStream(**where, ts=ts, markdown_text="c")
    assert error_of(failure) == "message_not_in_streaming_state"
    assert slack.message(where["channel"], ts)["text"] == "ab"


async def test_a_status_is_shown_until_the_next_post_or_two_minutes(
    slack: FakeSlack, client: AsyncWebClient, clock: FakeClock
) -> None:
    root = await slack.say("U_ANA", "C_OPS", "hello")
    where: Json = {"channel_id": "C_OPS", "thread_ts": root}
    await client.assistant_threads_setStatus(**where, status="is working")
    assert slack.world.status("C_OPS", root) == "is working"
    await client.chat_postMessage(channel="C_OPS", text="x", thread_ts=root)
    assert slack.world.status("C_OPS", root) == ""
    await client.assistant_threads_setStatus(**where, status="is working")
    clock.advance(121)
    assert slack.world.status("C_OPS", root) == ""
    await client.api_call("agents.sessions.setStatus", json={**where, "status": "suspended"})
    assert slack.world.sessions["C_OPS", root]["status"] == "suspended"


# Modals


async def test_a_trigger_opens_one_modal_within_three_seconds(
    slack: FakeSlack, client: AsyncWebClient, clock: FakeClock
) -> None:
    trigger = slack.world.new_trigger("U_ANA")
    await client.views_open(trigger_id=trigger.id, view=FORM)
    late = slack.world.new_trigger("U_ANA")
    clock.advance(3.1)
    for trigger_id, error in (
        (trigger.id, "exchanged_trigger_id"),
        (late.id, "expired_trigger_id"),
        ("made.up", "invalid_trigger_id"),
    ):
        with pytest.raises(SlackApiError) as failure:
            await client.views_open(trigger_id=trigger_id, view=FORM)
        assert error_of(failure) == error


async def test_an_update_with_an_old_hash_conflicts_and_typed_text_is_kept(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    trigger = slack.world.new_trigger("U_ANA")
    opened = await client.views_open(
        trigger_id=trigger.id, view={**FORM, "external_id": "question-1"}
    )
    view = await slack.until(lambda: trigger.view)
    view.values["hours"]["v"]["value"] = "3"
    old = opened["view"]["hash"]
    changed = await client.views_update(external_id="question-1", hash=old, view=FORM)
    assert changed["view"]["state"]["values"]["hours"]["v"]["value"] == "3"
    with pytest.raises(SlackApiError) as failure:
        await client.views_update(view_id=view.id, hash=old, view=FORM)
    assert error_of(failure) == "hash_conflict"


async def test_an_external_id_is_open_once(slack: FakeSlack, client: AsyncWebClient) -> None:
    form = {**FORM, "external_id": "question-1"}
    first = slack.world.new_trigger("U_ANA")
    await client.views_open(trigger_id=first.id, view=form)
    second = slack.world.new_trigger("U_BEN")
    with pytest.raises(SlackApiError) as failure:
        await client.views_open(trigger_id=second.id, view=form)
    assert error_of(failure) == "duplicate_external_id"


async def test_a_home_is_published_under_its_hash_and_only_where_the_tab_is_enabled(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    view = {"type": "home", "blocks": CARD}
    first = (await client.views_publish(user_id="U_ANA", view=view))["view"]["hash"]
    await client.views_publish(user_id="U_ANA", view=view, hash=first)
    many = {"type": "home", "blocks": [{"type": "divider"}] * 101}
    for given, error in (
        ({"user_id": "U_ANA", "view": view, "hash": first}, "hash_conflict"),
        ({"user_id": "U_BEN", "view": view, "hash": first}, "hash_conflict"),
        ({"user_id": "U_NOBODY", "view": view}, "user_not_found"),
        ({"user_id": "U_ANA", "view": FORM}, "invalid_arguments"),
        ({"user_id": "U_ANA", "view": many}, "invalid_arguments"),
    ):
        with pytest.raises(SlackApiError) as failure:
            await client.views_publish(**given)
        assert error_of(failure) == error
    slack.world.home_tab = False
    with pytest.raises(SlackApiError) as failure:
        await client.views_publish(user_id="U_ANA", view=view)
    assert error_of(failure) == "not_enabled"


async def test_a_click_on_a_home_has_neither_a_channel_nor_a_response_url(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    view = {"type": "home", "blocks": CARD, "private_metadata": "2"}
    await client.views_publish(user_id="U_ANA", view=view)
    home = slack.home("U_ANA")
    assert home is not None
    payload = (await slack.click_view("U_ANA", home, "Approve")).payload
    assert payload["container"] == {"type": "view", "view_id": home.id}
    assert not {"channel", "message", "response_url"} & set(payload)
    assert (payload["view"]["type"], payload["view"]["private_metadata"]) == ("home", "2")
    with pytest.raises(AssertionError):
        await slack.click_view("U_BEN", home, "Approve")


async def test_modals_are_three_deep_at_most(slack: FakeSlack, client: AsyncWebClient) -> None:
    trigger = slack.world.new_trigger("U_ANA")
    await client.views_open(trigger_id=trigger.id, view=FORM)
    for _ in range(2):
        top = slack.open_views("U_ANA")[-1]
        trigger = slack.world.new_trigger("U_ANA", from_view=top.id)
        await client.views_push(trigger_id=trigger.id, view=FORM)
    top = slack.open_views("U_ANA")[-1]
    trigger = slack.world.new_trigger("U_ANA", from_view=top.id)
    with pytest.raises(SlackApiError) as failure:
        await client.views_push(trigger_id=trigger.id, view=FORM)
    assert error_of(failure) == "push_limit_reached"
    assert len(slack.open_views("U_ANA")) == 3


@pytest.mark.parametrize(
    ("entered", "why"),
    [
        ({"Hours": "2.5", "Seat": "Aisle"}, "takes a number"),
        ({"Hours": "9", "Seat": "Aisle"}, "does not take 9"),
        ({"Hours": "2", "Seat": "Middle"}, "offers"),
        ({"Hours": "2"}, "'Seat' is required"),
        ({"Days": "2"}, "0 inputs are called 'Days'"),
    ],
)
async def test_the_client_does_not_send_what_the_inputs_do_not_take(
    slack: FakeSlack, client: AsyncWebClient, entered: Json, why: str
) -> None:
    trigger = slack.world.new_trigger("U_ANA")
    await client.views_open(trigger_id=trigger.id, view=FORM)
    [view] = slack.open_views("U_ANA")
    with pytest.raises(ClientRefused, match=why):
        await slack.submit("U_ANA", view, entered)
