"""Approving with other arguments by the form of a surface: who may, what is judged, who is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bot.approvers import ANYONE, Policy
from bot.card import ARGUMENTS_BUDGET, PAGES_BUDGET, Card
from bot.chat import Chat
from bot.field import Field
from bot.mcp.tools import McpTool
from bot.question import Question, Verb
from bot.rules import Comparison, Condition
from bot.surface import Actor, Command, Decision, Form, Place, Response
from bot.tool import Call, Done, Outcome, Tool, tool
from storage import rules
from storage.database import Database
from storage.rules import RuleRow
from tests.fakes.model import call
from tests.unit.test_mcp_tools import made
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, returned, world

ORGANISATION = Place("slack", "T1", "", "")
LARGE = Policy(
    name="large",
    when=(Condition("amount", Comparison.RANGE, [500, None]),),
    approvers=frozenset({CYN.key}),
)
SMALL = Policy(name="small", approvers=frozenset({BEN.key}))
SECRET = "ghp_" + "a1B2" * 10


def paying(paid: list[Any], approval: Any = "always") -> Tool:
    @tool(name="pay", approval=approval)
    async def pay(to: str, amount: int = 5, note: str | None = None, more: Any = None) -> str:
        """Pays."""
        paid.append((to, amount, note, more))
        return f"paid {amount} to {to}"

    return pay


async def asked(
    db: Database, *tools: Tool, policies: list[Policy] | None = None, **args: Any
) -> tuple[World, Chat]:
    """A call of the first tool that waits for its approval."""
    w = world(db, call(tools[0].name, **args), "I see.", tools=tools, policies=policies)
    chat = await w.chat()
    await w.settle()
    return w, chat


async def opened(w: World, chat: Chat, by: Actor = BEN) -> Form:
    return await w.service.editing((await only_question(chat)).nonce, by, place=ORGANISATION)


async def sends(w: World, question: Question, by: Actor = BEN, **entered: Any) -> Response:
    """Sends the form as it was opened, but for what is entered."""
    form = await w.service.editing(question.nonce, BEN, place=ORGANISATION)
    shown = {
        one.name: list(one.default) if isinstance(one.default, tuple) else one.default
        for one in form.fields
    }
    return await w.service.decide(decision(question, shown | entered, by))


def decision(question: Question, edited: Mapping[str, Any], by: Actor = BEN) -> Decision:
    return Decision(
        nonce=question.nonce,
        verb=Verb.APPROVE,
        actor=by,
        via="slack modal",
        place=ORGANISATION,
        edited=edited,
    )


def card(w: World) -> Card:
    return w.surface.cards()[-1]


# Who gets the form


async def test_the_form_holds_the_arguments_for_who_may_approve(sqlite_db: Database) -> None:
    w, chat = await asked(sqlite_db, paying([]), to="ann", amount=100)

    form = await opened(w, chat)

    assert {one.name: one.default for one in form.fields} == {
        "to": "ann",
        "amount": 100,
        "note": None,
        "more": None,
    }
    assert form.card is not None
    assert card(w).editable


@pytest.mark.parametrize("by", [ANA, CYN, replace(BEN, is_bot=True)])
async def test_who_may_not_approve_gets_no_form_and_sends_none(
    sqlite_db: Database, by: Actor
) -> None:
    paid: list[Any] = []
    w, chat = await asked(sqlite_db, paying(paid), to="ann", amount=100)
    question = await only_question(chat)

    form = await opened(w, chat, by)
    told = await sends(w, question, by, amount="much")
    await w.settle()

    assert (form.card, form.fields) == (None, ())
    assert form.refusal
    assert not told.done
    assert told.errors == {}  # nothing of what they sent was looked at
    assert paid == []
    assert (await audited(chat, "refused"))[-1].actor == by.key


async def test_a_form_of_another_organisation_is_unknown(sqlite_db: Database) -> None:
    w, chat = await asked(sqlite_db, paying([]), to="ann")
    question = await only_question(chat)
    elsewhere = Place("slack", "T2", "", "")

    form = await w.service.editing(question.nonce, BEN, place=elsewhere)
    told = await w.service.decide(replace(decision(question, {"to": "eve"}), place=elsewhere))

    assert "no such question" in form.refusal
    assert "no such question" in told.sentence


@pytest.mark.parametrize(
    ("change", "words"),
    [("removed", "not loaded here"), ("described otherwise", "was changed since")],
)
async def test_a_tool_that_is_not_as_it_was_cannot_be_called_with_other_arguments(
    sqlite_db: Database, change: str, words: str
) -> None:
    w, chat = await asked(sqlite_db, paying([]), to="ann")
    tools = [] if change == "removed" else [replace(paying([]), description="Pays twice.")]
    w = await w.restart(tools=tools)
    chat = w.here(chat)

    form = await opened(w, chat)
    told = await sends(w, await only_question(chat), to="eve")

    assert words in form.refusal
    assert words in told.sentence
    assert (await only_question(chat)).arguments["to"] == "ann"


async def test_what_several_must_approve_none_can_change(sqlite_db: Database) -> None:
    paid: list[Any] = []
    two = Policy(name="two", approvers=frozenset({BEN.key, CYN.key}), quorum=2)
    w, chat = await asked(sqlite_db, paying(paid), policies=[two], to="ann")

    assert not card(w).editable
    assert "2 people must approve pay" in (await opened(w, chat)).refusal
    told = await w.service.decide(decision(await only_question(chat), {"to": "eve"}))
    await w.settle()

    assert "2 people must approve pay" in told.sentence
    assert paid == []


@pytest.mark.row("B46")
async def test_what_is_in_a_file_cannot_be_changed(sqlite_db: Database) -> None:
    w, chat = await asked(sqlite_db, paying([]), to="x" * (PAGES_BUDGET + 1))
    assert not card(w).editable
    assert "too long to be changed here" in (await opened(w, chat)).refusal


async def test_a_question_of_the_tool_shows_no_arguments_to_change(sqlite_db: Database) -> None:
    @tool(approval="never")
    async def pay(call: Call, to: str) -> str:
        """Pays."""
        return str(await call.ask("Sure?", Field("sure")))

    w, chat = await asked(sqlite_db, pay, to="ann")
    form = await opened(w, chat, ANA)
    told = await w.service.decide(decision(await only_question(chat), {"to": "eve"}, ANA))

    assert (form.card, form.refusal) == (None, "This is no approval of pay.")
    assert not told.done


async def test_a_call_without_arguments_has_nothing_to_change(sqlite_db: Database) -> None:
    @tool
    async def reboot() -> str:
        """Reboots."""
        return "ok"

    w, chat = await asked(sqlite_db, reboot)
    assert not card(w).editable
    assert "no arguments that can be changed" in (await opened(w, chat)).refusal


# What runs, and who is told


@pytest.mark.row("D23")
@pytest.mark.row("B55")
async def test_what_was_put_in_runs_and_everybody_is_told_of_the_difference(db: Database) -> None:
    paid: list[Any] = []
    w, chat = await asked(db, paying(paid), to="ann", amount=100, more={"a": {"b": 1}})

    question = await only_question(chat)
    told = await sends(w, question, amount="50", note=SECRET, more='{"a": {"b": 2}}')
    await w.settle()

    assert told.done
    assert paid == [("ann", 50, SECRET, {"a": {"b": 2}})]
    assert card(w).outcome.startswith("Approved with changes by ben on ")
    assert "amount: 100 → 50; more.a.b: 1 → 2; note: null → " in card(w).outcome
    line, *_ = w.surface.replies()
    assert line.startswith("`ben` approved `pay` with changes:\n- `amount`: `100` → `50`\n")
    (decided,) = await audited(chat, "decided")
    assert decided.detail["edited"] is True
    assert decided.detail["changes"][0] == {"argument": "amount", "before": "100", "after": "50"}
    (row,) = await chat.calls()
    assert decided.detail["digest"] == row.digest  # of what runs
    assert row.edited["from"]["amount"] == 100
    command = Command(name="task", argument=row.id, actor=CYN, place=Place("slack", "T1", "C1", ""))
    detail = await w.service.command(command)
    assert "- changed by `ben` before approving:\n  - `amount`: `100` → `50`\n" in detail
    (model,) = await returned(chat)
    assert model.startswith("[ben changed the arguments before approving (amount: 100 → 50; ")
    everything = [card(w).outcome, line, str(decided.detail), detail]
    assert not [text for text in everything if SECRET in text]


@pytest.mark.row("B55")
async def test_the_call_as_the_model_gave_it_asks_again_after_an_edit(sqlite_db: Database) -> None:
    paid: list[Any] = []
    same = call("pay", to="ann", amount=100)
    w = world(sqlite_db, same, same, tools=[paying(paid)])
    chat = await w.chat()
    await w.settle()

    await sends(w, await only_question(chat), amount="50")
    await w.settle()

    assert [one[1] for one in paid] == [50]
    assert (await only_question(chat)).arguments["amount"] == 100


async def test_an_approval_with_changes_counts_once(sqlite_db: Database) -> None:
    paid: list[Any] = []
    both = Policy(name="both", approvers=frozenset({BEN.key, CYN.key}))
    w, chat = await asked(sqlite_db, paying(paid), policies=[both], to="ann", amount=100)
    question = await only_question(chat)

    first = await sends(w, question, amount="50")
    again = await w.service.decide(decision(question, {"to": "eve", "amount": "1"}, CYN))
    await w.settle()

    assert (first.done, again.done) == (True, False)
    assert "settled before" in again.sentence
    assert [one[:2] for one in paid] == [("ann", 50)]


async def test_a_form_that_changes_nothing_is_an_approval_as_any_other(
    sqlite_db: Database,
) -> None:
    paid: list[Any] = []
    w, chat = await asked(sqlite_db, paying(paid), to=" ann\n", amount=100)

    told = await sends(w, await only_question(chat), to="ann")
    await w.settle()

    assert told.done
    assert paid == [(" ann\n", 100, None, None)]
    assert card(w).outcome.startswith("Approved by ben on ")
    assert w.surface.replies() == ["I see."]
    (row,) = await chat.calls()
    assert row.edited is None
    (decided,) = await audited(chat, "decided")
    assert (decided.detail["edited"], decided.detail["changes"]) == (False, None)


async def test_the_same_arguments_from_a_program_count_toward_a_quorum_and_do_not_pass_it(
    sqlite_db: Database,
) -> None:
    paid: list[Any] = []
    two = Policy(name="two", approvers=frozenset({BEN.key, CYN.key}), quorum=2)
    w, chat = await asked(sqlite_db, paying(paid), policies=[two], to="ann", amount=5)

    await (await only_question(chat)).approve(by=BEN, arguments={"to": "ann"})
    await w.settle()
    assert paid == []
    await (await only_question(chat)).approve(by=CYN)
    await w.settle()
    assert [one[0] for one in paid] == ["ann"]


async def test_what_is_left_empty_gets_its_default(sqlite_db: Database) -> None:
    paid: list[Any] = []
    w, chat = await asked(sqlite_db, paying(paid), to="ann", amount=100, note="hi", more=[1])
    await sends(w, await only_question(chat), amount=None, note="", more=None)
    await w.settle()
    assert paid == [("ann", 5, None, None)]


async def test_only_the_arguments_can_be_changed_and_none_that_the_tool_does_not_name(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    w, chat = await asked(sqlite_db, effect(effects), effect(effects, "cancel"), order="A1")
    question = await only_question(chat)

    told = await sends(w, question, order="A2", name="cancel", tool="cancel", server="srv", x=1)
    await w.settle()

    assert told.done
    assert effects == ["refund A2"]


async def test_a_second_edit_keeps_what_the_model_asked_for(sqlite_db: Database) -> None:
    paid: list[Any] = []
    w, chat = await asked(sqlite_db, paying(paid), to="ann", amount=100)
    await sends(w, await only_question(chat), amount="50")
    w = await w.restart(policies=[Policy(name="strict", approvers=frozenset({CYN.key}))])
    chat = w.here(chat)
    await w.settle()

    question = await only_question(chat)
    assert question.arguments["amount"] == 50  # asked again, with what would run
    await w.service.decide(decision(question, {"to": "bob", "amount": "50"}, CYN))
    await w.settle()

    assert [one[:2] for one in paid] == [("bob", 50)]
    assert (
        'ben and cyn changed the arguments before approving (amount: 100 → 50; to: "ann"'
        in (await returned(chat))[0]
    )


# What is judged


@pytest.mark.parametrize(
    ("entered", "errors"),
    [
        ({"amount": "much"}, {"amount": "amount must be a whole number."}),
        ({"to": ""}, {"to": "to needs an answer."}),
        ({"more": "{"}, {"more": "more is not JSON: "}),
        ({"note": "a\u200bb"}, {"note": "note has characters that cannot be seen"}),
    ],
)
async def test_what_the_form_refuses_is_told_at_its_field_and_nothing_is_decided(
    sqlite_db: Database, entered: dict[str, Any], errors: dict[str, str]
) -> None:
    paid: list[Any] = []
    w, chat = await asked(sqlite_db, paying(paid), to="ann", amount=100)

    told = await sends(w, await only_question(chat), **entered)
    await w.settle()

    assert not told.done
    assert told.errors.keys() == errors.keys()
    assert all(told.errors[name].startswith(text) for name, text in errors.items())
    assert paid == []
    assert (await only_question(chat)).arguments["amount"] == 100


async def test_what_the_tool_refuses_is_told_at_its_field_without_secrets(
    sqlite_db: Database,
) -> None:
    @tool
    async def scale(replicas: list[int], service: str) -> str:
        """Scales."""
        return "ok"

    w, chat = await asked(sqlite_db, scale, replicas=[1], service="web")
    told = await sends(w, await only_question(chat), replicas='["two", 3.5]')
    assert not told.done
    assert told.errors.keys() == {"replicas"}
    assert "replicas.0: Input should be a valid integer" in told.errors["replicas"]
    assert "replicas.1: " in told.errors["replicas"]


@pytest.mark.row("B45")
async def test_an_edit_into_what_somebody_else_has_to_approve_is_refused(
    sqlite_db: Database,
) -> None:
    paid: list[Any] = []
    w, chat = await asked(sqlite_db, paying(paid), policies=[LARGE, SMALL], to="ann", amount=100)

    told = await sends(w, await only_question(chat), amount="500")
    await w.settle()

    assert "You are not among the approvers of pay (policy large)" in told.sentence
    assert paid == []
    assert (await only_question(chat)).arguments["amount"] == 100


async def test_an_edit_into_what_several_have_to_approve_is_refused(sqlite_db: Database) -> None:
    paid: list[Any] = []
    large = replace(LARGE, approvers=frozenset({BEN.key, CYN.key}), quorum=2)
    w, chat = await asked(sqlite_db, paying(paid), policies=[large, SMALL], to="ann", amount=100)

    told = await sends(w, await only_question(chat), amount="500")
    await w.settle()

    assert "2 people must approve these arguments of pay" in told.sentence
    assert paid == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"amount": "900"}, "denied by a standing rule of Cyn"), ({"amount": "50"}, "Approved")],
)
async def test_an_edit_into_what_a_rule_denies_is_refused_at_the_click(
    sqlite_db: Database, arguments: dict[str, Any], words: str
) -> None:
    paid: list[Any] = []
    w, chat = await asked(sqlite_db, paying(paid), to="ann", amount=100)
    rule = RuleRow(
        id="rule_1",
        effect="deny",
        scope="organisation",
        scope_key="slack:T1",
        server="",
        tool="pay",
        schema_digest="",
        conditions=[Condition("amount", Comparison.RANGE, [500, None]).to_json()],
        created_by=CYN.key,
        created_name="Cyn",
        created_at=w.core.now(),
    )
    async with w.core.db.transaction("make_rule") as tx:
        await rules.add(tx, rule)

    told = await sends(w, await only_question(chat), **arguments)
    assert words in told.sentence
    assert len(await chat.pending_questions()) == (0 if told.done else 1)
    await w.settle()
    assert [one[1] for one in paid] == ([50] if told.done else [])


@pytest.mark.row("B45")
async def test_an_edit_into_what_a_rule_allows_is_for_its_approvers_alone(
    sqlite_db: Database,
) -> None:
    paid: list[Any] = []
    large = replace(LARGE, rule_makers=frozenset({CYN.key}))
    pay = paying(paid)
    w, chat = await asked(sqlite_db, pay, policies=[large, SMALL], to="ann", amount=100)
    rule = RuleRow(
        id="rule_1",
        effect="allow",
        scope="organisation",
        scope_key="slack:T1",
        server="",
        tool="pay",
        schema_digest=pay.schema_digest,
        conditions=[],
        created_by=CYN.key,
        created_name="Cyn",
        created_at=w.core.now(),
        uses_left=1,
    )
    async with w.core.db.transaction("make_rule") as tx:
        await rules.add(tx, rule)

    # Nothing would count its use: by edits it would let run as much as anybody likes.
    told = await sends(w, await only_question(chat), amount="900")
    await w.settle()

    assert "You are not among the approvers of pay (policy large)" in told.sentence
    assert paid == []


async def test_an_edit_into_what_the_tool_itself_denies_is_refused(sqlite_db: Database) -> None:
    paid: list[Any] = []
    guarded = paying(paid, approval=lambda args: None if args.amount < 500 else False)
    w, chat = await asked(sqlite_db, guarded, to="ann", amount=100)
    told = await sends(w, await only_question(chat), amount="500")
    await w.settle()
    assert told.sentence == "The call to pay was denied by its approval rule."
    assert paid == []


@pytest.mark.row("B46")
async def test_an_edit_into_more_than_anybody_can_read_is_refused(sqlite_db: Database) -> None:
    paid: list[Any] = []
    w, chat = await asked(sqlite_db, paying(paid), to="ann", amount=100)
    question = await only_question(chat)

    told = await sends(w, question, to="x" * (PAGES_BUDGET + 1))
    assert "too long for anybody to read here" in told.sentence
    assert (await sends(w, question, to="x" * (ARGUMENTS_BUDGET + 1))).done
    await w.settle()
    assert [len(one[0]) for one in paid] == [ARGUMENTS_BUDGET + 1]


async def test_only_an_approval_takes_the_form(sqlite_db: Database) -> None:
    w, chat = await asked(sqlite_db, paying([]), to="ann")
    question = await only_question(chat)
    told = await w.service.decide(replace(decision(question, {"to": "bob"}), verb=Verb.DECLINE))
    assert told.sentence == "Only an approval can change the arguments."
    assert (await only_question(chat)).id == question.id


async def test_anyone_who_may_approve_may_change(sqlite_db: Database) -> None:
    paid: list[Any] = []
    anyone = Policy(name="anyone", approvers=frozenset({ANYONE}))
    w, chat = await asked(sqlite_db, paying(paid), policies=[anyone], to="ann", amount=100)
    question = await only_question(chat)
    assert not (await w.service.decide(decision(question, {"to": "ana"}, ANA))).done
    assert (await sends(w, question, CYN, to="cyn")).done
    await w.settle()
    assert [one[0] for one in paid] == ["cyn"]


# Tools of servers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recording(McpTool):
    """A tool of a server that keeps what it would have sent."""

    sent: list[Any]

    async def run(self, args: Mapping[str, Any], call: Call) -> Outcome:
        self.sent.append(dict(args))
        return Done("deployed")


async def test_a_tool_of_a_server_is_called_with_what_was_put_in_and_what_is_fixed(
    sqlite_db: Database,
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "env": {"type": "string"},
            "version": {"type": "string", "minLength": 2},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        },
        "required": ["version"],
    }
    plain = made(schema, fixed={"deploy": {"env": "staging"}})
    values = {one.name: getattr(plain, one.name) for one in dataclasses.fields(plain)}
    sent: list[Any] = []
    deploy = Recording(**values, sent=sent)
    w, chat = await asked(sqlite_db, deploy, version="v1", tags=["a"])
    question = await only_question(chat)

    form = await opened(w, chat)
    assert {one.name for one in form.fields} == {"version", "tags"}
    refused = await sends(w, question, version="v")
    assert refused.errors == {"version": "version must be at least 2 characters long."}
    assert (await sends(w, question, version="v2", tags=["a", "b"], env="production")).done
    await w.settle()

    assert sent == [{"env": "staging", "version": "v2", "tags": ["a", "b"]}]
