"""What was seen is what runs: edits are judged anew, and what changed meanwhile stops a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from bot.approvers import Policy
from bot.chat import Chat
from bot.gate import digest
from bot.question import Changed, NotAllowed, QuestionError, Verb, WrongVerb
from bot.remember import THREAD
from bot.tool import Tool, tool
from storage.calls import CallState
from storage.database import Database
from storage.schema import questions, tool_calls
from tests.fakes.model import call
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, returned, world

CYN_APPROVES = Policy(name="strict", approvers=frozenset({CYN.key}))


async def waiting(db: Database, *tools: Tool, **args: Any) -> tuple[World, Chat]:
    """A call of the first tool that waits for its approval."""
    w = world(db, call(tools[0].name, **args), "I see.", tools=tools)
    chat = await w.chat()
    await w.settle()
    return w, chat


def pays(paid: list[tuple[str, int]], limit: int = 1000, *, text: str = "Pays.") -> Tool:
    async def pay(to: str, amount: int = 5) -> str:
        paid.append((to, amount))
        return f"paid {amount} to {to}"

    pay.__doc__ = text
    return tool(approval=lambda args: None if args.amount <= limit else False)(pay)


# Exactly an approval runs it


@pytest.mark.row("D22")
async def test_a_rule_that_raises_denies(db: Database) -> None:
    effects: list[str] = []

    def broken(_args: Any) -> bool:
        raise ZeroDivisionError

    w = world(db, call("refund"), "I see.", tools=[effect(effects, approval=broken)])
    chat = await w.chat()

    await w.settle()

    assert effects == []
    assert await returned(chat) == ["The call to refund was denied by its approval rule."]


# Edited arguments


@pytest.mark.row("D23")
@pytest.mark.row("B55")
async def test_a_call_approved_with_other_arguments_runs_with_those_and_the_model_is_told(
    db: Database,
) -> None:
    paid: list[tuple[str, int]] = []
    w, chat = await waiting(db, pays(paid), to="ann", amount=900)

    await (await only_question(chat)).approve(by=BEN, arguments={"to": "ann", "amount": "90"})
    await w.settle()

    assert paid == [("ann", 90)]
    assert await returned(chat) == [
        "[ben changed the arguments before approving (amount: 900 → 90), to "
        '{"amount":90,"to":"ann"}.]\npaid 90 to ann'
    ]
    (row,) = await chat.calls()
    assert row.edited == {"by": "ben", "from": {"to": "ann", "amount": 900}}
    (decided,) = await audited(chat, "decided")
    assert decided.detail["edited"] is True
    assert decided.detail["digest"] == row.digest


@pytest.mark.row("D23")
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"to": "ann", "amount": "much"}, QuestionError, "amount"),
        ({"to": "ann", "sum": 1}, QuestionError, "sum"),
        ({}, QuestionError, "to"),
        ({"to": "ann", "amount": 1001}, NotAllowed, "denied by its approval rule"),
    ],
)
async def test_edited_arguments_are_validated_and_judged_like_the_models(
    sqlite_db: Database, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    paid: list[tuple[str, int]] = []
    w, chat = await waiting(sqlite_db, pays(paid), to="ann", amount=900)
    question = await only_question(chat)

    with pytest.raises(error, match=words):
        await question.approve(by=BEN, arguments=arguments)
    await w.settle()

    assert paid == []
    assert (await only_question(chat)).arguments == {"to": "ann", "amount": 900}


@pytest.mark.row("B55")
async def test_the_call_as_it_was_before_an_edit_asks_again(db: Database) -> None:
    paid: list[tuple[str, int]] = []
    same = call("pay", to="ann", amount=900)
    w = world(db, same, same, tools=[pays(paid)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).approve(by=BEN, arguments={"to": "ann", "amount": 90})
    await w.settle()

    assert paid == [("ann", 90)]
    assert (await only_question(chat)).arguments == {"to": "ann", "amount": 900}


async def test_only_an_approval_can_change_arguments(db: Database) -> None:
    w, chat = await waiting(db, pays([]), to="ann")
    question = await only_question(chat)

    with pytest.raises(WrongVerb):
        await question.desk.decide(question.id, Verb.DECLINE, by=BEN, arguments={"to": "bob"})

    assert (await only_question(chat)).id == question.id
    await w.settle()


# The tool changed


@pytest.mark.row("D25")
@pytest.mark.parametrize("change", ["described otherwise", "removed"])
@pytest.mark.parametrize("when", ["before the decision", "after the decision"])
async def test_a_call_of_a_tool_that_changed_since_it_was_asked_does_not_run(
    sqlite_db: Database, change: str, when: str
) -> None:
    paid: list[tuple[str, int]] = []
    w, chat = await waiting(sqlite_db, pays(paid), to="ann")
    question = await only_question(chat)
    tools = [] if change == "removed" else [pays(paid, text="Pays twice.")]

    if when == "after the decision":
        await question.approve(by=BEN)
    w = await w.restart(tools=tools)
    chat = w.here(chat)
    if when == "before the decision":
        await (await only_question(chat)).approve(by=BEN)
    await w.settle()

    assert paid == []
    assert "the tool was changed or removed" in (await returned(chat))[0]
    assert len(await audited(chat, "changed")) == 1
    assert await chat.last_reply() == "I see."


@pytest.mark.row("D25")
async def test_arguments_of_a_changed_tool_cannot_be_edited(db: Database) -> None:
    w, chat = await waiting(db, pays([]), to="ann")
    w = await w.restart(tools=[pays([], text="Pays twice.")])

    with pytest.raises(Changed, match="pay was changed"):
        await (await only_question(w.here(chat))).approve(by=BEN, arguments={"to": "bob"})


async def test_a_remembered_approval_ends_with_the_tool_it_was_given_for(db: Database) -> None:
    paid: list[tuple[str, int]] = []
    w = world(db, call("pay", to="ann"), "Done.", call("pay", to="bob"), tools=[pays(paid)])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN, remember=THREAD)
    await w.settle()

    w = await w.restart(tools=[pays(paid, text="Pays twice.")])
    await w.here(chat).say("and bob", by=ANA)
    await w.settle()

    assert paid == [("ann", 5)]
    assert (await only_question(w.here(chat))).arguments["to"] == "bob"


# The policy changed


@pytest.mark.row("B45")
async def test_an_approval_of_somebody_who_is_no_approver_any_more_asks_again(
    db: Database,
) -> None:
    effects: list[str] = []
    w, chat = await waiting(db, effect(effects))
    old = await only_question(chat)
    await old.approve(by=BEN)

    w = await w.restart(policies=[CYN_APPROVES])
    chat = w.here(chat)
    await w.settle()

    assert effects == []
    new = await only_question(chat)
    assert new.id != old.id
    assert new.id.startswith(f"{old.id}/")
    with pytest.raises(NotAllowed):
        await new.approve(by=BEN)
    await new.approve(by=CYN)
    await w.settle()
    assert effects == ["refund A1"]


@pytest.mark.row("B45")
async def test_a_policy_that_leaves_nobody_to_approve_denies_what_was_approved(
    db: Database,
) -> None:
    effects: list[str] = []
    w, chat = await waiting(db, effect(effects))
    await (await only_question(chat)).approve(by=BEN)

    w = await w.restart(policies=[])
    await w.settle()

    assert effects == []
    assert await returned(w.here(chat)) == [
        "Nobody can approve refund: no policy names an approver for it."
    ]
    (denied,) = await audited(w.here(chat), "denied")
    assert "no policy" in denied.detail["why"]


@pytest.mark.row("B45")
async def test_a_rule_that_became_stricter_denies_what_was_approved(db: Database) -> None:
    paid: list[tuple[str, int]] = []
    w, chat = await waiting(db, pays(paid), to="ann", amount=900)
    await (await only_question(chat)).approve(by=BEN)

    w = await w.restart(tools=[pays(paid, limit=100)])
    await w.settle()

    assert paid == []
    (row,) = await w.here(chat).calls()
    assert row.state == CallState.DECLINED


@pytest.mark.row("B45")
async def test_a_call_that_could_run_unasked_is_asked_about_once_the_policy_wants_it(
    db: Database,
) -> None:
    effects: list[str] = []
    w = world(db, call("look"), "Done.", tools=[effect(effects, "look", approval="never")])
    chat = await w.chat()
    await chat.step()
    await chat.step()  # the call is recorded and ready
    assert [row.state for row in await chat.calls()] == [CallState.READY]

    asking = Policy(name="ask", approvers=frozenset({BEN.key}), ask=True)
    w = await w.restart(policies=[asking])
    await w.settle()

    assert effects == []
    await (await only_question(w.here(chat))).approve(by=BEN)
    await w.settle()
    assert effects == ["look A1"]


# The rows changed


async def tamper(db: Database, table: sa.Table, **values: Any) -> None:
    async with db.transaction("tamper") as tx:
        await tx.change(sa.update(table).values(**values))


@pytest.mark.row("B50")
@pytest.mark.row("B52")
@pytest.mark.parametrize(
    "change",
    [
        lambda db: tamper(db, tool_calls, args={"order": "A666"}),
        lambda db: tamper(db, tool_calls, name="cancel"),
        lambda db: tamper(db, tool_calls, args={"order": "A666"}, digest="0" * 64),
        lambda db: tamper(db, questions, digest="0" * 64),
    ],
    ids=["arguments", "tool", "arguments and digest", "digest of the question"],
)
async def test_a_click_on_a_card_that_showed_something_else_is_refused(
    sqlite_db: Database, change: Callable[[Database], Any]
) -> None:
    effects: list[str] = []
    w, chat = await waiting(sqlite_db, effect(effects), effect(effects, "cancel"))
    question = await only_question(chat)
    await change(sqlite_db)

    with pytest.raises(Changed):
        await question.approve(by=BEN)
    await w.settle()

    assert effects == []
    assert await chat.pending_questions() == []
    assert "arguments changed after they were shown" in (await returned(chat))[0]
    (row,) = await audited(chat, "changed")
    assert row.actor == BEN.key
    assert await audited(chat, "decided") == []
    assert not any(card.open for card in w.surface.cards())


@pytest.mark.row("B50")
@pytest.mark.parametrize("digest_too", [False, True])
async def test_a_call_that_was_changed_after_its_approval_does_not_run(
    db: Database, digest_too: bool
) -> None:
    effects: list[str] = []
    refund = effect(effects)
    w, chat = await waiting(db, refund)
    await (await only_question(chat)).approve(by=BEN)
    args = {"order": "A666"}
    values: dict[str, Any] = {"args": args}
    if digest_too:
        values["digest"] = digest("", "refund", refund.schema_digest, args)
    await tamper(db, tool_calls, **values)
    await w.settle()

    assert effects == []
    assert "not those that were allowed" in (await returned(chat))[0]
    assert len(await audited(chat, "changed")) == 1


@pytest.mark.row("B50")
async def test_a_tool_that_changes_its_arguments_does_not_change_the_record(db: Database) -> None:
    @tool
    async def pay(to: list[str]) -> str:
        to.append("mallory")
        return ",".join(to)

    w = world(db, call("pay", to=["ann"]), "I see.", tools=[pay])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)
    dict(question.arguments)["to"].append("eve")  # what a caller does to its own copy
    await question.approve(by=BEN)
    await w.settle()

    assert await returned(chat) == ["ann,mallory"]
    (row,) = await chat.calls()
    assert row.args == {"to": ["ann"]}


@pytest.mark.row("B53")
async def test_the_card_shows_the_values_that_run_with_defaults_and_coercion(
    db: Database,
) -> None:
    paid: list[tuple[str, int]] = []
    w, chat = await waiting(db, pays(paid), to="ann", amount="0090")

    (card,) = w.surface.cards()
    assert {one.name: one.value for one in card.arguments} == {"to": "ann", "amount": "90"}
    await (await only_question(chat)).approve(by=BEN)
    await w.settle()
    assert paid == [("ann", 90)]

    w, chat = await waiting(db, pays(paid), to="bob")
    assert {one.name: one.value for one in w.surface.cards()[-1].arguments} == {
        "to": "bob",
        "amount": "5",
    }
