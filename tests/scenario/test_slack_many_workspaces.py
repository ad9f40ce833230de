"""The whole product in several workspaces at once: nothing of one is decided in another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from bot.approvers import Policy
from bot.question import UnknownQuestion
from bot.tool import tool
from storage.database import Database
from tests.fakes.clock import WallClock
from tests.fakes.model import call
from tests.fakes.slack import Elsewhere, FakeSlack, buttons_of, text_of
from tests.scenario.slack_browser import Browser, for_many_workspaces
from tests.scenario.slack_product import ANA, BEN, OPS, product
from tests.scenario.slack_world import Mode

HERE, THERE = "T_ACME", "T_BOLD"
UNKNOWN = str(UnknownQuestion())
ORDERS: list[str] = []


@tool
async def refund(order: str) -> str:
    """Refunds an order."""
    ORDERS.append(order)
    return "ok"


# Ben is whom both of them let decide, so that only where he stands can be wrong.
BOTH = Policy(name="ops", approvers=frozenset({f"slack:{HERE}/{BEN}", f"slack:{THERE}/{BEN}"}))
STEPS = (call("refund", order="A1"), "Done.")


@pytest.fixture(autouse=True)
def _oauth(_tokens: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ORDERS.clear()
    for_many_workspaces(monkeypatch)


@pytest.fixture(params=["http", "socket"])
def mode(request: pytest.FixtureRequest) -> Mode:
    mode: Mode = request.param
    return mode


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack(WallClock()) as slack:
        yield slack


async def asked(slack: FakeSlack, where: Elsewhere) -> dict[str, Any]:
    """Ana asks for a refund; the card that comes of it."""
    root = await where.mention(ANA, OPS, "refund A1 please")
    return await slack.until(lambda: open_card(where, root), seconds=10)


def open_card(where: Elsewhere, root: str) -> dict[str, Any] | None:
    cards = (one for one in where.thread(OPS, root) if buttons_of(one))
    return next(cards, None)


def told_times(where: Elsewhere, times: int) -> bool:
    return [text_of(one) for one in where.ephemerals(BEN)] == [UNKNOWN] * times


async def test_a_button_of_another_workspace_decides_nothing(
    slack: FakeSlack, sqlite_db: Database, mode: Mode
) -> None:
    here, there = slack.add_workspace(HERE), slack.add_workspace(THERE)
    async with product(
        sqlite_db, *STEPS, tools=[refund], policies=[BOTH], workspace=slack, mode=mode
    ):
        for one in (here, there):
            await Browser(slack).install(one)
        card = await asked(slack, there)
        here.world.channels[OPS].messages[card["ts"]] = dict(card)  # the same place by every id
        for number, button in enumerate(("Approve", "Decline", "Decline with a note"), start=1):
            await here.click(BEN, OPS, card["ts"], button)
            await slack.until(partial(told_times, here, number))
        assert here.open_views(BEN) == []
        assert ORDERS == []
        assert open_card(there, card["thread_ts"]) is not None
        await there.click(BEN, OPS, card["ts"], "Approve")
        await slack.until(lambda: ORDERS, seconds=10)


async def test_a_form_that_names_a_question_of_another_workspace_decides_nothing(
    slack: FakeSlack, sqlite_db: Database, mode: Mode
) -> None:
    here, there = slack.add_workspace(HERE), slack.add_workspace(THERE)
    async with product(
        sqlite_db, *STEPS, tools=[refund], policies=[BOTH], workspace=slack, mode=mode
    ):
        for one in (here, there):
            await Browser(slack).install(one)
        mine, theirs = await asked(slack, here), await asked(slack, there)
        await here.click(BEN, OPS, mine["ts"], "Decline with a note")
        [view] = await slack.until(
            lambda: [one for one in here.open_views(BEN) if "submit" in one.body]
        )
        await there.click(BEN, OPS, theirs["ts"], "Decline with a note")
        [other] = await slack.until(
            lambda: [one for one in there.open_views(BEN) if "submit" in one.body]
        )
        own, view.body["private_metadata"] = (
            view.body["private_metadata"],
            other.body["private_metadata"],
        )
        [label] = [b["label"]["text"] for b in view.body["blocks"] if b["type"] == "input"]
        sent = await here.submit(BEN, view, {label: "no"})
        assert sent.errors
        assert open_card(there, theirs["thread_ts"]) is not None
        view.body["private_metadata"] = own
        sent = await here.submit(BEN, view, {label: "no"})
        assert not sent.errors
        await slack.until(lambda: open_card(here, mine["thread_ts"]) is None, seconds=10)
        assert open_card(there, theirs["thread_ts"]) is not None


async def test_a_question_waits_for_the_workspace_that_removed_the_app_to_come_back(
    slack: FakeSlack, sqlite_db: Database, mode: Mode
) -> None:
    here, there = slack.add_workspace(HERE), slack.add_workspace(THERE)
    async with product(
        sqlite_db, *STEPS, tools=[refund], policies=[BOTH], workspace=slack, mode=mode
    ):
        for one in (here, there):
            await Browser(slack).install(one)
        card = await asked(slack, here)
        await here.remove_app()
        other = await asked(slack, there)  # the others go on
        await there.click(BEN, OPS, other["ts"], "Approve")
        await slack.until(lambda: ORDERS == ["A1"], seconds=10)
        await here.click(BEN, OPS, card["ts"], "Approve")
        assert ORDERS == ["A1"]
        await Browser(slack).install(here)
        await here.click(BEN, OPS, card["ts"], "Approve")
        await slack.until(lambda: ORDERS == ["A1", "A1"], seconds=10)
        await slack.until(lambda: open_card(here, card["thread_ts"]) is None, seconds=10)


async def test_an_approver_is_named_by_the_enterprise_that_installed_it_as_a_whole(
    slack: FakeSlack, sqlite_db: Database, mode: Mode
) -> None:
    whole = slack.add_workspace("E_ACME", teams=("T_EAST", "T_WEST"))
    whole.add_user("U_WIM", "wim", team="T_WEST")
    whole.world.channels[OPS].members.append("U_WIM")
    policy = Policy(name="ops", approvers=frozenset({"slack:E_ACME/U_WIM"}))
    async with product(
        sqlite_db, *STEPS, tools=[refund], policies=[policy], workspace=slack, mode=mode
    ):
        await Browser(slack).install(whole)
        card = await asked(slack, whole)
        assert "<@U_WIM>" in str(card["blocks"])
        await whole.click("U_WIM", OPS, card["ts"], "Approve")
        await slack.until(lambda: ORDERS, seconds=10)


async def test_a_user_group_of_one_workspace_of_the_enterprise_approves(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    whole = slack.add_workspace("E_ACME", teams=("T_EAST", "T_WEST"))
    whole.add_usergroup("S_ONCALL", "oncall", [BEN], team="T_WEST")
    policy = Policy(name="oncall", approvers=frozenset({"slack:E_ACME/@T_WEST/S_ONCALL"}))
    async with product(
        sqlite_db, *STEPS, tools=[refund], policies=[policy], workspace=slack, mode="http"
    ):
        await Browser(slack).install(whole)
        card = await asked(slack, whole)
        assert "<!subteam^S_ONCALL>" in str(card["blocks"])
        await whole.click("U_CYN", OPS, card["ts"], "Approve")
        await slack.until(lambda: "not among the approvers" in str(whole.ephemerals("U_CYN")))
        assert ORDERS == []
        await whole.click(BEN, OPS, card["ts"], "Approve")
        await slack.until(lambda: ORDERS, seconds=10)


@pytest.mark.row("B6")
async def test_who_asked_does_not_approve_in_a_shared_channel_as_somebody_of_another_workspace(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    here, there = slack.add_workspace(HERE), slack.add_workspace(THERE)
    here.world.users[ANA].email = "ana@acme.test"
    for one in (here, there):
        one.add_user("U_TWIN", "ana too", team=THERE, email="Ana@Acme.test")
    here.world.channels[OPS].members.append("U_TWIN")
    able = {f"slack:{THERE}/U_TWIN", f"slack:{HERE}/{BEN}"}
    policy = Policy(name="ops", approvers=frozenset(able))
    async with product(
        sqlite_db, *STEPS, tools=[refund], policies=[policy], workspace=slack, mode="http"
    ) as made:
        for installing in (here, there):
            await Browser(slack).install(installing)
        await there.direct("U_TWIN", "hello")
        await slack.until(lambda: made.model.requests, seconds=10)
        card = await asked(slack, here)
        await here.click("U_TWIN", OPS, card["ts"], "Approve")
        await slack.until(lambda: "You asked the agent" in str(here.ephemerals("U_TWIN")))
        assert ORDERS == []
        await here.click(BEN, OPS, card["ts"], "Approve")
        await slack.until(lambda: ORDERS, seconds=10)
