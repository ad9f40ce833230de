"""Approvals: a call that needs one waits for it, runs once after it, and never without it."""

from __future__ import annotations

from typing import Any

import pytest

from bot.chat import ChatWaiting
from bot.core import Core
from bot.desk import Desk
from bot.field import Field
from bot.question import AlreadyRunning, Kind, UnknownQuestion, Verb, WrongVerb
from bot.remember import THREAD
from bot.tool import Call, Verdict, tool
from storage import calls
from storage.calls import CallState
from storage.database import Database
from storage.questions import QuestionState
from tests.fakes.model import call
from tests.world import BEN, audited, effect, only_question, returned, said, world


@pytest.mark.row("A1")
async def test_a_call_that_needs_approval_waits_for_one_and_does_not_run(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund", order="A7"), tools=[effect(effects)])
    chat = await w.chat()

    await w.settle()

    question = await only_question(chat)
    (row,) = await chat.calls()
    assert effects == []
    assert await chat.waiting()
    assert question.kind is Kind.APPROVAL
    assert question.id == row.id
    assert question.message is None
    assert question.fields == ()
    assert question.arguments == {"order": "A7"}


@pytest.mark.row("A2")
@pytest.mark.row("B32")
async def test_an_approved_call_runs_once_and_the_model_answers(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Refunded.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()

    ruling = await (await only_question(chat)).approve(by=BEN)
    assert effects == []  # deciding records; it runs nothing
    await w.settle()

    assert ruling.first
    assert effects == ["refund A1"]
    assert await returned(chat) == ["refund A1 done"]
    assert await chat.last_reply() == "Refunded."
    assert await chat.pending_questions() == []
    assert not await chat.waiting()


@pytest.mark.row("A3")
async def test_a_declined_call_does_not_run_and_the_model_is_told_who_denied_what(
    db: Database,
) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "I see.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).decline(by=BEN)
    await w.settle()

    (row,) = await chat.calls()
    assert effects == []
    assert await returned(chat) == ["The user denied the call to refund."]
    (part,) = [p for p in w.model.requests[-1].messages[-1].parts if p.part_kind == "tool-return"]
    assert part.tool_call_id == row.provider_id
    assert await chat.last_reply() == "I see."


@pytest.mark.row("A4")
async def test_the_note_of_a_decline_is_the_result_the_model_reads(db: Database) -> None:
    w = world(db, call("refund"), "I see.", tools=[effect([])])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).decline("  The order shipped already ", by=BEN)
    await w.settle()

    assert await returned(chat) == ["The order shipped already"]


@pytest.mark.row("A5")
async def test_a_mapping_given_with_a_decline_is_the_whole_result(db: Database) -> None:
    w = world(db, call("refund"), "I see.", tools=[effect([])])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).decline({"status": "shipped", "refund": False}, by=BEN)
    await w.settle()

    (row,) = await chat.calls()
    assert row.result == {"status": "shipped", "refund": False}
    assert await returned(chat) == ['{"refund":false,"status":"shipped"}']


@pytest.mark.row("A6")
async def test_an_answer_without_a_value_approves(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()

    ruling = await (await only_question(chat)).answer(by=BEN)
    await w.settle()

    assert ruling.state is QuestionState.APPROVED
    assert effects == ["refund A1"]


@pytest.mark.row("A7")
@pytest.mark.parametrize("value", ["yes", "approve ", True, False, 1, 0, ["approve"], {"ok": 1}])
async def test_a_value_never_approves(sqlite_db: Database, value: Any) -> None:
    effects: list[str] = []
    w = world(sqlite_db, call("refund"), tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)

    with pytest.raises(WrongVerb, match="approve or decline"):
        await question.answer(value, by=BEN)
    await w.settle()

    assert (await only_question(chat)).id == question.id
    assert effects == []


@pytest.mark.row("A8")
@pytest.mark.row("B67")
async def test_a_remembered_approval_lets_later_calls_of_the_chat_run_and_says_so(
    db: Database,
) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), call("refund", order="A2"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).approve(by=BEN, remember=THREAD)
    await w.settle()

    assert effects == ["refund A1", "refund A2"]
    assert await chat.pending_questions() == []
    (use,) = await audited(chat, "rule_used")
    assert use.actor == BEN.key
    assert (
        "`refund` runs without asking: `ben` allowed it in this thread until it is revoked "
        f"(rule `{use.detail['rule']}`; `rules` lists it)."
    ) in w.surface.replies()


