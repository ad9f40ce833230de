"""Who may decide: one authoriser, asked at every entry, and nobody where nobody is configured."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bot.approvers import Policy
from bot.chat import Chat
from bot.core import Job
from bot.desk import Desk
from bot.field import Field
from bot.question import NotAllowed, Question, QuestionError, UnknownQuestion, Verb
from bot.remember import THREAD, Remember
from bot.surface import Actor, Decision, Place
from bot.tool import Call, Tool, tool
from storage import chats, outbox
from storage.database import Database
from storage.rules import Scope
from tests.fakes.model import call
from tests.world import (
    ANA,
    BEN,
    BEN_APPROVES,
    CYN,
    World,
    audited,
    effect,
    only_question,
    returned,
    until,
    world,
)

BOT = replace(BEN, is_bot=True)


async def pending(
    db: Database, effects: list[str], *, by: Actor = ANA, policies: list[Policy] | None = None
) -> tuple[World, Chat, Question]:
    w = world(db, call("refund"), "I see.", tools=[effect(effects)], policies=policies)
    chat = await w.chat(by=by)
    await w.settle()
    return w, chat, await only_question(chat)


async def place_of(chat: Chat) -> Place:
    async with chat.core.db.read() as tx:
        row = await chats.get(tx, chat.id)
    assert row is not None
    return row.place


@pytest.mark.row("B1")
async def test_the_click_of_a_non_approver_changes_nothing_is_refused_privately_and_audited(
    db: Database,
) -> None:
    effects: list[str] = []
    w, chat, question = await pending(db, effects)
    shown = dict(w.surface.shown)

    response = await w.service.decide(
        Decision(
            nonce=question.nonce,
            verb=Verb.APPROVE,
            actor=CYN,
            via="button",
            place=await place_of(chat),
        )
    )
    await w.settle()

    assert not response.done
    assert response.sentence == (
        "You are not among the approvers of refund (policy ops); nothing was decided."
    )
    assert effects == []
    assert await chat.pending_questions() == [question]
    assert w.surface.shown == shown
    (refused,) = await audited(chat, "refused")
    assert (refused.actor, refused.via, refused.question_id) == (CYN.key, "button", question.id)
    assert refused.detail == {"verb": "approve", "why": response.sentence}
    assert await audited(chat, "decided") == []


async def _service(w: World, chat: Chat, question: Question, verb: Verb, by: Actor) -> str:
    response = await w.service.decide(
        Decision(nonce=question.nonce, verb=verb, actor=by, via="button")
    )
    assert not response.done
    return response.sentence


async def _look(w: World, chat: Chat, question: Question, verb: Verb, by: Actor) -> str:
    looked = await w.service.look(question.nonce, verb, by)
    assert looked.card is None
    return looked.refusal


async def _desk(w: World, chat: Chat, question: Question, verb: Verb, by: Actor) -> str:
    return await _refused(Desk(w.core).decide(question.id, verb, by=by))


async def _object(w: World, chat: Chat, question: Question, verb: Verb, by: Actor) -> str:
    return await _refused(getattr(question, verb.value)(by=by))


async def _refused(deciding: Awaitable[Any]) -> str:
    with pytest.raises(NotAllowed) as refused:
        await deciding
    return str(refused.value)


ENTRIES = [_service, _look, _desk, _object]


@pytest.mark.row("B2")
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("verb", list(Verb))
async def test_every_entry_and_every_verb_refuses_the_same_person(
    sqlite_db: Database, entry: Callable[..., Awaitable[str]], verb: Verb
) -> None:
    effects: list[str] = []
    w, chat, question = await pending(sqlite_db, effects)

    said = await entry(w, chat, question, verb, CYN)

    assert said.startswith("You are not among the approvers of refund")
    assert await chat.pending_questions() == [question]


async def test_what_comes_with_an_approval_does_not_help_a_non_approver(db: Database) -> None:
    effects: list[str] = []
    _, chat, question = await pending(db, effects)

    for more in ({"remember": THREAD}, {"arguments": {"order": "A2"}}):
        with pytest.raises(NotAllowed):
            await question.approve(by=CYN, **more)

    assert await chat.pending_questions() == [question]


@pytest.mark.row("B3")
async def test_the_approver_of_one_tool_cannot_approve_another(db: Database) -> None:
    effects: list[str] = []
    policies = [
        Policy(name="deploys", tools=("deploy_*",), approvers=frozenset({CYN.key})),
        BEN_APPROVES,
    ]
    tools = [effect(effects, "deploy_api"), effect(effects)]
    w = world(db, [call("deploy_api"), call("refund")], tools=tools, policies=policies)
    chat = await w.chat()
    await w.settle()
    by_tool = {one.tool: one for one in await chat.pending_questions()}

    with pytest.raises(NotAllowed, match="policy ops"):
        await by_tool["refund"].approve(by=CYN)
    with pytest.raises(NotAllowed, match="policy deploys"):
        await by_tool["deploy_api"].approve(by=BEN)
    await by_tool["refund"].approve(by=BEN)
    await by_tool["deploy_api"].approve(by=CYN)
    await w.settle()

    assert sorted(effects) == ["deploy_api A1", "refund A1"]


@pytest.mark.row("B4")
def test_nothing_is_decided_without_saying_who_decides() -> None:
    for entry in (Desk.decide, Desk.look, *(getattr(Question, verb.value) for verb in Verb)):
        by = inspect.signature(entry).parameters["by"]
        assert by.kind is by.KEYWORD_ONLY
        assert by.default is by.empty


@pytest.mark.row("B5")
@pytest.mark.row("B7")
@pytest.mark.parametrize("policies", [[], [Policy(name="empty")]], ids=["no policy", "nobody"])
async def test_a_call_that_nobody_may_approve_is_refused_when_it_is_made(
    sqlite_db: Database, policies: list[Policy]
) -> None:
    effects: list[str] = []
    w = world(sqlite_db, call("refund"), "I see.", tools=[effect(effects)], policies=policies)
    chat = await w.chat()

    await w.settle()

    assert effects == []
    assert w.surface.cards() == []
    assert await returned(chat) == [
        "Nobody can approve refund: no policy names an approver for it."
    ]
    assert await chat.last_reply() == "I see."
    assert len(await audited(chat, "not_run")) == 1


@pytest.mark.row("B6")
async def test_who_asked_the_agent_cannot_approve_it_from_wherever_they_try(
    db: Database,
) -> None:
    effects: list[str] = []
    both = Policy(name="ops", approvers=frozenset({ANA.key, BEN.key}))
    w, chat, question = await pending(db, effects, policies=[both])
    private = Place("slack", "T1", "D-ANA", "D-ANA")
    async with db.transaction("test_copy") as tx:
        await outbox.post(
            tx,
            private,
            nonce="copy",
            subject=outbox.question_subject(question.id),
            chat_id=chat.id,
            now=w.clock.now(),
        )
        await w.core.wake(tx, Job.DELIVER, private.channel_key)
    await w.settle()
    tries = [
        (ANA, await place_of(chat)),
        (ANA, private),
        (Actor("teams", "T1", "ANA", "ana"), await place_of(chat)),
    ]

    for who, place in tries:
        response = await w.service.decide(
            Decision(nonce=question.nonce, verb=Verb.APPROVE, actor=who, via="x", place=place)
        )
        assert not response.done
    await w.settle()

    assert len(await audited(chat, "refused")) == 3
    assert effects == []
    await question.approve(by=BEN)
    await w.settle()
    assert effects == ["refund A1"]


async def test_who_asked_may_approve_where_the_policy_says_so(db: Database) -> None:
    effects: list[str] = []
    trusting = Policy(name="ops", approvers=frozenset({ANA.key}), self_approval=True)
    w, _, question = await pending(db, effects, policies=[trusting])

    await question.approve(by=ANA)
    await w.settle()

    assert effects == ["refund A1"]


async def test_self_approval_is_for_approvers_only(db: Database) -> None:
    effects: list[str] = []
    trusting = Policy(name="ops", approvers=frozenset({BEN.key}), self_approval=True)
    _, chat, question = await pending(db, effects, policies=[trusting])

    with pytest.raises(NotAllowed):
        await question.approve(by=ANA)

    assert await chat.pending_questions() == [question]


@pytest.mark.row("B8")
async def test_a_call_whose_only_approver_asked_for_it_is_refused_with_the_reason(
    db: Database,
) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "I see.", tools=[effect(effects)])
    chat = await w.chat(by=BEN)

    await w.settle()

    assert effects == []
    assert w.surface.cards() == []
    assert await returned(chat) == [
        "Nobody can approve refund here: its only approver is the person who asked, "
        "and the policy ops does not allow self-approval."
    ]


@pytest.mark.parametrize("verb", list(Verb))
async def test_a_bot_decides_nothing_even_where_its_key_is_an_approvers(
    sqlite_db: Database, verb: Verb
) -> None:
    effects: list[str] = []
    w, chat, question = await pending(sqlite_db, effects)

    said = await _service(w, chat, question, verb, BOT)

    assert said == "A bot may not decide this; nothing was decided."
    assert await chat.pending_questions() == [question]


@pytest.mark.parametrize("flag", ["is_guest", "is_external"])
async def test_a_guest_or_somebody_from_outside_decides_only_where_a_policy_names_them(
    db: Database, flag: str
) -> None:
    effects: list[str] = []
    stranger = replace(CYN, **{flag: True})  # type: ignore[arg-type]
    w, chat, question = await pending(db, effects)
    assert (await _service(w, chat, question, Verb.APPROVE, stranger)).startswith("Guests and")

    named = Policy(name="ops", approvers=frozenset({CYN.key}))
    w, chat, question = await pending(db, effects, policies=[named])
    await question.approve(by=stranger)
    await w.settle()

    assert effects == ["refund A1"]


def seat() -> Tool:
    @tool(approval="never")
    async def seat(c: Call) -> str:
        return f"sits {await c.ask('Where?', Field('seat', choices=['window', 'aisle']))}"

    return seat


async def test_what_a_tool_asks_is_for_who_asked_the_agent_and_for_approvers(
    db: Database,
) -> None:
    w = world(db, call("seat"), "Done.", tools=[seat()])
    for by in (ANA, BEN):
        chat = await w.chat()
        await w.settle()
        question = await only_question(chat)
        with pytest.raises(NotAllowed, match="the person who asked the agent, or an approver"):
            await question.answer("aisle", by=CYN)
        with pytest.raises(NotAllowed, match="Guests"):
            await question.answer("aisle", by=replace(ANA, is_guest=True))
        assert (await question.answer("aisle", by=by)).first


async def test_a_lost_run_that_no_other_approver_can_settle_is_for_who_asked(
    db: Database,
) -> None:
    started = asyncio.Event()

    @tool(approval="never")
    async def look() -> None:
        started.set()
        await asyncio.Event().wait()

    w = world(db, call("look"), "I see.", tools=[look])
    chat = await w.chat(by=BEN)
    dead = asyncio.create_task(chat.complete())
    await until(started.is_set)
    w = await w.restart()
    await w.settle()
    question = await only_question(w.here(chat))
    (card,) = w.surface.cards()
    assert card.deciders == (BEN.key,)

    with pytest.raises(NotAllowed):
        await question.answer(outcome="ran", by=CYN)
    await question.answer(outcome="ran", by=BEN)
    await w.settle()

    assert await w.here(chat).last_reply() == "I see."
    assert not dead.done()


@pytest.mark.parametrize("verb", list(Verb))
async def test_a_click_from_another_thread_finds_no_question_and_is_on_record(
    sqlite_db: Database, verb: Verb
) -> None:
    effects: list[str] = []
    w, chat, question = await pending(sqlite_db, effects)
    elsewhere = replace(await place_of(chat), root="elsewhere")

    response = await w.service.decide(
        Decision(nonce=question.nonce, verb=verb, actor=BEN, via="button", place=elsewhere)
    )
    looked = await w.service.look(question.nonce, verb, BEN, place=elsewhere)

    assert not response.done
    assert response.sentence == looked.refusal == str(UnknownQuestion())
    assert await chat.pending_questions() == [question]
    (refused,) = await audited(chat, "refused")
    assert refused.detail["why"] == "another thread"


@pytest.mark.row("B69")
async def test_an_approval_is_remembered_only_where_the_policy_lets_it_and_the_label_says_how(
    db: Database,
) -> None:
    effects: list[str] = []
    w, _, _ = await pending(db, effects)
    label = "Approve, and do not ask again for refund in this thread, until it is revoked"
    assert w.surface.cards()[0].remember == label

    strict = Policy(name="strict", approvers=frozenset({BEN.key}), remember=False)
    w, chat, question = await pending(db, effects, policies=[strict])
    assert w.surface.cards()[0].remember is None
    with pytest.raises(NotAllowed, match="does not let your approvals of refund be remembered"):
        await question.approve(by=BEN, remember=THREAD)
    with pytest.raises(QuestionError):
        await question.approve(by=BEN, remember=Remember(scope=Scope.CHANNEL))

    assert await chat.pending_questions() == [question]


async def test_the_card_names_who_may_decide(db: Database) -> None:
    policy = Policy(name="ops", approvers=frozenset({ANA.key, BEN.key, CYN.key}))
    w, _, _ = await pending(db, [], policies=[policy])

    assert w.surface.cards()[0].deciders == (BEN.key, CYN.key)  # not the one who asked


@pytest.mark.row("B45")
async def test_a_remembered_approval_ends_when_its_giver_is_no_approver_any_more(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    again = call("refund", order="A2")
    w = world(sqlite_db, call("refund"), "Done.", again, tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN, remember=THREAD)
    await w.settle()

    strict = Policy(name="strict", approvers=frozenset({CYN.key}), remember=False)
    w = await w.restart(policies=[strict])
    await w.here(chat).say("again", by=ANA)
    await w.settle()

    assert effects == ["refund A1"]


@pytest.mark.row("B6")
async def test_an_approver_who_asks_in_somebody_elses_thread_does_not_approve_it(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    both = Policy(name="ops", approvers=frozenset({BEN.key, CYN.key}))
    w = world(sqlite_db, "Hello.", call("refund"), tools=[effect(effects)], policies=[both])
    chat = await w.chat(by=ANA)
    await w.settle()
    await chat.say("refund it now", by=BEN)
    await w.settle()
    question = await only_question(chat)
    assert w.surface.cards()[0].deciders == (CYN.key,)
    with pytest.raises(NotAllowed, match="You asked the agent for this"):
        await question.approve(by=BEN)
    await question.approve(by=CYN)
    await w.settle()
    assert effects == ["refund A1"]


async def test_what_a_tool_asks_is_for_whoever_asked_for_the_call(sqlite_db: Database) -> None:
    @tool(name="ask", approval="never")
    async def asking(c: Call) -> str:
        """Asks."""
        return str(await c.ask("Which?", Field("which")))

    w = world(sqlite_db, "Hello.", call("ask"), "Done.", tools=[asking])
    chat = await w.chat(by=ANA)
    await w.settle()
    await chat.say("ask me", by=CYN)
    await w.settle()
    await (await only_question(chat)).answer("mine", by=CYN)
    await w.settle()
    assert await chat.last_reply() == "Done."
