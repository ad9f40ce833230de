"""Approving with other arguments, on the whole product over Slack."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from bot.tool import Tool, tool
from storage import audit
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.slack import View, text_of
from tests.scenario.slack_product import ANA, BEN, OPS, Product, product

TITLE = "wants to run refund"


def refunding(effects: list[Any]) -> Tool:
    @tool
    async def refund(
        order: str, amount: Annotated[int, Field(ge=1)], note: str | None = None
    ) -> str:
        """Refunds an order."""
        effects.append((order, amount, note))
        return f"refunded {amount}"

    return refund


async def presses(one: Product, who: str, button: str) -> None:
    card = await one.card(TITLE)
    await one.slack.click(who, OPS, card["ts"], button)


async def modal(one: Product, title: str) -> View:
    """The modal with this title, once it is filled."""
    return await one.slack.until(
        lambda: next(
            (v for v in one.slack.open_views(BEN) if v.body["title"]["text"] == title), None
        ),
        seconds=5,
    )


@pytest.mark.row("D23")
@pytest.mark.row("B55")
async def test_an_approver_changes_the_amount_and_everybody_sees_it(sqlite_db: Database) -> None:
    effects: list[Any] = []
    asks = call("refund", order="A1", amount=100)
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        await presses(one, ANA, "Edit and approve")
        await one.told(ANA, "You are not among the approvers of refund")
        assert one.slack.open_views(ANA) == []

        await presses(one, BEN, "Edit and approve")
        view = await modal(one, "Edit and approve")
        assert "Tool: refund" in text_of(view.body)
        wrong = await one.slack.submit(BEN, view, {"amount": "0", "note": "half"})
        assert list(wrong.errors.values()) == ["amount must be at least 1."]
        assert effects == []
        sent = await one.slack.submit(BEN, view, {"amount": "50"})
        assert (sent.trouble, sent.errors) == ("", {})
        await one.reads("Done.")

        assert effects == [("A1", 50, "half")]
        assert one.slack.open_views(BEN) == []
        assert one.count('amount: 100 → 50; note: null → "half"') == 1  # the card
        assert one.count("`amount`: `100` → `50`") == 1  # the thread
        assert "[ben changed the arguments before approving (amount: 100 → 50;" in one.model_read()
        async with sqlite_db.read() as tx:
            rows = [row async for row in audit.since(tx) if row.event == "decided"]
        assert [row.detail["changes"][0]["after"] for row in rows] == ["50"]
        assert rows[0].actor == f"slack:T1/{BEN}"


async def test_an_edit_from_the_pages_of_a_card_closes_them(sqlite_db: Database) -> None:
    effects: list[Any] = []
    asks = call("refund", order="A1 " * 4_000, amount=100)
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        await presses(one, BEN, "Show everything")
        pages = await modal(one, "Everything")
        await one.slack.click_view(BEN, pages, "Edit and approve")
        view = await modal(one, "Edit and approve")
        assert view.id == pages.id  # in its place
        assert "order stays as it is:" in text_of(view.body)
        sent = await one.slack.submit(BEN, view, {"amount": "50"})
        assert (sent.action, sent.trouble) == ("clear", "")
        await one.reads("Done.")
        assert [order[1] for order in effects] == [50]
        assert one.slack.open_views(BEN) == []


async def test_a_form_that_was_settled_meanwhile_says_who_was_first(sqlite_db: Database) -> None:
    effects: list[Any] = []
    asks = call("refund", order="A1", amount=100)
    async with product(sqlite_db, asks, "Done.", tools=[refunding(effects)]) as one:
        await one.mention()
        await presses(one, BEN, "Edit and approve")
        view = await modal(one, "Edit and approve")
        await presses(one, BEN, "Approve")
        await one.reads("Done.")
        sent = await one.slack.submit(BEN, view, {"amount": "50"})
        assert "This was settled before: Approved by ben" in str(sent.errors)
        assert [order[1] for order in effects] == [100]