@pytest.mark.row("A8")
async def test_a_remembered_approval_does_not_release_a_call_that_waits_already(
    db: Database,
) -> None:
    effects: list[str] = []
    both = [call("refund", order="A1"), call("refund", order="A2")]
    w = world(db, both, "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    first, second = await chat.pending_questions()

    await first.approve(by=BEN, remember=THREAD)
    await w.settle()

    assert len(effects) == 1
    assert [one.id for one in await chat.pending_questions()] == [second.id]


@pytest.mark.row("A9")
async def test_a_remembered_approval_holds_for_that_tool_only(db: Database) -> None:
    effects: list[str] = []
    tools = [effect(effects), effect(effects, "cancel")]
    w = world(db, call("refund"), call("cancel"), tools=tools)
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).approve(by=BEN, remember=THREAD)
    await w.settle()

    assert effects == ["refund A1"]
    assert (await only_question(chat)).tool == "cancel"


@pytest.mark.row("A10")
async def test_a_remembered_approval_holds_in_that_chat_only(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN, remember=THREAD)
    await w.settle()

    other = await w.chat()
    await w.settle()

    assert effects == ["refund A1"]
    assert (await only_question(other)).tool == "refund"


@pytest.mark.row("A11")
async def test_a_form_cannot_be_approved_and_the_refusal_names_what_to_do(db: Database) -> None:
    @tool(approval="never")
    async def seat(c: Call) -> str:
        return f"sits {await c.ask('Where?', Field('seat', choices=['window', 'aisle']))}"

    w = world(db, call("seat"), tools=[seat])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)

    with pytest.raises(WrongVerb, match="answer or decline"):
        await question.approve(by=BEN)

    assert (await only_question(chat)).id == question.id


@pytest.mark.row("A12")
@pytest.mark.row("A13")
async def test_a_safe_call_runs_before_the_chat_waits_and_not_again_after(db: Database) -> None:
    effects: list[str] = []
    tools = [effect(effects), effect(effects, "look", approval="never")]
    w = world(db, [call("look"), call("refund")], "Done.", tools=tools)
    chat = await w.chat()
    await w.settle()

    assert effects == ["look A1"]
    assert (await only_question(chat)).tool == "refund"
    assert len(w.model.requests) == 1

    await (await only_question(chat)).approve(by=BEN)
    await w.settle()

    assert effects == ["look A1", "refund A1"]
    assert await returned(chat) == ["look A1 done", "refund A1 done"]


