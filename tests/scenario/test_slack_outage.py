"""Channels that are archived, a bot that was removed, a token that was revoked: bounded, said once,
made good afterwards, and nobody else's business."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.chat import Chat
from bot.scripted import Part, Step
from bot.surface import Actor
from bot.tool import tool
from storage import chats, outbox
from storage.database import Database
from tests.fakes.clock import WallClock
from tests.fakes.model import call
from tests.fakes.slack import BOT_USER, FakeSlack, buttons_of, text_of
from tests.scenario.slack_product import ANA, BEN, OPS, Product, product
from tests.scenario.slack_world import Mode
from tests.world import until

TITLE = "wants to run refund"
ARCHIVED = "its channel is archived, so unarchive it or ask me again in another one"
REMOVED = "I am not in its channel any more"
NEWS = "C_NEWS"


@tool
async def refund(order: str) -> str:
    """Refunds an order."""
    return f"refunded {order}"


def first(happens: Callable[[], object], then: Part) -> Step:
    """A turn before which something happens in the workspace; "hello" is only answered."""

    def step(history: object) -> Part:
        if "hello" in str(history):
            return "Hello."
        happens()
        return then

    return step


def notices(one: Product) -> list[str]:
    return [text_of(message) for message in one.direct(ANA)]


def card_at(one: Product, channel: str, root: str) -> dict[str, Any] | None:
    cards = [card for card in one.slack.thread(channel, root) if TITLE in text_of(card)]
    return cards[0] if cards else None


def lost(slack: FakeSlack) -> list[str]:
    """The methods by which messages were lost."""
    methods = ("chat.postMessage", "chat.update", "conversations.open")
    return sorted(one.method for one in slack.refused if one.method in methods)


async def nothing_waits(db: Database) -> bool:
    async with db.read() as tx:
        return not await outbox.channels_waiting(tx)


def errors(logs: list[Any]) -> list[str]:
    return [entry["event"] for entry in logs if entry["log_level"] == "error"]


@pytest.fixture(params=["http", "socket"])
def mode(request: pytest.FixtureRequest) -> Mode:
    mode: Mode = request.param
    return mode


@pytest.mark.row("B33")
@pytest.mark.parametrize("way", ["archived", "removed", "removed from a private channel"])
async def test_a_channel_out_of_reach_is_tried_boundedly_and_its_requester_told_once(
    way: str, sqlite_db: Database, mode: Mode
) -> None:
    effects: list[str] = []

    @tool
    async def refund(order: str) -> str:
        """Refunds an order."""
        effects.append(order)
        return "ok"

    with capture_logs() as logs:
        async with product(
            sqlite_db, call("refund", order="A1"), "Done.", tools=[refund], mode=mode
        ) as one:
            one.slack.add_channel(NEWS, [ANA, BEN, BOT_USER])
            await one.mention()
            await one.card(TITLE)
            second = await one.slack.mention(ANA, OPS, "once more")
            await one.slack.until(lambda: card_at(one, OPS, second), seconds=10)
            await one.slack.until(lambda: len(one.direct(BEN)) == 2, seconds=10)
            match way:
                case "archived":
                    one.slack.world.channels[OPS].archived = True
                case "removed":
                    one.slack.kick(OPS)
                case _:
                    one.slack.world.channels[OPS].kind = "group"
                    one.slack.kick(OPS)
            for copy in one.direct(BEN):
                channel = one.slack.direct_channel(BEN)
                await one.slack.click(BEN, channel, copy["ts"], "Approve")
            await one.slack.until(lambda: len(effects) == 2, seconds=10)

            # Another channel is served, and what fails meanwhile has failed.
            elsewhere = await one.slack.mention(ANA, NEWS, "please")
            card = await one.slack.until(lambda: card_at(one, NEWS, elsewhere), seconds=10)
            await one.slack.click(BEN, NEWS, card["ts"], "Approve")
            await one.slack.until(
                lambda: "Done." in text_of(one.slack.thread(NEWS, elsewhere)[-1]), seconds=10
            )
            await until(lambda: nothing_waits(sqlite_db))

            tried = [one for one in one.slack.refused if one.args.get("channel") == OPS]
            posts = [one for one in tried if one.method == "chat.postMessage"]
            assert len(posts) == 2  # "Done." of two chats
            assert len(tried) - len(posts) == (0 if way == "removed" else 2)  # two cards' redraws
            (notice,) = notices(one)
            assert (ARCHIVED if way == "archived" else REMOVED) in notice
            assert f"https://t1.slack.test/archives/{OPS}/p" in notice
    assert effects == ["A1", "A1", "A1"]
    assert errors(logs) == ["nothing is taken there; deliveries are given up"]


async def test_a_card_that_an_archived_channel_did_not_take_goes_there_once_it_takes_something(
    sqlite_db: Database, mode: Mode
) -> None:
    """Until then it waits in the approver's direct message."""
    async with FakeSlack(WallClock()) as slack:
        channel = slack.world.channels[OPS]
        step = first(lambda: setattr(channel, "archived", True), call("refund", order="A1"))
        async with product(
            sqlite_db, step, "Done.", tools=[refund], workspace=slack, mode=mode
        ) as one:
            await one.mention()
            await slack.until(lambda: notices(one), seconds=10)
            await one.direct_card(BEN, TITLE)
            assert card_at(one, OPS, one.root) is None

            channel.archived = False
            await slack.mention(ANA, OPS, "hello")
            await one.click(BEN, TITLE, "Approve")
            await one.reads("Done.")
            assert one.count(TITLE) == len(one.direct(BEN)) == len(notices(one)) == 1


