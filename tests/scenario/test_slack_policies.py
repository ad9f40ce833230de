"""Several approvers and user groups, on the whole product over Slack."""

from __future__ import annotations

from typing import Any

import pytest

from bot.approvers import Policy
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.slack import text_of
from tests.scenario.slack_product import BEN, CYN, product
from tests.scenario.slack_world import Mode
from tests.scenario.test_slack_direct import TITLE, refunding, thread_card

TWO = Policy(name="two", approvers=frozenset({f"slack:T1/{BEN}", f"slack:T1/{CYN}"}), quorum=2)
ONCALL = Policy(name="oncall", approvers=frozenset({"slack:T1/@S_ONCALL"}))


@pytest.mark.row("B10")
@pytest.mark.parametrize("mode", ["http", "socket"])
async def test_two_people_click_and_the_card_says_who_has_and_who_did(
    mode: Mode, sqlite_db: Database
) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db,
        call("refund", order="A1"),
        "Done.",
        tools=[refunding(effects)],
        policies=[TWO],
        mode=mode,
    ) as one:
        await one.mention()
        await one.click(BEN, TITLE, "Approve")
        await one.reads("1 of 2 approved: ben")
        await one.click(BEN, TITLE, "Approve")
        await one.told(BEN, "You approved this before, and somebody else has to")
        assert effects == []
        assert "1 of 2 approved: ben" in text_of(one.direct(CYN)[0])

        await one.click_direct(CYN, TITLE, "Approve")
        await one.reads("Done.")

        assert effects == ["A1"]
        assert "Approved by ben and cyn" in text_of(thread_card(one))


@pytest.mark.parametrize("mode", ["http", "socket"])
async def test_a_member_of_the_user_group_approves_and_nobody_else(
    mode: Mode, sqlite_db: Database
) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db,
        call("refund", order="A1"),
        "Done.",
        tools=[refunding(effects)],
        policies=[ONCALL],
        mode=mode,
    ) as one:
        one.slack.add_usergroup("S_ONCALL", "oncall", [BEN])
        await one.mention()
        card: dict[str, Any] = await one.card(TITLE)
        assert "<!subteam^S_ONCALL>" in str(card["blocks"])
        await one.click(CYN, TITLE, "Approve")
        await one.told(CYN, "You are not among the approvers of refund")
        assert effects == []

        await one.click(BEN, TITLE, "Approve")
        await one.reads("Done.")

        assert effects == ["A1"]


async def test_when_slack_does_not_say_who_is_in_the_group_nobody_is(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, call("refund", order="A1"), tools=[refunding(effects)], policies=[ONCALL]
    ) as one:
        one.slack.add_usergroup("S_ONCALL", "oncall", [BEN])
        one.slack.fail_next("usergroups.users.list", "plan_upgrade_required")
        await one.mention()
        await one.click(BEN, TITLE, "Approve")
        await one.told(BEN, "You are not among the approvers of refund")
        assert effects == []
