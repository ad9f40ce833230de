"""Standing rules that people make in Teams, from the card of a question."""

from __future__ import annotations

from typing import Any

import pytest

from bot.approvers import Policies, Policy
from bot.scripted import Step
from storage import scope
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.teams import Entra, Shown, cards
from tests.scenario.teams_world import entra, person, product
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


def field(shown: Shown, label: str) -> str:
    """The id of an input of ben's form."""
    found = [
        one["id"] for one in cards.elements(shown.card_for("ben")) if one.get("label") == label
    ]
    return str(found[0])


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
            assert "was not offered" in refused.body["value"]["message"]
        save["data"]["answer"] = good | {"where": "surface"}  # who may not make it that wide
        refused = await one.teams.click("ben", card, "Approve and remember")
        assert refused.body["statusCode"] == 400
        assert await kept(sqlite_db) == []
        save["data"]["answer"] = good
        await one.teams.click("ben", card, "Approve and remember")
        await one.reads("Done.")
        assert len(await kept(sqlite_db)) == 1
        await one.teams.until(lambda: "runs without asking" in card.text)
        await one.teams.say("ana", one.thread, "<at>Interlock</at> again")
        await one.reads("Twice.")
        assert effects == ["refund A1", "refund A1"]
        assert sum(TITLE in shown.text for shown in one.teams.in_thread(one.thread)) == 1


@pytest.mark.row("B68")
async def test_a_rule_is_made_and_ended_in_the_list(sqlite_db: Database) -> None:
    effects: list[str] = []
    steps: list[Step] = [call("refund", order="A1"), "Done.", call("refund", order="A1")]
    async with product(sqlite_db, *steps, tools=[effect(effects)]) as one:
        ben = frozenset({person("ben", one.teams)})
        one.core.policies = Policies([Policy(name="ops", approvers=ben, rule_makers=ben)])
        one.thread = one.teams.personal("ben")
        await one.teams.say("ben", one.thread, "pending")
        shown = await one.reads("Nothing waits for you.")

        async def press(title: str, filled: dict[str, str] | None = None) -> str:
            answer = await one.teams.click("ben", shown, title, filled)
            if answer.body["statusCode"] == 400:
                return str(answer.body["value"]["message"])
            return cards.text_of(answer.body["value"])

        assert "Waiting for you" not in shown.text
        await press("New rule")
        assert "Nothing waits for you." in await press("Back")
        await press("New rule")
        chosen = entered(shown, "ben", tool="refund", effect="It runs without asking")
        when, note = field(shown, "Only when"), field(shown, "Note, for whoever reads it later")
        assert "conditions are" in await press("Preview", chosen | {when: "order is A1"})
        told = await press("Preview", chosen | {when: "order=A1\norder in A1, A2", note: "agreed"})
        assert "refund runs without asking when order is “A1” and" in told
        assert await kept(sqlite_db) == []
        assert "Standing rules" in await press("Save")
        assert len(await kept(sqlite_db)) == 1

        await one.mention()
        await one.reads("Done.")
        assert effects == ["refund A1"]

        assert "Revoke this rule?" in await press("Revoke")
        assert "Standing rules" in await press("Back")
        assert len(await kept(sqlite_db)) == 1
        await press("Revoke")
        assert (await press("Revoke")).startswith("No longer in force:")
        assert await kept(sqlite_db) == []
        await one.teams.say("ana", one.thread, "<at>Interlock</at> again")
        await one.card(TITLE)
        assert effects == ["refund A1"]


@pytest.mark.row("B67")
async def test_an_approval_is_remembered_from_the_list(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[effect(effects)]
    ) as one:
        await one.mention()
        await one.card(TITLE)
        thread, alone = one.thread, one.teams.personal("ben")
        await one.teams.say("ben", alone, "pending")
        shown = await one.reads("Waiting for you", alone)
        await one.teams.click("ben", shown, CHOOSE)
        filled = entered(shown, "ben", what="any call of refund")
        await one.teams.click("ben", shown, "Preview", filled)
        answer = await one.teams.click("ben", shown, "Approve and remember")
        assert "Waiting for you" not in cards.text_of(answer.body["value"])
        assert "refund runs without asking" in cards.text_of(answer.body["value"])
        await one.reads("Done.", thread)
        assert effects == ["refund A1"]
        assert len(await kept(sqlite_db)) == 1
