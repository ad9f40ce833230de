"""A request that its author edits or deletes: what was not read yet is changed, what was read is
not, and whoever decides about a call that came of it is told (row B91). Nothing is run again."""

from __future__ import annotations

from typing import Final

from bot.closing import redraw
from bot.core import Core
from bot.surface import Changed
from bot.transcript import reworded
from storage import audit, chats, messages, outbox, questions, seen
from storage.chats import ChatRow
from storage.database import Tx
from storage.messages import MessageRow

EDITED: Final = (
    "The request was edited, but the agent read the old text: read it again before you decide."
)
DELETED: Final = (
    "The request was deleted after the agent read it: ask if it still stands before you decide."
)
_NOTICES: Final = {"request_edited": EDITED, "request_deleted": DELETED}


async def take_change(core: Core, event: Changed) -> bool:
    """One transaction. False when it was seen before, or when no chat was told what was changed.
    Raises DatabaseUnavailable."""
    async with core.db.transaction("take_change") as tx:
        chat = await chats.at_place(tx, event.place)
        if chat is None:
            return False
        await chats.lock(tx, chat.id)
        message = await messages.by_source(tx, chat.id, event.source)
        if message is None or not await seen.first_time(tx, event.keys, core.now()):
            return False
        if message.position is None:
            await _change_queued(core, tx, chat, message, event.text)
        else:
            await _mark(core, tx, chat, message, deleted=event.text is None)
        return True


async def _change_queued(
    core: Core, tx: Tx, chat: ChatRow, message: MessageRow, text: str | None
) -> None:
    """The agent has not read it: it reads the new words, or none."""
    if text is None:
        await messages.withdraw(tx, chat.id, message.id)
    else:
        await messages.rewrite(tx, message.id, reworded(message.body, text))
    await _record(
        core, tx, chat, message, "message_withdrawn" if text is None else "message_edited"
    )


async def _mark(core: Core, tx: Tx, chat: ChatRow, message: MessageRow, *, deleted: bool) -> None:
    """Marks the open cards of the chat: what they ask about came after it, since nothing becomes
    history while a call waits."""
    event = "request_deleted" if deleted else "request_edited"
    await _record(core, tx, chat, message, event)
    if deleted:  # its files may have come after it, as a message of their own
        for late in await messages.queued(tx, chat.id):
            if late.source == message.source:
                await messages.withdraw(tx, chat.id, late.id)
    for question in await questions.open_in_chat(tx, chat.id):
        body = {**question.body, "stale": _NOTICES[event]}
        if body != question.body and await questions.rewrite(tx, question.id, body):
            await redraw(core, tx, outbox.card_of(question))


async def _record(core: Core, tx: Tx, chat: ChatRow, message: MessageRow, event: str) -> None:
    """Only the author can edit; others may have deleted it."""
    actor = message.author if event.endswith("edited") else None
    await audit.record(
        tx,
        event,
        now=core.now(),
        chat_id=chat.id,
        actor=actor,
        author=message.author,
        source=message.source,
    )


async def stale_notice(tx: Tx, chat_id: str) -> str | None:
    """What the card of a question that opens now says of requests that were changed since the
    agent last had an answer: while the model thought, or while other calls ran."""
    since = await messages.exchange_began(tx, chat_id)
    if since is None:
        return None
    found = await audit.newest(tx, chat_id, tuple(_NOTICES), since=since)
    return None if found is None else _NOTICES[found.event]
