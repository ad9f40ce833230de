"""What a chat is doing, shown beside its thread by a surface that can."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa

from bot.chat import Chat
from bot.deliver import ATTEMPTS, Deliverer
from bot.scripted import Step
from bot.session import status_of
from bot.surface import Content, DeliveryError, Place, Posted, Status
from storage import chats, outbox
from storage.database import Database
from storage.schema import outbox as rows
from tests.fakes.model import call, fails, rate_limited
from tests.fakes.surface import MemorySurface
from tests.lost_run import Slow
from tests.world import ANA, BEN, World, effect, only_question, until, world


@dataclass
class Watched(MemorySurface):
    """Shows statuses. `trouble` is raised by the next of them, in turn; `order` is what came."""

    statuses: bool = True
    trouble: list[DeliveryError] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        self.order.append("post")
        return await super().post(place, content, nonce)

    async def status(self, place: Place, status: Status) -> None:
        self.order.append("status")
        if self.trouble:
            raise self.trouble.pop(0)
        await super().status(place, status)


def watched(db: Database, *steps: Step, effects: list[str] | None = None) -> tuple[World, Watched]:
    surface = Watched()
    tools = [] if effects is None else [effect(effects)]
    return world(db, *steps, tools=tools, surface=surface), surface


def shown(surface: Watched) -> list[Status]:
    """What was shown, the same twice in a row being nothing new."""
    found: list[Status] = []
    for _, status in surface.shows:
        if found[-1:] != [status]:
            found.append(status)
    return found


async def waiting(w: World) -> int:
    async with w.db.read() as tx:
        found = sa.select(sa.func.count()).select_from(rows).where(rows.c.action == "status")
        return int(await tx.value(found))


async def truth(w: World, chat: Chat) -> Status:
    async with w.db.read() as tx:
        return await status_of(tx, chat.id, w.clock.now())


async def test_a_chat_works_waits_for_people_works_again_and_is_closed(db: Database) -> None:
    w, surface = watched(db, call("refund", order="A1"), "Done.", effects=[])
    chat = await w.chat()
    await w.settle()
    assert shown(surface)[-1] is Status.SUSPENDED
    await (await only_question(chat)).approve(by=BEN)
    await w.settle()
    assert shown(surface)[-1] is Status.CLOSED
    assert surface.shows[0][0].root  # in its thread
    assert await waiting(w) == 0


async def test_a_chat_that_is_taken_up_for_nothing_is_not_at_work(db: Database) -> None:
    w, _ = watched(db, "Hello.")
    chat = await w.chat()
    await w.settle()
    async with w.db.transaction("lease") as tx:
        await chats.lease(tx, chat.id, owner="other", now=w.clock.now(), until=1e12)
    assert await truth(w, chat) is Status.CLOSED


async def test_a_chat_whose_call_runs_is_at_work(db: Database) -> None:
    slow = Slow()
    surface = Watched()
    w = world(db, call("refund"), "Done.", tools=[slow.tool()], surface=surface)
    chat = await w.chat()
    running = asyncio.create_task(chat.complete())
    await until(lambda: bool(slow.effects))
    await delivered(w, chat)
    slow.go.set()
    await running
    await delivered(w, chat)
    assert shown(surface) == [Status.PROCESSING, Status.CLOSED]


async def test_a_chat_that_is_to_be_stopped_is_at_work_until_it_is(db: Database) -> None:
    w, _ = watched(db, call("refund", order="A1"), "Done.", effects=[])
    chat = await w.chat()
    await w.settle()
    await chat.cancel(by=ANA)
    assert await truth(w, chat) is Status.PROCESSING


async def test_a_chat_that_owes_an_answer_is_at_work_though_nobody_holds_it(db: Database) -> None:
    w, surface = watched(db, fails(rate_limited(retry_after=600.0), then="Late."))
    chat = await w.chat()
    assert await truth(w, chat) is Status.PROCESSING  # said, and not taken up yet
    await w.settle()  # the model wants to be left alone for ten minutes
    assert shown(surface)[-1] is Status.PROCESSING
    w.clock.advance(601)
    await w.settle()
    assert shown(surface) == [Status.PROCESSING, Status.CLOSED]


async def test_a_surface_without_statuses_is_asked_for_none(db: Database) -> None:
    w = world(db, "Hello.")
    await w.chat()
    await w.settle()
    assert w.surface.shows == []
    assert await waiting(w) == 0


async def test_many_changes_before_one_is_shown_leave_one_row(db: Database) -> None:
    w, _ = watched(db, "Hello.")
    chat = await w.chat()
    place = await _place(w, chat)
    for _ in range(4):
        async with w.db.transaction("ask") as tx:
            nonce = f"n{w.clock.now()}"
            w.clock.advance(1)
            await outbox.show_status(tx, place, nonce=nonce, chat_id=chat.id, now=w.clock.now())
    assert await waiting(w) == 1


async def _place(w: World, chat: Chat) -> Place:
    async with w.db.read() as tx:
        row = await chats.get(tx, chat.id)
    assert row is not None
    return row.place


async def delivered(w: World, chat: Chat) -> None:
    """The channel's worker alone: nobody takes up the chat meanwhile."""
    await Deliverer(w.core).deliver((await _place(w, chat)).channel_key)


