"""Slack and Teams in front of one product: a question that is asked in one is decided in the
other, and what is true of a person in one is held against them in the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from bot.approvers import Policies, Policy
from bot.service import Service
from bot.surface import Pace
from bot.tool import tool
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.slack import buttons_of as slack_buttons
from tests.fakes.slack import text_of
from tests.fakes.teams import FakeTeams, Shown, buttons_of
from tests.fakes.teams.cards import elements
from tests.scenario import slack_product, teams_world
from tests.scenario.slack_product import ANA, BEN, OPS
from tests.scenario.teams_world import entra

__all__ = ["entra"]
pytestmark = pytest.mark.usefixtures("entra")

TITLE = "wants to run refund"
RAN: list[str] = []


@tool
async def refund(order: str) -> str:
    """Refunds an order."""
    RAN.append(order)
    return f"refunded {order}"


@dataclass
class Both:
    """One product on both surfaces."""

    slack: slack_product.Product
    teams: FakeTeams

    async def copy(self, who: str, title: str = TITLE) -> Shown:
        """The card in somebody's own chat of Teams."""
        place = self.teams.personal(who)
        return await self.teams.until(
            lambda: next(
                (
                    one
                    for one in self.teams.in_thread(place)
                    if title in one.text and one.card and buttons_of(one.card)
                ),
                None,
            )
        )

    async def card(self, thread: str) -> Shown:
        return await self.teams.until(
            lambda: next((o for o in self.teams.in_thread(thread) if TITLE in o.text), None)
        )

    async def slack_says(self, card: dict[str, Any], text: str) -> None:
        """The card in the thread says so, and has no buttons."""
        await self.slack.slack.until(
            lambda: any(
                one["ts"] == card["ts"] and text in text_of(one) and not slack_buttons(one)
                for one in self.slack.thread()
            ),
            seconds=10,
        )


@asynccontextmanager
async def both(
    db: Database,
    approvers: Sequence[str],
    *steps: Any,
    quorum: int = 1,
    expires_after: float | None = None,
) -> AsyncIterator[Both]:
    RAN.clear()
    given = steps or (call("refund", order="A1"), "Done.")
    async with (
        FakeTeams() as teams,
        slack_product.product(db, *given, tools=[refund]) as one,
        teams_world.running(teams, Service(one.core, agent="ops"), db) as surface,
    ):
        surface.pace = Pace()
        one.core.surfaces["teams"] = surface
        named = frozenset(
            teams_world.person(who, teams) if who in teams.people else f"slack:T1/{who}"
            for who in approvers
        )
        ops = Policy(name="ops", approvers=named, quorum=quorum, expires_after=expires_after)
        one.core.policies = Policies([ops])
        here = teams.activity("ana", teams.channel, type="installationUpdate", action="add")
        assert (await teams.deliver(here)).status == 200
        yield Both(one, teams)


async def test_what_is_asked_in_slack_is_decided_in_teams(sqlite_db: Database) -> None:
    async with both(sqlite_db, ["ben"]) as on:
        await on.slack.mention()
        card = await on.slack.card(TITLE)
        copy = await on.copy("ben")
        await on.teams.click("ben", copy, "Approve")
        await on.slack.reads("Done.")
        await on.slack_says(card, "Approved by")
        await on.teams.until(lambda: "Approved by ben" in copy.text)
        assert RAN == ["A1"]


async def test_what_is_asked_in_teams_is_decided_in_slack(sqlite_db: Database) -> None:
    async with both(sqlite_db, [BEN]) as on:
        thread = await on.teams.mention("ana", "please")
        card = await on.card(thread)
        copy = await on.slack.direct_card(BEN, TITLE)
        assert "in another conversation" in text_of(copy)
        await on.slack.click_direct(BEN, TITLE, "Approve")
        await on.teams.until(lambda: any("Done." in o.text for o in on.teams.in_thread(thread)))
        await on.teams.until(lambda: "Approved by" in card.text)
        assert RAN == ["A1"]


