"""What goes on in the background, what expired and what an agent asks of people, in Teams."""

from __future__ import annotations

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
        assert shown.activity["textFormat"] == "xml"  # its Markdown is drawn
        assert "rollout" in shown.activity["text"]
        assert "half way (working)" in text_of(shown.card or {})
        view = (await one.teams.click("ana", shown, "Cancel")).body["value"]
        assert text_of(view).startswith("The server was asked to stop.")
        assert "Running in the background" in text_of(view)
        assert tool.cancelled == ["t1"]


# What expired


def soon(one: Product, seconds: float = 1.0) -> None:
    """Questions that are asked from now on expire."""
    ben = frozenset({person("ben", one.teams)})
    one.core.policies = Policies([Policy(name="ops", approvers=ben, expires_after=seconds)])


async def expired(one: Product, count: int) -> Shown:
    """The card with that many calls of which nobody decided in time."""
    return await one.teams.until(
        lambda: next(
            (
                shown
                for shown in one.teams.in_thread(one.thread)
                if shown.text.count("Expired on") == count
                and buttons_of(shown.card or {}) == ["Ask again"]
            ),
            None,
        )
    )


async def offering(one: Product, button: str) -> Shown:
    """The card of the thread that has this button."""
    return await one.teams.until(
        lambda: next(
            (o for o in one.teams.in_thread(one.thread) if button in buttons_of(o.card or {})),
            None,
        )
    )


@pytest.mark.row("B41")
async def test_a_card_expires_without_a_click_and_is_asked_again(sqlite_db: Database) -> None:
    effects: list[str] = []
    asks = call("refund", order="A1")
    steps = (asks, "Nobody decided.", asks, "Done.")
    async with product(sqlite_db, *steps, tools=[effect(effects)]) as one:
        soon(one)
        await one.mention()
        card = await expired(one, 1)
        await one.reads("Nobody decided.")
        soon(one, 600.0)
        pressed = one.teams.invoked("ben", card, "Ask again")
        answer = await one.teams.deliver(pressed)
        assert answer.body["value"] == "The agent was asked to do it again."
        await one.teams.until(lambda: buttons_of(card.card or {}) == [])
        assert "ben asked again" in card.text
        late = await one.teams.deliver(pressed)
        assert late.body["statusCode"] == 400
        new = await one.teams.until(
            lambda: next(
                (
                    o
                    for o in one.teams.in_thread(one.thread)
                    if "Approve" in buttons_of(o.card or {})
                ),
                None,
            )
        )
        await one.teams.click("ben", new, "Approve")
        await one.reads("Done.")
    assert effects == ["refund A1"]


@pytest.mark.row("B41")
async def test_calls_of_one_card_expire_together_and_are_asked_again(sqlite_db: Database) -> None:
    asks = [call("refund", order=f"A{number}") for number in range(5)]
    steps = (asks, "Nobody decided.", asks)
    async with product(sqlite_db, *steps, tools=[effect([])]) as one:
        soon(one)
        await one.mention()
        card = await expired(one, 5)
        await one.reads("Nobody decided.")
        soon(one, 600.0)
        answer = await one.teams.click("ben", card, "Ask again")
        assert answer.body["value"] == "The agent was asked to do it again."
        await one.teams.until(lambda: buttons_of(card.card or {}) == [])
        await offering(one, "Approve all 5")


# Questions of an agent

SERVICES: dict[str, Any] = {
    "question": "Which services?",
    "header": "Services",
    "multiSelect": True,
    "options": [
        {"label": "checkout", "description": "slow"},
        {"label": "search", "description": "fine"},
        {"label": "mail, and more", "description": "odd"},
    ],
}
WHEN: dict[str, Any] = {
    "question": "When?",
    "header": "When",
    "options": [
        {"label": "Now", "description": "at once"},
        {"label": "Tonight", "description": "when it is quiet"},
    ],
}
HOW = WHEN | {"question": "How?", "header": "How"}
ASKS = call("ask_user", questions=[SERVICES, WHEN, HOW])
ANYTHING = ask_user_tool(in_thread)


def inputs(card: Shown) -> list[dict[str, Any]]:
    """Those of a card in their order: for each question the choices and own words."""
    return [one for one in elements(card.card_for("ana")) if str(one["type"]).startswith("Input.")]


def picked(card: Shown, *entered: str | list[str]) -> dict[str, str]:
    """What a client sends, choices by their titles; it leaves out what is blank."""
    sent = {}
    for one, given in zip(inputs(card), entered, strict=True):
        if isinstance(given, list):
            by = {choice["title"]: choice["value"] for choice in one["choices"]}
            sent[one["id"]] = ",".join(by[title] for title in given)
        else:
            sent[one["id"]] = given
    return {key: value for key, value in sent.items() if value}


@pytest.mark.row("D9")
@pytest.mark.row("D10")
async def test_three_questions_are_answered_with_picks_and_own_words(sqlite_db: Database) -> None:
    async with product(sqlite_db, ASKS, "Fine.", tools=[ANYTHING]) as one:
        await one.mention()
        card = await one.card("ops asks")
        assert [i["type"] for i in inputs(card)] == ["Input.ChoiceSet", "Input.Text"] * 3
        assert [bool(i.get("isMultiSelect")) for i in inputs(card)[::2]] == [True, False, False]
        entered = picked(
            card, ["checkout", "mail, and more"], "the docs", ["Tonight"], "", [], "by hand"
        )
        answer = await one.teams.click("ana", card, "Send", entered)
        assert "Answered by ana" in text_of(answer.body["value"])
        await one.reads("Fine.")
        read = one.model_read()
        assert '"selected": ["checkout", "mail, and more"], "other_text": "the docs"' in read
        assert '"selected": ["Tonight"], "other_text": null' in read
        assert '"selected": [], "other_text": "by hand"' in read


@pytest.mark.row("D9")
async def test_what_is_missing_is_named_and_what_stands_there_stays(sqlite_db: Database) -> None:
    async with product(sqlite_db, ASKS, "Fine.", tools=[ANYTHING]) as one:
        await one.mention()
        card = await one.card("ops asks")
        entered = picked(card, ["search"], "", [], "", ["Now"], "")
        wrong = await one.teams.click("ana", card, "Send", entered)
        assert wrong.body["statusCode"] == 400  # by which Teams keeps what was entered
        assert "When" in wrong.body["value"]["message"]
        assert "Services" not in wrong.body["value"]["message"]
        assert card.edits == 0
        assert not one.count("Fine.")


async def test_questions_are_declined_without_an_answer_to_any(sqlite_db: Database) -> None:
    async with product(sqlite_db, ASKS, "Fine.", tools=[ANYTHING]) as one:
        await one.mention()
        card = await one.card("ops asks")
        assert not any(one.get("isRequired") for one in inputs(card))  # own words are an answer
        answer = await one.teams.click("ana", card, "Decline")
        assert "Declined by ana" in text_of(answer.body["value"])
        await one.reads("Fine.")
        assert "declined to answer" in one.model_read()
