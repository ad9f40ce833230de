"""Admins are told when a call was refused because nobody could approve it."""

from __future__ import annotations

from typing import Any

from bot.approvers import Policies, Policy
from bot.chat import Chat
from bot.surface import Reply
from storage.database import Database
from tests.fakes.model import call
from tests.integration.test_races import place_of
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, world

SHORT = Policy(name="two", approvers=frozenset({ANA.key, BEN.key}), quorum=2)
DAN = "slack:T1/DAN"


def with_admins(db: Database, policy: Policy, *steps: Any, admins: set[str]) -> World:
    w = world(db, *steps, tools=[effect([])], policies=[policy])
    w.core.policies = Policies([policy], admins=admins)
    w.surface.directs = True
    return w


def told(w: World, user: str) -> list[str]:
    return [
        one.content.text
        for one in w.surface.shown.values()
        if one.place.channel == f"D-{user}" and isinstance(one.content, Reply)
    ]


async def asking(w: World) -> Chat:
    chat = await w.chat()
    await w.settle()
    return chat


async def test_admins_are_told_once_that_nobody_could_approve_a_call(db: Database) -> None:
    steps = [call("refund"), "I see."]
    w = with_admins(db, SHORT, *steps, *steps, admins={CYN.key, DAN, "console:local/x"})

    first, second = await asking(w), await asking(w)

    for chat in (first, second):  # the thread is told each time
        there = (await place_of(chat)).root
        lines = [str(one.content) for one in w.surface.shown.values() if one.place.root == there]
        (line,) = (one for one in lines if "Nobody can approve" in one)
        assert "only 1 can approve. The call was refused." in line
    for admin in ("CYN", "DAN"):
        (text,) = told(w, admin)
        assert "the policy two asks for 2 people, and only 1 can approve." in text
        assert "`refund`" in text
    (row,) = await audited(first, "admins_told")
    assert (row.detail["policy"], row.detail["admins"]) == (
        "two",
        sorted([CYN.key, DAN, "console:local/x"]),
    )
    assert await audited(second, "admins_told") == []
    assert len(await audited(second, "not_run")) == 1


async def test_admins_are_told_when_a_policy_became_impossible_before_the_run(
    sqlite_db: Database,
) -> None:
    fine = Policy(name="two", approvers=frozenset({BEN.key}))
    w = with_admins(sqlite_db, fine, call("refund"), "I see.", admins={CYN.key})
    chat = await asking(w)
    await (await only_question(chat)).approve(by=BEN)

    w.core.policies = Policies([SHORT], admins={CYN.key})
    await w.settle()

    assert len(told(w, "CYN")) == 1


async def test_admins_are_not_told_of_a_call_that_was_refused_for_another_reason(
    sqlite_db: Database,
) -> None:
    w = with_admins(sqlite_db, SHORT, call("nothing"), "I see.", admins={CYN.key})
    await asking(w)

    assert told(w, "CYN") == []


async def test_a_thread_is_told_once_of_all_such_calls_of_a_response(sqlite_db: Database) -> None:
    many = [call("refund", order=f"A{number}") for number in range(3)]
    w = with_admins(sqlite_db, SHORT, many, "I see.", admins=set())

    await asking(w)

    texts = [one.content.text for one in w.surface.shown.values() if isinstance(one.content, Reply)]
    assert sum("Nobody can approve" in text for text in texts) == 1