async def test_what_a_revoked_token_did_not_deliver_is_tried_once_and_said_once(
    sqlite_db: Database, mode: Mode
) -> None:
    with capture_logs() as logs:
        async with FakeSlack(WallClock()) as slack:
            step = first(lambda: revoke(slack), call("refund", order="A1"))
            async with product(
                sqlite_db, step, "Done.", tools=[refund], workspace=slack, mode=mode
            ) as one:
                await one.mention()
                await slack.until(lambda: len(lost(slack)) == 2, seconds=10)
                await until(lambda: nothing_waits(sqlite_db))
                assert lost(slack) == ["chat.postMessage", "conversations.open"]
    assert errors(logs) == ["nothing is taken there; deliveries are given up"]


@pytest.mark.parametrize("restarted", [True, False], ids=["after a restart", "in the same process"])
async def test_the_cards_of_open_questions_are_posted_once_the_token_is_good_again(
    restarted: bool, sqlite_db: Database, mode: Mode
) -> None:
    async with FakeSlack(WallClock()) as slack:
        step = first(lambda: revoke(slack), call("refund", order="A1"))
        script = (step, "Done.")
        async with product(sqlite_db, *script, tools=[refund], workspace=slack, mode=mode) as one:
            await one.mention()
            await slack.until(lambda: len(lost(slack)) == 2, seconds=10)
            root = one.root
            if not restarted:
                slack.world.token_error = ""
                await slack.mention(ANA, OPS, "hello")
                await posted_again(one)
        if restarted:
            slack.world.token_error = ""
            async with product(
                sqlite_db, *script, tools=[refund], workspace=slack, root=root, mode=mode
            ) as two:
                await posted_again(two)


def revoke(slack: FakeSlack) -> None:
    slack.world.token_error = "token_revoked"


async def posted_again(one: Product) -> None:
    """Both copies, each once, and each decides."""
    await one.card(TITLE)
    await one.click_direct(BEN, TITLE, "Approve")
    await one.reads("Done.")
    assert one.count(TITLE) == len(one.direct(BEN)) == 1
    assert not [label for card in (*one.thread(), *one.direct(BEN)) for label in buttons_of(card)]


@pytest.mark.row("B38")
async def test_a_copy_that_a_revoked_token_did_not_redraw_is_redrawn_after_the_next_start(
    sqlite_db: Database, mode: Mode
) -> None:
    """Decided elsewhere meanwhile, as by a program."""
    async with FakeSlack(WallClock()) as slack:
        async with product(
            sqlite_db,
            call("refund", order="A1"),
            "Done.",
            tools=[refund],
            workspace=slack,
            mode=mode,
        ) as one:
            await one.mention()
            card = await one.card(TITLE)
            await one.direct_card(BEN, TITLE)
            revoke(slack)
            async with sqlite_db.read() as tx:
                (chat,) = await chats.recent(tx, 1)
            (question,) = await Chat(chat.id, one.core).pending_questions()
            await question.approve(by=Actor("slack", "T1", BEN, "ben"))
            await slack.until(lambda: lost(slack).count("chat.update") == 2, seconds=10)
            root = one.root
        slack.world.token_error = ""
        assert buttons_of(card)
        async with product(
            sqlite_db, "Done.", "Done.", tools=[refund], workspace=slack, root=root, mode=mode
        ) as two:
            await slack.until(lambda: not buttons_of(card), seconds=10)
            assert "Approved by ben" in text_of(card)
            await slack.until(lambda: "Approved by ben" in text_of(two.direct(BEN)[0]), seconds=10)
