"""The whole product on Teams in one process: what people do in a conversation, and what comes of
it."""

from __future__ import annotations

import pytest

from bot.tool import tool
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.teams import Entra, buttons_of
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
