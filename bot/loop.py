"""The loop of a chat: lease it, make its moves, let it go (design: complete())."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, assert_never

import structlog

from bot.core import Core, Job
from bot.intake import WaitForFile, fetch_next, take_up, thread_before
from bot.lease import LEASE_SECONDS, Held, LeaseLost, beating
from bot.move import AskModel, Fetch, Idle, Move, Pause, RunCalls, Send, Snapshot, Stop, next_move
from bot.opening import open_outcome
from bot.reply import close_turn
from bot.results import append_results
from bot.run import ATTEMPTS, CallRunner
from bot.session import announce
from bot.stop import stop
from bot.tool import NobodyToAsk
from bot.transcript import Piece
from bot.turn import TurnRunner, WaitForModel
from storage import attachments, calls, chats, messages
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import DatabaseUnavailable, Tx

FAILURES = 5  # of a chat in a row, after which its turn is given up

log = structlog.get_logger(__name__)


class Loop:
    """Runs chats; `owner` names this process in the leases it takes."""

    def __init__(self, core: Core, owner: str) -> None:
        self.core = core
        self.owner = owner
        self._failures: dict[str, int] = {}  # in a row, by chat

    async def complete(self, chat_id: str) -> float | None:
        """Carries the chat on until it waits for somebody or owes nothing.

        Returns when to look again: none, until it is woken. Does nothing while another runner
        holds the chat, and calls neither tools nor the model while it waits (row Q26)."""
        return await self._run(chat_id, moves=None)

    async def step(self, chat_id: str) -> float | None:
        """Makes one move."""
        return await self._run(chat_id, moves=1)

    async def _run(self, chat_id: str, moves: int | None) -> float | None:
        held = await self._lease(chat_id)
        if held is None:
            return None
        try:
            async with beating(held):
                again_at = await _Drive(self.core, held).go(moves)
        except LeaseLost:
            log.warning("lease lost", chat=chat_id)
            return None
        except Exception as error:
            if await self._given_up(held, error):
                return None
            await self._let_go(held)  # or nobody could carry the chat on until the lease ran out
            raise
        self._failures.pop(chat_id, None)
        return again_at

    async def _given_up(self, held: Held, error: Exception) -> bool:
        """A turn that fails again and again, for a reason nobody foresaw, is ended in words:
        a chat that is tried for ever says nothing and costs a model request each time."""
        if isinstance(error, DatabaseUnavailable | NobodyToAsk):
            return False
        failures = self._failures[held.chat.id] = self._failures.get(held.chat.id, 0) + 1
        if failures < FAILURES:
            return False
        async with self.core.db.transaction("give_up_turn") as tx:
            await held.fence(tx)
            last = await messages.last(tx, held.chat.id)
            if last is None or last.position is None or last.kind != "request":
                return False
            log.error("a turn is given up", chat=held.chat.id, error=type(error).__name__)
            text = "I could not finish this because of a fault on my side. Write to try again."
            await close_turn(self.core, tx, held.chat, last.position + 1, text)
            await chats.release(tx, held.chat.id, held.chat.epoch, stirs=None, wake_at=None)
            await announce(self.core, tx, held.chat)
            await self.core.wake(tx, Job.CHAT, held.chat.id)
        self._failures.pop(held.chat.id, None)
        return True

    async def _let_go(self, held: Held) -> None:
        with contextlib.suppress(DatabaseUnavailable):
            async with self.core.db.transaction("let_go") as tx:
                await chats.release(tx, held.chat.id, held.chat.epoch, stirs=None, wake_at=None)
                await announce(self.core, tx, held.chat)

    async def _lease(self, chat_id: str) -> Held | None:
        now = self.core.now()
        async with self.core.db.transaction("lease_chat") as tx:
            chat = await chats.lease(
                tx, chat_id, owner=self.owner, now=now, until=now + LEASE_SECONDS
            )
            if chat is None:
                return None
            for call in await calls.stranded(tx, chat.id, chat.epoch):
                await self._recover(tx, chat, call)
            await announce(self.core, tx, chat)
            return Held(self.core, chat)

    async def _recover(self, tx: Tx, chat: ChatRow, call: CallRow) -> None:
        """A call whose runner was lost between its claim and its record (row D24)."""
        tool = self.core.tool(chat.agent, call.name)
        if call.task is not None or (tool and tool.idempotent and call.attempt < ATTEMPTS):
            await calls.move(tx, call.id, was=[CallState.RUNNING], to=CallState.READY)
            return
        await calls.move(tx, call.id, was=[CallState.RUNNING], to=CallState.UNKNOWN)
        await open_outcome(self.core, tx, chat, call)


class _Drive:
    """One hold of one chat."""

    def __init__(self, core: Core, held: Held) -> None:
        self.core = core
        self.held = held
        self.chat = held.chat
        self.running: dict[str, asyncio.Task[None]] = {}
        self.call_runner = CallRunner(core, held)
        self.turn_runner = TurnRunner(core, held)

    async def go(self, moves: int | None) -> float | None:
        try:
            while True:
                self.held.stirred.clear()
                snapshot = await self._look()
                move = next_move(snapshot, running=set(self.running), time=self.core.now())
                if not self._moves_on(move) and not self.running:
                    until = move.until if isinstance(move, Pause) else None
                    if await self._release(snapshot.chat.stirs, until):
                        return until
                    continue
                if moves is not None:
                    if moves == 0 and not self.running:
                        await self._release(None, None)
                        return None
                    moves = max(0, moves - 1)
                try:
                    await self._make(move, snapshot)
                except (WaitForModel, WaitForFile) as wait:
                    await self._release(None, wait.at)
                    return wait.at
        except asyncio.CancelledError:  # the process is told to go: what runs becomes unknown
            for task in self.running.values():
                task.cancel()
            raise
        finally:
            # What runs has its effect anyway; its outcome is recorded even when the lease is lost
            # (rule 4).
            await asyncio.gather(*self.running.values(), return_exceptions=True)

    def _moves_on(self, move: Move) -> bool:
        return not isinstance(move, Pause | Idle)

    async def _look(self) -> Snapshot:
        async with self.core.db.read() as tx:
            chat = await chats.get(tx, self.chat.id)
            if chat is None or chat.epoch != self.chat.epoch:
                raise LeaseLost
            last = await messages.last(tx, chat.id)
            is_response = last is not None and last.kind == "response"
            round_ = await calls.of_round(tx, last.id) if last and is_response else []
            ready = [call.id for call in round_ if call.state == CallState.READY]
            held = await calls.held_since(tx, ready) if ready else {}
            queued = await messages.queued(tx, chat.id)
            fetching = await attachments.next_waiting(tx, chat.id) is not None
        self.held.chat = self.chat = chat
        if chat.cancelled_by is None:
            self.held.cancelled.clear()  # a stop that was heard as it was carried out
        return Snapshot(
            chat=chat, last=last, calls=round_, queued=queued, held=held, fetching=fetching
        )

    async def _make(self, move: Move, snapshot: Snapshot) -> None:
        match move:
            case RunCalls():
                for call in move.calls:
                    self.running[call.id] = asyncio.create_task(self.call_runner.run(call.id))
            case Pause(until):
                await self._wait(until)
            case Idle():
                await self._wait(None)
            case Fetch():
                await fetch_next(self.core, self.held)
            case Send():
                await self._send(snapshot)
            case AskModel():
                assert snapshot.last is not None
                await self.turn_runner.turn(snapshot.last)
            case Stop():
                await stop(self.core, self.held, snapshot, running=set(self.running))
            case unreachable:
                assert_never(unreachable)

    async def _wait(self, until: float | None) -> None:
        """Until a call of ours ends, something came in, or it is time."""
        news: list[asyncio.Task[Any]] = [
            asyncio.create_task(event.wait()) for event in (self.held.stirred, self.held.lost)
        ]
        if until is not None:
            wait = self.core.clock.sleep(until - self.core.now())
            news.append(asyncio.create_task(wait))
        try:
            await asyncio.wait([*self.running.values(), *news], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in news:
                waiter.cancel()
        if self.held.lost.is_set():
            raise LeaseLost
        for call_id, task in list(self.running.items()):
            if task.done():
                del self.running[call_id]
                task.result()

    async def _release(self, stirs: int | None, wake_at: float | None) -> bool:
        async with self.core.db.transaction("release_chat") as tx:
            released = await chats.release(
                tx, self.chat.id, self.chat.epoch, stirs=stirs, wake_at=wake_at
            )
            if released:
                await announce(self.core, tx, self.chat)
                return True
            now = await chats.get(tx, self.chat.id)
        if now is None or now.epoch != self.chat.epoch:
            raise LeaseLost
        return False

    async def _send(self, snapshot: Snapshot) -> None:
        """The results of the round and what people said meanwhile become history."""
        last = snapshot.last
        position = 0 if last is None or last.position is None else last.position
        before: list[Piece] = []
        if last is None and snapshot.queued:
            before = await thread_before(self.core, self.chat, snapshot.queued[0])
        async with self.core.db.transaction("send_results") as tx:
            await self.held.fence(tx)
            position = await append_results(self.core, tx, self.chat, position, snapshot.calls)
            if await take_up(self.core, tx, self.chat, position, before):
                await chats.count_round(tx, self.chat.id, 0)
