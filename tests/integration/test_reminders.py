"""Whoever may decide is reminded, and after a while others may decide too; never by silence, and
never about what is settled."""

from __future__ import annotations

from dataclasses import replace
from datetime import time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from bot.approvers import Policies, Policy
from bot.card import Card
from bot.chat import Chat
from bot.field import Field
from bot.hours import WorkingHours
from bot.question import NotAllowed, Verb
from bot.remember import THREAD
from bot.surface import Actor, Decision, Reply
from bot.timers import Timers
from bot.tool import Call, tool
from storage import outbox
from storage.calls import CallState
from storage.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.model import call
from tests.group_world import asks, group_world
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, world

HOUR = 3_600.0
EVE = Actor("slack", "T1", "EVE", "eve")
OPS = Policy(name="ops", approvers=frozenset({BEN.key}), remind_after=HOUR)
NEXT = replace(OPS, remind_after=None, escalate_after=HOUR, escalate_to=frozenset({CYN.key}))
STILL = "Still waiting for somebody to decide:"
OTHERS = "Nobody has decided, so the next approvers may do so too:"


async def waiting(
    db: Database, policy: Policy, *, directs: bool = False, clock: FakeClock | None = None
) -> tuple[World, Chat, list[str]]:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)], policies=[policy])
    if clock is not None:
        w.clock = w.core.clock = w.engine.clock = clock
    w.surface.directs = directs
    chat = await w.chat()
    await w.settle()
    return w, chat, effects


async def later(w: World, seconds: float) -> None:
    w.clock.advance(seconds)
    await w.settle()


def reminders(w: World, channel: str = "C1") -> list[Reply]:
    return [
        one.content
        for one in w.surface.shown.values()
        if one.place.channel == channel
        and isinstance(one.content, Reply)
        and one.content.text.startswith((STILL, OTHERS))
    ]


def directs(w: World) -> list[str]:
    """Who has a copy of the card alone."""
    return sorted(
        one.place.channel
        for one in w.surface.shown.values()
        if one.place.channel != "C1" and isinstance(one.content, Card)
    )


async def decided(w: World, chat: Chat, by: Actor) -> bool:
    nonce = (await only_question(chat)).nonce
    event = Decision(nonce=nonce, verb=Verb.APPROVE, actor=by, via="button")
    done = (await w.service.decide(event)).done
    await w.settle()
    return done


# Reminders


@pytest.mark.row("B40")
async def test_who_may_decide_is_reminded_and_then_again_after_twice_as_long(
    db: Database,
) -> None:
    w, chat, effects = await waiting(db, OPS)
    seen = []
    for _ in range(15):
        await later(w, HOUR)
        seen.append(len(reminders(w)))

    assert seen == [1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4]
    assert reminders(w)[0] == Reply(f"{STILL} `refund` for 1 hour.", mentions=(BEN.key,))
    assert reminders(w)[1].text == f"{STILL} `refund` for 3 hours."
    assert [one.detail["reminders"] for one in await audited(chat, "reminded")] == [1, 2, 3, 4]
    assert effects == []
    assert len(await chat.pending_questions()) == 1


async def test_nobody_is_reminded_of_what_is_settled(sqlite_db: Database) -> None:
    w, chat, effects = await waiting(sqlite_db, OPS)
    assert await decided(w, chat, BEN)

    await later(w, 10 * HOUR)

    assert reminders(w) == []
    assert effects == ["refund A1"]


async def test_a_reminder_that_could_not_go_out_before_the_decision_does_not_go_out_after_it(
    sqlite_db: Database,
) -> None:
    w, chat, _ = await waiting(sqlite_db, OPS)
    question = await only_question(chat)
    w.clock.advance(HOUR)
    await Timers(w.core).due(question.id)  # its line waits to be sent
    await question.approve(by=BEN)

    await w.settle()

    assert reminders(w) == []
    async with w.db.read() as tx:
        assert await outbox.next_due(tx, "slack:T1/C1", posts_from=0.0) is None


async def test_a_storm_of_reminders_does_not_follow_a_long_outage(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db, OPS)
    await w.chat()
    await w.settle()

    w.clock.advance(1_000 * HOUR)
    w = await w.restart()
    await w.settle()
    await w.settle()

    assert len(reminders(w)) == 2  # one in each thread
    assert len(await audited(chat, "reminded")) == 1
    await later(w, HOUR)
    assert len(reminders(w)) == 2


async def test_a_doubled_wake_reminds_once(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db, OPS)
    question = await only_question(chat)
    began = w.clock.now()
    w.clock.advance(HOUR)

    again_at = [await Timers(w.core).due(question.id) for _ in range(2)]
    await w.settle()

    assert again_at == [began + 3 * HOUR] * 2
    assert len(reminders(w)) == 1


