"""The whole product on Slack in one process: what people do in a thread, and what comes of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

import pytest

from bot.approvers import Policy
from bot.ask_user_tool import ask_user_tool, in_thread
from bot.tool import Call, tool
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.slack import buttons_of, text_of
from tests.scenario.slack_product import ANA, BEN, CYN, OPS, POLICY, Product, product


@tool
async def refund(order: str, amount: int = 5) -> str:
    """Refunds an order."""
    return f"refunded {amount} for {order}"


async def test_buttons_are_gone_before_the_tool_starts(sqlite_db: Database) -> None:
    seen: list[list[str]] = []
    there: list[Product] = []

    @tool
    async def restart(service: str) -> str:
        """Restarts."""
        one = there[0]
        cards = [message for message in one.thread() if "wants to run" in text_of(message)]
        seen.append([label for card in cards for label in map(str, buttons_of(card))])
        return "ok"

    async with product(sqlite_db, call("restart", service="a"), "Done.", tools=[restart]) as one:
        there.append(one)
        await one.mention()
        await one.click(BEN, "wants to run restart", "Approve")
        await one.reads("Done.")
    assert seen == [[]]


async def test_the_second_clicker_is_told_who_was_first(sqlite_db: Database) -> None:
    both = Policy(name="ops", approvers=POLICY.approvers | {f"slack:T1/{CYN}"})
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[refund], policies=[both]
    ) as one:
        await one.mention()
        card = await one.card("wants to run refund")
        await asyncio.gather(
            one.slack.click(BEN, OPS, card["ts"], "Approve"),
            one.slack.click(CYN, OPS, card["ts"], "Decline"),
        )
        await one.reads("Done.")
        (winner, loser) = (BEN, CYN) if one.count("Approved by ben") else (CYN, BEN)
        await one.told(loser, "This was settled before.")
        assert not one.slack.ephemerals(winner)


async def test_declined_with_a_note_the_agent_reads_the_note(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), "I see.", tools=[refund]) as one:
        await one.mention()
        await one.click(BEN, "wants to run refund", "Decline with a note")
        view = await one.modal(BEN)
        label = next(b for b in view.body["blocks"] if b["type"] == "input")["label"]["text"]
        await one.slack.submit(BEN, view, {label: "It was shipped already"})
        await one.reads("I see.")
        assert one.count("Declined by ben")
        assert "It was shipped already" in one.model_read()


async def test_remembered_for_the_thread_it_runs_without_asking_and_says_so(
    sqlite_db: Database,
) -> None:
    async with product(
        sqlite_db, call("refund", order="A1"), call("refund", order="A2"), "Done.", tools=[refund]
    ) as one:
        await one.mention()
        card = await one.card("wants to run refund")
        label = next(name for name in map(str, _labels(card)) if "for this thread" in name)
        await one.slack.click(BEN, OPS, card["ts"], label)
        await one.reads("Done.")
        assert one.count("wants to run refund") == 1
        assert one.count("allowed it in this thread until it is revoked") == 1
        assert one.count("without asking") == 2  # the card says it too


def _labels(message: dict[str, Any]) -> list[str]:
    return [
        element["text"]["text"]
        for block in message["blocks"]
        if block["type"] == "actions"
        for element in block["elements"]
    ]


SERVICES = {
    "question": "Which services?",
    "header": "Services",
    "multiSelect": True,
    "options": [
        {"label": "checkout", "description": "slow"},
        {"label": "search", "description": "fine"},
    ],
}
WHEN = {
    "question": "When?",
    "header": "When",
    "options": [
        {"label": "Now", "description": "at once"},
        {"label": "Tonight", "description": "when it is quiet"},
    ],
}


@pytest.mark.row("D9")
@pytest.mark.row("D10")
async def test_ask_user_in_a_modal_with_several_picks_and_own_words(sqlite_db: Database) -> None:
    asks = call("ask_user", questions=[SERVICES, WHEN])
    async with product(sqlite_db, asks, "Fine.", tools=[ask_user_tool(in_thread)]) as one:
        await one.mention()
        await one.click(ANA, "ops asks", "Answer")
        view = await one.modal(ANA)
        labels = [b["label"]["text"] for b in view.body["blocks"] if b["type"] == "input"]
        picks, other, when = labels[0], labels[1], labels[2]
        entered = {picks: ["checkout"], other: "the docs", when: "Tonight"}
        assert not (await one.slack.submit(ANA, view, entered)).errors
        await one.reads("Fine.")
        assert '"selected": ["checkout"], "other_text": "the docs"' in one.model_read()
        assert '"selected": ["Tonight"], "other_text": null' in one.model_read()


@pytest.mark.row("D7")
async def test_one_single_question_is_answered_by_a_button(sqlite_db: Database) -> None:
    asks = call("ask_user", questions=[WHEN])
    async with product(sqlite_db, asks, "Fine.", tools=[ask_user_tool(in_thread)]) as one:
        await one.mention()
        await one.click(ANA, "ops asks", "Now")
        await one.reads("Fine.")
        assert one.count("When: Now")
        assert '"selected": ["Now"]' in one.model_read()


async def test_a_page_is_shown_after_consent_and_finished(sqlite_db: Database) -> None:
    @tool(approval="never")
    async def login(c: Call) -> str:
        """Logs in."""
        return f"logged in: {await c.ask('Please log in.', url='https://login.test/a?b=1')}"

    async with product(sqlite_db, call("login"), "Fine.", tools=[login]) as one:
        await one.mention()
        card = await one.click(ANA, "login asks you to visit a page", "Show the link")
        assert not [ping for ping in one.slack.pings if ping.kind == "link"]
        await one.slack.until(
            lambda: any(
                "https://login.test/a?b=1" in str(v.body) for v in one.slack.open_views(ANA)
            )
        )
        assert not one.count("Fine.")  # looking decides nothing
        await one.slack.click(ANA, OPS, card["ts"], "I have finished")
        await one.reads("Fine.")
        assert one.count("Finished by ana")
        assert "logged in: True" in one.model_read()


async def test_a_modal_submitted_after_the_question_settled_is_told(sqlite_db: Database) -> None:
    asks = call("ask_user", questions=[SERVICES, WHEN])
    async with product(sqlite_db, asks, "Fine.", tools=[ask_user_tool(in_thread)]) as one:
        await one.mention()
        card = await one.click(ANA, "ops asks", "Answer")
        view = await one.modal(ANA)
        await one.slack.click(BEN, OPS, card["ts"], "Decline")
        await one.reads("Declined by ben")
        labels = [b["label"]["text"] for b in view.body["blocks"] if b["type"] == "input"]
        late = await one.slack.submit(ANA, view, {labels[0]: ["checkout"], labels[2]: "Now"})
        shown = str(late.errors) + str([v.body for v in one.slack.open_views(ANA)])
        assert "settled before" in shown
        assert "Declined by ben" in shown
        await one.reads("Fine.")
        assert "declined to answer" in one.model_read()


async def test_a_nonce_in_another_thread_decides_nothing(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), "Done.", tools=[refund]) as one:
        await one.mention()
        card = await one.card("wants to run refund")
        elsewhere = await one.slack.say(BEN, OPS, "another thread")
        pressed = await one.slack.click(CYN, OPS, card["ts"], "Approve")  # to have a payload
        forged = json.loads(json.dumps(pressed.payload).replace(CYN, BEN))
        forged["message"]["thread_ts"] = forged["message"]["ts"] = elsewhere
        forged["container"]["message_ts"] = forged["container"]["thread_ts"] = elsewhere
        answer = await one.slack.deliver_http(urlencode({"payload": json.dumps(forged)}))
        assert answer.acked
        await one.told(BEN, "There is no such question here")
        forged["actions"][0]["value"] = "no-such-nonce"
        await one.slack.deliver_http(urlencode({"payload": json.dumps(forged)}))
        assert await one.card("wants to run refund")
        assert not one.count("Approved")


@pytest.mark.row("Q27")
async def test_what_is_typed_while_a_card_waits_is_kept_and_decides_nothing(
    sqlite_db: Database,
) -> None:
    async with product(sqlite_db, call("refund", order="A1"), "Done.", tools=[refund]) as one:
        await one.mention()
        await one.card("wants to run refund")
        for text in ("yes", "approve", "ok :+1:"):
            await one.slack.say(BEN, OPS, text, one.root)
        await one.told(BEN, "The agent reads this once refund is settled")
        assert await one.card("wants to run refund")
        await one.click(BEN, "wants to run refund", "Approve")
        await one.reads("Done.")
        assert "approve" in one.model_read()


@pytest.mark.parametrize("disturbance", ["to somebody else", "an edit", "a bot", "outside"])
async def test_what_is_not_for_the_agent_starts_nothing(
    disturbance: str, sqlite_db: Database
) -> None:
    async with product(sqlite_db, "One.", "Two.", tools=[refund]) as one:
        await one.mention()
        await one.reads("One.")
        match disturbance:
            case "to somebody else":
                await one.slack.say(ANA, OPS, f"<@{CYN}> look", one.root)
            case "an edit":
                await one.slack.edit(ANA, OPS, one.root, "something else")
            case "a bot":
                await one.slack.bot_message(OPS, "beep", thread_ts=one.root)
            case _:
                await one.slack.say(ANA, OPS, "not in a thread of the agent")
        await asyncio.sleep(0.3)
        assert len(one.model.requests) == 1
        await one.slack.say(ANA, OPS, "go on", one.root)
        await one.reads("Two.")


async def test_a_long_answer_is_posted_whole_in_order(sqlite_db: Database) -> None:
    paragraphs = [f"Paragraph {number}. " + "word " * 120 for number in range(30)]
    async with product(sqlite_db, "\n\n".join(paragraphs), tools=[refund]) as one:
        await one.mention()
        await one.reads("Paragraph 29.")
        whole = " ".join(text_of(message) for message in one.thread()[1:])
        places = [whole.index(f"Paragraph {number}.") for number in range(30)]
        assert places == sorted(places)
        assert len(one.thread()) > 2


async def test_a_post_whose_answer_was_lost_is_not_doubled(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), "Done.", tools=[refund]) as one:
        one.slack.drop_next("chat.postMessage")
        await one.mention()
        await one.click(BEN, "wants to run refund", "Approve")
        await one.reads("Done.")
        assert one.count("wants to run refund") == 1


async def test_slack_asks_to_wait_and_is_waited_for(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), "Done.", tools=[refund]) as one:
        one.slack.fail_next("chat.postMessage", status=429, error="ratelimited", retry_after=1)
        await one.mention()
        await one.click(BEN, "wants to run refund", "Approve")
        await one.reads("Done.")
        assert one.count("wants to run refund") == 1
