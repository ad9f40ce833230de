"""The whole product on Teams in one process: what people do in a conversation, and what comes of
it."""

from __future__ import annotations

import asyncio

import pytest

from bot.approvers import Policies, Policy
from bot.field import Field, FieldType
from bot.surface import DeliveryError
from bot.tool import Call, tool
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.teams import Entra, FakeTeams, buttons_of
from tests.fakes.teams.server import OTHER_TENANT, TENANT
from tests.scenario.teams_world import entra, product

__all__ = ["entra"]
pytestmark = pytest.mark.usefixtures("entra")

RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@tool
async def refund(order: str, amount: int = 5) -> str:
    """Refunds an order."""
    RAN.append(order)
    return f"refunded {amount} for {order}"


async def test_mention_card_click_the_tool_runs_once_and_the_agent_answers(
    sqlite_db: Database,
) -> None:
    async with product(sqlite_db, call("refund", order="A1"), "**Done.**", tools=[refund]) as one:
        await one.mention("refund A1")
        card = await one.card("wants to run refund")
        assert buttons_of(card.card or {}) == [
            "Approve",
            "Approve for this thread",
            "Approve and remember…",
            "Edit and approve",
            "Decline",
            "Decline with the note",
        ]
        answer = await one.teams.click("ben", card, "Approve")
        assert "Approved by ben" in str(answer.body["value"])  # for the clicker, at once
        await one.reads("<strong>Done.</strong>")
        assert "Approved by ben" in card.text  # for everybody
        assert buttons_of(card.card or {}) == []
        assert RAN == ["A1"]
        assert "refund A1" in one.model_read()
        assert "Ops" not in str(one.model.requests[0].messages)
        assert len(Entra.given) == 1


async def test_who_may_not_decide_is_told_alone_and_who_is_late_sees_who_was_first(
    sqlite_db: Database,
) -> None:
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[refund], approvers=("ben", "cyn")
    ) as one:
        dan = one.teams.add("dan", "00000000-0000-0000-0000-000000000004")
        await one.mention()
        card = await one.card("wants to run refund")
        one.teams.people["cyn"].tenant = OTHER_TENANT
        for who in (dan.name, "ana", "cyn"):  # a stranger, who asked for it, another tenant's
            answer = await one.teams.click(who, card, "Approve")
            assert answer.body["type"] == "application/vnd.microsoft.error"
            assert answer.body["statusCode"] == 400
            assert answer.body["value"]["message"].endswith(".")
        assert card.edits == 0
        assert RAN == []
        assert "Approve" in buttons_of(card.card or {})
        late = one.teams.invoked("ben", card, "Decline")
        await one.teams.click("ben", card, "Decline with the note", {"note": "It was shipped"})
        answer = await one.teams.deliver(late)
        assert "Declined by ben" in str(answer.body["value"])
        again = await one.teams.deliver(late | {"id": late["id"] + "9"})  # sent again by Teams
        assert "Declined by ben" in str(again.body["value"])
        await one.reads("Done.")
        assert RAN == []
        assert "It was shipped" in one.model_read()


async def test_the_members_of_a_channel_approve_and_guests_and_others_in_it_do_not(
    sqlite_db: Database,
) -> None:
    """The roster comes in pages; it is looked up anew after a minute."""
    async with product(sqlite_db, call("refund", order="A1"), "Done.", tools=[refund]) as one:
        channel = f"teams:{TENANT}/#{one.teams.channel}"
        one.core.policies = Policies([Policy(name="ops", approvers=frozenset({channel}))])
        for number, name in enumerate(("dan", "eve", "fay", "gus"), 4):
            one.teams.add(name, f"00000000-0000-0000-0000-00000000000{number}")
        one.teams.people["eve"].role = "guest"
        one.teams.people["fay"].tenant = OTHER_TENANT
        await one.mention()
        card = await one.card("wants to run refund")
        for who in ("ana", "eve", "fay"):
            assert (await one.teams.click(who, card, "Approve")).body["statusCode"] == 400
        assert RAN == []
        surface = one.core.surfaces["teams"]
        assert len(await surface.members(TENANT, f"#{one.teams.channel}")) == 5
        with pytest.raises(DeliveryError, match="no such groups"):
            await surface.members(TENANT, "@S1")
        assert "Approved by gus" in str((await one.teams.click("gus", card, "Approve")).body)
        await one.reads("Done.")
        assert RAN == ["A1"]