async def test_of_two_clicks_at_once_one_decides(sqlite_db: Database) -> None:
    async with both(sqlite_db, ["ben", BEN]) as on:
        await on.slack.mention()
        card, copy = await on.slack.card(TITLE), await on.copy("ben")
        await asyncio.gather(
            on.teams.click("ben", copy, "Approve"),
            on.slack.slack.click(BEN, OPS, card["ts"], "Decline"),
        )
        await on.slack.reads("Done.")
        await on.teams.until(lambda: buttons_of(copy.card or {}) == [])
        assert (["A1"] if "Approved by" in copy.text else []) == RAN


async def test_a_quorum_counts_a_voice_of_each(sqlite_db: Database) -> None:
    async with both(sqlite_db, ["ben", BEN], quorum=2) as on:
        await on.slack.mention()
        card, copy = await on.slack.card(TITLE), await on.copy("ben")
        await on.teams.click("ben", copy, "Approve")
        assert RAN == []
        await on.slack.slack.click(BEN, OPS, card["ts"], "Approve")
        await on.slack.reads("Done.")
        assert RAN == ["A1"]


async def test_nobody_approves_their_own_by_their_other_account(sqlite_db: Database) -> None:
    """Their address is the same on both; that it is, allows nothing."""
    async with both(sqlite_db, ["cyn", "ben"]) as on:
        on.slack.slack.world.users[ANA].email = "ana@corp.example"
        on.teams.people["cyn"].email = "Ana@corp.example"
        await on.slack.mention()
        await on.slack.card(TITLE)
        answer = await on.teams.click("cyn", await on.copy("cyn"), "Approve")
        assert "You asked the agent for this" in str(answer.body)
        assert RAN == []
        await on.teams.click("ben", await on.copy("ben"), "Approve")
        await on.slack.reads("Done.")
        assert RAN == ["A1"]


async def test_calls_of_one_card_in_slack_are_decided_in_teams(sqlite_db: Database) -> None:
    asks = [call("refund", order=f"A{number}") for number in range(7)]
    async with both(sqlite_db, ["ben"], asks, "Done.") as on:
        await on.slack.mention()
        card = await on.slack.card("ops wants to run 7 calls")
        copy = await on.copy("ben", "ops wants to run 7 calls")
        await on.teams.until(lambda: len(buttons_of(copy.card or {})) == 11)
        choices = next(o for o in elements(copy.card) if o["type"] == "Input.ChoiceSet")["choices"]
        two = {"select": ",".join(one["value"] for one in choices[:2])}
        await on.teams.click("ben", copy, "Approve selected", two)
        await on.teams.until(lambda: sorted(RAN) == ["A0", "A1"])
        await on.teams.until(lambda: "Decline all 5" in buttons_of(copy.card or {}))
        await on.teams.click("ben", copy, "Decline all 5")
        await on.teams.click("ben", copy, "Decline 5 calls")
        await on.slack.reads("Done.")
        await on.slack_says(card, "Declined by")
        assert sorted(RAN) == ["A0", "A1"]
        await on.teams.until(lambda: buttons_of(copy.card or {}) == [])
        assert (copy.text.count("Approved by ben"), copy.text.count("Declined by ben")) == (2, 5)


async def test_where_nobody_decides_in_time_both_close(sqlite_db: Database) -> None:
    async with both(sqlite_db, ["ben", BEN], expires_after=2.0) as on:
        await on.slack.mention()
        card, copy = await on.slack.card(TITLE), await on.copy("ben")
        pressed = on.teams.invoked("ben", copy, "Approve")
        await on.slack.reads("Done.")
        await on.slack.slack.until(
            lambda: any(
                one["ts"] == card["ts"] and "Expired on" in text_of(one)
                for one in on.slack.thread()
            )
        )
        await on.teams.until(lambda: buttons_of(copy.card or {}) == ["Ask again"])
        assert "Expired on" in copy.text
        assert "Expired on" in str((await on.teams.deliver(pressed)).body)
        assert RAN == []
