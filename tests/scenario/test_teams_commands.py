"""Commands in Teams: by mention and as slash commands, answered to one person; and the lists that
stand in the place of a personal tab."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from bot.approvers import Policies, Policy
from bot.tool import Call, Tool, tool
from storage import schema
from storage.database import Database, DatabaseUnavailable
from tests.fakes.model import call
from tests.fakes.teams import Entra, Shown, buttons_of
from tests.fakes.teams.cards import text_of
from tests.fakes.teams.server import BOT
from tests.scenario.teams_world import Product, entra, person, product

__all__ = ["Entra", "entra"]
pytestmark = pytest.mark.usefixtures("entra")

TITLE = "wants to run refund"


def refunding(effects: list[str]) -> Tool:
    @tool
    async def refund(order: str) -> str:
        """Refunds an order."""
        effects.append(order)
        return f"refunded {order}"

    return refund


async def slash(one: Product, who: str, text: str, thread: str = "", **given: Any) -> None:
    """What a client sends for `/text`: nobody else sees it."""
    sent = one.teams.activity(who, thread or one.thread, text=text, textFormat="plain", **given)
    sent["recipient"] = {"id": BOT, "name": "Ops", "isTargeted": True}
    assert (await one.teams.deliver(sent)).status == 200


async def whispered(one: Product, number: int = 1) -> Shown:
    """The newest answer that one person sees, once there are so many."""
    await one.teams.until(lambda: len(one.teams.whispers) == number)
    return one.teams.whispers[-1]


async def listed(one: Product, who: str, number: int = 1) -> Shown:
    await slash(one, who, "pending")
    return await whispered(one, number)


async def test_a_slash_command_is_answered_to_who_gave_it(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), tools=[refunding([])]) as one:
        await one.mention()
        await one.card(TITLE)
        before = len(one.teams.in_thread(one.thread))
        await slash(one, "cyn", "status")
        answer = await whispered(one)
        assert answer.seen_by == one.teams.people["cyn"].member
        assert "refund" in answer.text
        assert len(one.teams.in_thread(one.thread)) == before


async def test_what_is_no_command_begins_no_chat_where_nobody_sees_it(sqlite_db: Database) -> None:
    async with product(sqlite_db, "Hello.") as one:
        one.thread = f"{one.teams.channel};messageid=1699"
        await slash(one, "cyn", "restart everything")
        assert "pending" in (await whispered(one)).text  # the help
        async with sqlite_db.read() as tx:
            assert await tx.value(sa.select(sa.func.count()).select_from(schema.chats)) == 0
        assert one.model.requests == []


async def test_where_there_are_no_private_messages_the_answer_goes_to_their_chat(
    sqlite_db: Database,
) -> None:
    async with product(sqlite_db, call("refund", order="A1"), tools=[refunding([])]) as one:
        one.teams.targeted = False
        await one.mention()
        await one.card(TITLE)
        await slash(one, "ben", "pending")
        found = await one.teams.until(
            lambda: [
                shown
                for shown in one.teams.in_thread(one.teams.personal("ben"))
                if "Waiting for you" in shown.text
            ]
        )
        assert "Approve" in buttons_of(found[0].card or {})


async def test_a_question_is_approved_in_the_list_and_the_list_is_drawn_anew(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    asks = call("refund", order="A1")
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        card = await one.card(TITLE)
        shown = await listed(one, "ben")
        answer = await one.teams.click("ben", shown, "Approve")
        view = answer.body["value"]
        assert text_of(view).startswith("Approved by ben on")
        assert "Waiting for you" not in text_of(view)
        assert "Decided lately" in text_of(view)
        await one.reads("Done.")
        assert effects == ["A1"]
        await one.teams.until(lambda: "Approved by ben" in card.text)
        async with sqlite_db.read() as tx:  # Teams keeps no page open that would be drawn anew
            assert await tx.value(sa.select(sa.func.count()).select_from(schema.homes)) == 0


async def test_what_was_decided_is_not_said_to_be_lost_where_the_list_cannot_be_drawn(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects: list[str] = []
    asks = call("refund", order="A1")
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        await one.card(TITLE)
        shown = await listed(one, "ben")

        async def gone(*_: object, **__: object) -> None:
            raise DatabaseUnavailable

        monkeypatch.setattr("adapters.teams.home.listed", gone)
        answer = await one.teams.click("ben", shown, "Approve")
        assert answer.body["value"].startswith("Approved by ben on")
        await one.reads("Done.")
    assert effects == ["A1"]


async def test_a_list_in_another_chat_decides_what_stands_in_a_thread(sqlite_db: Database) -> None:
    effects: list[str] = []
    asks = call("refund", order="A1")
    steps = asks, "Once.", call("refund", order="B" * 2_000), "Twice."
    async with product(sqlite_db, *steps, tools=[refunding(effects)]) as one:
        await one.mention()
        await one.card(TITLE)
        await slash(one, "ben", "pending", one.teams.group)
        shown = await whispered(one)
        approved = (await one.teams.click("ben", shown, "Approve")).body["value"]
        assert text_of(approved).startswith("Approved by ben on")
        await one.reads("Once.")

        await one.teams.say("ana", one.thread, "<at>Interlock</at> again")
        await one.card(TITLE)
        await slash(one, "ben", "pending", one.teams.group)
        shown = await whispered(one, 2)
        await one.teams.click("ben", shown, "Open")
        approved = (await one.teams.click("ben", shown, "Approve")).body["value"]
        assert text_of(approved).startswith("Approved by ben on")
        await one.reads("Twice.")
    assert effects == ["A1", "B" * 2_000]


async def test_what_somebody_else_settled_is_told_on_the_list(sqlite_db: Database) -> None:
    asks = call("refund", order="A1")
    async with product(sqlite_db, asks, "Done.", tools=[refunding([])]) as one:
        await one.mention()
        card = await one.card(TITLE)
        shown = await listed(one, "ben")
        await one.teams.click("ben", card, "Decline")
        await one.reads("Done.")
        view = (await one.teams.click("ben", shown, "Approve")).body["value"]
        assert text_of(view).startswith("This was settled before. Declined by ben")
        assert "Decided lately" in text_of(view)


async def test_a_list_shows_what_this_person_may_decide_and_its_buttons_are_judged_anew(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    async with product(sqlite_db, call("refund", order="A1"), tools=[refunding(effects)]) as one:
        await one.mention()
        await one.card(TITLE)
        theirs = await listed(one, "cyn")
        assert "Waiting for you" not in theirs.text
        mine = await listed(one, "ben", 2)
        one.core.policies = Policies(
            [Policy(name="ops", approvers=frozenset({person("cyn", one.teams)}))]
        )
        refused = await one.teams.click("ben", mine, "Approve")
        assert refused.body["statusCode"] == 400
    assert effects == []


async def test_a_long_one_is_opened_read_and_approved_and_back_leads_to_the_list(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    asks = call("refund", order="A" * 15_000)
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        await one.card(TITLE)
        shown = await listed(one, "ben")
        opened = (await one.teams.click("ben", shown, "Open")).body["value"]
        assert buttons_of(opened)[0] == "Show everything"
        back = (await one.teams.click("ben", shown, "Back")).body["value"]
        assert "Waiting for you" in text_of(back)
        await one.teams.click("ben", shown, "Open")
        await one.teams.click("ben", shown, "Show everything")
        back = (await one.teams.click("ben", shown, "Back")).body["value"]
        assert "Waiting for you" in text_of(back)
        await one.teams.click("ben", shown, "Open")
        await one.teams.click("ben", shown, "Show everything")
        approved = (await one.teams.click("ben", shown, "Approve")).body["value"]
        assert text_of(approved).startswith("Approved by ben")
        await one.reads("Done.")
    assert len(effects) == 1


async def test_more_than_a_page_of_questions_is_reached_by_turning(sqlite_db: Database) -> None:
    asks = [call("refund", order=f"A{number:02}") for number in range(12)]
    async with product(sqlite_db, asks, tools=[refunding([])]) as one:
        await one.mention()
        await one.card("wants to run")
        shown = await listed(one, "ben")
        assert buttons_of(shown.card or {}).count("Decline") == 10
        second = (await one.teams.click("ben", shown, "More")).body["value"]
        assert buttons_of(second).count("Decline") == 2
        first = (await one.teams.click("ben", shown, "Earlier")).body["value"]
        assert buttons_of(first).count("Decline") == 10


async def test_a_form_is_answered_from_the_list(sqlite_db: Database) -> None:
    from bot.field import Field, FieldType

    @tool(approval="never")
    async def seat(c: Call) -> str:
        return str(await c.ask("Where?", Field("row", FieldType.INTEGER)))

    async with product(sqlite_db, call("seat"), "Done.", tools=[seat]) as one:
        await one.mention()
        await one.card("seat asks")
        shown = await listed(one, "ana")
        await one.teams.click("ana", shown, "Open")
        wrong = await one.teams.click("ana", shown, "Send", {"f0": "many"})
        assert wrong.body["statusCode"] == 400
        answer = await one.teams.click("ana", shown, "Send", {"f0": "7"})
        assert "Answered by ana" in text_of(answer.body["value"])
        await one.reads("Done.")
        assert "7" in one.model_read()


async def test_a_command_that_comes_twice_is_answered_once(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), tools=[refunding([])]) as one:
        await one.mention()
        await one.card(TITLE)
        sent = one.teams.said("cyn", one.thread, "status")
        for _ in range(3):
            assert (await one.teams.deliver(sent)).status == 200
        await slash(one, "cyn", "help")
        await one.teams.until(lambda: len(one.teams.whispers) >= 2)
        assert len(one.teams.whispers) == 2


async def test_the_bot_says_once_what_it_is_for_where_it_was_added(sqlite_db: Database) -> None:
    async with product(sqlite_db, "Hello.") as one:
        added = {"type": "installationUpdate", "action": "add"}
        person_came = {"type": "conversationUpdate", "membersAdded": [{"id": "29:somebody"}]}
        alone = one.teams.personal("cyn")
        await one.teams.deliver(one.teams.activity("cyn", alone, **person_came))
        came = {"type": "conversationUpdate", "membersAdded": [{"id": BOT}]}
        for given in (added, came, added):
            sent = one.teams.activity("ana", one.teams.group, **given)
            assert (await one.teams.deliver(sent)).status == 200
        await one.teams.until(lambda: one.count("Hello! Mention me") == 1)
        await one.teams.deliver(one.teams.activity("ana", one.teams.channel, **added))
        await one.teams.until(lambda: one.count("Hello! Mention me") == 2)
        await one.mention()  # where it was known already, it is not welcomed
        await one.teams.deliver(one.teams.activity("ana", one.teams.channel, **came))
        await one.reads("<p>Hello.</p>")
        assert one.count("Hello! Mention me") == 2
        assert one.teams.in_thread(alone) == []


async def test_a_thread_of_a_channel_has_an_address(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), tools=[refunding([])]) as one:
        await one.mention()
        await one.card(TITLE)
        shown = await listed(one, "ben")
        assert "Thread" in buttons_of(shown.card or {})
        root = one.thread.partition(";messageid=")[2]
        address = f"/l/message/19%3Aops%40thread.tacv2/{root}?tenantId="
        assert address in str(shown.activity)
