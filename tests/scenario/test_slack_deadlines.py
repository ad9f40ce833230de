"""A deadline over Slack: nobody clicks, and the card is settled all the same."""

from __future__ import annotations

import pytest

from bot.approvers import Policy
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.slack import buttons_of, text_of
from tests.scenario.slack_product import BEN, CYN, product
from tests.scenario.test_slack_direct import TITLE, refunding, thread_card

SOON = Policy(
    name="ops",
    approvers=frozenset({f"slack:T1/{BEN}"}),
    remind_after=0.7,
    escalate_after=1.4,
    escalate_to=frozenset({f"slack:T1/{CYN}"}),
    expires_after=2.5,
)


@pytest.mark.row("B36")
@pytest.mark.row("B41")
async def test_a_card_expires_without_a_click_and_is_asked_again(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db,
        call("refund", order="A1"),
        "Nobody decided.",
        call("refund", order="A1"),
        "Done.",
        tools=[refunding(effects)],
        policies=[SOON],
    ) as one:
        await one.mention()
        await one.card(TITLE)
        await one.reads("Still waiting for somebody to decide")
        await one.reads("the next approvers may do so too")
        await one.direct_card(CYN, TITLE)
        await one.reads("Nobody decided.")

        assert "Expired on" in text_of(thread_card(one))
        assert buttons_of(thread_card(one)) == ["Ask again"]
        assert buttons_of(one.direct(BEN)[0]) == ["Ask again"]
        mentions = [text_of(message) for message in one.thread() if "waiting" in text_of(message)]
        assert f"<@{BEN}>" in mentions[0]
        assert effects == []

        await one.click_direct(BEN, TITLE, "Ask again")
        card = await one.slack.until(
            lambda: next((m for m in one.thread() if "Approve" in buttons_of(m)), None), seconds=5
        )
        assert buttons_of(thread_card(one)) == []
        assert "ben asked again" in text_of(thread_card(one))
        await one.slack.click(BEN, "C_OPS", card["ts"], "Approve")
        await one.reads("Done.")

        assert effects == ["A1"]
