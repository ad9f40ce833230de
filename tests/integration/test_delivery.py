"""The outbox: everything is posted once, in order, at the surface's pace, or visibly not."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import pytest

from bot.approvers import Policies
from bot.card import Card
from bot.core import Core, Job
from bot.deliver import ATTEMPTS, STALE_SECONDS, Deliverer
from bot.desk import Desk
from bot.move import HOLD_SECONDS
from bot.question import Verb
from bot.reply import say
from bot.surface import Content, Decision, DeliveryError, Pace, Place, Posted, Reply
from bot.tool import tool
from storage import chats, outbox
from storage.database import Database, Tx
from storage.outbox import OutboxRow
from tests.fakes.model import call
from tests.fakes.surface import MemorySurface
from tests.world import BEN, World, audited, copies, effect, only_question, until, world

HERE = Place("slack", "T1", "C1", "root")


@dataclass
class SlowSurface(MemorySurface):
    """Posts stay on their way until they are let go."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        posted = await super().post(place, content, nonce)
        self.arrived.set()
        await self.go.wait()
        return posted


@dataclass
class Mail:
    """Texts in a channel, delivered by one worker."""

    world: World
    worker: Deliverer

    async def post(self, *texts: str, place: Place = HERE) -> None:
        async with self.world.db.transaction("test_post") as tx:
            for text in texts:
                await outbox.post(
                    tx,
                    place,
                    nonce=f"n:{text}",
                    subject=f"reply:{text}",
                    text=text,
                    now=self.world.clock.now(),
                )

    async def deliver(self, place: Place = HERE) -> float | None:
        """Delivers; the seconds after which it wants to come back."""
        at = await self.worker.deliver(place.channel_key)
        return None if at is None else at - self.world.clock.now()

    async def after(self, seconds: float) -> float | None:
        self.world.clock.advance(seconds)
        return await self.deliver()

    @property
    def shown(self) -> list[str]:
        return self.world.surface.replies()


def mail(db: Database, *, pace: Pace | None = None) -> Mail:
    w = world(db)
    w.surface.pace = pace or Pace()
    return Mail(w, Deliverer(w.core))


async def rows_of(db: Database, subject: str) -> OutboxRow:
    async with db.read() as tx:
        row = await outbox.post_of(tx, subject)
    assert row is not None
    return row


async def test_the_text_of_a_response_is_posted_before_its_cards(db: Database) -> None:
    w = world(db, ["Let me refund both.", call("refund"), call("refund")], tools=[effect([])])
    await w.chat()

    await w.settle()

    first, *rest = [one.content for one in w.surface.shown.values()]
    assert first == Reply("Let me refund both.")
    assert len(rest) == len(w.surface.cards()) == 2


async def test_posts_keep_the_pace_of_the_surface_and_their_order(db: Database) -> None:
    m = mail(db, pace=Pace(interval=2.0, burst=2))
    await m.post("1", "2", "3", "4")

    assert await m.deliver() == 2.0
    assert m.shown == ["1", "2"]
    assert await m.after(1.0) == 1.0
    assert m.shown == ["1", "2"]
    assert await m.after(1.0) == 2.0
    assert m.shown == ["1", "2", "3"]
    assert await m.after(2.0) is None
    assert m.shown == ["1", "2", "3", "4"]


async def test_an_edit_does_not_wait_for_the_pace_of_posts(db: Database) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])])
    w.surface.pace = Pace(interval=60.0, burst=1)
    handlers = w.handlers
    chat = await w.chat()
    await w.engine.settle(handlers)

    await (await only_question(chat)).approve(by=BEN)
    await w.engine.settle(handlers)

    assert not w.surface.cards()[0].open
    assert w.surface.replies() == []


async def test_the_retry_of_an_edit_does_not_wait_for_the_pace_of_posts(db: Database) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])])
    w.surface.pace = Pace(interval=600.0, burst=1)
    handlers = w.handlers
    chat = await w.chat()
    await w.engine.settle(handlers)
    w.surface.failures.append(DeliveryError("busy"))
    await (await only_question(chat)).approve(by=BEN)
    await w.engine.settle(handlers)
    assert w.surface.cards()[0].open

    w.clock.advance(1.0)
    await w.engine.settle(handlers)

    assert not w.surface.cards()[0].open


async def test_a_text_that_grows_is_posted_once_and_edited_to_its_latest_state(
    db: Database,
) -> None:
    w = world(db)
    chat = await w.chat(None)
    async with db.read() as tx:
        row = await chats.get(tx, chat.id)
    assert row is not None

    async def speak(*texts: str) -> None:
        for text in texts:
            async with db.transaction("test_say") as tx:
                await say(w.core, tx, row, "reply:growing", text)

    await speak("a", "ab", "abc")
    await w.settle()
    assert w.surface.replies() == ["abc"]
    await speak("abcd", "abcde", "abcdef", "abcdef")
    await w.settle()

    (shown,) = w.surface.shown.values()
    assert shown.content == Reply("abcdef")
    assert shown.edits == 1