async def test_an_approver_who_is_not_in_the_thread_decides_in_their_own_chat(
    sqlite_db: Database,
) -> None:
    async with product(sqlite_db, call("refund", order="A1"), "Done.", tools=[refund]) as one:
        await one.mention()
        card = await one.card("wants to run refund")
        copy = await one.card("wants to run refund", one.teams.personal("ben"))
        assert "Requested by ana in another conversation." in copy.text
        await one.teams.click("ben", copy, "Approve")
        await one.reads("Done.")
        await one.teams.until(lambda: "Approved by ben" in copy.text and card.edits)
        assert "Approved by ben" in card.text


async def test_a_nonce_in_another_conversation_decides_nothing(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), "Done.", tools=[refund]) as one:
        await one.mention()
        card = await one.card("wants to run refund")
        await one.card("wants to run refund", one.teams.personal("ben"))
        await asyncio.sleep(0.3)  # until it is recorded, a click on it may come from anywhere
        for elsewhere in (f"{one.teams.channel};messageid=1", one.teams.group):
            forged = one.teams.invoked("ben", card, "Approve")
            forged["conversation"] |= {"id": elsewhere, "conversationType": None}
            answer = await one.teams.deliver(forged)
            assert "no such question here" in answer.body["value"]["message"]
        forged = one.teams.invoked("ben", card, "Approve")
        forged["value"]["action"]["data"]["interlock"] = "guessed"
        assert "no such question" in str((await one.teams.deliver(forged)).body)
        assert RAN == []


async def test_a_chat_without_threads_goes_on_as_one(sqlite_db: Database) -> None:
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", "Again.", tools=[refund]
    ) as one:
        thread = one.teams.personal("ana")
        await one.teams.say("ana", thread, "refund A1")
        card = await one.card("wants to run refund", one.teams.personal("ben"))
        await one.teams.click("ben", card, "Approve")
        await one.reads("Done.", thread)
        await one.teams.say("ana", thread, "go on")
        await one.reads("Again.", thread)
        assert thread in one.teams.typing
        assert "Teams does not let" not in one.model_read()


async def test_a_form_is_answered_on_its_card(sqlite_db: Database) -> None:
    @tool(approval="never")
    async def ship(c: Call) -> str:
        """Ships."""
        amount, to = (
            Field("amount", FieldType.INTEGER, maximum=9),
            Field("to", choices=["EU", "US"]),
        )
        return f"shipped {await c.ask('How many?', amount, to)}"

    async with product(sqlite_db, call("ship"), "Fine.", tools=[ship]) as one:
        await one.mention()
        card = await one.card("ship asks")
        wrong = await one.teams.click("ana", card, "Send", {"f0": "70", "f1": "1"})
        assert "amount" in wrong.body["value"]["message"]
        await one.teams.click("ana", card, "Send", {"f0": "7", "f1": "1"})
        await one.reads("Fine.")
        assert "US" in one.model_read()
        assert "amount: 7" in card.text


async def test_a_post_that_was_taken_without_an_answer_is_sent_once_more_and_says_so(
    sqlite_db: Database,
) -> None:
    async with FakeTeams() as teams:
        teams.fail_next("post", 502, taken=True)
        async with product(
            sqlite_db, call("refund", order="A1"), "Done.", tools=[refund], teams=teams
        ) as one:
            await one.mention()
            second = await one.teams.until(
                lambda: next((m for m in teams.messages if "may stand here twice" in m.text), None)
            )
            first = await one.teams.until(
                lambda: next((m for m in teams.in_thread(second.thread) if m is not second), None)
            )
            await one.teams.click("ben", first, "Approve")  # whichever is pressed counts
            await one.reads("Done.")
            assert RAN == ["A1"]
            assert "Approved by ben" in second.text
            assert one.count("Done.") == 1


async def test_it_goes_on_after_a_restart_between_the_card_and_the_click(
    sqlite_db: Database,
) -> None:
    async with FakeTeams() as teams:
        async with product(
            sqlite_db, call("refund", order="A1"), tools=[refund], teams=teams
        ) as one:
            await one.mention()
            card = await one.card("wants to run refund")
            thread = one.thread
        steps = call("refund", order="A1"), "Done."
        async with product(sqlite_db, *steps, tools=[refund], teams=teams, thread=thread) as one:
            await one.teams.click("ben", card, "Approve")
            await one.reads("Done.")
            assert RAN == ["A1"]
            assert "Approved by ben" in card.text


async def test_a_bot_that_was_removed_says_so_to_who_began_the_chat(sqlite_db: Database) -> None:
    async with product(sqlite_db, "Done.", tools=[refund]) as one:
        one.teams.fail_next("post", 403, "BotNotInConversationRoster")
        await one.mention()
        told = await one.reads("I cannot go on", one.teams.personal("ana"))
        assert "add its app" in told.text
