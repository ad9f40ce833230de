"""Standing rules that people make in Teams, from the card of a question."""

from __future__ import annotations

from typing import Any

import pytest

from bot.scripted import Step
from storage import scope
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.teams import Entra, Shown, cards
from tests.scenario.teams_world import entra, product
from tests.world import effect

__all__ = ["Entra", "entra"]
pytestmark = pytest.mark.usefixtures("entra")

TITLE = "wants to run refund"
CHOOSE = "Approve and remember…"


def entered(shown: Shown, who: str, **chosen: str) -> dict[str, str]:
    """The inputs of a form as a client sends them, choices by their titles."""
    sent: dict[str, str] = {}
    for one in cards.elements(shown.card_for(who)):
        if not str(one.get("type")).startswith("Input."):
            continue
        if one.get("value"):
            sent[one["id"]] = str(one["value"])
        for choice in one.get("choices", ()):
            if choice["title"] in chosen.values():
                sent[one["id"]] = choice["value"]
    return sent


async def kept(db: Database) -> list[Any]:
    async with db.read() as tx:
        return [rule for rule, _ in await scope.rules_in_force(tx, scope.EVERYTHING, 0.0)]


@pytest.mark.row("B67")
async def test_an_approval_is_remembered_from_its_card_and_the_next_call_runs(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    steps: list[Step] = [call("refund", order="A1"), "Done.", call("refund", order="A1"), "Twice."]
    async with product(sqlite_db, *steps, tools=[effect(effects)]) as one:
        await one.mention()
        card = await one.card(TITLE)
        assert (await one.teams.click("ana", card, CHOOSE)).body["statusCode"] == 400
        await one.teams.click("ben", card, CHOOSE)
        filled = entered(card, "ben", what="any call of refund")
        await one.teams.click("ben", card, "Preview", filled)
        told = cards.text_of(card.card_for("ben"))
        assert "refund runs without asking" in told
        assert "Nothing is saved yet." in told
        assert effects == []
        assert await kept(sqlite_db) == []

        save = cards.button(card.card_for("ben"), "Approve and remember")
        good = save["data"]["answer"]
        wrong: tuple[Any, ...] = ("x", [], {"what": {"a": "b"}}, {"where": "\x00"})
        for bad in (*wrong, {"where": "x" * 9_000}):
            save["data"]["answer"] = bad
            refused = await one.teams.click("ben", card, "Approve and remember")
            assert refused.body["statusCode"] == 400
        save["data"]["answer"] = good | {"where": "surface"}  # who may not make it that wide
        refused = await one.teams.click("ben", card, "Approve and remember")
        assert refused.body["statusCode"] == 400
        assert await kept(sqlite_db) == []
        save["data"]["answer"] = good
        await one.teams.click("ben", card, "Approve and remember")
        await one.reads("Done.")
        assert len(await kept(sqlite_db)) == 1
        assert "runs without asking" in card.text
        await one.teams.say("ana", one.thread, "<at>Interlock</at> again")
        await one.reads("Twice.")
        assert effects == ["refund A1", "refund A1"]
        assert sum(TITLE in shown.text for shown in one.teams.in_thread(one.thread)) == 1