async def test_a_card_goes_out_before_the_status_of_its_chat(db: Database) -> None:
    w, surface = watched(db, call("refund", order="A1"), "Done.", effects=[])
    chat = await w.chat()
    await chat.complete()  # both wait now
    await delivered(w, chat)
    assert surface.order == ["post", "status"]


async def test_a_status_that_fails_is_tried_again_and_holds_up_nothing(db: Database) -> None:
    w, surface = watched(db, "Hello.")
    surface.trouble = [DeliveryError("busy") for _ in range(9)]
    chat = await w.chat()
    await chat.complete()
    for _ in range(12):
        await delivered(w, chat)
        w.clock.advance(300)
    assert surface.replies() == ["Hello."]
    assert surface.order == ["post", *["status"] * ATTEMPTS]
    assert await waiting(w) == 0
    async with w.db.read() as tx:
        assert await outbox.failures(tx, chat.id) == []


async def test_a_status_is_shown_when_the_surface_has_had_its_pause(db: Database) -> None:
    w, surface = watched(db, "Hello.")
    surface.trouble = [DeliveryError("slow down", retry_after=30.0) for _ in range(4)]
    chat = await w.chat()
    await chat.complete()
    for _ in range(6):
        await delivered(w, chat)
        w.clock.advance(31)
    assert shown(surface) == [Status.CLOSED]


async def test_what_is_shown_after_a_kill_is_what_is_true_then(db: Database) -> None:
    effects: list[str] = []
    w, surface = watched(db, call("refund", order="A1"), "Done.", effects=effects)
    chat = await w.chat()
    await chat.complete()  # killed before anything was sent
    after = await w.restart()
    await after.settle()
    assert shown(surface)[-1] is Status.SUSPENDED
    await (await only_question(after.here(chat))).approve(by=BEN)
    await after.settle()
    assert effects == ["refund A1"]
    assert shown(surface)[-1] is Status.CLOSED


async def test_a_stopped_chat_is_closed(db: Database) -> None:
    w, surface = watched(db, call("refund", order="A1"), "Done.", effects=[])
    chat = await w.chat()
    await w.settle()
    await chat.cancel(by=ANA)
    await w.settle()
    assert shown(surface)[-1] is Status.CLOSED


@pytest.mark.parametrize("state", ["waiting", "sending"])
async def test_a_change_while_another_is_on_its_way_is_shown_too(db: Database, state: str) -> None:
    w, _ = watched(db, "Hello.")
    chat = await w.chat()
    place = await _place(w, chat)
    async with w.db.transaction("ask") as tx:
        await outbox.show_status(tx, place, nonce="one", chat_id=chat.id, now=w.clock.now())
    if state == "sending":
        async with w.db.transaction("claim") as tx:
            assert await outbox.claim(
                tx, place.channel_key, now=w.clock.now(), until=w.clock.now() + 60, quiet=False
            )
    async with w.db.transaction("ask") as tx:
        await outbox.show_status(tx, place, nonce="two", chat_id=chat.id, now=w.clock.now())
    assert await waiting(w) == (2 if state == "sending" else 1)
