"""Channels and organisations that take nothing from us: said once, and made good afterwards."""

from __future__ import annotations

from functools import partial

import structlog

from bot.core import Core, Job
from bot.notify import tell_unreachable
from bot.surface import DeliveryError
from storage import chats, outbox
from storage.database import Tx
from storage.outbox import OutboxRow

log = structlog.get_logger(__name__)


class Outages:
    """What this process was told to be out of reach. What was given up meanwhile and still counts
    (`outbox.revive`) goes out when something is taken there again, or after the next start."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._closed: set[str] = set()  # keys of channels and organisations

    async def given_up(self, tx: Tx, row: OutboxRow, error: DeliveryError) -> None:
        """Logs it: for all that is lost to one outage as one error. The requester of a chat whose
        thread is out of reach is told."""
        where = _where(row, error)
        if where is None:
            log.error("delivery given up", subject=row.subject, error=str(error))
        elif where in self._closed:
            log.info("delivery given up", subject=row.subject, error=str(error))
        else:
            self._closed.add(where)
            log.error("nothing is taken there; deliveries are given up", at=where, error=str(error))
        if not error.unreachable or row.chat_id is None:
            return
        chat = await chats.get(tx, row.chat_id)
        if chat is not None and chat.place.channel_key == row.place.channel_key:
            await tell_unreachable(self._core, tx, chat, error.unreachable)

    async def taken(self, tx: Tx, row: OutboxRow) -> None:
        """Something got through: the outage there is over."""
        place = row.place
        over = {place.channel_key: place.channel, _organisation(row): None}
        for where in self._closed.intersection(over):
            tx.after_commit(partial(self._closed.discard, where))
            for channel in await outbox.revive(
                tx,
                now=self._core.now(),
                surface=place.surface,
                organisation=place.organisation,
                channel=over[where],
            ):
                await self._core.wake(tx, Job.DELIVER, channel)


def _where(row: OutboxRow, error: DeliveryError) -> str | None:
    """What is out of reach; None: only this row is lost."""
    if error.locked_out:
        return _organisation(row)
    return row.place.channel_key if error.unreachable else None


def _organisation(row: OutboxRow) -> str:
    return f"{row.surface}:{row.organisation}"
