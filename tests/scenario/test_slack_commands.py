"""Commands on Slack: typed after a slash, said to the bot, picked as shortcuts."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from adapters.slack import limits
from adapters.slack.commands import COMMAND, PENDING, STATUS
from bot.surface import Place
from storage.database import Database
from tests.fakes.background import BackgroundTool, background
from tests.fakes.model import call
from tests.fakes.slack import TEAM, FakeSlack, View, buttons_of, text_of
from tests.fakes.slack.pings import pings_in
from tests.scenario.slack_product import ANA, BEN, CYN, OPS, Product, product
from tests.scenario.slack_world import World, living
from tests.world import effect

EVIL = "x` <!channel> <@U_BEN> <https://evil.test|Approve> [a](https://evil.test) :tada: *b*\n```"


@pytest.fixture(params=["http", "socket"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async for made in living(request.param):
        yield made


@pytest.fixture
async def http() -> AsyncIterator[World]:
    async for made in living("http"):
        yield made


async def seen(world: World, text: str, user: str = ANA) -> dict[str, Any]:
    """The ephemeral in which a person reads this."""
    return await world.slack.until(
        lambda: next((one for one in world.slack.ephemerals(user) if text in text_of(one)), None)
    )


async def shows(slack: FakeSlack, user: str, text: str) -> View:
    """The modal in which a person reads this."""
    return await slack.until(
        lambda: next((one for one in slack.open_views(user) if text in text_of(one.body)), None)
    )


# Typed after a slash


async def test_a_slash_command_is_answered_privately_in_its_acknowledgement(world: World) -> None:
    typed = await world.slack.slash(ANA, OPS, COMMAND, "task  k3v9qz ")

    assert typed.acked
    assert world.told(ANA) == ["the answer to task"]
    assert not world.told(BEN)
    (command,) = world.entry.commands
    assert (command.name, command.argument) == ("task", "k3v9qz")
    assert command.place == Place("slack", TEAM, OPS, "")
    assert command.actor.key == f"slack:{TEAM}/{ANA}"
    assert not world.slack.calls_of("response_url")


async def test_a_slash_command_alone_asks_for_the_help(world: World) -> None:
    await world.slack.slash(ANA, OPS, COMMAND)

    assert world.entry.commands[0].name == ""


async def test_what_takes_longer_is_acknowledged_first_and_follows_privately(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ACK_SECONDS", 0.05)
    held = asyncio.Event()
    world.entry.pause = held.wait

    typed = await world.slack.slash(ANA, OPS, COMMAND, "cancel k3v9qz")
    assert typed.acked
    assert not world.told(ANA)
    held.set()

    await seen(world, "the answer to cancel")
    assert not world.told(BEN)


async def test_a_command_that_fails_is_answered_with_a_sentence(world: World) -> None:
    world.entry.failing = 1
    await world.slack.slash(ANA, OPS, COMMAND, "status")

    assert world.told(ANA) == ["Something went wrong here: please try again."]


async def test_whom_slack_does_not_know_is_told_so_and_asks_nothing(world: World) -> None:
    world.slack.fail_next("users.info", error="internal_error")
    await world.slack.slash(ANA, OPS, COMMAND, "stop")

    assert world.told(ANA)[0].startswith("Slack did not say who you are")
    assert world.entry.commands == []


@pytest.mark.parametrize(
    "given",
    [
        {"user_id": "U ANA"},
        {"channel_id": ""},
        {"channel_id": "C_OPS/../x"},
        {"team_id": "<!here>"},
    ],
)
async def test_a_malformed_command_is_acknowledged_and_does_nothing(
    http: World, given: dict[str, str]
) -> None:
    form = {"command": COMMAND, "text": "stop", "user_id": ANA, "channel_id": OPS, "team_id": TEAM}

    delivery = await http.slack.deliver_http(urlencode(form | given))

    assert delivery.status == 200
    assert http.entry.commands == []


# Said to the bot


@pytest.mark.row("B95")
async def test_a_command_said_in_a_thread_is_answered_there_once_and_not_given_to_the_agent(
    world: World,
) -> None:
    place = await world.thread()
    await world.slack.mention(ANA, OPS, "status", place.root)

    message = await seen(world, "the answer to status")
    await asyncio.sleep(0.1)
    assert message["thread_ts"] == place.root
    assert len(world.told(ANA)) == 1
    assert not world.told(BEN)
    assert world.entry.messages == []
    assert [one.place for one in world.entry.commands] == [place]


async def test_a_command_said_in_the_channel_is_about_the_channel(world: World) -> None:
    await world.slack.mention(ANA, OPS, "Pending 2")

    message = await seen(world, "the answer to pending")
    assert "thread_ts" not in message  # nobody sees an ephemeral in a thread that is none yet
    (command,) = world.entry.commands
    assert (command.argument, command.place.root) == ("2", "")


@pytest.mark.parametrize("text", ["status of checkout", "help me", "<@U_BEN> status", "cancel it"])
async def test_anything_more_is_a_message_to_the_agent(http: World, text: str) -> None:
    await http.slack.mention(ANA, OPS, text)

    assert len(http.entry.messages) == 1
    assert http.entry.commands == []


async def test_a_bare_word_without_a_mention_is_a_message(world: World) -> None:
    place = await world.thread()
    await world.slack.say(ANA, OPS, "stop", place.root)

    assert [one.text for one in world.entry.messages] == ["stop"]
    assert world.entry.commands == []


async def test_an_answer_that_slack_refuses_is_logged(
    http: World, caplog: pytest.LogCaptureFixture
) -> None:
    http.slack.fail_next("chat.postEphemeral", error="user_not_in_channel")
    with caplog.at_level(logging.WARNING):
        await http.slack.mention(ANA, OPS, "status")
        await http.slack.until(lambda: "did not go out: user_not_in_channel" in caplog.text)


# Shortcuts


async def test_the_shortcut_of_a_message_tells_of_its_thread_there(world: World) -> None:
    place = await world.thread()
    reply = await world.slack.say(BEN, OPS, "so?", place.root)

    used = await world.slack.shortcut(CYN, STATUS, OPS, reply)

    assert used.acked
    message = await seen(world, "the answer to status", CYN)
    assert message["thread_ts"] == place.root
    assert world.entry.commands[0].place == place
    assert not world.told(BEN)


async def test_the_shortcut_of_a_message_without_a_thread_is_answered_in_the_channel(
    world: World,
) -> None:
    ts = await world.slack.say(BEN, OPS, "lunch?")
    await world.slack.shortcut(CYN, STATUS, OPS, ts)

    message = await seen(world, "the answer to status", CYN)
    assert "thread_ts" not in message
    assert world.entry.commands[0].place.root == ts


async def test_the_global_shortcut_opens_a_list_whose_pages_can_be_turned(world: World) -> None:
    used = await world.slack.shortcut(BEN, PENDING)
    assert used.acked

    async def page(number: int, buttons: list[str]) -> None:
        await world.slack.until(
            lambda: f"page {number} for slack:{TEAM}/{BEN} in {TEAM}" in text_of(view().body)
        )
        assert buttons_of(view().body) == buttons

    def view() -> Any:
        return world.slack.open_views(BEN)[-1]

    await world.slack.until(lambda: world.slack.open_views(BEN))
    await page(1, ["More"])
    await world.slack.click_view(BEN, view(), "More")
    await page(2, ["Earlier", "More"])
    await world.slack.click_view(BEN, view(), "More")
    await page(3, ["Earlier"])
    await world.slack.click_view(BEN, view(), "Earlier")
    await page(2, ["Earlier", "More"])
    assert world.entry.decisions == []


async def test_a_list_that_fails_says_so_in_its_modal(world: World) -> None:
    world.entry.failing = 1
    await world.slack.shortcut(BEN, PENDING)

    await shows(world.slack, BEN, "Something went wrong")


@pytest.mark.parametrize("callback", ["interlock.other", "", STATUS])
async def test_a_shortcut_that_is_none_of_ours_does_nothing(http: World, callback: str) -> None:
    await http.slack.shortcut(BEN, callback)  # STATUS belongs to a message

    await asyncio.sleep(0.05)
    assert http.entry.commands == []
    assert not http.slack.open_views(BEN)


# The whole product


async def answer(one: Product, who: str, text: str, channel: str = OPS) -> dict[str, Any]:
    """What a person is told who types this after the slash."""
    before = len(one.slack.ephemerals(who))
    await one.slack.slash(who, channel, COMMAND, text)
    assert len(one.slack.ephemerals(who)) == before + 1
    return one.slack.ephemerals(who)[-1]


def short_id(message: dict[str, Any]) -> str:
    """The first id of a list."""
    found = re.search(r"• `([0-9a-z]{6})`", text_of(message))
    assert found is not None, text_of(message)
    return found[1]


async def test_a_list_names_ids_and_links_to_the_threads(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), tools=[effect([])]) as one:
        await one.mention()
        await one.card("wants to run refund")

        listed = await answer(one, BEN, "pending")

        assert "`ops wants to run refund` *(yours)*, open for less than a minute" in text_of(listed)
        address = f"https://t1.slack.test/archives/{OPS}/p{one.root.replace('.', '')}"
        assert f"<{address}|thread>" in text_of(listed)
        told = text_of(await answer(one, CYN, f"task {short_id(listed)}"))
        assert "waiting for people since" in told
        assert '`{"order":"A1"}`' in told


async def test_an_id_of_another_channel_is_not_found(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), tools=[effect([])]) as one:
        one.slack.add_channel("C_DEV", [ANA, BEN])
        await one.mention()
        await one.card("wants to run refund")
        short = short_id(await answer(one, BEN, "pending"))

        for text in (f"task {short}", f"cancel {short}"):
            assert "is not found here" in text_of(await answer(one, BEN, text, "C_DEV"))
        assert "No chat lives in this channel yet." in text_of(
            await answer(one, BEN, "status", "C_DEV")
        )


async def test_only_who_may_cancels_a_background_call(sqlite_db: Database) -> None:
    tool: BackgroundTool = background()
    async with product(sqlite_db, call("rollout"), tools=[tool]) as one:
        await one.mention()
        await one.reads("rollout is running")
        short = short_id(await answer(one, CYN, "status"))

        refused = text_of(await answer(one, CYN, f"cancel {short}"))
        assert refused.startswith("Only the person who asked")
        assert tool.cancelled == []
        taken = text_of(await answer(one, BEN, f"cancel {short}"))
        assert taken == "The server was asked to stop."
        assert tool.cancelled == ["t1"]


@pytest.mark.row("B95")
async def test_a_mention_stops_the_agent_in_its_thread(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(sqlite_db, call("refund", order="A1"), tools=[effect(effects)]) as one:
        await one.mention()
        await one.card("wants to run refund")
        await one.slack.mention(CYN, OPS, "stop", one.root)
        await one.told(CYN, "Only the person who asked the agent, or an approver, can stop it.")
        await one.slack.mention(ANA, OPS, "stop", one.root)
        await one.told(ANA, "Stopping: what has not run will not run.")
        await one.reads("Closed on")
        assert effects == []


async def test_the_list_of_a_person_goes_over_channels(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), tools=[effect([])]) as one:
        one.slack.add_channel("C_DEV", [ANA, "U_BOT"])
        await one.mention()
        await one.card("wants to run refund")
        root = await one.slack.mention(ANA, "C_DEV", "please")
        await one.slack.until(lambda: len(one.slack.thread("C_DEV", root)) > 1)

        await one.slack.shortcut(BEN, PENDING)
        view = await shows(one.slack, BEN, "ops wants to run refund")
        assert text_of(view.body).count("ops wants to run refund") == 2
        await one.slack.shortcut(CYN, PENDING)
        await shows(one.slack, CYN, "Nothing waits for you.")


async def test_hostile_names_and_sayings_ping_nobody_and_link_nowhere(sqlite_db: Database) -> None:
    asking = replace(effect([], name="refund"), name=EVIL)
    working = replace(background(message=EVIL), name=f"{EVIL} too")
    steps = [[call(EVIL, order=EVIL), call(working.name, what=EVIL)]]
    async with product(sqlite_db, *steps, tools=[asking, working]) as one:
        await one.mention()
        await one.card("wants to run x")
        await one.reads("too is running")
        listed = await answer(one, BEN, "status")
        found = re.findall(r"• `([0-9a-z]{6})`", text_of(listed))
        assert len(found) == 3
        for text in ("pending", "rules", EVIL, *(f"task {short}" for short in found)):
            await answer(one, BEN, text)
        for short in found[:2]:
            await answer(one, CYN, f"cancel {short}")
        await one.slack.mention(BEN, OPS, "status", one.root)
        await one.told(BEN, "In this channel:")
        await one.slack.shortcut(BEN, PENDING)
        await shows(one.slack, BEN, "wants to run")

        views = [view.body for view in one.slack.open_views(BEN)]
        told = [*one.slack.ephemerals(BEN), *one.slack.ephemerals(CYN), *views]
        pings = [ping for message in told for ping in pings_in(message, OPS)]
        assert {ping.kind for ping in pings} == {"link"}
        assert all(ping.token.startswith("<https://t1.slack.test/archives/") for ping in pings)
        for message in told:  # it stands in code, where no emoji and no style is read either
            around = re.sub(r"`[^`\n]*`", "", text_of(message))
            assert not re.search("evil|channel>|tada", around)
