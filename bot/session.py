"""What a chat is doing, for surfaces that show it beside the thread (`Surface.statuses`)."""

from __future__ import annotations

from bot.core import Core, Job
from bot.question import new_nonce
from bot.surface import Status
from storage import calls, messages, outbox, questions
from storage.calls import CallState
from storage.chats import ChatRow
from storage.database import Tx


async def announce(core: Core, tx: Tx, chat: ChatRow) -> None:
    """The chat was taken up or let go: what it is doing is shown anew."""
    surface = core.surfaces.get(chat.surface)
    if surface is None or not surface.statuses:
        return
    await outbox.show_status(tx, chat.place, nonce=new_nonce(), chat_id=chat.id, now=core.now())
    await core.wake(tx, Job.DELIVER, chat.place.channel_key)


async def status_of(tx: Tx, chat_id: str) -> Status:
    """What a chat is doing, by its rows and not by whether somebody holds it: a chat is also taken
    up to find that nothing is owed."""
    last = await messages.last(tx, chat_id)
    owes = last is not None and last.kind == "request"
    if owes or await calls.in_state(tx, chat_id, [CallState.READY, CallState.RUNNING]):
        return Status.PROCESSING
    if await questions.open_in_chat(tx, chat_id):
        return Status.SUSPENDED
    left = await messages.queued(tx, chat_id) or await calls.in_state(
        tx,
        chat_id,
        [CallState.WAITING, CallState.UNKNOWN],  # a server goes on with it
    )
    return Status.PROCESSING if left else Status.CLOSED
