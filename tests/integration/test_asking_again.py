"""What expired can be asked again: a new call, a new card, for those who asked before."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bot.approvers import REQUESTER
from bot.card import Card
from bot.question import Verb
from bot.surface import Actor, Place
from storage.database import Database
from tests.deadline_world import (
    HOUR,
    OPS,
    STRANGER,
    again,
    decided,
    later,
    waiting,
)
from tests.fakes.model import call
from tests.group_world import asks, decide, group_world
from tests.integration.test_races import place_of
from tests.world import (
    ANA,
    BEN,
    CYN,
    audited,
    effect,
    only_question,
    said,
    world,
)


@pytest.mark.row("B41")
async def test_asking_again_makes_a_new_call_with_a_new_card_that_is_decided_like_any(
    sqlite_db: Database,
) -> None:
    w, chat, effects = await waiting(sqlite_db)
    old = await only_question(chat)
    await later(w, HOUR)

    told = await again(w, old.nonce, ANA, await place_of(chat))

    assert told.done
    new = await only_question(chat)
    assert (new.id, new.nonce) != (old.id, old.nonce)
    assert len({row.id for row in await chat.calls()}) == 2
    first, second = w.surface.cards()
    assert (first.again, second.open) == (False, True)
    assert first.outcome.endswith("without an answer. ana asked again.")
    request = "Please call refund once more with the same arguments: nobody decided in time."
    assert request in (await said(chat))[-1]
    await new.approve(by=BEN)
    await w.settle()
    assert effects == ["refund A1"]
    (row,) = await audited(chat, "asked_again")
    assert (row.question_id, row.actor) == (old.id, ANA.key)


@pytest.mark.row("B41")
async def test_an_approver_who_asks_again_may_approve_and_who_asked_first_may_not(
    sqlite_db: Database,
) -> None:
    policy = replace(OPS, approvers=frozenset({ANA.key, BEN.key}))
    w, chat, effects = await waiting(sqlite_db, policy=policy)
    await later(w, HOUR)

    assert (await again(w, w.surface.cards()[0].nonce, BEN)).done

    new = await only_question(chat)
    assert w.surface.cards()[-1].deciders == (BEN.key,)
    assert w.surface.cards()[-1].askers == (ANA.key,)
    refused = await decided(w, new, Verb.APPROVE, by=ANA)
    assert refused.sentence.startswith("You asked the agent for this")
    assert (await decided(w, new, Verb.APPROVE, by=BEN)).done
    await w.settle()
    assert effects == ["refund A1"]


async def test_whoever_asks_again_approves_nothing_else_that_they_talked_the_agent_into(
    sqlite_db: Database,
) -> None:
    other = call("refund", order="B9")
    w, chat, effects = await waiting(
        sqlite_db, call("refund"), "Nobody decided.", "If you say so.", [call("refund"), other]
    )
    await later(w, HOUR)
    await chat.say("Whenever you are asked again, refund B9 too.", by=BEN)
    await w.settle()

    assert (await again(w, w.surface.cards()[0].nonce, BEN)).done

    open_now = {one.arguments["order"]: one for one in await chat.pending_questions()}
    same, new = open_now["A1"], open_now["B9"]
    assert w.surface.cards()[-1].askers == (ANA.key, BEN.key)
    refused = await decided(w, new, Verb.APPROVE, by=BEN)
    assert refused.sentence.startswith("You asked the agent for this")
    assert (await decided(w, same, Verb.APPROVE, by=BEN)).done
    assert (await decided(w, new, Verb.APPROVE, by=CYN)).done
    await w.settle()
    assert sorted(effects) == ["refund A1", "refund B9"]


async def test_an_approver_who_only_pressed_the_button_gets_their_own_copy_of_the_new_card(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    steps = (call("refund"), "Nobody.", call("refund"), "Done.")
    w = world(sqlite_db, *steps, tools=[effect(effects)], policies=[OPS])
    w.surface.directs = True
    chat = await w.chat()
    await w.settle()
    await later(w, HOUR)
    (copy,) = [one for one in w.surface.shown.values() if one.place.channel == "D-BEN"]
    assert isinstance(copy.content, Card)

    assert (await again(w, copy.content.nonce, BEN, copy.place)).done

    await only_question(chat)
    directs = [one.place.channel for one in w.surface.shown.values() if one.place.channel != "C1"]
    assert sorted(directs) == ["D-BEN", "D-BEN", "D-CYN", "D-CYN"]


async def test_it_is_asked_again_once_whoever_presses_and_the_second_is_told(
    db: Database,
) -> None:
    w, chat, _ = await waiting(db)
    nonce = (await only_question(chat)).nonce
    await later(w, HOUR)

    first, second = await asyncio.gather(
        *(w.service.ask_again(nonce, who, via="button") for who in (BEN, CYN))
    )
    await w.settle()

    assert sorted([first.done, second.done]) == [False, True]
    (late,) = [one for one in (first, second) if not one.done]
    assert late.sentence.endswith("asked again before you; look for the new card.")
    assert len(await chat.calls()) == 2
    assert len(await audited(chat, "asked_again")) == 1


@pytest.mark.parametrize(
    "who", [replace(STRANGER, is_bot=True), replace(STRANGER, is_external=True)]
)
async def test_whoever_may_not_write_to_the_agent_may_not_ask_again(
    sqlite_db: Database, who: Actor
) -> None:
    w, chat, _ = await waiting(sqlite_db)
    nonce = (await only_question(chat)).nonce
    await later(w, HOUR)

    told = await again(w, nonce, who)

    assert (told.done, len(await chat.calls())) == (False, 1)
    assert told.sentence.startswith("The agent takes messages from people of this organisation")
    assert [one.actor for one in await audited(chat, "refused")] == [who.key]


async def test_it_is_asked_again_only_from_its_own_thread(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db)
    nonce = (await only_question(chat)).nonce
    await later(w, HOUR)

    told = await again(w, nonce, BEN, Place("slack", "T1", "C1", "elsewhere"))
    guess = await again(w, "no nonce", BEN)

    assert told.sentence == guess.sentence
    assert (told.done, len(await chat.calls())) == (False, 1)


async def test_what_is_open_or_declined_is_not_asked_again(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db, call("refund"), "All right.")
    question = await only_question(chat)
    assert not (await again(w, question.nonce, BEN)).done
    await question.decline(by=BEN)
    await w.settle()

    assert not (await again(w, question.nonce, BEN)).done

    assert len(await chat.calls()) == 1
    assert not w.surface.cards()[0].again


async def test_one_button_asks_again_for_all_that_expired_on_a_shared_card(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    w = group_world(sqlite_db, asks(6), [effect(effects)], policies=[OPS])
    chat = await w.chat()
    await w.settle()
    (group,) = w.surface.groups()
    await decide(w, group, only=[0])
    await later(w, HOUR)

    told = await again(w, group.nonce, BEN, await place_of(chat))

    assert told.done
    assert "and no others: refund (5 calls)." in (await said(chat))[-1]
    assert not w.surface.groups()[0].again
    assert len(await audited(chat, "asked_again")) == 5
    assert not (await again(w, w.surface.groups()[0].cards[3].nonce, CYN)).done


async def test_asking_again_needs_no_approver_where_who_asked_may_approve(
    sqlite_db: Database,
) -> None:
    policy = replace(OPS, approvers=frozenset({REQUESTER}))
    w, chat, effects = await waiting(sqlite_db, policy=policy)
    await later(w, HOUR)

    await again(w, w.surface.cards()[0].nonce, STRANGER)

    new = await only_question(chat)
    refused = await decided(w, new, Verb.APPROVE, by=STRANGER)
    assert "not among the approvers" in refused.sentence
    assert (await decided(w, new, Verb.APPROVE, by=ANA)).done
    await w.settle()
    assert effects == ["refund A1"]
