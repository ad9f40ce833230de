"""What the fake Slack takes of streams, sessions and prompts, asked with the real SDK client."""

from __future__ import annotations

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.fakes.clock import FakeClock
from tests.fakes.slack import FakeSlack, text_of
from tests.unit.slack_samples import Json


async def refusal(call: object) -> str:
    with pytest.raises(SlackApiError) as failure:
        await call  # type: ignore[misc]
    return str(failure.value.response["error"])


async def begun(slack: FakeSlack, client: AsyncWebClient, text: str = "a") -> Json:
    """A stream in a direct message: what names it in further calls."""
    root = await slack.direct("U_ANA", "hello")
    channel = slack.direct_channel("U_ANA")
    stream = await client.chat_startStream(channel=channel, thread_ts=root, markdown_text=text)
    return {"channel": channel, "ts": stream["ts"]}


async def test_a_stream_belongs_in_a_thread_and_in_a_channel_to_one_reader(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    root = await slack.say("U_ANA", "C_OPS", "hello")
    where: Json = {"channel": "C_OPS", "thread_ts": root}
    assert await refusal(client.chat_startStream(**where)) == "missing_recipient_user_id"
    reader: Json = {"recipient_user_id": "U_ANA"}
    assert await refusal(client.chat_startStream(**where, **reader)) == "missing_recipient_team_id"
    await client.chat_startStream(**where, **reader, recipient_team_id="T1")
    direct = slack.direct_channel("U_ANA")
    said = await slack.direct("U_ANA", "hello")
    named = client.chat_startStream(channel=direct, thread_ts=said, **reader)
    assert await refusal(named) == "invalid_arguments"
    no_thread = client.api_call("chat.startStream", json={"channel": direct})
    assert await refusal(no_thread) == "invalid_arguments"


async def test_a_stream_carries_no_metadata_until_it_ends(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    mark: Json = {"event_type": "x", "event_payload": {"a": "1"}}
    root = await slack.direct("U_ANA", "hello")
    where: Json = {"channel": slack.direct_channel("U_ANA"), "thread_ts": root}
    assert await refusal(client.chat_startStream(**where, metadata=mark)) == "invalid_arguments"
    stream = await begun(slack, client)
    await client.chat_stopStream(**stream, metadata=mark)
    assert slack.message(stream["channel"], stream["ts"])["metadata"] == mark


async def test_a_person_reads_what_was_streamed_so_far(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    stream = await begun(slack, client, "one ")
    await client.chat_appendStream(**stream, markdown_text="&lt;two&gt;")
    shown = slack.message(stream["channel"], stream["ts"])
    assert text_of(shown) == "one <two>"
    assert await refusal(client.chat_appendStream(**stream, markdown_text="x" * 12_001)) == (
        "msg_too_long"
    )


async def test_a_stream_that_has_ended_can_be_edited_and_not_appended_to(
    slack: FakeSlack, client: AsyncWebClient, clock: FakeClock
) -> None:
    for end in ("stop", "time"):
        stream = await begun(slack, client)
        edit = client.chat_update(**stream, text="whole")
        assert await refusal(edit) == "streaming_state_conflict"
        if end == "stop":
            await client.chat_stopStream(**stream)
        else:
            clock.advance(301)
        for late in (
            client.chat_appendStream(**stream, markdown_text="b"),
            client.chat_stopStream(**stream),
        ):
            assert await refusal(late) == "message_not_in_streaming_state"
        await client.chat_update(**stream, text="whole")
        assert text_of(slack.message(stream["channel"], stream["ts"])) == "whole"


async def test_a_reader_stops_the_streams_of_a_thread(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    stream = await begun(slack, client)
    channel, root = stream["channel"], slack.message(stream["channel"], stream["ts"])["thread_ts"]
    assert slack.world.sessions[channel, root]["status"] == "processing"
    await slack.press_stop("U_ANA", channel, root)
    event = slack.deliveries.sent[-1][0]["event"]
    assert event["streaming_message_ts"] == [stream["ts"]]
    assert (event["user"], event["thread_ts"]) == ("U_ANA", root)
    late = client.chat_appendStream(**stream, markdown_text="b")
    assert await refusal(late) == "stopped_by_user"
    assert slack.world.sessions[channel, root]["status"] == "processing"  # the app has to move it
    await client.chat_update(**stream, text="Stopped.")


async def test_the_end_of_a_stream_moves_the_session(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    for given, status in ((None, "active"), ("suspended", "suspended")):
        stream = await begun(slack, client)
        await client.chat_stopStream(**stream, session_status=given)
        root = slack.message(stream["channel"], stream["ts"])["thread_ts"]
        assert slack.world.sessions[stream["channel"], root]["status"] == status


async def test_a_token_or_a_link_that_two_pieces_make_is_seen(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    stream = await begun(slack, client, "<!chan")
    assert slack.pings == []
    await client.chat_appendStream(**stream, markdown_text="nel> [Approve](https://e")
    await client.chat_appendStream(**stream, markdown_text="vil.test)")
    assert [ping.kind for ping in slack.pings] == ["broadcast", "link"]


async def test_suggested_prompts_are_four_at_most_and_in_direct_messages(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    one = {"title": "Look", "message": "look"}
    direct = slack.direct_channel("U_ANA")
    offer = client.assistant_threads_setSuggestedPrompts
    await offer(channel_id=direct, prompts=[one] * 4)
    assert slack.world.prompts[direct] == [one] * 4
    for prompts in ([], [one] * 5, [{"title": "Look"}], [{"title": "", "message": "x"}]):
        assert await refusal(offer(channel_id=direct, prompts=prompts)) == "invalid_arguments"
    assert await refusal(offer(channel_id="C_OPS", prompts=[one])) == "channel_type_not_supported"
    slack.world.scopes.discard("assistant:write")
    assert await refusal(offer(channel_id=direct, prompts=[one])) == "missing_scope"
