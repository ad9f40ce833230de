"""A reply that grows: shown as such while it does, and as whole when it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from bot.chat import Chat
from bot.core import Core
from bot.deliver import Deliverer
from bot.reply import LiveReply, may_grow, say, unsay
from bot.surface import Content, DeliveryError, Place, Posted, Reply
from storage import chats, outbox
from storage.chats import ChatRow
from storage.database import Database
from tests.fakes.model import call, dropped, fails, hangs
from tests.fakes.surface import MemorySurface
from tests.world import ANA, World, effect, until, world


@dataclass
class Streaming(MemorySurface):
    """Keeps every reply it was given, and finds a stray one where nothing carries the nonce."""

    given: list[Reply] = field(default_factory=list)
    stray: str = ""
    looked: list[bool] = field(default_factory=list)

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        self._keep(content)
        return await super().post(place, content, nonce)

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        self._keep(content)
        await super().edit(place, message_id, content)

    async def find(self, place: Place, nonce: str, *, live: bool = False) -> Posted | None:
        self.looked.append(live)
        found = await super().find(place, nonce)
        return found or (Posted(place, self.stray) if live and self.stray else None)

    def _keep(self, content: Content) -> None:
        if isinstance(content, Reply):
            self.given.append(content)


async def held(w: World, chat: Chat) -> ChatRow:
    async with w.db.transaction("lease") as tx:
        row = await chats.lease(tx, chat.id, owner="me", now=w.clock.now(), until=1e12)
    assert row is not None
    return row


async def said(core: Core, chat: ChatRow, text: str, *, live: bool = False) -> None:
    async with core.db.transaction("say") as tx:
        await say(core, tx, chat, f"reply:{chat.id}:1", text, live=live)


async def started(db: Database) -> tuple[World, Streaming, ChatRow]:
    surface = Streaming()
    w = world(db, surface=surface)
    return w, surface, await held(w, await w.chat(None))


async def deliver(w: World, chat: ChatRow) -> None:
    await Deliverer(w.core).deliver(chat.place.channel_key)


async def finished(w: World, chat: Chat) -> None:
    """The chat was carried on, with time passing, and all of it was delivered."""
    running = asyncio.create_task(chat.complete())
    async with asyncio.timeout(30):
        while not running.done():
            w.clock.advance(1)
            await asyncio.sleep(0.01)
    await w.settle()


async def test_a_reply_is_live_while_it_grows_and_whole_at_the_end(db: Database) -> None:
    w, surface, chat = await started(db)
    live = LiveReply(w.core, chat, f"reply:{chat.id}:1", 30.0)
    for text in ("Half", "Half an", "Half an answer"):
        w.clock.advance(2)
        await live.show(text)
        await deliver(w, chat)
    await said(w.core, chat, "Half an answer, and the rest.")
    await deliver(w, chat)
    assert surface.given == [
        Reply("Half", live=True),
        Reply("Half an", live=True),
        Reply("Half an answer", live=True),
        Reply("Half an answer, and the rest."),
    ]


async def test_that_a_reply_grows_no_more_is_delivered_though_its_text_is_the_same(
    db: Database,
) -> None:
    w, surface, chat = await started(db)
    await said(w.core, chat, "Whole.", live=True)
    await deliver(w, chat)
    await said(w.core, chat, "Whole.")
    await deliver(w, chat)
    await said(w.core, chat, "Whole.")  # nothing new
    await deliver(w, chat)
    assert surface.given == [Reply("Whole.", live=True), Reply("Whole.")]


async def test_a_reply_that_is_whole_before_it_was_posted_is_posted_as_whole(db: Database) -> None:
    w, surface, chat = await started(db)
    await said(w.core, chat, "Half", live=True)
    await said(w.core, chat, "Half and half.")
    await deliver(w, chat)
    assert surface.given == [Reply("Half and half.")]


async def test_what_a_tool_says_of_its_progress_is_not_live(db: Database) -> None:
    w, surface, chat = await started(db)
    async with w.db.transaction("say") as tx:
        await say(w.core, tx, chat, "progress:c1", "1 of 3", priority=outbox.Priority.LIVE)
    await deliver(w, chat)
    assert surface.given == [Reply("1 of 3")]


async def test_what_was_said_is_taken_back_and_grows_no_more(db: Database) -> None:
    w, surface, chat = await started(db)
    await said(w.core, chat, "Let me", live=True)
    await deliver(w, chat)
    async with w.db.transaction("unsay") as tx:
        await unsay(w.core, tx, chat, f"reply:{chat.id}:1")
        await unsay(w.core, tx, chat, f"reply:{chat.id}:2")  # was never said
    await deliver(w, chat)
    assert surface.given == [Reply("Let me", live=True), Reply("(withdrawn)")]


async def test_text_of_an_attempt_that_failed_is_taken_back_when_the_next_says_nothing(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.reply.LIVE_SECONDS", 0.0)
    surface = Streaming()
    effects: list[str] = []
    tool = effect(effects, approval="never")
    first = fails(dropped(), then=call("refund", order="A1"), after="Let me think")
    w = world(db, first, "Done.", tools=[tool], surface=surface)
    await finished(w, await w.chat())
    assert effects == ["refund A1"]
    assert surface.replies()[-1] == "Done."
    assert not [one for one in surface.replies() if "Let me" in one]
    assert not [one for one in _last(surface) if one.live]


def _last(surface: Streaming) -> list[Reply]:
    contents = [one.content for one in surface.shown.values()]
    return [one for one in contents if isinstance(one, Reply)]


@pytest.mark.parametrize("ending", ["stopped", "failed"])
async def test_a_turn_that_ends_in_our_words_is_live_no_more(
    db: Database, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr("bot.reply.LIVE_SECONDS", 0.0)
    surface = Streaming()
    steps = [hangs("Half an ans", then="x")] if ending == "stopped" else []
    w = world(db, *steps, surface=surface)
    chat = await w.chat()
    running = asyncio.create_task(finished(w, chat))
    if ending == "stopped":
        await until(lambda: bool(w.model.requests))
        await chat.cancel(by=ANA)
    await running
    assert len(surface.shown) == 1
    assert not _last(surface)[0].live
    assert ("Stopped." in surface.replies()) is (ending == "stopped")


# A crash between the beginning of a stream and its record


async def test_what_a_dead_process_began_to_stream_is_gone_on_with(db: Database) -> None:
    w, surface, chat = await started(db)
    await said(w.core, chat, "Half", live=True)
    surface.failures = [DeliveryError("dropped", maybe_sent=True)]
    await deliver(w, chat)
    (message,) = surface.shown
    surface.shown[message].nonce = ""  # a stream carries none
    surface.stray = message
    await said(w.core, chat, "Half and half.")
    w.clock.advance(100)
    await deliver(w, chat)
    assert surface.replies() == ["Half and half."]
    assert surface.looked == [True]


async def test_a_stray_message_that_shows_something_else_is_not_taken(db: Database) -> None:
    w, surface, chat = await started(db)
    await said(w.core, chat, "An earlier reply", live=True)
    await deliver(w, chat)
    (surface.stray,) = surface.shown
    surface.shown[surface.stray].nonce = ""
    async with w.db.transaction("say") as tx:
        await say(w.core, tx, chat, f"reply:{chat.id}:3", "A later one", live=True)
    surface.failures = [DeliveryError("lost", maybe_sent=True)]
    await deliver(w, chat)
    (lost,) = [key for key in surface.shown if key != surface.stray]
    del surface.shown[lost]  # it did not get through
    w.clock.advance(100)
    await deliver(w, chat)
    assert surface.looked == [True]
    assert surface.replies() == ["An earlier reply", "A later one"]


def test_only_the_beginning_of_a_reply_is_looked_for_as_a_stream() -> None:
    assert may_grow("reply:chat_1:5")
    for subject in ("reply:chat_1:5.1", "question:q", "task:t", "progress:c", "rule:c", "file:f"):
        assert not may_grow(subject)
