"""Shared cards as they change: no call starts before its button is gone from every copy."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa

from bot.approvers import Policy
from bot.card import CardState
from bot.chat import Chat
from bot.core import Job
from bot.move import HOLD_SECONDS
from bot.surface import (
    Content,
    DeliveryError,
    Place,
    Posted,
    Verb,
)
from bot.together import SETTLED
from bot.tool import Tool, tool
from storage import chats, outbox, questions
from storage.database import Database
from storage.schema import tool_calls
from tests.fakes.surface import MemorySurface
from tests.group_world import (
    asks,
    decide,
    group_world,
    states,
)
from tests.world import ANA, CYN, World, effect, until


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