async def test_a_surface_that_says_when_is_not_asked_before_and_loses_nothing(
    db: Database,
) -> None:
    m = mail(db)
    m.world.surface.failures += [DeliveryError("slow down", retry_after=30.0)]
    await m.post("1")

    assert await m.deliver() == 30.0
    assert await m.after(29.0) == 1.0
    assert m.shown == []
    assert await m.after(1.0) is None
    assert m.shown == ["1"]


async def test_being_told_to_wait_is_never_a_reason_to_give_up(db: Database) -> None:
    m = mail(db)
    times = 2 * ATTEMPTS
    m.world.surface.failures += [DeliveryError("slow down", retry_after=5.0)] * times
    await m.post("1")

    for _ in range(times + 1):
        await m.after(5.0)

    assert m.shown == ["1"]


async def test_posts_keep_their_order_when_the_surface_says_wait(db: Database) -> None:
    m = mail(db)
    m.world.surface.failures += [DeliveryError("slow down", retry_after=30.0)]
    await m.post("1", "2", "3")

    assert await m.deliver() == 30.0
    assert m.shown == []
    await m.after(30.0)

    assert m.shown == ["1", "2", "3"]


async def test_a_failed_post_is_repeated_with_growing_waits(db: Database) -> None:
    m = mail(db)
    m.world.surface.failures += [DeliveryError("busy") for _ in range(4)]
    await m.post("1")

    waits = [await m.deliver()]
    for _ in range(3):
        waits.append(await m.after(waits[-1] or 0.0))

    assert waits == [1.0, 2.0, 4.0, 8.0]
    assert await m.after(7.9) is not None
    assert m.shown == []
    await m.after(0.2)
    assert m.shown == ["1"]


async def test_a_post_that_never_gets_through_is_given_up_and_that_is_on_record(
    db: Database,
) -> None:
    @dataclass
    class NoReplies(MemorySurface):
        async def post(self, place: Place, content: Content, nonce: str) -> Posted:
            if isinstance(content, Reply):
                raise DeliveryError("busy")
            return await super().post(place, content, nonce)

    model = world(db, ["Let me.", call("refund")]).model
    w = World(db, [effect([])], model, surface=NoReplies())
    chat = await w.chat()

    for _ in range(ATTEMPTS + 1):
        await w.settle()
        w.clock.advance(300.0)

    (given_up,) = await audited(chat, "not_delivered")
    assert given_up.detail["error"] == "busy"
    async with db.read() as tx:
        assert [row.text for row in await outbox.failures(tx, chat.id)] == ["Let me."]
    assert len(w.surface.cards()) == 1  # what came after it was not held up


@pytest.mark.row("B33")
async def test_a_channel_that_is_gone_is_given_up_at_once_and_others_are_served(
    db: Database,
) -> None:
    w = world(db, "Hello.")
    w.surface.failures += [DeliveryError("channel_not_found", permanent=True)]
    chat = await w.chat()
    await w.settle()
    assert len(await audited(chat, "not_delivered")) == 1
    assert await chat.last_reply() == "Hello."

    await w.chat()
    await w.settle()

    assert w.surface.replies() == ["Hello."]


