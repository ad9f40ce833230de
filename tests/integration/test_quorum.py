"""Several people who must all approve: each counts once, any no ends it."""

from __future__ import annotations

import asyncio

import pytest

from bot.approvers import Policies, Policy
from bot.card import CardState
from bot.chat import Chat
from bot.question import NotAllowed, Question, Verb
from bot.remember import THREAD
from bot.surface import Actor, Decision, Response
from storage import questions
from storage.database import Database
from storage.questions import QuestionState
from tests.fakes.model import call
from tests.group_world import asks, decide, group_world, states
from tests.integration.test_races import click, other_db, other_process, place_of
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, world

__all__ = ["other_db"]

DAN = Actor("slack", "T1", "DAN", "dan")
TWO = Policy(name="two", approvers=frozenset({BEN.key, CYN.key, DAN.key}), quorum=2)


async def pending(
    db: Database, effects: list[str], policy: Policy = TWO
) -> tuple[World, Chat, Question]:
    w = world(db, call("refund"), "Done.", tools=[effect(effects)], policies=[policy])
    chat = await w.chat()
    await w.settle()
    return w, chat, await only_question(chat)


async def press(w: World, question: Question, by: Actor, verb: Verb = Verb.APPROVE) -> Response:
    event = Decision(nonce=question.nonce, verb=verb, actor=by, via="button")
    answer = await w.service.decide(event)
    await w.settle()
    return answer


@pytest.mark.row("B10")
async def test_the_second_of_two_people_lets_it_run_and_the_card_says_who_approved(
    db: Database,
) -> None:
    effects: list[str] = []
    w, chat, question = await pending(db, effects)
    (card,) = w.surface.cards()
    assert "2 different people must approve this." in card.notices

    first = await press(w, question, BEN)

    assert (first.done, first.sentence) == (True, "Recorded: 1 of 2.")
    assert effects == []
    (card,) = w.surface.cards()
    assert card.open
    assert "1 of 2 approved: ben" in card.notices

    second = await press(w, question, CYN)

    assert second.done
    assert effects == ["refund A1"]
    (card,) = w.surface.cards()
    assert card.outcome.startswith("Approved by ben and cyn on ")
    assert not [one for one in card.notices if "approve" in one]
    assert [one.detail["state"] for one in await audited(chat, "decided")] == ["open", "approved"]


@pytest.mark.row("B10")
async def test_the_same_person_twice_changes_nothing_and_is_told(db: Database) -> None:
    effects: list[str] = []
    w, chat, question = await pending(db, effects)
    await press(w, question, BEN)
    (before,) = w.surface.cards()

    again = await press(w, question, BEN)

    assert not again.done
    assert again.sentence == "You approved this before, and somebody else has to: 1 of 2 so far."
    assert w.surface.cards() == [before]
    assert effects == []
    assert len(await audited(chat, "decided")) == 1


@pytest.mark.row("B10")
@pytest.mark.parametrize("by", [BEN, CYN], ids=["who approved", "another"])
async def test_any_decline_ends_it(db: Database, by: Actor) -> None:
    effects: list[str] = []
    w, _, question = await pending(db, effects)
    await press(w, question, BEN)

    assert (await press(w, question, by, Verb.DECLINE)).done
    late = await press(w, question, DAN)

    assert not late.done
    assert effects == []
    (card,) = w.surface.cards()
    assert card.outcome.startswith(f"Declined by {by.label}")
    async with w.db.read() as tx:
        rows = await questions.decisions_on(tx, question.id)
    assert {row.actor: row.verb for row in rows}[by.key] == "decline"


@pytest.mark.row("B10")
async def test_two_accounts_of_one_person_are_one_person(db: Database) -> None:
    effects: list[str] = []
    twin = Actor("console", "local", "ben", "ben")
    policy = Policy(name="two", approvers=frozenset({BEN.key, CYN.key, DAN.key}), quorum=2)
    w, _, question = await pending(db, effects, policy)
    w.core.policies = Policies([policy], people={BEN.key: "ben", twin.key: "ben"})

    await press(w, question, BEN)
    again = await press(w, question, twin)

    assert again.sentence.startswith("You approved this before")
    assert effects == []


