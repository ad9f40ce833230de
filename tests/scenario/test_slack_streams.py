"""Replies that grow, on Slack: streams in direct messages, edits in channels (rows B78, B84)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.slack.blocks import message
from adapters.slack.delivery import Delivery
from adapters.slack.events import Identity
from adapters.slack.stream import Streams
from adapters.slack.workspaces import web_client
from bot.surface import DeliveryError, Place, Posted, Reply
from tests.fakes.clock import FakeClock
from tests.fakes.slack import BOT_ID, BOT_TOKEN, BOT_USER, TEAM, FakeSlack, text_of
from tests.scenario.slack_world import APPROVAL, World, living, running

HOSTILE = "<!channel> <@U_CYN> [Approve](https://evil.test/?x=1) <https://evil.test|Approve>\n"


@pytest.fixture(params=["http", "socket"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async for made in living(request.param):
        yield made


@pytest.fixture
async def http() -> AsyncIterator[World]:
    async for made in living("http"):
        yield made


async def direct(world: World) -> Place:
    """A place where a direct message of ana is the root."""
    ts = await world.slack.direct("U_ANA", "refund 4711")
    return Place("slack", TEAM, world.slack.direct_channel("U_ANA"), ts)


def live(text: str) -> Reply:
    return Reply(text, live=True)


def seen(slack: FakeSlack, place: Place) -> list[str]:
    """What a person reads in the thread below its root."""
    return [text_of(one).replace("\u200b", "") for one in slack.thread(place.channel, place.root)][
        1:
    ]


def is_whole(slack: FakeSlack, place: Place, text: str) -> bool:
    """Whether the thread shows one message, and exactly as a channel would show it."""
    [_, *messages] = slack.thread(place.channel, place.root)
    drawn = message(Reply(text), TEAM)
    (only,) = messages
    without = [{k: v for k, v in one.items() if k != "block_id"} for one in only["blocks"]]
    return without == drawn["blocks"] and "streaming_state" not in only


async def test_in_a_direct_message_a_reply_streams_and_ends_as_whole(world: World) -> None:
    place = await direct(world)
    ts = (await world.surface.post(place, live("Half"), "n1")).message_id
    assert seen(world.slack, place) == ["Half"]
    await world.surface.edit(place, ts, live("Half an <ans"))
    assert seen(world.slack, place) == ["Half an <ans"]
    await world.surface.edit(place, ts, live("Half an <answer>"))
    assert [call.args["markdown_text"] for call in world.slack.calls_of("chat.appendStream")] == [
        " an &lt;ans",
        "wer&gt;",
    ]
    assert not world.slack.calls_of("chat.update")
    await world.surface.edit(place, ts, Reply("Half an <answer>, *and* the rest."))
    assert is_whole(world.slack, place, "Half an <answer>, *and* the rest.")
    assert not world.slack.world.streams
    assert not world.slack.refused
    found = await world.surface.find(place, "n1")  # it has the mark now that all others have
    assert found == Posted(place, ts)


async def test_in_a_channel_a_reply_grows_by_edits(world: World) -> None:
    place = await world.thread()
    ts = (await world.surface.post(place, live("Half"), "n1")).message_id
    await world.surface.edit(place, ts, live("Half an answer"))
    assert seen(world.slack, place) == ["Half an answer"]
    await world.surface.edit(place, ts, Reply("Half an answer."))
    assert is_whole(world.slack, place, "Half an answer.")
    assert not world.slack.calls_of("chat.startStream")


async def test_a_reply_that_does_not_grow_is_posted_as_ever(http: World) -> None:
    place = await direct(http)
    await http.surface.post(place, Reply("Whole."), "n1")
    assert is_whole(http.slack, place, "Whole.")
    assert not http.slack.calls_of("chat.startStream")


@pytest.mark.row("B78")
@pytest.mark.parametrize("growing", [True, False])
async def test_a_stream_that_slack_ended_loses_and_doubles_nothing(
    world: World, growing: bool
) -> None:
    place = await direct(world)
    ts = (await world.surface.post(place, live("one, "), "n1")).message_id
    world.clock.advance(360)
    if growing:
        await world.surface.edit(place, ts, live("one, two, "))
        assert seen(world.slack, place) == ["one, two,"]
        await world.surface.edit(place, ts, live("one, two, three, "))
        assert seen(world.slack, place) == ["one, two, three,"]
        assert len(world.slack.calls_of("chat.appendStream")) == 1  # it is edited from then on
    await world.surface.edit(place, ts, Reply("one, two, three, four."))
    assert is_whole(world.slack, place, "one, two, three, four.")


async def test_a_stream_that_its_reader_stopped_is_edited_from_then_on(world: World) -> None:
    place = await direct(world)
    ts = (await world.surface.post(place, live("one, "), "n1")).message_id
    await world.slack.press_stop("U_ANA", place.channel, place.root)
    await world.surface.edit(place, ts, live("one, two, "))
    assert seen(world.slack, place) == ["one, two,"]
    await world.surface.edit(place, ts, Reply("Stopped."))
    assert is_whole(world.slack, place, "Stopped.")


async def test_a_text_that_begins_anew_replaces_what_streamed(http: World) -> None:
    place = await direct(http)
    ts = (await http.surface.post(place, live("A first try"), "n1")).message_id
    await http.surface.edit(place, ts, live("Another"))
    assert seen(http.slack, place) == ["Another"]
    await http.surface.edit(place, ts, Reply("Another answer."))
    assert is_whole(http.slack, place, "Another answer.")


@pytest.mark.parametrize("growing", [True, False])
async def test_the_stream_of_a_dead_process_is_ended_by_the_next(
    http: World, growing: bool
) -> None:
    place = await direct(http)
    ts = (await http.surface.post(place, live("one, "), "n1")).message_id
    async with running(http.slack, http.entry, "socket") as surface:
        if growing:
            await surface.edit(place, ts, live("one, two, "))
            assert seen(http.slack, place) == ["one, two,"]
        await surface.edit(place, ts, Reply("one, two, three."))
        assert is_whole(http.slack, place, "one, two, three.")
    assert not http.slack.world.streams


# A crash, or a lost answer, between the beginning of a stream and its record


async def test_a_stream_whose_beginning_was_not_recorded_is_found(http: World) -> None:
    place = await direct(http)
    await http.surface.post(place, Reply("An earlier reply."), "n0")
    await http.surface.post(place, APPROVAL, "n00")
    http.slack.drop_next("chat.startStream")
    with pytest.raises(DeliveryError) as failed:
        await http.surface.post(place, live("one, "), "n1")
    assert failed.value.maybe_sent
    assert await http.surface.find(place, "n1") is None  # nothing else is taken for it
    found = await http.surface.find(place, "n1", live=True)
    assert found is not None
    await http.surface.edit(place, found.message_id, live("one, two, "))
    await http.surface.edit(place, found.message_id, Reply("one, two, three."))
    assert [one.strip() for one in seen(http.slack, place)].count("one, two, three.") == 1
    assert len(seen(http.slack, place)) == 3
    assert await http.surface.find(place, "n2", live=True) is None  # it carries a mark now


async def test_what_was_never_begun_is_not_found(http: World) -> None:
    place = await direct(http)
    await http.surface.post(place, Reply("An earlier reply."), "n0")
    file = {"user": BOT_USER, "bot_id": BOT_ID, "text": "", "files": [{"name": "other"}]}
    channel = http.slack.world.channels[place.channel]
    http.slack.world.store(channel, {**file, "thread_ts": place.root})
    http.slack.world.store(channel, {"user": "U_ANA", "text": "so?", "thread_ts": place.root})
    assert await http.surface.find(place, "n1", live=True) is None


async def test_in_a_channel_no_message_without_a_mark_is_taken(http: World) -> None:
    place = await http.thread()
    stray = {"user": BOT_USER, "bot_id": BOT_ID, "text": "a stray", "thread_ts": place.root}
    http.slack.world.store(http.slack.world.channels["C_OPS"], stray)
    assert await http.surface.find(place, "n1", live=True) is None


# Refusals


@pytest.mark.parametrize("error", ["unknown_method", "feature_disabled", "missing_scope"])
async def test_where_slack_offers_no_streams_a_reply_is_posted_and_edited(
    http: World, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = await direct(http)
    http.slack.fail_next("chat.startStream", error, times=9)
    with caplog.at_level(logging.WARNING):
        ts = (await http.surface.post(place, live("one, "), "n1")).message_id
        await http.surface.post(place, live("again, "), "n2")
    await http.surface.edit(place, ts, live("one, two, "))
    await http.surface.edit(place, ts, Reply("one, two, three."))
    assert seen(http.slack, place) == ["one, two, three.", "again,"]
    assert len(http.slack.calls_of("chat.startStream")) == 1  # and is asked for no more
    assert caplog.text.count(error) == 1


async def test_too_many_streams_at_once_are_posts_and_the_next_streams_again(http: World) -> None:
    place = await direct(http)
    http.slack.fail_next("chat.startStream", status=429, retry_after=30)
    await http.surface.post(place, live("one"), "n1")
    await http.surface.post(place, live("two"), "n2")
    assert seen(http.slack, place) == ["one", "two"]
    assert len(http.slack.world.streams) == 1


async def test_being_told_to_wait_the_stream_goes_on_later(http: World) -> None:
    place = await direct(http)
    ts = (await http.surface.post(place, live("one, "), "n1")).message_id
    http.slack.fail_next("chat.appendStream", status=429, retry_after=7)
    with pytest.raises(DeliveryError) as failed:
        await http.surface.edit(place, ts, live("one, two, "))
    assert failed.value.retry_after == 7
    await http.surface.edit(place, ts, live("one, two, three, "))
    assert seen(http.slack, place) == ["one, two, three, "]
    assert not http.slack.calls_of("chat.stopStream")


@pytest.mark.parametrize("fault", ["internal_error", "500"])
async def test_a_stream_that_may_have_begun_is_not_posted_as_well(http: World, fault: str) -> None:
    place = await direct(http)
    if fault == "500":
        http.slack.fail_next("chat.startStream", status=500)
    else:
        http.slack.fail_next("chat.startStream", fault)
    with pytest.raises(DeliveryError) as failed:
        await http.surface.post(place, live("one"), "n1")
    assert failed.value.maybe_sent
    assert seen(http.slack, place) == []


async def test_being_told_to_wait_a_stream_is_ended_later(http: World) -> None:
    place = await direct(http)
    ts = (await http.surface.post(place, live("one, "), "n1")).message_id
    http.slack.fail_next("chat.stopStream", status=429, retry_after=7)
    with pytest.raises(DeliveryError) as failed:
        await http.surface.edit(place, ts, Reply("one, two."))
    assert failed.value.retry_after == 7
    assert not http.slack.calls_of("chat.update")
    await http.surface.edit(place, ts, Reply("one, two."))
    assert is_whole(http.slack, place, "one, two.")


async def test_nothing_is_appended_to_a_stream_that_may_have_taken_it(http: World) -> None:
    place = await direct(http)
    ts = (await http.surface.post(place, live("one, "), "n1")).message_id
    http.slack.drop_next("chat.appendStream")
    with pytest.raises(DeliveryError):
        await http.surface.edit(place, ts, live("one, two, "))
    await http.surface.edit(place, ts, live("one, two, three, "))
    assert seen(http.slack, place) == ["one, two, three,"]


async def test_a_token_that_is_refused_in_the_middle_ends_the_stream(http: World) -> None:
    place = await direct(http)
    ts = (await http.surface.post(place, live("one, "), "n1")).message_id
    http.slack.fail_next("chat.appendStream", "invalid_auth")
    await http.surface.edit(place, ts, live("one, two, "))
    assert seen(http.slack, place) == ["one, two,"]
    await http.surface.edit(place, ts, Reply("one, two, three."))
    assert is_whole(http.slack, place, "one, two, three.")


async def test_a_stream_that_cannot_be_ended_is_waited_for(http: World) -> None:
    place = await direct(http)
    ts = (await http.surface.post(place, live("one, "), "n1")).message_id
    http.slack.fail_next("chat.stopStream", "unknown_method", times=9)
    with pytest.raises(DeliveryError) as failed:
        await http.surface.edit(place, ts, Reply("one, two."))
    assert failed.value.retry_after == 30
    assert not failed.value.permanent
    http.clock.advance(330)
    await http.surface.edit(place, ts, Reply("one, two."))
    assert is_whole(http.slack, place, "one, two.")


# What it says


@pytest.mark.row("B84")
async def test_a_stream_pings_nobody_and_links_nothing_however_it_is_cut(http: World) -> None:
    place = await direct(http)
    ts = (await http.surface.post(place, live(HOSTILE[:1]), "n1")).message_id
    for end in range(2, len(HOSTILE) + 1):
        await http.surface.edit(place, ts, live(HOSTILE[:end]))
        http.clock.advance(1)
    assert [ping for ping in http.slack.pings if ping.ts == ts] == []
    assert seen(http.slack, place) == [HOSTILE]


async def test_a_long_reply_streams_in_pieces_that_slack_takes(http: World) -> None:
    place = await direct(http)
    text = "<" * 2_500 + ":/" * 9_000
    ts = (await http.surface.post(place, live(text[:2_500]), "n1")).message_id
    await http.surface.edit(place, ts, live(text))
    assert seen(http.slack, place) == [text]
    assert not http.slack.refused
    pieces = [call.args["markdown_text"] for call in http.slack.calls_of("chat.appendStream")]
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= 12_000


# Whatever fails, and whenever


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with the next call of a method."""

    method: str
    kind: str


