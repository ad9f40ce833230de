"""An approval that stands for later calls: who may choose what, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bot.approvers import REQUESTER, Policy
from bot.chat import Chat
from bot.question import NotAllowed, Question, QuestionError
from bot.remember import Remember, What
from bot.surface import Actor, Decision, Form, Place, Response, Verb
from bot.tool import Tool, tool
from storage import rules, scope
from storage.database import Database
from storage.rules import RuleRow, Scope
from storage.scope import EVERYTHING
from tests.fakes.model import call
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, world

BEN_MAKES = Policy(name="ops", approvers=frozenset({BEN.key}), rule_makers=frozenset({BEN.key}))
BEN_APPROVES = Policy(name="ops", approvers=frozenset({BEN.key, CYN.key}))
WHOLE = {"what": "tool", "where": "chat", "until": "1 day"}


async def asked(
    db: Database, *more: Any, policy: Policy = BEN_MAKES, tools: list[Tool] | None = None
) -> tuple[World, Chat, Question]:
    steps = more or (call("refund", order="A1"),)
    w = world(db, *steps, tools=tools or [effect([])], policies=[policy])
    chat = await w.chat()
    await w.settle()
    return w, chat, (await chat.pending_questions())[0]


async def form(w: World, question: Question, by: Actor = BEN) -> Form:
    return await w.service.remembering(question.nonce, by)


def choices(form: Form, name: str) -> list[str]:
    (field,) = [one for one in form.fields if one.name == name]
    return [str(one.value) for one in field.choices]


async def decide(
    w: World, question: Question, by: Actor = BEN, verb: Verb = Verb.APPROVE, **rule: Any
) -> Response:
    event = Decision(nonce=question.nonce, verb=verb, actor=by, via="test", rule=WHOLE | rule)
    return await w.service.decide(event)


async def look(w: World, question: Question, **rule: Any) -> Response:
    event = Decision(
        nonce=question.nonce, verb=Verb.APPROVE, actor=BEN, via="test", rule=WHOLE | rule
    )
    return await w.service.preview(event)


async def kept(w: World) -> list[RuleRow]:
    async with w.db.read() as tx:
        return [rule for rule, _ in await scope.rules_in_force(tx, EVERYTHING, w.core.now())]


async def test_a_rule_maker_chooses_what_where_and_until_when(sqlite_db: Database) -> None:
    w, _, question = await asked(sqlite_db)

    found = await form(w, question)

    assert choices(found, "what") == ["exact", "fields", "tool"]
    assert choices(found, "fields") == ["order"]
    assert choices(found, "where") == ["chat", "channel", "organisation", "surface"]
    assert choices(found, "until") == ["1 hour", "1 day", "1 week", "30 days", "until revoked"]
    assert [one.name for one in found.fields][-2:] == ["uses", "requester"]
    (titled,) = [one for one in found.fields if one.name == "fields"]
    assert titled.choices[0].title == "order = A1"


async def test_an_approver_who_makes_no_rules_is_offered_the_thread_alone(
    sqlite_db: Database,
) -> None:
    w, chat, question = await asked(sqlite_db, policy=BEN_APPROVES)

    assert choices(await form(w, question), "where") == ["chat"]
    answer = await decide(w, question, where="channel")
    assert answer.errors["where"] == "Where must be one of: this thread."
    with pytest.raises(NotAllowed, match="for this thread only"):
        await question.approve(by=BEN, remember=Remember(scope=Scope.CHANNEL))
    assert await kept(w) == []
    (refused,) = await audited(chat, "refused")
    assert refused.actor == BEN.key


@pytest.mark.parametrize(
    ("policy", "by", "why"),
    [
        (BEN_MAKES, ANA, "You are not among the approvers"),
        (replace(BEN_APPROVES, remember=False), BEN, "does not let your approvals"),
        (replace(BEN_MAKES, approvers=BEN_APPROVES.approvers, quorum=2), BEN, "2 people must"),
    ],
)
async def test_who_may_not_have_it_remembered_is_told_why(
    sqlite_db: Database, policy: Policy, by: Actor, why: str
) -> None:
    w, chat, question = await asked(sqlite_db, policy=policy)

    found = await form(w, question, by)
    assert (found.card, found.fields) == (None, ())
    assert why in found.refusal
    answer = await decide(w, question, by)
    assert (answer.done, why in answer.sentence) == (False, True)
    assert await kept(w) == []
    assert await chat.pending_questions() == [question]


async def test_a_guest_makes_no_rule_beyond_the_thread(sqlite_db: Database) -> None:
    w, _, question = await asked(sqlite_db)
    guest = replace(BEN, is_guest=True)

    assert choices(await form(w, question, guest), "where") == ["chat"]


@pytest.mark.row("B69")
@pytest.mark.row("B67")
async def test_what_is_chosen_is_kept_told_and_on_record(sqlite_db: Database) -> None:
    w, chat, question = await asked(sqlite_db)

    answer = await decide(
        w, question, what="fields", fields=["order"], where="channel", uses="3", requester=True
    )
    promise = (
        "refund runs without asking when order is “A1”, in this channel, for 1 day, "
        "3 times at most, when ANA asks"
    )
    assert answer.done
    assert answer.sentence.endswith(f": {promise}.")
    await w.settle()
    assert w.surface.cards()[0].outcome.endswith(f": {promise}.")

    (rule,) = await kept(w)
    assert (rule.scope, rule.scope_key, rule.requester) == ("channel", "slack:T1/C1", ANA.key)
    assert (rule.uses_left, rule.expires_at) == (3, rule.created_at + 86_400)
    (made,) = await audited(chat, "rule_made")
    assert (made.actor, made.via) == (BEN.key, "test")
    assert made.detail["conditions"] == [{"argument": "order", "test": "equal", "value": "A1"}]
    assert (made.detail["rule"], made.detail["scope_key"]) == (rule.id, "slack:T1/C1")


@pytest.mark.row("B62")
async def test_an_exact_call_that_differs_in_one_byte_is_asked_about(sqlite_db: Database) -> None:
    effects: list[str] = []
    later = [call("refund", order="A1"), call("refund", order="A1 ")]
    w, chat, question = await asked(
        sqlite_db, call("refund", order="A1"), later, tools=[effect(effects)]
    )

    await decide(w, question, what="exact")
    await w.settle()

    assert effects == ["refund A1", "refund A1"]
    assert (await only_question(chat)).arguments == {"order": "A1 "}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"what": "fields", "fields": []}, "fields"),
        ({"what": "tool", "fields": ["order"]}, "fields"),
        ({"what": "fields", "fields": ["other"]}, "fields"),
        ({"what": "everything"}, "what"),
        ({"where": "world"}, "where"),
        ({"until": "forever"}, "until"),
        ({"uses": "0"}, "uses"),
        ({"uses": "many"}, "uses"),
    ],
)
async def test_what_does_not_fit_is_told_by_field_and_approves_nothing(
    sqlite_db: Database, given: dict[str, Any], field: str
) -> None:
    w, chat, question = await asked(sqlite_db)

    for answer in (await look(w, question, **given), await decide(w, question, **given)):
        assert (answer.done, list(answer.errors)) == (False, [field])
    assert await kept(w) == []
    assert await chat.pending_questions() == [question]


@pytest.mark.row("B65")
async def test_of_a_carrier_only_the_exact_call_can_be_remembered(sqlite_db: Database) -> None:
    ran: list[str] = []

    @tool(carrier=True)
    async def shell(command: str) -> str:
        """Runs a command."""
        ran.append(command)
        return "done"

    again = [call("shell", command="ls"), call("shell", command="rm -r /")]
    w, chat, question = await asked(sqlite_db, call("shell", command="ls"), again, tools=[shell])
    assert w.surface.cards()[0].remember is None
    assert choices(await form(w, question), "what") == ["exact"]
    assert "fields" not in [one.name for one in (await form(w, question)).fields]
    for what in (What.TOOL, What.FIELDS):
        with pytest.raises(NotAllowed, match="only this exact call"):
            await question.approve(by=BEN, remember=Remember(what=what, fields=("command",)))

    await decide(w, question, what="exact")
    await w.settle()

    assert ran == ["ls", "ls"]
    assert (await only_question(chat)).arguments == {"command": "rm -r /"}


@pytest.mark.row("B65")
async def test_of_a_tool_that_is_not_loaded_only_the_exact_call_can_be_remembered(
    sqlite_db: Database,
) -> None:
    @tool(carrier=True)
    async def shell(command: str, host: str) -> str:
        """Runs a command."""
        return "done"

    w, _, question = await asked(
        sqlite_db, call("shell", command="ls", host="web"), tools=[shell], policy=BEN_APPROVES
    )
    w = await w.restart(tools=[])  # nobody can say now whether its arguments say all that it does

    found = await form(w, question)
    answer = await decide(w, question, what="fields", fields=["host"], until="until revoked")

    assert choices(found, "what") == ["exact"]
    assert not answer.done
    assert await kept(w) == []


async def test_nothing_is_remembered_of_a_call_that_is_approved_with_changes(
    sqlite_db: Database,
) -> None:
    w, _, question = await asked(sqlite_db)

    with pytest.raises(QuestionError, match="approved once"):
        await question.approve(by=BEN, remember=Remember(), arguments={"order": "A2"})
    assert await kept(w) == []


async def test_a_tool_that_changed_since_is_not_remembered(sqlite_db: Database) -> None:
    w, _, question = await asked(sqlite_db)

    @tool(name="refund")
    async def other(order: str, amount: int = 1) -> str:
        """Another."""
        return order

    w = await w.restart(tools=[other])
    assert "was changed since" in (await w.service.remembering(question.nonce, BEN)).refusal


async def test_a_preview_promises_and_shows_past_calls_of_its_scope_alone(
    sqlite_db: Database,
) -> None:
    w, chat, question = await asked(sqlite_db)
    secret = "ghp_" + "a1" * 18
    for channel, order in (("C1", "A2"), ("C1", secret), ("C2", "B1")):
        await other_call(w, channel, order)

    here = (await look(w, question, where="chat")).sentence
    channel = (await look(w, question, where="channel")).sentence
    exact = (await look(w, question, what="exact", where="organisation")).sentence
    everywhere = (await look(w, question, where="surface")).sentence

    assert here.startswith("refund runs without asking, in this thread, for 1 day.\n")
    assert "Of the only call there it would have met 1:" in here
    assert "Of the last 3 calls there it would have met 3:" in channel
    assert '{"order":"A2"}' in channel
    assert "B1" not in channel
    assert secret not in channel
    assert "GitHub token hidden" in channel
    assert "Of the last 4 calls there it would have met 1:" in exact
    assert '{"order":"B1"}' in everywhere
    assert await kept(w) == []
    assert await chat.pending_questions() == [question]


async def test_what_a_rule_says_is_short_and_holds_no_secret(sqlite_db: Database) -> None:
    secret, hidden = "ghp_" + "a1" * 18, "a\u202eb"
    w, _, question = await asked(sqlite_db, call("refund", order=f"{secret} {hidden} " + "x" * 999))

    same: dict[str, Any] = {"what": "fields", "fields": ["order"]}
    said = [(await look(w, question, **same)).sentence.splitlines()[0]]
    said.append((await decide(w, question, **same)).sentence)

    for one in said:
        assert "[GitHub token hidden: 40 characters" in one
        assert "a⟨U+202E⟩b" in one
        assert "…, in this thread, for 1 day." in one
        assert len(one) < 600
    (rule,) = await kept(w)
    assert rule.conditions[0]["value"].startswith(secret)  # what is compared is whole


async def other_call(w: World, channel: str, order: str) -> None:
    """A call that was asked for in a thread of another time."""
    other = world(w.db, call("refund", order=order), tools=w.tools, policies=w.policies)
    chat = await Chat.open(
        other.core, Place("slack", "T1", channel, f"{order}.0"), agent="agent", requester=CYN
    )
    await chat.say("please", by=CYN)
    await other.settle()


async def test_the_requester_who_may_approve_may_have_it_remembered_in_the_thread(
    sqlite_db: Database,
) -> None:
    own = Policy(name="own", approvers=frozenset({REQUESTER}))
    w, _, question = await asked(
        sqlite_db, call("refund", order="A1"), call("refund", order="A2"), policy=own
    )

    assert (await decide(w, question, ANA)).done
    await w.settle()
    (rule,) = await kept(w)
    assert rule.uses == 1


async def test_rules_need_no_restart_and_end_by_time(sqlite_db: Database) -> None:
    effects: list[str] = []
    w, chat, question = await asked(
        sqlite_db,
        call("refund", order="A1"),
        "Done.",
        call("refund", order="A2"),
        tools=[effect(effects)],
    )
    await decide(w, question, until="1 hour")
    await w.settle()
    w.clock.advance(3_601)
    await chat.say("again", by=ANA)
    await w.settle()

    assert effects == ["refund A1"]
    assert len(await chat.pending_questions()) == 1
    async with w.db.read() as tx:
        assert len(await rules.made_by(tx, BEN.key)) == 1
