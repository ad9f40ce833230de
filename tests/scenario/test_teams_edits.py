"""Reading all of a call page by page, and approving with other arguments, in Teams."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import Field

from bot.tool import Tool, tool
from storage import audit
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.teams import Entra, buttons_of
from tests.fakes.teams.cards import elements, text_of
from tests.scenario.teams_world import entra, person, product

__all__ = ["Entra", "entra"]
pytestmark = pytest.mark.usefixtures("entra")

TITLE = "wants to run refund"
SECRET = "xoxb-12345678901-abcdefghijkl"


def refunding(effects: list[Any]) -> Tool:
    @tool
    async def refund(
        order: str, amount: Annotated[int, Field(ge=1)], note: str | None = None
    ) -> str:
        """Refunds an order."""
        effects.append((order, amount, note))
        return f"refunded {amount}"

    return refund


def entered(view: dict[str, Any], **values: str) -> dict[str, str]:
    """The inputs as a client sends them, what was there and what was typed, by their labels."""
    inputs = [one for one in elements(view) if one["type"].startswith("Input.")]
    sent = {one["id"]: str(one["value"]) for one in inputs if "value" in one}
    return sent | {one["id"]: values[one["label"]] for one in inputs if one["label"] in values}


async def test_a_long_call_is_read_page_by_page_and_approved_on_the_last(
    sqlite_db: Database,
) -> None:
    effects: list[Any] = []
    order = " ".join(f"{number:05}" for number in range(5_000))
    asks = call("refund", order=order, amount=1)
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        card = await one.card(TITLE)
        assert buttons_of(card.card or {}) == [
            "Show everything",
            "Decline",
            "Decline with the note",
        ]
        assert "“Show everything” leads to all of it and it can be approved there." in card.text
        answer = await one.teams.click("cyn", card, "Show everything")
        assert answer.body["statusCode"] == 400
        assert "can read all of this" in answer.body["value"]["message"]
        view = (await one.teams.click("ben", card, "Show everything")).body["value"]
        read = text_of(view)
        for number in range(2, int(read.split("\n")[1].removeprefix("Page 1 of ")) + 1):
            assert "Approve" in buttons_of(view)
            view = (await one.teams.click("ben", card, "More")).body["value"]
            assert f"\nPage {number} of" in text_of(view)
            read += text_of(view)
        assert "More" not in buttons_of(view)
        for number in range(5_000):
            assert f"{number:05}" in read
        back = await one.teams.click("ben", card, "Back")
        assert buttons_of(back.body["value"])[0] == "Show everything"
        assert card.edits == 0
        await one.teams.click("ben", card, "Show everything")
        approved = await one.teams.click("ben", card, "Approve")
        assert "Approved by ben" in text_of(approved.body["value"])
        await one.reads("Done.")
        assert effects == [(order, 1, None)]
        later = await one.teams.click("ben", card, "Show everything")  # settled, and still read
        assert "Page 1 of" in text_of(later.body["value"])


async def test_secrets_are_exact_for_who_decides_and_for_nobody_else(sqlite_db: Database) -> None:
    effects: list[Any] = []
    asks = call("refund", order=f"use {SECRET}", amount=1)
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        card = await one.card(TITLE)
        assert SECRET not in str(card.activity)
        await one.card(TITLE, one.teams.personal("ben"))
        await asyncio.sleep(0.3)  # until it is recorded, a click on it may come from anywhere
        for verb in ("show", "open", "edit"):
            forged = one.teams.invoked("ben", card, "Show everything")
            forged["conversation"] |= {"id": one.teams.group, "conversationType": None}
            forged["value"]["action"]["verb"] = verb
            answer = await one.teams.deliver(forged)
            assert answer.body["statusCode"] == 400
            assert SECRET not in str(answer.body)
        view = (await one.teams.click("ben", card, "Show everything")).body["value"]
        assert SECRET in text_of(view)
        back = (await one.teams.click("ben", card, "Back")).body["value"]
        assert SECRET not in str(back)
        await one.teams.click("ben", card, "Show everything")
        settled = (await one.teams.click("ben", card, "Decline")).body["value"]
        assert SECRET not in str(settled)


@pytest.mark.row("D23")
async def test_an_approver_changes_the_amount_and_everybody_sees_it(sqlite_db: Database) -> None:
    effects: list[Any] = []
    asks = call("refund", order="A1", amount=100)
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        card = await one.card(TITLE)
        answer = await one.teams.click("ana", card, "Edit and approve")
        assert answer.body["statusCode"] == 400

        view = (await one.teams.click("ben", card, "Edit and approve")).body["value"]
        assert "Tool: refund" in text_of(view)
        typed = entered(view, amount="0", note="half")
        wrong = await one.teams.click("ben", card, "Approve", typed)
        assert wrong.body["value"]["message"] == "amount must be at least 1."
        assert effects == []
        typed = entered(view, amount="50", note="half")
        await one.teams.click("ben", card, "Approve", typed)
        await one.reads("Done.")

        assert effects == [("A1", 50, "half")]
        assert 'amount: 100 → 50; note: null → "half"' in card.text
        assert "[ben changed the arguments before approving (amount: 100 → 50;" in one.model_read()
        async with sqlite_db.read() as tx:
            rows = [row async for row in audit.since(tx) if row.event == "decided"]
        assert [row.detail["changes"][0]["after"] for row in rows] == ["50"]
        assert rows[0].actor == person("ben", one.teams)


async def test_who_may_not_sends_the_form_all_the_same_and_is_on_record(
    sqlite_db: Database,
) -> None:
    effects: list[Any] = []
    asks = call("refund", order="A1", amount=100)
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        card = await one.card(TITLE)
        await one.teams.click("ben", card, "Edit and approve")
        card.own["ana"] = card.own["ben"]
        typed = entered(card.own["ben"], amount="1")
        refused = await one.teams.click("ana", card, "Approve", typed)
        assert refused.body["statusCode"] == 400
        async with sqlite_db.read() as tx:
            rows = [row async for row in audit.since(tx) if row.event == "refused"]
        assert [row.actor for row in rows] == [person("ana", one.teams)]
    assert effects == []


async def test_a_form_that_was_settled_meanwhile_says_who_was_first(sqlite_db: Database) -> None:
    effects: list[Any] = []
    asks = call("refund", order="A1", amount=100)
    async with product(
        sqlite_db, asks, "Done.", tools=[refunding(effects)], approvers=("ben", "cyn")
    ) as one:
        await one.mention()
        card = await one.card(TITLE)
        view = (await one.teams.click("ben", card, "Edit and approve")).body["value"]
        sent = one.teams.invoked("ben", card, "Approve", entered(view, amount="50"))
        await one.teams.click("cyn", card, "Approve")
        await one.reads("Done.")
        answer = await one.teams.deliver(sent)
        assert "settled before: Approved by cyn" in str(answer.body)
        assert [order[1] for order in effects] == [100]


async def test_a_call_of_a_group_is_looked_at_and_decided_alone(sqlite_db: Database) -> None:
    effects: list[Any] = []
    asks = [call("refund", order=f"A{number} {'x' * 500}", amount=1) for number in range(5)]
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        card = await one.card("wants to run 5 calls")
        assert card.text.count("press Look") == 5
        view = (await one.teams.click("ben", card, "Look")).body["value"]
        assert "A0 x" in text_of(view)
        group = (await one.teams.click("ben", card, "Approve")).body["value"]
        assert buttons_of(group).count("Look") == 4
        await one.teams.until(lambda: len(effects) == 1)
        await one.teams.until(lambda: "Decline all 4" in buttons_of(card.card or {}))
        await one.teams.click("ben", card, "Decline all 4")
        await one.teams.click("ben", card, "Decline 4 calls")
        await one.reads("Done.")
    assert [order[:2] for order, *_ in effects] == ["A0"]
