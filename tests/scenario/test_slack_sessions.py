"""The agent's session in a thread, on Slack: its status, the stop button, suggested prompts, and
commands in direct messages."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.slack.settings import PROMPTS, read
from bot.secrets import ConfigError
from bot.surface import DeliveryError, Place, Reply, Status
from tests.fakes.slack import TEAM
from tests.scenario.slack_world import World, living, running

SET = "agents.sessions.setStatus"
PROMPT = "assistant.threads.setSuggestedPrompts"


@pytest.fixture(params=["http", "socket"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async for made in living(request.param):
        yield made


@pytest.fixture
async def http() -> AsyncIterator[World]:
    async for made in living("http"):
        yield made


def statuses(world: World) -> list[str]:
    return [call.args["status"] for call in world.slack.calls_of(SET)]


def session(world: World, place: Place) -> str:
    return str(world.slack.world.sessions[place.channel, place.root]["status"])


async def direct(world: World) -> Place:
    ts = await world.slack.direct("U_ANA", "refund 4711")
    return Place("slack", TEAM, world.slack.direct_channel("U_ANA"), ts)


# Status


async def test_what_the_agent_is_doing_is_shown_in_its_thread(world: World) -> None:
    place = await world.thread()
    for status in (Status.PROCESSING, Status.SUSPENDED, Status.PROCESSING, Status.CLOSED):
        await world.surface.status(place, status)
        assert session(world, place) == status
    assert len(statuses(world)) == 4


async def test_the_same_status_is_shown_once(http: World) -> None:
    place, other = await http.thread(), await http.thread()
    await http.surface.status(place, Status.PROCESSING)
    await http.surface.status(place, Status.PROCESSING)
    await http.surface.status(other, Status.PROCESSING)
    assert len(statuses(http)) == 2


async def test_a_status_whose_answer_was_lost_is_no_longer_taken_for_shown(http: World) -> None:
    place = await http.thread()
    await http.surface.status(place, Status.SUSPENDED)
    http.slack.drop_next(SET)
    with pytest.raises(DeliveryError) as failed:
        await http.surface.status(place, Status.PROCESSING)
    assert not failed.value.permanent
    await http.surface.status(place, Status.SUSPENDED)
    assert session(http, place) == "suspended"


async def test_being_told_to_wait_is_handed_on(http: World) -> None:
    http.slack.fail_next(SET, status=429, retry_after=9)
    with pytest.raises(DeliveryError) as failed:
        await http.surface.status(await http.thread(), Status.PROCESSING)
    assert failed.value.retry_after == 9


@pytest.mark.parametrize("error", ["feature_disabled", "unknown_method", "not_allowed"])
async def test_where_there_are_no_sessions_slack_is_asked_once(
    http: World, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    http.slack.fail_next(SET, error, times=9)
    with caplog.at_level(logging.WARNING):
        for status in (Status.PROCESSING, Status.SUSPENDED, Status.CLOSED):
            await http.surface.status(await http.thread(), status)
    assert len(http.slack.calls_of(SET)) == 1
    assert caplog.text.count(error) == 1


async def test_a_thread_that_has_no_session_takes_none_from_the_others(
    http: World, caplog: pytest.LogCaptureFixture
) -> None:
    place = await http.thread()
    http.slack.fail_next(SET, "thread_not_found", times=2)
    with caplog.at_level(logging.WARNING):
        await http.surface.status(place, Status.PROCESSING)
        await http.surface.status(place, Status.CLOSED)
        await http.surface.status(place, Status.PROCESSING)
    assert session(http, place) == "processing"
    assert caplog.text.count("thread_not_found") == 1


async def test_the_end_of_a_stream_leaves_the_session_as_it_was(http: World) -> None:
    place = await direct(http)
    await http.surface.status(place, Status.PROCESSING)
    ts = (await http.surface.post(place, Reply("Half", live=True), "n1")).message_id
    await http.surface.edit(place, ts, Reply("Half and half."))
    assert session(http, place) == "processing"
    assert not http.slack.refused


# The stop button


async def test_the_stop_button_is_the_command_stop_in_its_thread(world: World) -> None:
    place = await world.thread()
    await world.surface.status(place, Status.PROCESSING)
    await world.slack.press_stop("U_BEN", place.channel, place.root)
    await world.slack.until(lambda: world.told("U_BEN"))
    (command,) = world.entry.commands
    assert (command.name, command.argument) == ("stop", "")
    assert command.place == place
    assert command.actor.key == f"slack:{TEAM}/U_BEN"
    assert command.actor.name == "ben"
    assert command.keys
    assert world.told("U_BEN") == ["the answer to stop"]
    assert world.entry.messages == []


async def test_a_stop_that_is_delivered_twice_is_one(world: World) -> None:
    place = await world.thread()
    await world.surface.status(place, Status.PROCESSING)
    await world.slack.press_stop("U_ANA", place.channel, place.root)
    await world.slack.until(lambda: world.told("U_ANA"))
    await world.slack.redeliver_last()
    await world.slack.say("U_ANA", "C_OPS", "go on", place.root)
    assert len(world.entry.commands) == 1


async def test_after_the_stop_button_the_status_is_shown_again(http: World) -> None:
    place = await http.thread()
    await http.surface.status(place, Status.PROCESSING)
    await http.slack.press_stop("U_ANA", place.channel, place.root)
    await http.surface.status(place, Status.PROCESSING)
    assert statuses(http) == ["processing", "processing"]


@pytest.mark.parametrize(
    "change",
    [
        {"channel": "<!channel>"},
        {"thread_ts": "soon"},
        {"thread_ts": None},
        {"user": "ana"},
        {"user": None},
        {"channel": ["C_OPS"]},
    ],
)
async def test_a_press_that_slack_does_not_send_stops_nothing(
    http: World, change: dict[str, Any]
) -> None:
    place = await http.thread()
    event = {"type": "agent_session_stopped", "channel": "C_OPS", "thread_ts": place.root}
    delivery = await http.slack.send_event(event | {"user": "U_ANA"} | change)
    assert delivery.acked
    await http.slack.say("U_ANA", "C_OPS", "go on", place.root)
    assert http.entry.commands == []


# Suggested prompts and commands in direct messages


async def test_who_opens_the_direct_messages_is_offered_prompts(world: World) -> None:
    await world.slack.open_home("U_ANA", "messages")
    channel = world.slack.direct_channel("U_ANA")
    offered = await world.slack.until(lambda: world.slack.world.prompts.get(channel))
    assert offered == [one.model_dump() for one in PROMPTS]
    assert "thread_ts" not in world.slack.calls_of(PROMPT)[0].args


async def test_the_home_tab_is_offered_none(http: World) -> None:
    await http.slack.open_home("U_ANA", "home")
    await http.slack.open_home("U_BEN", "messages")
    await http.slack.until(lambda: http.slack.calls_of(PROMPT))
    assert list(http.slack.world.prompts) == [http.slack.direct_channel("U_BEN")]


@pytest.mark.parametrize("fault", ["missing_scope", "500"])
async def test_prompts_that_are_refused_are_logged_and_nothing_else(
    http: World, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    refusal: dict[str, Any] = {"status": 500} if fault == "500" else {"error": fault}
    http.slack.fail_next(PROMPT, **refusal, times=2)
    with caplog.at_level(logging.WARNING):
        await http.slack.open_home("U_ANA", "messages")
        await http.slack.open_home("U_ANA", "messages")
        await http.slack.until(lambda: len(http.slack.calls_of(PROMPT)) == 2)
        await http.slack.until(lambda: "suggested prompts" in caplog.text)
    assert caplog.text.count(fault) == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda one: one.message)
async def test_every_prompt_is_a_command_that_is_answered(http: World, prompt: Any) -> None:
    await http.slack.direct("U_ANA", prompt.message)
    await http.slack.until(lambda: http.told("U_ANA"))
    assert http.told("U_ANA") == [f"the answer to {prompt.message}"]
    assert http.entry.messages == []


async def test_in_a_direct_message_anything_else_is_for_the_agent(http: World) -> None:
    await http.slack.direct("U_ANA", "what is pending?")
    assert [one.text for one in http.entry.messages] == ["what is pending?"]
    assert http.entry.commands == []


async def test_in_a_channel_a_bare_command_without_a_mention_is_nobodys(http: World) -> None:
    place = await http.thread()
    await http.slack.say("U_ANA", "C_OPS", "pending", place.root)
    assert [one.text for one in http.entry.messages] == ["pending"]
    assert http.entry.commands == []


@pytest.mark.parametrize(
    "prompts",
    [
        [{"title": "A", "message": "b"}] * 5,
        [{"title": "", "message": "b"}],
        [{"title": "A"}],
        [{"title": "A", "message": "b", "icon": "c"}],
        "status",
    ],
)
def test_prompts_that_slack_would_refuse_are_refused_at_the_start(prompts: Any) -> None:
    with pytest.raises(ConfigError, match=r"surfaces\.slack\.prompts"):
        read({"mode": "http", "prompts": prompts})


async def test_prompts_are_what_the_settings_say(http: World) -> None:
    chosen = [{"title": "Look", "message": "look at checkout"}]
    async with running(http.slack, http.entry, "http", prompts=chosen):
        await http.slack.open_home("U_ANA", "messages")
        await http.slack.until(lambda: list(http.slack.world.prompts.values()) == [chosen])
