"""What a chat is doing, for surfaces that show it beside the thread (`Surface.statuses`)."""

from __future__ import annotations

from bot.core import Core, Job
from bot.move import Idle, Pause, Snapshot, next_move
from bot.question import new_nonce
from bot.surface import Status
from storage import calls, chats, messages, outbox, questions
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


async def status_of(tx: Tx, chat_id: str, now: float) -> Status:
    """What a chat is doing, by what its rows owe and not by who holds it: one that is taken up for
    nothing does nothing, and one that nobody holds is at work when it is about to be taken up or a
    server goes on with its call."""
    chat = await chats.get(tx, chat_id)
    if chat is None:
        return Status.CLOSED
    last = await messages.last(tx, chat_id)
    answered = last is not None and last.kind == "response"
    round_ = await calls.of_round(tx, last.id) if last is not None and answered else []
    queued = await messages.queued(tx, chat_id)
    snapshot = Snapshot(chat=chat, last=last, calls=round_, queued=queued)
    match next_move(snapshot, running=(), time=now):
        case Idle():
            return Status.CLOSED
        case Pause() if not any(call.state == CallState.RUNNING for call in round_):
            asked = await questions.open_in_chat(tx, chat_id)
            return Status.SUSPENDED if asked else Status.PROCESSING
        case _:
            return Status.PROCESSING
