"""Holding a chat: the lease, its renewal, and the news that comes in while it is held."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog

from bot.core import Core
from bot.tool import Stopped
from storage import chats
from storage.chats import ChatRow
from storage.database import DatabaseUnavailable, Tx

log = structlog.get_logger(__name__)

LEASE_SECONDS = 30.0
BEAT_SECONDS = 1.0
RENEW_BEATS = 8


class LeaseLost(Stopped):
    """Another runner has the chat: whoever notices stops at once. A BaseException, so that a tool
    cannot swallow it."""


class Held:
    """A chat that this runner holds. `stirred` is set when something came in, `cancelled` when
    somebody stopped it, `lost` when the lease is gone."""

    def __init__(self, core: Core, chat: ChatRow) -> None:
        self.core = core
        self.chat = chat
        self.stirred = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.lost = asyncio.Event()

    async def fence(self, tx: Tx) -> None:
        """Makes `tx` this runner's: raises LeaseLost when it no longer holds the chat (rule 3)."""
        until = self.core.now() + LEASE_SECONDS
        if not await chats.fence(tx, self.chat.id, self.chat.epoch, until=until):
            self.lost.set()
            raise LeaseLost

    async def _beat(self, number: int) -> None:
        if number % RENEW_BEATS == 0:
            async with self.core.db.transaction("renew_lease") as tx:
                await self.fence(tx)
        async with self.core.db.read() as tx:
            now = await chats.get(tx, self.chat.id)
        if now is None or now.epoch != self.chat.epoch:
            raise LeaseLost
        if now.stirs != self.chat.stirs:
            self.stirred.set()
        if now.cancelled_by is not None:
            self.cancelled.set()

    async def beat(self) -> None:
        """Renews and listens until cancelled or lost."""
        number = 0
        while True:
            await self.core.clock.sleep(BEAT_SECONDS)
            number += 1
            try:
                await self._beat(number)
            except DatabaseUnavailable:
                log.warning("the database does not answer; the lease may run out")
            except LeaseLost:
                self.lost.set()
                return
            except Exception:  # without a pulse the lease runs out unseen: stop while it is ours
                log.exception("the pulse of a lease failed")
                self.lost.set()
                return


@contextlib.asynccontextmanager
async def beating(held: Held) -> AsyncIterator[Held]:
    pulse = asyncio.create_task(held.beat())
    try:
        yield held
    finally:
        pulse.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pulse