@pytest.mark.row("B10")
async def test_of_two_approvers_at_once_both_count_and_it_runs_once(
    db: Database,
    other_db: Database,
) -> None:
    effects: list[str] = []
    w, chat, question = await pending(db, effects)
    v = other_process(w, other_db)
    place = await place_of(chat)

    answers = await asyncio.gather(
        *(
            one.service.decide(click(place, question.nonce, Verb.APPROVE, by))
            for one, by in ((w, BEN), (v, CYN), (v, BEN), (w, CYN))
        )
    )
    await asyncio.gather(w.settle(), v.settle())

    assert [one.sentence for one in answers].count("Recorded: 1 of 2.") == 1
    assert sum(one.done for one in answers) == 2
    assert effects == ["refund A1"]
    (card,) = w.surface.cards()
    assert "ben" in card.outcome
    assert "cyn" in card.outcome
    settled = await chat.question(question.id)
    assert settled is not None
    assert settled.state is QuestionState.APPROVED


async def test_a_quorum_that_became_stricter_asks_again(db: Database) -> None:
    effects: list[str] = []
    one = Policy(name="one", approvers=TWO.approvers)
    w, chat, question = await pending(db, effects, one)
    await question.approve(by=BEN)

    w = await w.restart(policies=[TWO])
    await w.settle()

    assert effects == []
    again = await only_question(w.here(chat))
    assert again.id != question.id
    await press(w, again, BEN)
    assert effects == []
    await press(w, again, CYN)
    assert effects == ["refund A1"]


async def test_one_of_two_who_may_not_approve_any_more_counts_no_more_when_it_runs(
    db: Database,
) -> None:
    effects: list[str] = []
    w, chat, question = await pending(db, effects)
    await question.approve(by=BEN)
    await question.approve(by=CYN)

    without = Policy(name="two", approvers=frozenset({CYN.key, DAN.key}), quorum=2)
    w = await w.restart(policies=[without])
    await w.settle()

    assert effects == []
    again = await only_question(w.here(chat))
    await press(w, again, CYN)
    await press(w, again, DAN)
    assert effects == ["refund A1"]


async def test_what_two_must_approve_is_not_remembered_on_the_word_of_one(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    w, chat, question = await pending(sqlite_db, effects)
    assert w.surface.cards()[0].remember is None

    for by in (BEN, CYN):
        with pytest.raises(NotAllowed, match="2 people must approve refund"):
            await question.approve(by=by, remember=THREAD)

    assert await chat.pending_questions() == [question]


async def test_a_rule_made_by_one_does_not_stand_in_for_two(sqlite_db: Database) -> None:
    effects: list[str] = []
    again = call("refund", order="A2")
    one = Policy(name="one", approvers=TWO.approvers)
    w = world(sqlite_db, call("refund"), "Done.", again, tools=[effect(effects)], policies=[one])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN, remember=THREAD)
    await w.settle()

    w = await w.restart(policies=[TWO])
    await w.here(chat).say("again", by=ANA)
    await w.settle()

    assert effects == ["refund A1"]
    assert (await only_question(w.here(chat))).arguments == {"order": "A2"}


async def test_fewer_people_than_the_quorum_refuse_the_call_when_it_is_made(
    sqlite_db: Database,
) -> None:
    short = Policy(name="two", approvers=frozenset({ANA.key, BEN.key}), quorum=2)
    w = world(sqlite_db, call("refund"), "I see.", tools=[effect([])], policies=[short])
    chat = await w.chat()
    await w.settle()

    assert w.surface.cards() == []
    (why,) = [one.detail["why"] for one in await audited(chat, "not_run")]
    assert why == (
        "Nobody can approve refund here: the policy two asks for 2 people, and only 1 can approve."
    )


@pytest.mark.row("B10")
async def test_a_shared_card_is_approved_by_two_and_says_how_far_it_is(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(5), [effect(effects)], policies=[TWO])
    await w.chat()
    await w.settle()
    (group,) = w.surface.groups()

    first = await decide(w, group, by=BEN)
    again = await decide(w, group, by=BEN)
    await w.settle()

    assert (first.done, first.sentence) == (
        True,
        "Recorded; others have to approve 5 of them too.",
    )
    assert not again.done
    assert again.sentence.startswith("You approved this before")
    assert effects == []
    (group,) = w.surface.groups()
    assert all("1 of 2 approved: ben" in card.notices for card in group.cards)

    await decide(w, group, by=CYN, only=[0, 1])
    await decide(w, group, Verb.DECLINE, by=CYN, only=[2, 3, 4])
    await w.settle()

    assert sorted(effects) == ["refund A0", "refund A1"]
    (group,) = w.surface.groups()
    assert states(group) == [CardState.DONE] * 2 + [CardState.REFUSED] * 3