METHODS = ("chat.startStream", "chat.appendStream", "chat.stopStream", "chat.update")
KINDS = ("drop", "500", "429", "internal_error", "message_not_in_streaming_state")
GENTLE = ("feature_disabled", "unknown_method", "invalid_auth", "stopped_by_user")
TROUBLE = st.builds(Trouble, st.sampled_from(METHODS), st.sampled_from(KINDS)) | st.builds(
    Trouble, st.sampled_from(METHODS[:3]), st.sampled_from(GENTLE)
)
EVENTS = st.lists(
    st.sampled_from(["grow", "grow", "grow", "anew", "restart", "pause", "stop"]) | TROUBLE,
    max_size=12,
)
PIECES = st.lists(st.text("ab <>&[]()*:/`\n\u200b", min_size=1, max_size=6), min_size=12)


class Thread:
    """The outbox's part: a post that may be there is looked for, an edit is tried again."""

    def __init__(self, slack: FakeSlack, clock: FakeClock, place: Place) -> None:
        self.slack = slack
        self.clock = clock
        self.place = place
        self.message_id = ""
        self.unsure = False
        self.restart()

    def restart(self) -> None:
        client = web_client(self.slack.base_url, BOT_TOKEN)
        me = Identity(TEAM, BOT_USER, BOT_ID)
        self.delivery = Delivery(client, me, Streams(client, lambda _place: None))

    async def show(self, reply: Reply, tries: int) -> bool:
        for _ in range(tries):
            try:
                await self._once(reply)
            except DeliveryError as error:
                if error.permanent:
                    raise
                if not self.message_id:
                    self.unsure = self.unsure or error.maybe_sent
                self.clock.advance(error.retry_after or 5)
            else:
                return True
        return False

    async def _once(self, reply: Reply) -> None:
        if self.message_id:
            await self.delivery.edit(self.place, self.message_id, reply)
            return
        found = await self.delivery.find(self.place, "n1", live=True) if self.unsure else None
        if found is None:
            found = await self.delivery.post(self.place, reply, "n1")
            self.message_id = found.message_id
            return
        self.message_id = found.message_id
        await self.delivery.edit(self.place, self.message_id, reply)