async def test_who_has_the_card_alone_is_reminded_alone_too(sqlite_db: Database) -> None:
    policy = replace(OPS, approvers=frozenset({BEN.key, CYN.key, ANA.key}))
    w, _, _ = await waiting(sqlite_db, policy, directs=True)

    await later(w, HOUR)

    for channel in ("C1", "D-BEN", "D-CYN"):
        assert [one.text for one in reminders(w, channel)] == [f"{STILL} `refund` for 1 hour."]
    assert reminders(w, "D-ANA") == []
    assert reminders(w, "D-BEN")[0].mentions == ()


async def test_the_calls_of_one_response_are_one_line(sqlite_db: Database) -> None:
    w = group_world(sqlite_db, asks(7), [effect([])], policies=[OPS])
    w.clock = w.core.clock = w.engine.clock = FakeClock()
    await w.chat()
    await w.settle()

    await later(w, HOUR)

    assert [one.text for one in reminders(w)] == [f"{STILL} 7 × `refund` for 1 hour."]


async def test_what_a_tool_asks_is_reminded_of_in_the_thread_alone(sqlite_db: Database) -> None:
    @tool(name="ask", approval="never")
    async def ask(c: Call) -> str:
        return str(await c.ask("Where?", Field("seat")))

    w = world(sqlite_db, call("ask"), "Done.", tools=[ask], policies=[OPS])
    w.surface.directs = True
    await w.chat()
    await w.settle()

    await later(w, HOUR)

    assert reminders(w)[0].mentions == (ANA.key, BEN.key)
    assert reminders(w, "D-BEN") == []


async def test_a_policy_without_reminders_today_ends_those_of_yesterday(
    sqlite_db: Database,
) -> None:
    w, _, _ = await waiting(sqlite_db, OPS)
    w = await w.restart(policies=[replace(OPS, remind_after=None)])

    await later(w, 10 * HOUR)

    assert reminders(w) == []


# Working hours

BERLIN = ZoneInfo("Europe/Berlin")
OFFICE = WorkingHours(BERLIN, time(9), time(17), frozenset(range(5)))
FRIDAY_16 = 1_796_396_400.0  # 2026-12-04 at 16:00 in Berlin


async def test_only_working_hours_of_the_zone_count(sqlite_db: Database) -> None:
    policy = replace(OPS, remind_after=2 * HOUR, expires_after=9 * HOUR, hours=OFFICE)
    w, chat, _ = await waiting(sqlite_db, policy, clock=FakeClock(FRIDAY_16))
    weekend = 66 * HOUR - 1.0  # until a second before Monday, 10:00
    assert w.surface.cards()[0].notices[-1].startswith("It expires on 2026-12-07 at 16:00 UTC")

    await later(w, weekend)
    assert reminders(w) == []
    await later(w, 1.0)
    assert len(reminders(w)) == 1
    await later(w, 7 * HOUR - 1)
    assert len(await chat.pending_questions()) == 1
    await later(w, 1.0)
    assert await chat.pending_questions() == []


async def test_a_reminder_that_an_outage_held_up_waits_for_working_hours(
    sqlite_db: Database,
) -> None:
    policy = replace(OPS, remind_after=HOUR / 2, hours=OFFICE)
    w, chat, _ = await waiting(sqlite_db, policy, clock=FakeClock(FRIDAY_16))

    w.clock.advance(20 * HOUR)  # Saturday
    w = await w.restart()
    await w.settle()
    assert reminders(w) == []
    await later(w, 45 * HOUR)  # Monday, 9:00

    assert len(reminders(w)) == 1
    assert len(await audited(chat, "reminded")) == 1


async def test_a_reminder_at_the_end_of_a_working_day_is_not_too_late(
    sqlite_db: Database,
) -> None:
    policy = replace(OPS, hours=OFFICE)
    w, _, _ = await waiting(sqlite_db, policy, clock=FakeClock(FRIDAY_16))

    await later(w, HOUR + 5)

    assert len(reminders(w)) == 1


# Escalation


