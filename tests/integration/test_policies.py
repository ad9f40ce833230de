"""Which policy decides about a call, by its server and its arguments; who is the same person."""

from __future__ import annotations

from typing import Any

import pytest

from bot.approvers import REQUESTER, Policies, Policy
from bot.chat import Chat
from bot.question import NotAllowed
from bot.remember import THREAD
from bot.rules import Comparison, Condition
from bot.surface import Actor
from bot.tool import Tool, tool
from storage.database import Database
from tests.fakes.model import call
from tests.world import ANA, BEN, CYN, World, only_question, returned, world

DAN = Actor("slack", "T1", "DAN", "dan")
LARGE = Policy(
    name="large",
    when=(Condition("amount", Comparison.RANGE, [100, None]),),
    approvers=frozenset({CYN.key}),
)
SMALL = Policy(name="small", approvers=frozenset({BEN.key}))


def paying(paid: list[int]) -> Tool:
    @tool(name="pay")
    async def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    return pay


async def asked(
    db: Database, paid: list[int], amount: int, policies: list[Policy], **people: Any
) -> tuple[World, Chat]:
    w = world(db, call("pay", amount=amount), "Done.", tools=[paying(paid)], policies=policies)
    w.core.policies = Policies(policies, **people)
    chat = await w.chat()
    await w.settle()
    return w, chat


@pytest.mark.row("B3")
@pytest.mark.parametrize(("amount", "able", "unable"), [(99, BEN, CYN), (100, CYN, BEN)])
async def test_the_arguments_of_a_call_choose_its_policy(
    db: Database, amount: int, able: Actor, unable: Actor
) -> None:
    paid: list[int] = []
    w, chat = await asked(db, paid, amount, [LARGE, SMALL])
    question = await only_question(chat)
    assert w.surface.cards()[0].deciders == (able.key,)
    assert len((await w.service.inbox(able, "T1", 1)).text.splitlines()) == 1
    assert (await w.service.inbox(unable, "T1", 1)).text == "Nothing waits for you."

    with pytest.raises(NotAllowed):
        await question.approve(by=unable)
    await question.approve(by=able)
    await w.settle()

    assert paid == [amount]


@pytest.mark.row("D23")
async def test_changed_arguments_are_judged_by_the_policy_that_covers_them(db: Database) -> None:
    paid: list[int] = []
    w, chat = await asked(db, paid, 50, [LARGE, SMALL])
    question = await only_question(chat)

    with pytest.raises(NotAllowed, match="policy large"):
        await question.approve(by=BEN, arguments={"amount": 500})
    assert await chat.pending_questions() == [question]
    await question.approve(by=BEN, arguments={"amount": 60})
    await w.settle()

    assert paid == [60]


async def test_one_person_alone_cannot_put_in_arguments_that_two_must_approve(
    sqlite_db: Database,
) -> None:
    paid: list[int] = []
    two = Policy(name="two", when=LARGE.when, approvers=frozenset({BEN.key, CYN.key}), quorum=2)
    w, chat = await asked(sqlite_db, paid, 50, [two, SMALL])

    with pytest.raises(NotAllowed, match="2 people must approve"):
        await (await only_question(chat)).approve(by=BEN, arguments={"amount": 500})
    await w.settle()

    assert paid == []


async def test_a_call_that_became_another_policys_matter_is_asked_about_again(
    sqlite_db: Database,
) -> None:
    paid: list[int] = []
    w, chat = await asked(sqlite_db, paid, 150, [SMALL])
    await (await only_question(chat)).approve(by=BEN)

    w = await w.restart(policies=[LARGE, SMALL])
    await w.settle()

    assert paid == []
    again = await only_question(w.here(chat))
    await again.approve(by=CYN)
    await w.settle()
    assert paid == [150]


async def test_the_server_of_a_tool_chooses_its_policy(sqlite_db: Database) -> None:
    elsewhere = Policy(name="bank", servers=("bank",), approvers=frozenset({CYN.key}))
    w, _ = await asked(sqlite_db, [], 1, [elsewhere, SMALL])

    assert w.surface.cards()[0].deciders == (BEN.key,)  # our own tools are of no server


@pytest.mark.row("B6")
async def test_who_asked_does_not_approve_it_as_themselves_on_another_surface(
    sqlite_db: Database,
) -> None:
    twin = Actor("console", "local", "ana", "ana")
    both = Policy(name="ops", approvers=frozenset({twin.key, BEN.key}))
    people = {ANA.key: "ana", twin.key: "ana"}
    w, chat = await asked(sqlite_db, [], 1, [both], people=people)

    assert w.surface.cards()[0].deciders == (BEN.key,)
    with pytest.raises(NotAllowed, match="You asked the agent for this"):
        await (await only_question(chat)).approve(by=twin)


async def test_a_call_that_only_its_requester_on_another_surface_could_approve_is_refused(
    sqlite_db: Database,
) -> None:
    twin = Actor("console", "local", "ana", "ana")
    alone = Policy(name="ops", approvers=frozenset({twin.key}))
    w, chat = await asked(sqlite_db, [], 1, [alone], people={ANA.key: "ana", twin.key: "ana"})

    assert w.surface.cards() == []
    (why,) = await returned(chat)
    assert why.startswith("Nobody can approve pay here: its only approver is the person who asked")


async def test_a_named_approver_approves_from_wherever_they_are_the_same_person(
    sqlite_db: Database,
) -> None:
    paid: list[int] = []
    twin = Actor("console", "local", "ben", "ben")
    people = {BEN.key: "ben", twin.key: "ben"}
    w, chat = await asked(sqlite_db, paid, 1, [SMALL], people=people)

    await (await only_question(chat)).approve(by=twin)
    await w.settle()

    assert paid == [1]


async def test_the_requester_approves_where_the_policy_says_so(sqlite_db: Database) -> None:
    paid: list[int] = []
    own = Policy(name="own", approvers=frozenset({REQUESTER}))
    w, chat = await asked(sqlite_db, paid, 1, [own])
    question = await only_question(chat)
    assert w.surface.cards()[0].deciders == (ANA.key,)

    with pytest.raises(NotAllowed):
        await question.approve(by=BEN)
    await question.approve(by=ANA, remember=THREAD)
    await w.settle()

    assert paid == [1]
