"""Many approvals of one response: asked on shared cards, decided selected, all or none, each by
itself and once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from bot.approvers import Policy
from bot.card import ARGUMENTS_BUDGET, CardState
from bot.chat import Chat
from bot.core import Job
from bot.group import GroupCard
from bot.move import HOLD_SECONDS
from bot.surface import (
    Actor,
    Content,
    DeliveryError,
    GroupDecision,
    Place,
    Posted,
    Response,
    Together,
    Verb,
)
from bot.together import SETTLED
from bot.tool import Tool, tool
from storage import chats, outbox, questions
from storage.database import Database, DatabaseUnavailable
from storage.questions import DecisionRow
from storage.schema import tool_calls
from tests.fakes.model import call, script
from tests.fakes.surface import MemorySurface
from tests.world import ANA, BEN, BEN_APPROVES, CYN, World, audited, effect, returned, until

BOTH = Policy(name="ops", approvers=frozenset({BEN.key, CYN.key}))
TOGETHER = Together(above=4, size=15)


class Killed(BaseException):
    """The process dies."""


@dataclass
class SlowEdits(MemorySurface):
    """Edits stay on their way, drawn, until they are let go."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        self.arrived.set()
        await self.go.wait()
        await super().edit(place, message_id, content)


@dataclass
class SlowPosts(MemorySurface):
    """Posts stay on their way until they are let go."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        posted = await super().post(place, content, nonce)
        self.arrived.set()
        await self.go.wait()
        return posted


def asks(count: int, *, name: str = "refund") -> list[Any]:
    return [call(name, order=f"A{number}") for number in range(count)]


def group_world(
    db: Database,
    calls: Sequence[Any],
    tools: Sequence[Tool],
    *,
    policies: Sequence[Policy] = (BOTH,),
    surface: MemorySurface | None = None,
    limit: int = 50,
) -> World:
    surface = surface or MemorySurface()
    surface.together = TOGETHER
    return World(db, tools, script(list(calls), "Done."), policies, surface=surface, calls=limit)


async def decide(
    w: World,
    group: GroupCard,
    verb: Verb = Verb.APPROVE,
    *,
    by: Actor = BEN,
    only: Sequence[int] | None = None,
    place: Place | None = None,
) -> Response:
    """`only`: the places of the selected calls on the card, from 0."""
    nonces = None if only is None else tuple(group.cards[number].nonce for number in only)
    event = GroupDecision(
        nonce=group.nonce, verb=verb, actor=by, via="button", only=nonces, place=place
    )
    return await w.service.decide_together(event)


def states(group: GroupCard) -> list[CardState]:
    return [card.state for card in group.cards]


async def decisions(chat: Chat) -> list[DecisionRow]:
    async with chat.core.db.read() as tx:
        found = []
        for row in await chat.calls():
            for question in await questions.of_call(tx, row.id):
                found += await questions.decisions_on(tx, question.id)
        return found


# Asking


@pytest.mark.row("B25")
async def test_up_to_four_calls_have_a_card_each(db: Database) -> None:
    w = group_world(db, asks(4), [effect([])])
    chat = await w.chat()

    await w.settle()

    assert len(w.surface.cards()) == 4
    assert w.surface.groups() == []
    assert len(await chat.pending_questions()) == 4


@pytest.mark.row("B25")
@pytest.mark.row("B23")
async def test_more_calls_share_a_card_and_each_has_its_own_id(db: Database) -> None:
    w = group_world(db, [call("refund", order="A1")] * 7, [effect([])])
    chat = await w.chat()

    await w.settle()

    (group,) = w.surface.groups()
    assert w.surface.cards() == []
    assert group.title == "agent wants to run 7 calls"
    assert [card.arguments[0].value for card in group.cards] == ["A1"] * 7
    assert group.deciders == tuple(sorted([BEN.key, CYN.key]))
    ids = [one.id for one in await chat.pending_questions()]
    assert sorted(ids) == sorted(row.id for row in await chat.calls())
    assert len({card.nonce for card in group.cards}) == 7


async def test_very_many_calls_fill_several_cards_evenly_in_their_order(db: Database) -> None:
    w = group_world(db, asks(50), [effect([])])
    await w.chat()

    await w.settle()

    groups = w.surface.groups()
    assert [len(group.cards) for group in groups] == [13, 13, 13, 11]
    shown = [card.arguments[0].value for group in groups for card in group.cards]
    assert shown == [f"A{number}" for number in range(50)]


async def test_only_the_calls_that_need_an_approval_are_counted(db: Database) -> None:
    effects: list[str] = []
    look = effect(effects, "look", approval="never")
    w = group_world(db, asks(4) + asks(3, name="look"), [effect(effects), look])
    await w.chat()

    await w.settle()

    assert len(w.surface.cards()) == 4
    assert sorted(effects) == ["look A0", "look A1", "look A2"]


async def test_a_surface_that_shows_them_apart_is_given_no_shared_card(sqlite_db: Database) -> None:
    w = group_world(sqlite_db, asks(9), [effect([])])
    w.surface.together = None
    await w.chat()

    await w.settle()

    assert len(w.surface.cards()) == 9


# Deciding


@pytest.mark.row("B27")
async def test_all_at_once_run_once_each_with_their_own_arguments(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(7), [effect(effects)])
    chat = await w.chat()
    await w.settle()

    response = await decide(w, w.surface.groups()[0])
    assert effects == []
    await w.settle()

    assert response == Response(done=True)
    assert sorted(effects) == [f"refund A{number}" for number in range(7)]
    assert await returned(chat) == [f"refund A{number} done" for number in range(7)]
    (group,) = w.surface.groups()
    assert states(group) == [CardState.DONE] * 7
    assert all(card.outcome.startswith("Approved by ben") for card in group.cards)
    assert await chat.last_reply() == "Done."


@pytest.mark.row("B26")
async def test_selected_ones_are_decided_and_the_others_stay_as_they_are(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(7), [effect(effects)])
    chat = await w.chat()
    await w.settle()

    assert (await decide(w, w.surface.groups()[0], only=[0, 2, 4])).done
    await w.settle()
    assert sorted(effects) == ["refund A0", "refund A2", "refund A4"]

    assert (await decide(w, w.surface.groups()[0], Verb.DECLINE, only=[1, 3])).done
    await w.settle()
    assert sorted(effects) == ["refund A0", "refund A2", "refund A4"]
    assert len(await chat.pending_questions()) == 2
    done, refused, waiting = CardState.DONE, CardState.REFUSED, CardState.OPEN
    (group,) = w.surface.groups()
    assert states(group) == [done, refused, done, refused, done, waiting, waiting]

    assert (await decide(w, group)).done
    await w.settle()
    assert sorted(effects) == [f"refund A{number}" for number in (0, 2, 4, 5, 6)]
    assert not w.surface.groups()[0].open
    assert w.surface.posts == 2  # the card and the answer
    assert (await returned(chat))[1] == "The user denied the call to refund."


@pytest.mark.row("B35")
async def test_a_hundred_pending_calls_take_one_transaction_each(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(100), [effect(effects)], limit=100)
    await w.chat()
    await w.settle()
    written: Counter[str] = Counter()
    db.points = lambda point: written.update([point])

    for group in w.surface.groups():
        assert (await decide(w, group)).done

    assert written == {"before decide": 100, "after decide": 100}
    db.points = lambda point: None
    await w.settle()
    assert sorted(effects) == sorted(f"refund A{number}" for number in range(100))


async def test_one_button_of_a_shared_card_decides_one_call(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(5), [effect(effects)])
    chat = await w.chat()
    await w.settle()

    (second,) = [one for one in await chat.pending_questions() if one.arguments["order"] == "A1"]
    await second.approve(by=BEN)
    await w.settle()

    assert effects == ["refund A1"]
    (group,) = w.surface.groups()
    assert [card.open for card in group.cards] == [True, False, True, True, True]


async def test_whoever_asked_is_refused_and_nothing_is_decided(db: Database) -> None:
    effects: list[str] = []
    own = Policy(name="ops", approvers=frozenset({ANA.key, BEN.key}))
    w = group_world(db, asks(7), [effect(effects)], policies=[own])
    chat = await w.chat()
    await w.settle()

    for verb in (Verb.APPROVE, Verb.DECLINE):
        response = await decide(w, w.surface.groups()[0], verb, by=ANA)
        assert not response.done
        assert response.sentence == (
            "You asked the agent for this, so another approver has to decide."
        )
    await w.settle()

    assert effects == []
    assert len(await chat.pending_questions()) == 7
    assert len(await audited(chat, "refused")) == 14


async def test_each_call_is_authorised_by_its_own_policy(db: Database) -> None:
    effects: list[str] = []
    policies = [
        Policy(name="pay", tools=("pay",), approvers=frozenset({CYN.key})),
        BEN_APPROVES,
    ]
    tools = [effect(effects), effect(effects, "pay")]
    w = group_world(db, asks(3) + asks(3, name="pay"), tools, policies=policies)
    await w.chat()
    await w.settle()
    assert w.surface.groups()[0].deciders == tuple(sorted([BEN.key, CYN.key]))

    response = await decide(w, w.surface.groups()[0])
    await w.settle()

    assert not response.done
    assert response.sentence == (
        "3 of 6 were approved; 3 were refused: You are not among the approvers of pay "
        "(policy pay); nothing was decided."
    )
    assert sorted(effects) == ["refund A0", "refund A1", "refund A2"]
    assert len(w.surface.groups()[0].waiting) == 3


async def test_two_people_at_the_same_time_decide_each_call_once(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(7), [effect(effects)])
    chat = await w.chat()
    await w.settle()
    (group,) = w.surface.groups()

    yes, no = await asyncio.gather(
        decide(w, group), decide(w, group, Verb.DECLINE, by=CYN), return_exceptions=False
    )
    await w.settle()

    (group,) = w.surface.groups()
    made = await decisions(chat)
    assert Counter(Counter(one.question_id for one in made).values()) == {1: 7}
    approved = {one.question_id for one in made if one.verb == "approve"}
    assert len(effects) == len(approved) == states(group).count(CardState.DONE)
    assert states(group).count(CardState.REFUSED) == 7 - len(approved)
    written = await audited(chat, "decided")
    assert {row.question_id: row.actor for row in written} == {
        one.question_id: one.actor for one in made
    }
    for response, lost in ((yes, 7 - len(approved)), (no, len(approved))):
        assert response.done == (lost == 0)
        assert ("settled before" in response.sentence) == (lost > 0)


async def test_who_comes_second_is_told_how_many_were_settled_before(db: Database) -> None:
    w = group_world(db, asks(7), [effect([])])
    await w.chat()
    await w.settle()
    (group,) = w.surface.groups()
    await decide(w, group, only=[0, 1])

    late = await decide(w, group, Verb.DECLINE, by=CYN)
    nothing = await decide(w, group, by=CYN, only=[0, 1])
    again = await decide(w, group, Verb.DECLINE, by=CYN)

    assert late.sentence == "5 of 7 were declined; 2 were settled before."
    assert nothing.sentence == SETTLED
    assert again.sentence == SETTLED


async def test_whoever_decides_the_rest_is_not_told_of_their_own_decisions(db: Database) -> None:
    w = group_world(db, asks(5), [effect([])])
    await w.chat()
    await w.settle()
    (group,) = w.surface.groups()
    await decide(w, group, only=[0])

    assert await decide(w, group, Verb.DECLINE) == Response(done=True)
    assert (await decide(w, group)).sentence == SETTLED


async def test_what_cannot_be_shown_whole_is_refused_and_the_rest_is_approved(
    db: Database,
) -> None:
    effects: list[str] = []
    long = call("refund", order="x" * (ARGUMENTS_BUDGET + 1))
    w = group_world(db, [*asks(4), long], [effect(effects)])
    await w.chat()
    await w.settle()

    response = await decide(w, w.surface.groups()[0])
    await w.settle()

    assert response.sentence == (
        "4 of 5 were approved; 1 was refused: The arguments of refund are too long to be shown "
        "here in full, so it cannot be approved here; decline it."
    )
    assert len(effects) == 4
    assert (await decide(w, w.surface.groups()[0], Verb.DECLINE)).done


async def test_nothing_selected_decides_nothing_and_says_so(db: Database) -> None:
    w = group_world(db, asks(5), [effect([])])
    chat = await w.chat()
    await w.settle()

    response = await decide(w, w.surface.groups()[0], only=[])

    assert response.sentence == "Select the calls first, then press the button again."
    assert len(await chat.pending_questions()) == 5


@pytest.mark.parametrize("forged", ["a call of another card", "another thread", "no such card"])
async def test_what_the_card_does_not_ask_for_is_not_decided(forged: str, db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(20), [effect(effects)])
    chat = await w.chat()
    await w.settle()
    first, second = w.surface.groups()
    event = GroupDecision(nonce=first.nonce, verb=Verb.APPROVE, actor=BEN, via="button")
    match forged:
        case "a call of another card":
            nonces = (second.nonce, "nonsense")
            event = GroupDecision(
                nonce=first.nonce, verb=Verb.APPROVE, actor=BEN, via="button", only=nonces
            )
        case "another thread":
            there = Place("slack", "T1", "C1", "elsewhere")
            event = GroupDecision(
                nonce=first.nonce, verb=Verb.APPROVE, actor=BEN, via="button", place=there
            )
        case _:
            event = GroupDecision(nonce="nonsense", verb=Verb.APPROVE, actor=BEN, via="button")

    response = await w.service.decide_together(event)
    await w.settle()

    assert response.sentence == ("There is no such question here; it may belong to another thread.")
    assert effects == []
    assert len(await chat.pending_questions()) == 20


# Crashes and a database that is away


async def test_killed_between_two_decisions_the_rest_is_decided_afterwards(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(7), [effect(effects)])
    chat = await w.chat()
    await w.settle()
    left = iter(range(3))

    def die(point: str) -> None:
        if point == "before decide" and next(left, None) is None:
            raise Killed

    db.points = die
    with pytest.raises(Killed):
        await decide(w, w.surface.groups()[0])
    db.points = lambda point: None
    w = await w.restart()
    await w.settle()

    assert sorted(effects) == ["refund A0", "refund A1", "refund A2"]
    (group,) = w.surface.groups()
    assert len(group.waiting) == 4
    assert (await decide(w, group)).done
    await w.settle()
    assert sorted(effects) == [f"refund A{number}" for number in range(7)]
    assert await w.here(chat).last_reply() == "Done."


async def test_a_card_posted_by_a_dead_process_decides_in_the_next(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(6), [effect(effects)])
    await w.chat()
    await w.settle()
    w = await w.restart()

    assert (await decide(w, w.surface.groups()[0])).done
    await w.settle()

    assert sorted(effects) == [f"refund A{number}" for number in range(6)]
    assert w.surface.posts == 2


async def test_a_database_that_goes_away_in_between_is_told(sqlite_db: Database) -> None:
    effects: list[str] = []
    w = group_world(sqlite_db, asks(5), [effect(effects)])
    await w.chat()
    await w.settle()
    left = iter(range(2))

    def away(point: str) -> None:
        if point == "before decide" and next(left, None) is None:
            raise DatabaseUnavailable

    sqlite_db.points = away
    response = await decide(w, w.surface.groups()[0])
    sqlite_db.points = lambda point: None
    await w.settle()

    assert not response.done
    assert response.sentence == (
        "2 of 5 were approved; 3 were refused: The database is not answering; please try again "
        "in a minute. The card shows what was decided."
    )
    assert sorted(effects) == ["refund A0", "refund A1"]


# Buttons are gone before a call starts (B39)


def looking(seen: dict[str, list[bool]], there: list[World]) -> Tool:
    """A tool that notes whether its own call still has its button on the card."""

    @tool(name="refund")
    async def refund(order: str) -> str:
        """Refunds an order."""
        (group,) = there[0].surface.groups()
        (own,) = [card for card in group.cards if card.arguments[0].value == order]
        seen.setdefault(order, []).append(own.open)
        return "refunded"

    return refund


@pytest.mark.row("B39")
async def test_an_edit_that_was_drawn_before_a_decision_does_not_free_its_call(
    db: Database,
) -> None:
    seen: dict[str, list[bool]] = {}
    there: list[World] = []
    slow = SlowEdits()
    w = group_world(db, asks(5), [looking(seen, there)], surface=slow)
    there.append(w)
    chat = await w.chat()
    await w.settle()
    await decide(w, slow.groups()[0], only=[0])

    delivering = asyncio.create_task(w.settle())
    await until(slow.arrived.is_set)
    await decide(w, slow.groups()[0], only=[1])
    await chat.complete()  # another process carries on at once
    assert seen == {}
    slow.go.set()
    await delivering
    await w.settle()

    assert seen == {"A0": [False], "A1": [False]}


@pytest.mark.row("B39")
async def test_a_shared_card_that_is_decided_while_it_is_posted_loses_its_buttons_first(
    db: Database,
) -> None:
    seen: dict[str, list[bool]] = {}
    there: list[World] = []
    slow = SlowPosts()
    w = group_world(db, asks(5), [looking(seen, there)], surface=slow)
    there.append(w)
    chat = await w.chat()
    delivering = asyncio.create_task(w.settle())
    await until(slow.arrived.is_set)

    await decide(w, slow.groups()[0])
    await chat.complete()
    assert seen == {}
    slow.go.set()
    await delivering
    await w.settle()

    assert seen == {f"A{number}": [False] for number in range(5)}
    assert not slow.groups()[0].open


@pytest.mark.row("B39")
async def test_calls_start_as_soon_as_their_shared_card_is_redrawn(db: Database) -> None:
    """Its post was on its way when they were decided, and the chat has looked in vain since."""
    effects: list[str] = []
    slow = SlowPosts()
    w = group_world(db, asks(5), [effect(effects)], surface=slow)
    chat = await w.chat()
    await chat.complete()
    delivering = asyncio.ensure_future(w.handlers[Job.DELIVER]("slack:T1/C1"))
    await until(slow.arrived.is_set)
    await decide(w, slow.groups()[0])
    await w.settle()
    assert effects == []

    slow.go.set()
    await delivering
    await w.settle()

    assert len(effects) == 5


@pytest.mark.row("B39")
async def test_a_shared_card_holds_each_call_for_a_while_from_its_own_decision(
    db: Database,
) -> None:
    effects: list[str] = []
    w = group_world(db, asks(5), [effect(effects)])
    await w.chat()
    await w.settle()
    (group,) = w.surface.groups()
    w.surface.failures += [DeliveryError("slow down", retry_after=1000.0)]
    await decide(w, group, only=[0])
    await w.settle()
    w.clock.advance(HOLD_SECONDS - 5)
    await decide(w, group, only=[1])
    await w.settle()
    assert effects == []

    w.clock.advance(5)
    await w.settle()
    assert effects == ["refund A0"]

    w.clock.advance(HOLD_SECONDS - 5)
    await w.settle()
    assert effects == ["refund A0", "refund A1"]


@pytest.mark.row("B39")
async def test_a_shared_card_that_is_gone_does_not_hold_its_calls(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(5), [effect(effects)])
    await w.chat()
    await w.settle()
    w.surface.failures += [DeliveryError("message_not_found", permanent=True)]

    await decide(w, w.surface.groups()[0])
    await w.settle()

    assert len(effects) == 5


@pytest.mark.row("B38")
async def test_every_copy_of_a_shared_card_settles_and_decides(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(5), [effect(effects)])
    chat = await w.chat()
    await w.settle()
    private = Place("slack", "T1", "D-BEN", "D-BEN")
    (question, *_) = await chat.pending_questions()
    async with db.transaction("test_copy") as tx:
        row = await questions.get(tx, question.id)
        assert row is not None
        subject = outbox.card_of(row)
        now = w.clock.now()
        await outbox.post(tx, private, nonce="copy", subject=subject, chat_id=chat.id, now=now)
        await w.core.wake(tx, Job.DELIVER, private.channel_key)
    await w.settle()

    assert (await decide(w, w.surface.groups()[1], place=private)).done
    await w.settle()

    assert [group.open for group in w.surface.groups()] == [False, False]
    assert len(effects) == 5


# Closing


async def test_a_stop_of_the_chat_closes_the_shared_card(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(6), [effect(effects)])
    chat = await w.chat()
    await w.settle()
    (before,) = w.surface.groups()
    await decide(w, before, Verb.DECLINE, only=[0])
    await w.settle()

    await chat.cancel(by=ANA)
    await w.settle()

    (group,) = w.surface.groups()
    assert states(group) == [CardState.REFUSED] + [CardState.CLOSED] * 5
    assert all(card.outcome.startswith("Closed") for card in group.cards[1:])
    assert (await decide(w, before)).sentence == SETTLED
    assert effects == []


async def test_a_call_that_is_asked_about_again_has_a_card_of_its_own(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(5), [effect(effects)])
    chat = await w.chat()
    await w.settle()
    await decide(w, w.surface.groups()[0], only=[2])
    only_cyn = Policy(name="ops", approvers=frozenset({CYN.key}))
    w = await w.restart(policies=[only_cyn])
    await w.settle()

    (again,) = w.surface.cards()
    assert again.arguments[0].value == "A2"
    assert states(w.surface.groups()[0])[2] is CardState.DONE
    assert len(w.surface.groups()[0].cards) == 5
    (question,) = [one for one in await w.here(chat).pending_questions() if "/" in one.id]
    await question.approve(by=CYN)
    await w.settle()
    assert effects == ["refund A2"]


async def test_a_call_of_a_shared_card_that_was_changed_does_not_run(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(5), [effect(effects)])
    chat = await w.chat()
    await w.settle()
    await _tamper(chat)

    response = await decide(w, w.surface.groups()[0])
    await w.settle()

    assert response.sentence == (
        "4 of 5 were approved; 1 was refused: What would run is not what this card showed, so "
        "refund does not run."
    )
    assert sorted(effects) == ["refund A1", "refund A2", "refund A3", "refund A4"]
    assert not w.surface.groups()[0].open


async def _tamper(chat: Chat) -> None:
    first = (await chat.calls())[0]
    async with chat.core.db.transaction("test_tamper") as tx:
        await chats.lock(tx, chat.id)
        await tx.run(
            sa.update(tool_calls).where(tool_calls.c.id == first.id).values(args={"order": "B52"})
        )
