"""The card of an approver who is not in the thread: a direct message that decides like any copy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import pytest

from bot.approvers import Policy
from bot.ask_user_tool import ask_user_tool, in_thread
from bot.tool import Tool, tool
from storage.database import Database
from tests.fakes.clock import WallClock
from tests.fakes.model import call
from tests.fakes.slack import FakeSlack, buttons_of, text_of
from tests.scenario.slack_product import ANA, BEN, CYN, OPS, Product, product
from tests.scenario.slack_world import Mode

TITLE = "wants to run refund"
MANY = 8  # calls of one response, enough for a shared card
BOTH = Policy(name="ops", approvers=frozenset({f"slack:T1/{BEN}", f"slack:T1/{CYN}"}))


def refunding(effects: list[str]) -> Tool:
    @tool
    async def refund(order: str) -> str:
        """Refunds an order."""
        effects.append(order)
        return f"refunded {order}"

    return refund


def thread_card(one: Product) -> dict[str, Any]:
    return next(message for message in one.thread() if TITLE in text_of(message))


def open_copies(one: Product, *people: str) -> int:
    """How many copies of the card have buttons."""
    shown = [*one.thread(), *(message for who in people for message in one.direct(who))]
    return sum(TITLE in text_of(message) and bool(buttons_of(message)) for message in shown)


def whispers(slack: FakeSlack, who: str) -> Sequence[dict[str, Any]]:
    """The ephemerals that were sent to this person, as they were asked for."""
    return [one.args for one in slack.calls_of("chat.postEphemeral") if one.args["user"] == who]


@pytest.mark.row("B31")
@pytest.mark.row("B38")
@pytest.mark.parametrize("mode", ["http", "socket"])
async def test_an_approver_who_is_not_in_the_thread_approves_in_a_direct_message(
    mode: Mode, sqlite_db: Database
) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[refunding(effects)], mode=mode
    ) as one:
        await one.mention()
        await one.card(TITLE)
        await one.click_direct(BEN, TITLE, "Approve")
        await one.reads("Done.")
        assert effects == ["A1"]
        assert "Approved by ben" in text_of(thread_card(one))
        assert "Approved by ben" in text_of(one.direct(BEN)[0])
        assert open_copies(one, BEN) == 0
        assert len(one.direct(BEN)) == 1
        assert not one.slack.ephemerals(BEN)


@pytest.mark.row("B38")
@pytest.mark.parametrize("mode", ["http", "socket"])
async def test_a_decision_in_the_thread_settles_the_direct_message(
    mode: Mode, sqlite_db: Database
) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, call("refund", order="A1"), "I see.", tools=[refunding(effects)], mode=mode
    ) as one:
        await one.mention()
        await one.direct_card(BEN, TITLE)
        await one.click(BEN, TITLE, "Decline")
        await one.reads("I see.")
        assert "Declined by ben" in text_of(one.direct(BEN)[0])
        assert open_copies(one, BEN) == 0
        assert effects == []


@pytest.mark.row("B39")
async def test_every_copy_loses_its_buttons_before_the_tool_starts(sqlite_db: Database) -> None:
    seen: list[int] = []
    there: list[Product] = []

    @tool
    async def refund(order: str) -> str:
        """Refunds an order."""
        seen.append(open_copies(there[0], BEN, CYN))
        return "ok"

    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[refund], policies=[BOTH]
    ) as one:
        there.append(one)
        await one.mention()
        await one.card(TITLE)
        await one.direct_card(CYN, TITLE)
        await one.click_direct(BEN, TITLE, "Approve")
        await one.reads("Done.")
    assert seen == [0]


async def test_each_approver_gets_a_copy_and_who_comes_late_is_told_there(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db,
        call("refund", order="A1"),
        "Done.",
        tools=[refunding(effects)],
        policies=[BOTH],
    ) as one:
        await one.mention()
        late = await one.direct_card(CYN, TITLE)
        await one.slack.until(lambda: open_copies(one, BEN, CYN) == 3, seconds=10)
        buttons = late["blocks"][-1]
        await one.click_direct(BEN, TITLE, "Approve")
        await one.reads("Done.")
        channel = one.slack.direct_channel(CYN)
        one.slack.message(channel, late["ts"])["blocks"].append(buttons)  # her client is behind
        await one.slack.click(CYN, channel, late["ts"], "Decline")
        await one.told(CYN, "This was settled before. Approved by ben")
        (whisper,) = whispers(one.slack, CYN)
        assert whisper["channel"] == channel
        assert "thread_ts" not in whisper  # nobody has begun a thread there: it would not be seen
        assert effects == ["A1"]
        assert [len(one.direct(who)) for who in (ANA, BEN, CYN)] == [0, 1, 1]


async def test_the_copy_says_who_asked_and_links_to_the_thread(sqlite_db: Database) -> None:
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[refunding([])]
    ) as one:
        await one.mention()
        copy = await one.direct_card(BEN, TITLE)
        address = f"https://t1.slack.test/archives/{OPS}/p{one.root.replace('.', '')}"
        assert f"Requested by <@{ANA}> in <#{OPS}>" in text_of(copy)
        assert f"<{address}|Open the thread>" in text_of(copy)
        assert "Requested by" not in text_of(await one.card(TITLE))
        await one.click_direct(BEN, TITLE, "Approve")
        await one.reads("Done.")
        assert address in text_of(one.direct(BEN)[0])


@pytest.mark.row("B38")
async def test_many_approvals_of_one_response_are_one_direct_message_that_decides_them(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    many = [call("refund", order=f"A{number}") for number in range(MANY)]
    async with product(sqlite_db, many, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        title = f"wants to run {MANY} calls"
        card = await one.card(title)
        copy = await one.click_direct(BEN, title, f"Approve all {MANY}")
        await one.reads("Done.")
        assert len(one.direct(BEN)) == 1
        assert f"Requested by <@{ANA}> in <#{OPS}>" in text_of(copy)
        assert "Requested by" not in text_of(card)
        for shown in (card, copy):
            assert text_of(shown).count("Approved by ben") == MANY
            assert not buttons_of(shown)
    assert len(effects) == MANY


async def test_an_approver_who_wrote_in_the_thread_gets_no_direct_message(
    sqlite_db: Database,
) -> None:
    async with product(
        sqlite_db,
        "One.",
        "Two.",
        call("refund", order="A1"),
        "Done.",
        tools=[refunding([])],
        policies=[BOTH],
    ) as one:
        await one.mention()
        await one.reads("One.")
        await one.slack.say(BEN, OPS, "and what now?", one.root)
        await one.reads("Two.")
        await one.slack.say(ANA, OPS, "refund it", one.root)
        await one.direct_card(CYN, TITLE)
        await one.click(BEN, TITLE, "Approve")
        await one.reads("Done.")
        assert one.direct(BEN) == []
        assert len(one.direct(CYN)) == 1


async def test_what_a_tool_wants_to_know_is_not_sent_around(sqlite_db: Database) -> None:
    options = [{"label": word, "description": f"{word}, please"} for word in ("Now", "Later")]
    asks = call("ask_user", questions=[{"question": "When?", "header": "When", "options": options}])
    async with product(sqlite_db, asks, "Fine.", tools=[ask_user_tool(in_thread)]) as one:
        await one.mention()
        await one.click(ANA, "ops asks", "Now")
        await one.reads("Fine.")
        assert one.direct(BEN) == []


@pytest.mark.row("B6")
async def test_the_requester_gets_no_copy_and_decides_nothing_with_that_of_another(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    policy = Policy(name="ops", approvers=frozenset({f"slack:T1/{ANA}", f"slack:T1/{BEN}"}))
    async with product(
        sqlite_db,
        call("refund", order="A1"),
        "Done.",
        tools=[refunding(effects)],
        policies=[policy],
    ) as one:
        await one.mention()
        copy = await one.direct_card(BEN, TITLE)
        pressed = await one.slack.click(
            BEN, one.slack.direct_channel(BEN), copy["ts"], "Decline with a note"
        )  # to have a payload
        for channel in (one.slack.direct_channel(BEN), one.slack.direct_channel(ANA)):
            forged = json.loads(
                json.dumps(pressed.payload)
                .replace(BEN, ANA)
                .replace(one.slack.direct_channel(BEN), channel)
                .replace("interlock.note", "interlock.approve")
            )
            answer = await one.slack.deliver_http(urlencode({"payload": json.dumps(forged)}))
            assert answer.acked
        assert one.direct(ANA) == []
        assert effects == []
        await one.told(ANA, "There is no such question here")  # in a place where there is no copy
        await one.told(BEN, "You asked the agent for this")  # the answer goes to where it came from
        await one.click_direct(BEN, TITLE, "Approve")
        await one.reads("Done.")
        assert effects == ["A1"]


@pytest.mark.row("B30")
@pytest.mark.row("B31")
async def test_after_a_restart_the_first_click_in_the_direct_message_counts(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    steps = (call("refund", order="A1"), "Done.")
    tools = [refunding(effects)]
    async with FakeSlack(WallClock()) as slack:
        async with product(sqlite_db, *steps, tools=tools, workspace=slack) as one:
            await one.mention()
            await one.card(TITLE)
            await one.direct_card(BEN, TITLE)
            root = one.root
        async with product(sqlite_db, *steps, tools=tools, workspace=slack, root=root) as two:
            await two.click_direct(BEN, TITLE, "Approve")
            await two.reads("Done.")
            assert open_copies(two, BEN) == 0
            assert two.count(TITLE) == len(two.direct(BEN)) == 1
    assert effects == ["A1"]


@pytest.mark.row("B38")
async def test_a_restart_between_the_decision_and_the_redraw_settles_every_copy(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    steps = (call("refund", order="A1"), "Done.")
    tools = [refunding(effects)]
    async with FakeSlack(WallClock()) as slack:
        async with product(sqlite_db, *steps, tools=tools, workspace=slack) as one:
            await one.mention()
            await one.card(TITLE)
            await one.direct_card(BEN, TITLE)
            slack.fail_next("chat.update", status=503, times=2)
            await one.click_direct(BEN, TITLE, "Approve")
            assert open_copies(one, BEN) == 2
            root = one.root
        assert effects == []
        async with product(sqlite_db, *steps, tools=tools, workspace=slack, root=root) as two:
            await two.reads("Done.")
            assert open_copies(two, BEN) == 0
            assert "Approved by ben" in text_of(two.direct(BEN)[0])
    assert effects == ["A1"]


async def test_a_copy_that_arrives_after_the_decision_has_no_buttons(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[refunding(effects)]
    ) as one:
        one.slack.fail_next("conversations.open", status=429, error="ratelimited", retry_after=2)
        await one.mention()
        await one.click(BEN, TITLE, "Approve")
        await one.reads("Done.")
        (copy,) = await one.slack.until(lambda: one.direct(BEN), seconds=10)
        assert "Approved by ben" in text_of(copy)
        assert not copy.get("edits")
        assert not buttons_of(copy)
    assert effects == ["A1"]


async def test_a_copy_whose_post_was_lost_on_the_way_back_decides_and_is_not_doubled(
    sqlite_db: Database,
) -> None:
    """As after a crash between the post and its record: nothing says yet that it stands there."""
    effects: list[str] = []
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[refunding(effects)]
    ) as one:
        one.slack.drop_next("chat.postMessage", times=2)
        await one.mention()
        await one.click_direct(BEN, TITLE, "Approve")
        await one.slack.until(lambda: open_copies(one, BEN) == 0, seconds=10)
        await one.reads("Done.")
        assert not one.slack.ephemerals(BEN)
        assert one.count(TITLE) == len(one.direct(BEN)) == 1
        assert len(one.slack.calls_of("conversations.history")) == 1
    assert effects == ["A1"]


@pytest.mark.row("B33")
@pytest.mark.parametrize("trouble", ["deactivated", "a bot", "unknown", "no messages tab"])
async def test_who_cannot_be_written_to_holds_up_nobody(trouble: str, sqlite_db: Database) -> None:
    effects: list[str] = []
    policy = Policy(name="ops", approvers=frozenset({f"slack:T1/{BEN}", "slack:T1/U_DAN"}))
    async with product(
        sqlite_db,
        call("refund", order="A1"),
        "Done.",
        tools=[refunding(effects)],
        policies=[policy],
    ) as one:
        match trouble:
            case "deactivated":
                one.slack.add_user("U_DAN", deleted=True)
            case "a bot":
                one.slack.add_user("U_DAN", bot=True)
            case "no messages tab":
                one.slack.add_user("U_DAN")
                one.slack.world.messages_tab = False
        await one.mention()
        if trouble != "no messages tab":
            await one.direct_card(BEN, TITLE)
        await one.click(BEN, TITLE, "Approve")
        await one.reads("Done.")
        tried = [one.args for one in one.slack.calls_of("conversations.open")]
        assert tried.count({"users": "U_DAN"}) == 1
        assert one.direct(ANA) == []  # an approver's direct message is nothing to her
    assert effects == ["A1"]


@pytest.mark.row("B33")
async def test_a_copy_that_cannot_be_redrawn_any_more_holds_up_no_call(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[refunding(effects)]
    ) as one:
        await one.mention()
        await one.direct_card(BEN, TITLE)
        one.slack.world.channels[one.slack.direct_channel(BEN)].archived = True
        await one.click(BEN, TITLE, "Approve")
        await one.reads("Done.")
        assert [one.error for one in one.slack.refused] == ["is_inactive"]
    assert effects == ["A1"]