async def test_a_post_whose_answer_was_lost_is_found_and_not_doubled(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    w.surface.failures += [DeliveryError("connection reset", maybe_sent=True)]
    chat = await w.chat()
    await w.settle()
    w.clock.advance(1.0)
    await w.settle()

    question = await only_question(chat)
    (copy,) = await copies(chat, question)
    assert w.surface.posts == 1
    assert w.surface.shown[copy.message_id].nonce == question.nonce
    await question.approve(by=BEN)
    await w.settle()
    assert not w.surface.cards()[0].open


async def test_a_post_that_a_dropped_connection_did_lose_is_sent_again(db: Database) -> None:
    m = mail(db)
    m.world.surface.failures += [DeliveryError("connection reset", maybe_sent=True)]
    await m.post("1")
    await m.deliver()
    m.world.surface.shown.clear()

    await m.after(1.0)

    assert m.shown == ["1"]


async def test_a_defect_of_an_adapter_is_a_failed_delivery_and_ends(db: Database) -> None:
    @dataclass
    class Broken(MemorySurface):
        async def post(self, place: Place, content: Content, nonce: str) -> Posted:
            self.posts += 1
            raise KeyError("ts")

    m = mail(db)
    m.world.core.surfaces["slack"] = broken = Broken()
    await m.post("1")

    for _ in range(2 * ATTEMPTS):
        await m.after(300.0)

    assert broken.posts == ATTEMPTS
    assert (await rows_of(db, "reply:1")).state == "failed"


class Killed(BaseException):
    """The process is gone."""


async def test_a_crash_between_a_post_and_its_record_does_not_post_twice(
    sqlite_db: Database,
) -> None:
    w = world(sqlite_db, call("refund"), "Done.", tools=[effect([])])
    chat = await w.chat()

    def die(point: str) -> None:
        if point == "before record_delivery":
            raise Killed

    sqlite_db.points = die
    await w.settle()
    assert w.surface.posts == 1
    assert await copies(chat, await only_question(chat)) == []

    sqlite_db.points = lambda point: None
    w = await w.restart()
    await w.settle()

    assert w.surface.posts == 1
    await (await only_question(w.here(chat))).approve(by=BEN)
    await w.settle()
    (card,) = w.surface.cards()
    assert card.outcome.startswith("Approved by ben")


async def test_a_lost_wake_of_a_delivery_is_made_good_at_the_start(db: Database) -> None:
    m = mail(db)
    await m.post("1")

    w = await m.world.restart()
    await w.settle()

    assert m.shown == ["1"]


# Settled cards


@pytest.mark.row("B39")
async def test_the_buttons_are_gone_before_the_tool_starts(db: Database) -> None:
    seen: list[str] = []

    @tool
    async def refund() -> str:
        (card,) = w.surface.cards()
        seen.append(card.outcome)
        return "refunded"

    w = world(db, call("refund"), "Done.", tools=[refund])
    chat = await w.chat()
    await w.settle()

    await (await only_question(chat)).approve(by=BEN)
    await w.settle()

    (outcome,) = seen
    assert outcome.startswith("Approved by ben")


@pytest.mark.row("B39")
async def test_a_card_that_cannot_be_redrawn_holds_its_call_for_a_while_only(
    db: Database,
) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    w.surface.failures += [DeliveryError("slow down", retry_after=1000.0)]
    await (await only_question(chat)).approve(by=BEN)
    await w.settle()
    assert effects == []

    w.clock.advance(HOLD_SECONDS)
    await w.settle()

    assert effects == ["refund A1"]


@pytest.mark.row("B39")
async def test_a_card_that_is_gone_does_not_hold_its_call(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await w.chat()
    await w.settle()
    w.surface.failures += [DeliveryError("message_not_found", permanent=True)]

    await (await only_question(chat)).approve(by=BEN)
    await w.settle()

    assert effects == ["refund A1"]


@pytest.mark.row("B29")
async def test_a_card_says_approved_only_after_the_decision_is_durable(db: Database) -> None:
    order: list[str] = []

    @dataclass
    class Watched(MemorySurface):
        async def edit(self, place: Place, message_id: str, content: Content) -> None:
            order.append("edit")
            await super().edit(place, message_id, content)

    w = World(db, [effect([])], world(db, call("refund"), "Done.").model, surface=Watched())
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)

    def lost(point: str) -> None:
        if point == "before decide":
            raise Killed

    db.points = lost
    with pytest.raises(Killed):
        await question.approve(by=BEN)
    db.points = order.append
    await w.settle()
    assert "edit" not in order
    assert w.surface.cards()[0].open

    await question.approve(by=BEN)
    await w.settle()

    assert order.index("after decide") < order.index("edit")
    assert not w.surface.cards()[0].open


async def test_a_card_settled_while_its_post_was_on_its_way_is_redrawn(db: Database) -> None:
    w = World(
        db, [effect([])], world(db, call("refund"), "Done.").model, surface=(slow := SlowSurface())
    )
    chat = await w.chat()
    delivering = asyncio.create_task(w.settle())
    await until(slow.arrived.is_set)

    await (await only_question(chat)).approve(by=BEN)
    slow.go.set()
    await delivering

    (card,) = slow.cards()
    assert card.outcome.startswith("Approved by ben")


async def test_a_card_settled_in_the_moment_its_post_is_recorded_is_redrawn(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither transaction sees the other's rows, unless one of them waits."""
    slow = SlowSurface()
    w = World(db, [effect([])], world(db, call("refund"), "Done.").model, surface=slow)
    chat = await w.chat()
    delivering = asyncio.create_task(w.settle())
    await until(slow.arrived.is_set)
    question = await only_question(chat)
    edit_all = outbox.edit_all

    async def meanwhile_recorded(tx: Tx, subject: str, **options: object) -> list[str]:
        channels = await edit_all(tx, subject, **options)  # type: ignore[arg-type]
        if tx.name == "decide":
            slow.go.set()
            await asyncio.sleep(0.2)
        return channels

    monkeypatch.setattr(outbox, "edit_all", meanwhile_recorded)
    await question.approve(by=BEN)
    await delivering
    await w.settle()

    (card,) = slow.cards()
    assert card.outcome.startswith("Approved by ben")


@pytest.mark.row("B31")
async def test_a_decision_made_elsewhere_reaches_the_thread(db: Database) -> None:
    w = world(db, call("refund"), "Refunded.", tools=[effect([])])
    chat = await w.chat()
    await w.settle()
    elsewhere = Desk(Core(db=db, clock=w.clock, wake=w.engine.wake, policies=Policies(w.policies)))

    (question,) = await elsewhere.pending(chat.id)
    await elsewhere.decide(question.id, Verb.APPROVE, by=BEN, via="cli")
    await w.settle()

    assert w.surface.cards()[0].outcome.startswith("Approved by ben")
    assert w.surface.replies() == ["Refunded."]


@pytest.mark.row("B38")
async def test_every_copy_of_a_card_settles_wherever_it_was_decided(db: Database) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)
    private = Place("slack", "T1", "D-BEN", "D-BEN")
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
    assert len(w.surface.cards()) == 2

    response = await w.service.decide(
        Decision(nonce=question.nonce, verb=Verb.APPROVE, actor=BEN, via="button", place=private)
    )
    await w.settle()

    assert response.done
    assert [card.open for card in w.surface.cards()] == [False, False]


@pytest.mark.row("B39")
async def test_a_card_that_is_decided_while_it_is_being_posted_loses_its_buttons_first(
    sqlite_db: Database,
) -> None:
    """Somebody decides elsewhere in the moment in which the card is on its way."""
    seen: list[bool] = []
    there: list[World] = []

    @tool(name="refund")
    async def refund() -> str:
        """Looks at its own card."""
        seen.append(any(card.open for card in there[0].surface.cards()))
        return "done"

    w = world(sqlite_db, call("refund"), "Done.", tools=[refund])
    there.append(w)
    chat = await w.chat()
    post = w.surface.post

    async def decided_meanwhile(place: Place, content: Content, nonce: str) -> Posted:
        posted = await post(place, content, nonce)
        if isinstance(content, Card) and content.open:
            await (await only_question(chat)).approve(by=BEN)
            await chat.complete()  # another process carries on at once
        return posted

    w.surface.post = decided_meanwhile  # type: ignore[method-assign]
    await w.settle()
    await w.settle()
    assert seen == [False]
    assert await chat.last_reply() == "Done."


async def test_a_card_that_was_found_again_is_drawn_as_its_question_stands_now(
    sqlite_db: Database,
) -> None:
    """The answer to its post was lost, and it was decided before it was looked for."""
    w = world(sqlite_db, call("refund"), "Done.", tools=[effect([])])
    w.surface.failures.append(DeliveryError("the line dropped", maybe_sent=True))
    chat = await w.chat()
    await w.settle()
    assert [card.open for card in w.surface.cards()] == [True]
    await (await only_question(chat)).approve(by=BEN)
    w.clock.advance(5)
    await w.settle()
    assert [card.open for card in w.surface.cards()] == [False]
    assert await chat.last_reply() == "Done."


async def test_a_process_that_stood_still_does_not_post_what_another_has_sent(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = mail(db)
    other = Deliverer(box.world.core)
    await box.post("one")
    content = box.worker._content
    stood = 0.0

    async def slowly(tx: Tx, row: OutboxRow) -> tuple[Content, int] | None:
        nonlocal stood
        if not stood:
            stood = STALE_SECONDS + 1
            async with db.transaction("dead") as dead:
                await outbox.release_from(dead, HERE.channel_key)
            await other.deliver(HERE.channel_key)
        return await content(tx, row)

    clock = time.monotonic
    monkeypatch.setattr("bot.deliver.time.monotonic", lambda: clock() + stood)
    monkeypatch.setattr(box.worker, "_content", slowly)
    await box.worker.deliver(HERE.channel_key)

    assert box.world.surface.posts == 1
    assert box.world.surface.replies() == ["one"]


async def test_a_process_that_stood_still_posts_what_nobody_has_sent(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = mail(db)
    await box.post("one")
    clock, times = time.monotonic, iter((0.0, STALE_SECONDS + 1))
    monkeypatch.setattr("bot.deliver.time.monotonic", lambda: clock() + next(times, 100.0))

    await box.worker.deliver(HERE.channel_key)

    assert box.world.surface.replies() == ["one"]