async def _played(events: list[str | Trouble], pieces: list[str]) -> None:
    clock = FakeClock()
    async with FakeSlack(clock) as slack:
        root = await slack.direct("U_ANA", "hello")
        place = Place("slack", TEAM, slack.direct_channel("U_ANA"), root)
        thread = Thread(slack, clock, place)
        text, left = "x", list(pieces)
        await thread.show(live(text), 2)
        for event in events:
            match event:
                case "grow":
                    text += left.pop() if left else "y"
                    await thread.show(live(text), 1)  # what fails is merged into the next
                case "anew":
                    text = "z"
                case "restart":
                    thread.restart()
                case "pause":
                    clock.advance(360)
                case "stop":
                    session = slack.world.sessions.get((place.channel, root), {})
                    if session.get("status") == "processing":
                        await slack.press_stop("U_ANA", place.channel, root)
                case Trouble(method, "drop"):
                    slack.drop_next(method)
                case Trouble(method, ("500" | "429") as status):
                    slack.fail_next(method, status=int(status), retry_after=3)
                case Trouble(method, error):
                    slack.fail_next(method, error)
                case _:
                    raise AssertionError(event)
            clock.advance(1)
        whole = text + " and the end."
        assert await thread.show(Reply(whole), 30)
        assert is_whole(slack, place, whole)
        assert not any(slack.world.streaming(*key) for key in slack.world.streams)
        links = {ping.kind for ping in slack.pings}
        assert links <= {"link"}


@pytest.mark.row("B78")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, PIECES)
def test_whatever_fails_and_whenever_the_end_is_the_whole_text_once(
    events: list[str | Trouble], pieces: list[str]
) -> None:
    asyncio.run(_played(events, pieces))