@pytest.mark.row("A14")
@pytest.mark.row("B26")
async def test_what_was_answered_runs_while_the_model_waits_for_the_rest(db: Database) -> None:
    effects: list[str] = []
    three = [call("refund", order=order) for order in ("A1", "A2", "A3")]
    w = world(db, three, "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    by_order = {one.arguments["order"]: one for one in await chat.pending_questions()}

    await by_order["A1"].approve(by=BEN)
    await by_order["A3"].approve(by=BEN)
    await w.settle()

    assert sorted(effects) == ["refund A1", "refund A3"]
    assert len(w.model.requests) == 1
    assert (await only_question(chat)).arguments == {"order": "A2"}

    await by_order["A2"].approve(by=BEN)
    await w.settle()

    assert sorted(effects) == ["refund A1", "refund A2", "refund A3"]
    assert await returned(chat) == [f"refund {order} done" for order in ("A1", "A2", "A3")]
    assert len(w.model.requests) == 2


@pytest.mark.row("A15")
@pytest.mark.parametrize(
    ("said_by_rule", "ran", "result", "asked"),
    [
        (True, ["refund A1"], "refund A1 done", 0),
        (Verdict.RUN, ["refund A1"], "refund A1 done", 0),
        (False, [], "The call to refund was denied by its approval rule.", 0),
        (Verdict.DENY, [], "The call to refund was denied by its approval rule.", 0),
        ("yes", [], "The call to refund was denied by its approval rule.", 0),
        (None, [], "", 1),
        (Verdict.ASK, [], "", 1),
    ],
)
async def test_a_rule_runs_denies_or_asks(
    sqlite_db: Database, said_by_rule: Any, ran: list[str], result: str, asked: int
) -> None:
    effects: list[str] = []
    refund = effect(effects, approval=lambda _args: said_by_rule)
    w = world(sqlite_db, call("refund"), "Done.", tools=[refund])
    chat = await w.chat()

    await w.settle()

    assert effects == ran
    assert await returned(chat) == ([result] if result else [])
    assert len(await chat.pending_questions()) == asked


@pytest.mark.row("A16")
async def test_a_rule_is_called_for_a_call_and_not_before_it(db: Database) -> None:
    judged: list[str] = []

    def rule(args: Any) -> None:
        judged.append(args.order)

    w = world(db, call("refund", order="A9"), tools=[effect([], approval=rule)])
    await w.chat()
    assert judged == []

    await w.settle()

    assert judged == ["A9"]


@pytest.mark.row("A17")
async def test_a_new_message_is_refused_while_an_approval_is_pending(db: Database) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])])
    chat = await w.chat()
    await w.settle()

    with pytest.raises(ChatWaiting, match="refund") as refused:
        await chat.say("and another thing", by=BEN)

    assert refused.value.tools == ("refund",)
    await (await only_question(chat)).approve(by=BEN)
    await w.settle()
    assert not any("another thing" in text for text in await said(chat))


@pytest.mark.row("A18")
async def test_a_new_message_is_refused_while_a_tool_asks(db: Database) -> None:
    @tool(approval="never")
    async def seat(c: Call) -> str:
        return f"sits {await c.ask('Where?', Field('seat'))}"

    w = world(db, call("seat"), tools=[seat])
    chat = await w.chat()
    await w.settle()

    with pytest.raises(ChatWaiting, match="seat"):
        await chat.say("and another thing", by=BEN)


@pytest.mark.row("A19")
@pytest.mark.row("A20")
@pytest.mark.row("B43")
async def test_one_process_asks_another_decides_and_a_third_runs(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()

    decider = Core(db=db, clock=w.clock, wake=w.engine.wake, policies=w.core.policies)
    (question,) = await Desk(decider).pending(chat.id)
    await question.approve(by=BEN)

    seen = await chat.question(question.id)  # the first process sees what the other wrote
    assert seen is not None
    assert seen.state is QuestionState.APPROVED
    third = await w.restart()
    await third.settle()

    assert effects == ["refund A1"]
    assert await third.here(chat).last_reply() == "Done."
    assert len(w.surface.cards()) == 1


@pytest.mark.row("A21")
@pytest.mark.row("B14")
async def test_a_decline_after_an_approval_changes_nothing_and_is_told_who_was_first(
    db: Database,
) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)
    await question.approve(by=BEN)
    at = w.clock.now()
    w.clock.advance(5)

    late = await question.decline("no", by=BEN)
    await w.settle()

    assert not late.first
    assert (late.state, late.name, late.at) == (QuestionState.APPROVED, "ben", at)
    assert effects == ["refund A1"]
    assert len(await audited(chat, "decided")) == 1


@pytest.mark.row("A22")
async def test_a_call_that_runs_cannot_be_declined_and_its_result_is_kept(db: Database) -> None:
    refusals: list[str] = []
    questions: list[Any] = []

    @tool
    async def refund() -> str:
        with pytest.raises(AlreadyRunning) as refused:
            await questions[0].decline(by=BEN)
        refusals.append(str(refused.value))
        return "refunded"

    w = world(db, call("refund"), "Done.", tools=[refund])
    chat = await w.chat()
    await w.settle()
    questions.append(await only_question(chat))

    await questions[0].approve(by=BEN)
    await w.settle()

    assert refusals == [
        "ben approved it and refund is already running; its result will reach the agent."
    ]
    assert await returned(chat) == ["refunded"]


