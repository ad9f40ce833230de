"""Many questions at once in Teams: one card for them, decided selected, all or none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bot.approvers import Policies, Policy
from bot.question import UnknownQuestion
from bot.scripted import Step
from bot.tool import Tool, tool
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.teams import Entra, Shown, buttons_of
from tests.fakes.teams.cards import elements
from tests.scenario.teams_world import Product, entra, person, product

__all__ = ["Entra", "entra"]
pytestmark = pytest.mark.usefixtures("entra")

TITLE = "ops wants to run"


def refunds(effects: list[str]) -> Tool:
    @tool
    async def refund(order: str) -> str:
        """Refunds an order."""
        effects.append(order)
        return f"refunded {order}"

    return refund


def asks(count: int) -> Step:
    return [call("refund", order=f"A{number}") for number in range(count)]


def orders(*numbers: int) -> list[str]:
    return [f"A{number}" for number in numbers]


def selected(card: Shown, *numbers: int) -> dict[str, str]:
    """What a client sends for some of the calls that are still open, by their titles."""
    (menu,) = [one for one in elements(card.card) if one["type"] == "Input.ChoiceSet"]
    wanted = {f"{number + 1}." for number in numbers}
    found = [one["value"] for one in menu["choices"] if one["title"].split("\\")[0] in wanted]
    found = found or [one["value"] for one in menu["choices"] if one["title"][:2] in wanted]
    assert len(found) == len(numbers), menu
    return {"select": ",".join(found)}


async def redrawn(one: Product, card: Shown, button: str) -> None:
    await one.teams.until(lambda: button in buttons_of(card.card or {}))


async def settled(one: Product, card: Shown) -> None:
    """The calls ran, and the card says so for everybody."""
    await one.reads("Done.")
    await one.teams.until(lambda: not buttons_of(card.card or {}))


async def test_four_calls_have_four_cards(sqlite_db: Database) -> None:
    async with product(sqlite_db, asks(4), "Done.", tools=[refunds([])]) as one:
        await one.mention()
        await one.teams.until(lambda: len(one.teams.in_thread(one.thread)) == 4)
        assert all("wants to run refund" in card.text for card in one.teams.in_thread(one.thread))


async def test_seven_calls_have_one_card_and_are_decided_in_parts(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(sqlite_db, asks(7), "Done.", tools=[refunds(effects)]) as one:
        await one.mention()
        card = await one.card("wants to run 7 calls")
        assert "<at>ben</at>" in card.text
        answer = await one.teams.click("ben", card, "Approve selected", {})
        assert "Select the calls first" in str(answer.body)
        answer = await one.teams.click("ben", card, "Approve selected", selected(card, 0, 2, 4))
        assert str(answer.body).count("Approved by ben") >= 3
        await redrawn(one, card, "Approve all 4")  # for everybody
        await one.teams.click("ben", card, "Decline selected", selected(card, 1, 3))
        await redrawn(one, card, "Approve all 2")
        await one.teams.until(lambda: len(effects) == 3)
        assert sorted(effects) == orders(0, 2, 4)

        await one.teams.click("ben", card, "Approve all 2")
        await one.teams.click("ben", card, "Approve 2 calls")
        await settled(one, card)
        assert sorted(effects) == orders(0, 2, 4, 5, 6)
        assert (card.text.count("Approved by ben"), card.text.count("Declined by ben")) == (5, 2)


async def test_all_is_decided_only_once_it_was_confirmed_and_back_leads_to_the_card(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    async with product(sqlite_db, asks(5), "Done.", tools=[refunds(effects)]) as one:
        await one.mention()
        card = await one.card(TITLE)
        await one.teams.click("ben", card, "Decline all 5")
        answer = await one.teams.click("ben", card, "Back")
        assert "Decline all 5" in buttons_of(answer.body["value"])
        assert card.edits == 0
        late = one.teams.invoked("ben", card, "Approve all 5")
        await one.teams.click("ben", card, "Decline all 5")
        await one.teams.click("ben", card, "Decline 5 calls")
        await settled(one, card)
        assert card.text.count("Declined by ben") == 5
        assert "nothing left to decide" in str((await one.teams.deliver(late)).body)
    assert effects == []


async def test_two_people_at_the_same_time_decide_each_call_once(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, asks(6), "Done.", tools=[refunds(effects)], approvers=("ben", "cyn")
    ) as one:
        await one.mention()
        card = await one.card(TITLE)
        await one.teams.click("ben", card, "Approve all 6")
        approve = one.teams.invoked("ben", card, "Approve 6 calls")
        await one.teams.click("cyn", card, "Decline all 6")
        decline = one.teams.invoked("cyn", card, "Decline 6 calls")
        mine, yours = await asyncio.gather(one.teams.deliver(approve), one.teams.deliver(decline))
        await settled(one, card)
        approved, declined = card.text.count("Approved by ben"), card.text.count("Declined by cyn")
        assert approved + declined == 6
        assert len(effects) == len(set(effects)) == approved
        if declined:
            assert "settled before" in str(mine.body)
        if approved:
            assert "settled before" in str(yours.body)


async def test_whoever_asked_presses_all_and_nothing_is_decided(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, asks(5), "Done.", tools=[refunds(effects)], approvers=("ana", "ben")
    ) as one:
        await one.mention()
        card = await one.card(TITLE)
        await one.teams.click("ana", card, "Approve all 5")
        answer = await one.teams.click("ana", card, "Approve 5 calls")
        assert "You asked the agent for this, so another approver has to decide." in str(answer)
        assert card.edits == 0
    assert effects == []


async def test_a_selection_that_no_client_makes_is_none(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(sqlite_db, asks(5), "Done.", tools=[refunds(effects)]) as one:
        await one.mention()
        card = await one.card(TITLE)
        sent = one.teams.invoked("ben", card, "Approve selected", {})
        wrong: Sequence[object] = ("," * 90, "x" * 9_000, ["n"], 7, None, "made-up,too")
        for given in wrong:
            sent["value"]["action"]["data"]["select"] = given
            answer = await one.teams.deliver(sent | {"id": f"{sent['id']}{wrong.index(given)}"})
            none = str(UnknownQuestion()) if given == "made-up,too" else "Select the calls first"
            assert none in str(answer.body)
        assert card.edits == 0
    assert effects == []


async def test_an_approver_who_is_not_in_the_thread_gets_the_card_and_decides_it_there(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    async with product(sqlite_db, asks(5), "Done.", tools=[refunds(effects)]) as one:
        teams = one.teams
        cyn = Policy(name="ops", approvers=frozenset({person("cyn", teams)}))
        one.core.policies = Policies([cyn])
        await one.mention()
        copy = await one.card(TITLE, teams.personal("cyn"))
        async with asyncio.timeout(5):  # until it is known where it came to stand
            while (await teams.click("cyn", copy, "Approve all 5")).body["statusCode"] != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await teams.click("cyn", copy, "Approve 5 calls")
        card = teams.in_thread(one.thread)[0]
        await settled(one, card)
        await settled(one, copy)
        assert card.text.count("Approved by cyn") == copy.text.count("Approved by cyn") == 5
    assert sorted(effects) == orders(*range(5))