async def test_after_a_while_the_next_approvers_may_decide_too_and_it_runs(
    db: Database,
) -> None:
    w, chat, effects = await waiting(db, NEXT)
    assert not await decided(w, chat, CYN)
    assert (await w.service.inbox(CYN, "T1", 1)).text == "Nothing waits for you."
    (card,) = w.surface.cards()
    assert card.deciders == (BEN.key,)
    assert card.notices == ("The next approvers may decide too from 2027-01-15 at 09:00 UTC.",)

    await later(w, HOUR)

    (card,) = w.surface.cards()
    assert (card.deciders, card.notices) == ((BEN.key, CYN.key), ())
    assert reminders(w)[0].text == f"{OTHERS} `refund` for 1 hour."
    assert CYN.key in reminders(w)[0].mentions
    assert effects == []  # nothing is approved by silence
    assert "wants to run refund" in (await w.service.inbox(CYN, "T1", 1)).text
    assert await decided(w, chat, CYN)
    assert effects == ["refund A1"]
    (row,) = await audited(chat, "escalated")
    assert row.detail["audience"]["deciders"] == [BEN.key, CYN.key]


async def test_the_first_approvers_still_may_and_nobody_else(sqlite_db: Database) -> None:
    w, chat, effects = await waiting(sqlite_db, NEXT)
    await later(w, HOUR)

    assert not await decided(w, chat, EVE)
    assert not await decided(w, chat, ANA)
    assert await decided(w, chat, BEN)
    assert effects == ["refund A1"]


async def test_before_its_time_the_next_approvers_may_neither_decide_nor_look(
    sqlite_db: Database,
) -> None:
    w, chat, effects = await waiting(sqlite_db, NEXT)
    w.clock.advance(2 * HOUR)  # its time has passed, but the escalation is not done yet

    look = await w.service.look((await only_question(chat)).nonce, Verb.APPROVE, CYN)
    assert "not among the approvers" in look.refusal
    nonce = (await only_question(chat)).nonce
    event = Decision(nonce=nonce, verb=Verb.APPROVE, actor=CYN, via="button")
    assert not (await w.service.decide(event)).done
    assert effects == []


async def test_the_next_approvers_get_the_card_alone_and_nobody_gets_it_twice(
    sqlite_db: Database,
) -> None:
    w, _, _ = await waiting(sqlite_db, NEXT, directs=True)
    assert directs(w) == ["D-BEN"]

    await later(w, HOUR)

    assert directs(w) == ["D-BEN", "D-CYN"]
    assert reminders(w, "D-BEN") == []


async def test_the_next_approvers_get_a_shared_card_once(sqlite_db: Database) -> None:
    effects: list[str] = []
    w = group_world(sqlite_db, asks(6), [effect(effects)], policies=[NEXT])
    w.clock = w.core.clock = w.engine.clock = FakeClock()
    w.surface.directs = True
    chat = await w.chat()
    await w.settle()

    await later(w, HOUR)

    where = [one.place.channel for one in w.surface.shown.values()]
    assert sorted(one for one in where if one != "C1") == ["D-BEN", "D-CYN"]
    assert len(reminders(w)) == 1
    assert {group.deciders for group in w.surface.groups()} == {(BEN.key, CYN.key)}
    for question in await chat.pending_questions():
        await question.approve(by=CYN)
    await w.settle()
    assert len(effects) == 6


async def test_only_the_strongest_of_what_was_missed_happens(sqlite_db: Database) -> None:
    policy = replace(NEXT, remind_after=HOUR / 2)
    w, chat, _ = await waiting(sqlite_db, policy)

    w.clock.advance(5 * HOUR)
    w = await w.restart()
    await w.settle()

    assert [one.text for one in reminders(w)] == [f"{OTHERS} `refund` for 5 hours."]
    assert await audited(chat, "reminded") == []
    await later(w, HOUR / 2)
    assert len(reminders(w)) == 2  # and then they are reminded as ever


async def test_two_people_may_be_one_of_the_first_and_one_of_the_next(
    sqlite_db: Database,
) -> None:
    policy = replace(NEXT, quorum=2)
    w, chat, effects = await waiting(sqlite_db, policy)
    assert await decided(w, chat, BEN)

    await later(w, HOUR)

    assert effects == []
    assert await decided(w, chat, CYN)
    assert effects == ["refund A1"]


async def test_what_was_escalated_is_approved_once_and_not_remembered(
    sqlite_db: Database,
) -> None:
    w, chat, _ = await waiting(sqlite_db, NEXT)
    assert w.surface.cards()[0].remember is not None

    await later(w, HOUR)

    assert w.surface.cards()[0].remember is None
    for who in (BEN, CYN):
        with pytest.raises(NotAllowed):
            await (await only_question(chat)).approve(by=who, remember=THREAD)


async def test_an_approval_of_the_next_approvers_does_not_hold_once_they_are_removed(
    sqlite_db: Database,
) -> None:
    w, chat, effects = await waiting(sqlite_db, NEXT)
    await later(w, HOUR)
    await (await only_question(chat)).approve(by=CYN)

    w = await w.restart(policies=[replace(NEXT, escalate_to=frozenset({EVE.key}))])
    await w.settle()

    assert effects == []
    anew = await only_question(w.here(chat))
    with pytest.raises(NotAllowed):  # it starts anew: not even the next approvers may yet
        await anew.approve(by=EVE)
    await anew.approve(by=BEN)
    await w.settle()
    assert effects == ["refund A1"]