@pytest.mark.row("A23")
@pytest.mark.parametrize("verb", list(Verb))
async def test_an_id_the_chat_never_asked_decides_nothing(db: Database, verb: Verb) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    other = await w.chat()
    await w.settle()
    question = await only_question(chat)
    desk = Desk(w.core)

    with pytest.raises(UnknownQuestion):
        await desk.decide("call_never", verb, by=BEN, chat_id=chat.id)
    with pytest.raises(UnknownQuestion):
        await desk.decide(question.id, verb, by=BEN, chat_id=other.id)
    await w.settle()

    assert await other.question(question.id) is None
    assert await chat.question("call_never") is None
    assert effects == []
    assert (await only_question(chat)).id == question.id
    assert (await only_question(other)).id != question.id


@pytest.mark.row("A24")
async def test_calls_over_the_cap_get_an_error_result_and_ask_nobody(sqlite_db: Database) -> None:
    sixty = [call("refund", order=f"A{number}") for number in range(60)]
    w = world(sqlite_db, sixty, tools=[effect([])])
    chat = await w.chat()

    await w.settle()

    rows = await chat.calls()
    assert [row.state for row in rows] == [CallState.WAITING] * 50 + [CallState.FAILED] * 10
    asked = {one.id for one in await chat.pending_questions()}
    assert asked == {row.id for row in rows[:50]}
    assert all("only 50 calls" in row.result for row in rows[50:])


@pytest.mark.row("B25")
@pytest.mark.row("B23")
@pytest.mark.row("B27")
async def test_equal_calls_of_one_turn_have_a_question_each_and_can_be_answered_together(
    db: Database,
) -> None:
    effects: list[str] = []
    w = world(db, [call("refund")] * 4, "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()

    pending = await chat.pending_questions()
    assert len({one.id for one in pending}) == len({one.nonce for one in pending}) == 4
    assert len(w.surface.cards()) == 4
    for question in pending:
        await question.approve(by=BEN)
    await w.settle()

    assert effects == ["refund A1"] * 4
    assert len(await returned(chat)) == 4


@pytest.mark.row("B18")
async def test_the_arguments_that_were_approved_run_whatever_the_model_would_say_now(
    db: Database,
) -> None:
    effects: list[str] = []
    orders = iter(["A1", "A666", "A666"])
    w = world(
        db, lambda _history: call("refund", order=next(orders)), "Done.", tools=[effect(effects)]
    )
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN)

    w = await w.restart()
    await w.settle()

    assert effects == ["refund A1"]


@pytest.mark.row("B72")
@pytest.mark.row("B71")
async def test_a_call_that_is_tried_again_after_a_no_does_not_run_by_itself(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), call("refund"), tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).decline(by=BEN)
    await w.settle()

    assert effects == []
    states = [row.state for row in await chat.calls()]
    assert states[0] == CallState.DECLINED
    assert CallState.DONE not in states


async def test_an_approval_lets_its_own_call_run_and_not_the_next_like_it(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), call("refund"), tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).approve(by=BEN)
    await w.settle()

    assert effects == ["refund A1"]
    assert (await only_question(chat)).tool == "refund"


@pytest.mark.row("B35")
async def test_a_hundred_approvals_of_one_turn_each_cost_one_write(sqlite_db: Database) -> None:
    effects: list[str] = []
    hundred = [call("refund", order=f"A{number}") for number in range(100)]
    w = world(sqlite_db, hundred, "Done.", tools=[effect(effects)], calls=100)
    chat = await w.chat()
    await chat.complete()
    pending = await chat.pending_questions()
    commits: list[str] = []
    sqlite_db.points = commits.append

    for question in pending:
        await question.approve(by=BEN)
    assert commits.count("after decide") == len(commits) / 2 == 100
    await chat.complete()

    assert len(effects) == len(set(effects)) == 100
    async with sqlite_db.read() as tx:
        assert len(await calls.in_state(tx, chat.id, [CallState.DONE])) == 100
