"""Approvers by group: whoever the surface says is in it now, and nobody else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bot.approvers import ANYONE, Policy
from bot.chat import Chat
from bot.question import Question, Verb
from bot.remember import THREAD
from bot.surface import Actor, Command, Decision, Response
from storage.database import Database
from tests.fakes.model import call
from tests.integration.test_races import place_of
from tests.world import ANA, BEN, CYN, World, effect, only_question, world

ONCALL = "slack:T1/@S1"
GROUP = Policy(name="oncall", approvers=frozenset({ONCALL}))
CHANNEL = Policy(name="room", approvers=frozenset({"slack:T1/#C9"}))


async def pending(
    db: Database, effects: list[str], policy: Policy = GROUP, **groups: set[str]
) -> tuple[World, Chat, Question]:
    w = world(db, call("refund"), "Done.", tools=[effect(effects)], policies=[policy])
    w.surface.groups_of = {f"@{name}": frozenset(users) for name, users in groups.items()}
    chat = await w.chat()
    await w.settle()
    return w, chat, await only_question(chat)


async def press(w: World, question: Question, by: Actor, verb: Verb = Verb.APPROVE) -> Response:
    event = Decision(nonce=question.nonce, verb=verb, actor=by, via="button")
    answer = await w.service.decide(event)
    await w.settle()
    return answer


async def test_who_is_in_the_group_approves_and_who_is_not_does_not(db: Database) -> None:
    effects: list[str] = []
    w, _, question = await pending(db, effects, S1={"BEN"})
    assert w.surface.cards()[0].deciders == (ONCALL,)

    refused = await press(w, question, CYN)
    assert refused.sentence.startswith("You are not among the approvers of refund (policy oncall)")
    assert effects == []
    assert (await press(w, question, BEN)).done

    assert effects == ["refund A1"]


async def test_the_members_of_a_channel_approve(sqlite_db: Database) -> None:
    effects: list[str] = []
    w, _, question = await pending(sqlite_db, effects, CHANNEL)
    w.surface.groups_of = {"#C9": frozenset({"BEN"})}

    assert not (await press(w, question, CYN)).done
    assert (await press(w, question, BEN)).done
    assert effects == ["refund A1"]


async def test_a_group_of_another_organisation_lets_nobody_in(sqlite_db: Database) -> None:
    w, _, question = await pending(sqlite_db, [], S1={"BEN"})

    other = replace(BEN, organisation="T2")
    assert not (await press(w, question, other)).done


async def test_roles_that_come_with_a_click_are_not_believed(sqlite_db: Database) -> None:
    w, _, question = await pending(sqlite_db, [], S1={"BEN"})

    assert not (await press(w, question, replace(CYN, roles=frozenset({ONCALL})))).done


@pytest.mark.parametrize("flag", ["is_guest", "is_external", "is_bot"])
@pytest.mark.parametrize("policy", [GROUP, CHANNEL])
async def test_a_guest_an_outsider_or_a_bot_decides_by_no_group_and_in_no_shared_channel(
    sqlite_db: Database, policy: Policy, flag: str
) -> None:
    effects: list[str] = []
    w, _, question = await pending(sqlite_db, effects, policy)
    w.surface.groups_of = {"@S1": frozenset({"BEN"}), "#C9": frozenset({"BEN"})}

    assert not (await press(w, question, replace(BEN, **{flag: True}))).done  # type: ignore[arg-type]
    assert effects == []


async def test_who_asked_does_not_approve_as_a_member(sqlite_db: Database) -> None:
    w, _, question = await pending(sqlite_db, [], S1={"ANA", "BEN"})

    refused = await press(w, question, ANA)

    assert refused.sentence == "You asked the agent for this, so another approver has to decide."


async def test_a_group_that_cannot_be_looked_up_has_no_members(sqlite_db: Database) -> None:
    effects: list[str] = []
    w, _, question = await pending(sqlite_db, effects)

    assert not (await press(w, question, BEN)).done
    assert effects == []


async def test_a_look_up_that_takes_too_long_does_not_hold_up_the_click(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.groups.SECONDS", 0.01)
    w, _, question = await pending(sqlite_db, [])

    async def never(organisation: str, group: str) -> frozenset[str]:
        await asyncio.Event().wait()
        return frozenset()

    monkeypatch.setattr(w.surface, "members", never)

    assert not (await press(w, question, BEN)).done


async def test_who_left_the_group_before_it_runs_approved_nothing(db: Database) -> None:
    effects: list[str] = []
    w, chat, question = await pending(db, effects, S1={"BEN", "CYN"})
    event = Decision(nonce=question.nonce, verb=Verb.APPROVE, actor=BEN, via="button")
    assert (await w.service.decide(event)).done

    w.surface.groups_of = {"@S1": frozenset({"CYN"})}
    await w.settle()

    assert effects == []
    assert (await press(w, await only_question(chat), CYN)).done
    assert effects == ["refund A1"]


async def test_a_person_and_a_member_make_a_quorum_of_two(db: Database) -> None:
    effects: list[str] = []
    mixed = Policy(name="mixed", approvers=frozenset({CYN.key, ONCALL}), quorum=2)
    w, _, question = await pending(db, effects, mixed, S1={"BEN", "CYN"})

    assert (await press(w, question, CYN)).sentence == "Recorded: 1 of 2."
    assert not (await press(w, question, CYN)).done
    assert (await press(w, question, BEN)).done
    assert effects == ["refund A1"]


async def test_anyone_of_the_organisation_but_who_asked_approves(sqlite_db: Database) -> None:
    effects: list[str] = []
    anyone = Policy(name="peer", approvers=frozenset({ANYONE}))
    w, _, question = await pending(sqlite_db, effects, anyone)
    assert w.surface.cards()[0].deciders == (ANYONE,)

    for by in (ANA, replace(CYN, is_guest=True), replace(CYN, is_external=True)):
        assert not (await press(w, question, by)).done
    assert (await press(w, question, CYN)).done
    assert effects == ["refund A1"]


async def test_a_member_sees_the_question_in_their_inbox_and_may_stop_the_chat(
    sqlite_db: Database,
) -> None:
    w, chat, _ = await pending(sqlite_db, [], S1={"BEN"})

    assert "refund" in (await w.service.inbox(BEN, "T1", 1)).text
    assert (await w.service.inbox(CYN, "T1", 1)).text == "Nothing waits for you."
    place = await place_of(chat)
    stopped = [
        await w.service.command(Command(name="stop", actor=by, place=place)) for by in (CYN, BEN)
    ]
    assert stopped[0].startswith("Only the person who asked the agent, or an approver")
    assert stopped[1].startswith("Stopping")


async def test_a_group_is_not_written_to_alone(sqlite_db: Database) -> None:
    mixed = Policy(name="mixed", approvers=frozenset({CYN.key, ONCALL, ANYONE}))
    w = world(sqlite_db, call("refund"), tools=[effect([])], policies=[mixed])
    w.surface.directs = True
    await w.chat()
    await w.settle()

    channels = sorted(one.place.channel for one in w.surface.shown.values())
    assert channels == ["C1", "D-CYN"]


async def test_an_approval_of_a_member_is_not_remembered(sqlite_db: Database) -> None:
    effects: list[str] = []
    w, _, question = await pending(sqlite_db, effects, S1={"BEN"})
    assert w.surface.cards()[0].remember is None

    event = Decision(
        nonce=question.nonce, verb=Verb.APPROVE, actor=BEN, via="button", remember=THREAD
    )
    assert "does not let your approvals" in (await w.service.decide(event)).sentence


async def test_a_guest_who_is_in_the_group_does_not_stop_the_chat(sqlite_db: Database) -> None:
    w, chat, _ = await pending(sqlite_db, [], S1={"BEN"})

    guest = replace(BEN, is_guest=True)
    event = Command(name="stop", actor=guest, place=await place_of(chat))

    assert (await w.service.command(event)).startswith("Only the person who asked the agent")