async def test_another_policy_does_not_let_its_next_approvers_in_before_its_own_time(
    sqlite_db: Database,
) -> None:
    w, chat, effects = await waiting(sqlite_db, NEXT)
    await later(w, HOUR)
    other = replace(NEXT, name="other", escalate_after=5 * HOUR, escalate_to=frozenset({EVE.key}))
    w = await w.restart(policies=[other])

    for who in (CYN, EVE):
        assert not await decided(w, w.here(chat), who)
    assert await decided(w, w.here(chat), BEN)
    assert effects == ["refund A1"]


async def test_the_time_of_todays_policy_counts(sqlite_db: Database) -> None:
    w, chat, effects = await waiting(sqlite_db, NEXT)
    w = await w.restart(policies=[replace(NEXT, escalate_after=3 * HOUR)])
    chat = w.here(chat)

    await later(w, HOUR)
    assert not await decided(w, chat, CYN)
    await later(w, 2 * HOUR)
    assert await decided(w, chat, CYN)
    assert effects == ["refund A1"]


async def test_a_policy_that_does_not_escalate_any_more_does_not(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db, NEXT)
    none = replace(NEXT, escalate_after=None, escalate_to=frozenset())
    w = await w.restart(policies=[none])

    await later(w, 10 * HOUR)

    assert await audited(chat, "escalated") == []
    assert not await decided(w, w.here(chat), CYN)


async def test_a_call_that_only_the_next_approvers_could_approve_waits_for_them(
    sqlite_db: Database,
) -> None:
    own = replace(NEXT, approvers=frozenset({ANA.key}))
    w, chat, effects = await waiting(sqlite_db, own)
    (row,) = await chat.calls()
    assert row.state == CallState.WAITING

    await later(w, HOUR)

    assert not await decided(w, chat, ANA)
    assert await decided(w, chat, CYN)
    assert effects == ["refund A1"]


async def test_members_of_a_group_may_decide_once_it_was_escalated_to(
    sqlite_db: Database,
) -> None:
    group = replace(NEXT, escalate_to=frozenset({"slack:T1/@S1"}))
    w, chat, effects = await waiting(sqlite_db, group)
    w.core.policies = Policies([group])
    w.surface.groups_of = {"@S1": frozenset({"CYN"})}

    assert not await decided(w, chat, CYN)
    await later(w, HOUR)
    assert not await decided(w, chat, EVE)
    assert await decided(w, chat, CYN)
    assert effects == ["refund A1"]


async def test_changed_arguments_may_be_approved_by_the_next_approvers_too(
    sqlite_db: Database,
) -> None:
    w, chat, effects = await waiting(sqlite_db, NEXT)
    await later(w, HOUR)

    await (await only_question(chat)).approve(by=CYN, arguments={"order": "B2"})
    await w.settle()

    assert effects == ["refund B2"]


async def test_a_doubled_wake_escalates_once(sqlite_db: Database) -> None:
    w, chat, _ = await waiting(sqlite_db, NEXT)
    question = await only_question(chat)
    w.clock.advance(HOUR)

    assert [await Timers(w.core).due(question.id) for _ in range(2)] == [None, None]
    await w.settle()

    assert len(await audited(chat, "escalated")) == 1
    assert len(reminders(w)) == 1


# A process that dies in it


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["remind", "escalate", "expire"])
async def test_a_process_that_dies_in_a_step_leaves_it_done_once(
    sqlite_db: Database, step: str, when: str
) -> None:
    times = {"remind": "remind_after", "escalate": "escalate_after", "expire": "expires_after"}
    none: dict[str, Any] = {"remind_after": None, "escalate_after": None}
    w, chat, effects = await waiting(sqlite_db, replace(NEXT, **{**none, times[step]: HOUR}))
    question = await only_question(chat)
    w.clock.advance(HOUR)

    def dies(name: str) -> None:
        if name == f"{when} {step}":
            raise RuntimeError("killed")

    w.db.points = dies
    with pytest.raises(RuntimeError, match="killed"):
        await Timers(w.core).due(question.id)
    w.db.points = lambda name: None
    w = await w.restart()
    await w.settle()

    done = {"remind": "reminded", "escalate": "escalated", "expire": "expired"}[step]
    assert len(await audited(chat, done)) == 1
    assert len(reminders(w)) == (0 if step == "expire" else 1)
    assert len(w.surface.cards()) == 1
    assert effects == []
