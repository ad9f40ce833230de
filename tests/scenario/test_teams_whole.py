"""What goes on in the background, what expired and what an agent asks of people, in Teams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bot.approvers import Policies, Policy
from bot.ask_user_tool import ask_user_tool, in_thread
from storage.database import Database
from tests.fakes.background import background
from tests.fakes.model import call
from tests.fakes.teams import Entra, Shown, buttons_of
from tests.fakes.teams.cards import elements, text_of
from tests.scenario.teams_world import Product, entra, person, product
from tests.scenario.test_teams_commands import slash, whispered
from tests.world import effect

__all__ = ["Entra", "entra"]
pytestmark = pytest.mark.usefixtures("entra")

TITLE = "wants to run refund"

# Calls that go on


async def test_a_background_call_is_cancelled_on_its_card_by_who_began_it(
    sqlite_db: Database,
) -> None:
    tool = background()
    async with product(sqlite_db, call("rollout"), tools=[tool]) as one:
        await one.mention()
        card = await one.card("rollout")
        assert buttons_of(card.card or {}) == ["Cancel"]
        refused = await one.teams.click("cyn", card, "Cancel")
        assert refused.body["statusCode"] == 400
        assert tool.cancelled == []
        told = await one.teams.click("ana", card, "Cancel")
        assert "The server was asked to stop." in str(told.body)
        assert tool.cancelled == ["t1"]


async def test_a_background_call_is_cancelled_from_the_status(sqlite_db: Database) -> None:
    tool = background()
    async with product(sqlite_db, call("rollout"), tools=[tool]) as one:
        await one.mention()
        await one.card("rollout")
        await slash(one, "ana", "status")
        shown = await whispered(one)
        assert "half way (working)" in text_of(shown.card or {})
        view = (await one.teams.click("ana", shown, "Cancel")).body["value"]
        assert text_of(view).startswith("The server was asked to stop.")
        assert "Running in the background" in text_of(view)
        assert tool.cancelled == ["t1"]
