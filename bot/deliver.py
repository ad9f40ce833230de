"""The outbox worker: posts and edits one channel at a time, paced, retried, never doubled."""

from __future__ import annotations

import asyncio
import time

import structlog

from bot import arguments, drawing, pace
from bot.card import draw_task
from bot.core import Core, Job, new_id
from bot.outage import Outages
from bot.reminder import draw, is_reminder
from bot.reply import ANSWER_FILE, is_whole, may_grow, not_attached
from bot.session import status_of
from bot.surface import Content, DeliveryError, File, Pace, Posted, Reply, Surface
from storage import audit, calls, chats, files, outbox, paces, questions
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import Tx
from storage.outbox import Action, OutboxRow

log = structlog.get_logger(__name__)

LEASE_SECONDS = 60.0  # longer than any surface takes to answer or to time out
STALE_SECONDS = 5.0  # between a claim and its post; then the claim may be another's
ATTEMPTS = 8
BACKOFF_SECONDS = 1.0
BACKOFF_LIMIT = 300.0
UNKNOWN_VERSION = 0  # of a message that an earlier attempt left there: it is drawn anew


class Deliverer:
    """Delivers channels; the engine runs one handler per channel at a time."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._outages = Outages(core)

    async def deliver(self, channel: str) -> float | None:
        """Sends what is due in a channel; returns when to come back, None when nothing waits."""
        while True:
            now, began = self.core.now(), time.monotonic()
            async with self.core.db.transaction("claim_delivery") as tx:
                rate = self._rate(channel)
                state = await paces.get(tx, channel) or pace.fresh(channel, rate, now)
                ready_at = pace.ready_at(state, rate, now)
                row = await outbox.claim(
                    tx, channel, now=now, until=now + LEASE_SECONDS, quiet=ready_at > now
                )
                if row is None:
                    return await outbox.next_due(tx, channel, posts_from=ready_at)
                if row.action == Action.POST and rate.interval > 0:
                    await paces.put(tx, pace.spent(state, rate, now))
            await self._send(row, began)

    async def _send(self, row: OutboxRow, began: float) -> None:
        surface = self.core.surfaces.get(row.surface)
        if surface is None:
            await self._failed(row, DeliveryError(f"the surface {row.surface} is not running"))
            return
        if row.action == Action.STATUS:
            await self._show_status(surface, row)
            return
        async with self.core.db.read() as tx:
            drawn = await self._content(tx, row)
            copy = None if row.posting_id is None else await outbox.posting(tx, row.posting_id)
        if drawn is None:
            async with self.core.db.transaction("drop_reminder") as tx:
                await outbox.drop(tx, row)
            return
        content, version = drawn
        if time.monotonic() - began > STALE_SECONDS:
            await self._put_back(row)
            return
        try:
            match Action(row.action):
                case Action.WHISPER:
                    posted = Posted(row.place, "")
                    await surface.whisper(row.place, row.recipient or "", row.text or "")
                case Action.HOME:
                    await surface.show_home(row.organisation, row.recipient or "")
                    async with self.core.db.transaction("record_home") as tx:
                        await outbox.drop(tx, row)
                    return
                case Action.EDIT:
                    assert copy is not None
                    posted = Posted(copy.place, copy.message_id)
                    await surface.edit(copy.place, copy.message_id, content)
                case Action.POST:
                    posted, version = await self._post(surface, row, content, version)
                case Action.STATUS:
                    raise AssertionError("a status is no message")
        except DeliveryError as error:
            await self._failed(row, error)
            return
        except Exception as error:  # a defect in drawing must not block the channel for ever
            log.exception("a delivery raised", subject=row.subject)
            await self._failed(row, DeliveryError(type(error).__name__, maybe_sent=True))
            return
        await self._sent(row, posted, version)

    async def _put_back(self, row: OutboxRow) -> None:
        """This process stood still, and another may have sent it since."""
        log.warning("a delivery is looked at anew: this process stood still")
        async with self.core.db.transaction("put_back") as tx:
            if await outbox.holds(tx, row):
                sending = row.state == "sending"
                await outbox.again(
                    tx,
                    row,
                    at=self.core.now(),
                    error="",
                    maybe_sent=sending,
                    attempts=row.attempts,
                )

    async def _post(
        self, surface: Surface, row: OutboxRow, content: Content, version: int
    ) -> tuple[Posted, int]:
        """The message, and the version of its subject that it shows."""
        if row.state == "sending":  # a crash or a lost answer left it so: it may be there
            earlier = await surface.find(row.place, row.nonce, live=may_grow(row.subject))
            if earlier is not None and not await self._shows_other(earlier, row.subject):
                # A file is what it was: nothing edits it.
                return earlier, version if isinstance(content, File) else UNKNOWN_VERSION
        return await surface.post(row.place, content, row.nonce), version

    async def _shows_other(self, found: Posted, subject: str) -> bool:
        async with self.core.db.read() as tx:
            return await outbox.shows_other(tx, found.place, found.message_id, subject)

    async def _show_status(self, surface: Surface, row: OutboxRow) -> None:
        assert row.chat_id is not None
        async with self.core.db.read() as tx:
            status = await status_of(tx, row.chat_id, self.core.now())
        try:
            await surface.status(row.place, status)
        except DeliveryError as error:
            await self._failed(row, error)
            return
        except Exception as error:
            log.exception("a status raised", subject=row.subject)
            await self._failed(row, DeliveryError(type(error).__name__))
            return
        async with self.core.db.transaction("record_status") as tx:
            await outbox.drop(tx, row)

    async def _content(self, tx: Tx, row: OutboxRow) -> tuple[Content, int] | None:
        """What the row shows as of now, and which version of its subject that is; None: there is
        nothing to say any more."""
        if row.subject.startswith("question:"):
            question = await questions.get(tx, row.subject.removeprefix("question:"))
            assert question is not None
            assert question.call_id is not None
            call, chat = await self._call(tx, question.call_id)
            card = await drawing.card(tx, question, call, chat)
            return drawing.seen_from(card, row.place), question.version
        if row.subject.startswith("round:"):
            group = await drawing.group(tx, row.subject, row.place)
            return group, group.version
        if row.subject.startswith("task:"):
            call, chat = await self._call(tx, row.subject.removeprefix("task:"))
            version = await outbox.current_version(tx, row.subject)
            return draw_task(call, chat.agent, version), version
        if row.subject.startswith("file:"):
            file = await files.get(tx, row.subject.removeprefix("file:"))
            assert file is not None
            return File(file.name, file.mime_type, file.data), row.version
        if (call_id := arguments.call_of(row.subject)) is not None:
            call, _ = await self._call(tx, call_id)
            return await asyncio.to_thread(arguments.file_of, call), row.version
        if is_reminder(row.subject):
            told = await draw(self.core, tx, row)
            return None if told is None else (told, row.version)
        if is_whole(row.subject):
            return File(ANSWER_FILE, "text/markdown", (row.text or "").encode()), row.version
        alone = row.action in (Action.WHISPER, Action.HOME)
        post = row if alone else await outbox.post_of(tx, row.subject)
        assert post is not None
        return Reply(post.text or "", live=post.live), post.version

    async def _call(self, tx: Tx, call_id: str) -> tuple[CallRow, ChatRow]:
        call = await calls.get(tx, call_id)
        assert call is not None
        chat = await chats.get(tx, call.chat_id)
        assert chat is not None
        return call, chat

    async def _sent(self, row: OutboxRow, posted: Posted, version: int) -> None:
        posting_id = row.posting_id or new_id("posting")
        async with self.core.db.transaction("record_delivery") as tx:
            await self._lock(tx, row)
            await outbox.sent(
                tx,
                row,
                posting_id=posting_id,
                message_id=posted.message_id,
                place=posted.place,
                version=version,
                now=self.core.now(),
            )
            if posted.place.channel_key != row.place.channel_key:  # a redraw may wait there
                await self.core.wake(tx, Job.DELIVER, posted.place.channel_key)
            await self._outages.taken(tx, row)
            await self._unhold(tx, row)
            await arguments.settled(self.core, tx, row.subject)

    async def _lock(self, tx: Tx, row: OutboxRow) -> None:
        """The chat before the outbox, as every decision does it."""
        if row.chat_id is not None and row.action in (Action.POST, Action.EDIT):
            await chats.lock(tx, row.chat_id)

    async def _unhold(self, tx: Tx, row: OutboxRow) -> None:
        """The calls that waited for this card to lose their buttons may start."""
        if row.chat_id is None or row.action not in (Action.POST, Action.EDIT):
            return
        if row.subject.startswith("round:"):
            held = await calls.on_card(tx, row.subject)
        else:
            call = None if row.call_id is None else await calls.get(tx, row.call_id)
            held = [] if call is None else [call]
        if any(call.state == CallState.READY for call in held):
            await chats.stir(tx, row.chat_id)
            await self.core.wake(tx, Job.CHAT, row.chat_id)

    async def _failed(self, row: OutboxRow, error: DeliveryError) -> None:
        now = self.core.now()
        limited = error.retry_after is not None  # being told to wait is no failed attempt
        async with self.core.db.transaction("record_failure") as tx:
            await self._lock(tx, row)
            if error.retry_after is not None and row.action == Action.POST:
                await self._quiet(tx, row.place.channel_key, now + error.retry_after)
            over = error.permanent or (not limited and row.attempts + 1 >= ATTEMPTS)
            if over and row.action in (Action.STATUS, Action.HOME):
                log.warning("not shown", subject=row.subject, error=str(error))
                await outbox.drop(tx, row)
                return
            if over:
                await self._outages.given_up(tx, row, error)
                lost = error.locked_out or bool(error.unreachable)
                await outbox.give_up(tx, row, error=str(error), now=now, out_of_reach=lost)
                await audit.record(
                    tx,
                    "not_delivered",
                    now=now,
                    chat_id=row.chat_id,
                    subject=row.subject,
                    error=str(error),
                )
                await self._unhold(tx, row)
                await arguments.settled(self.core, tx, row.subject)
                if is_whole(row.subject):
                    await not_attached(self.core, tx, row.subject)
                return
            wait = error.retry_after or min(BACKOFF_LIMIT, BACKOFF_SECONDS * 2**row.attempts)
            log.warning("delivery failed", subject=row.subject, error=str(error), again_in=wait)
            await outbox.again(
                tx,
                row,
                at=now + wait,
                error=str(error),
                maybe_sent=error.maybe_sent or row.state == "sending",
                attempts=row.attempts + (0 if limited else 1),
            )

    def _rate(self, channel: str) -> Pace:
        surface = self.core.surfaces.get(channel.partition(":")[0])
        return Pace() if surface is None else surface.pace

    async def _quiet(self, tx: Tx, channel: str, until: float) -> None:
        fresh = pace.fresh(channel, self._rate(channel), self.core.now())
        await paces.put(tx, pace.quiet(await paces.get(tx, channel) or fresh, until))
