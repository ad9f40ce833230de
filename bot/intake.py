"""Taking in what came with a message: its files, and the thread that it was written in.

Both are fetched by the loop, outside of any transaction and before the message becomes history:
no acknowledgement waits for them, and a crash in between fetches again and doubles nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from bot import attachment, quoting
from bot.core import Core, Job, new_id
from bot.lease import Held
from bot.model import DEFAULT_CONTEXT_TOKENS
from bot.question import new_nonce
from bot.surface import DeliveryError, FileRef, person_of
from bot.transcript import Piece, enclosed
from storage import attachments, messages, outbox
from storage.attachments import AttachmentRow, AttachmentState
from storage.chats import ChatRow
from storage.database import Tx
from storage.messages import MessageRow

log = structlog.get_logger(__name__)

ATTEMPTS: Final = 3  # to fetch a file
PAUSES: Final = (2.0, 15.0)  # seconds between them
LONGEST_PAUSE: Final = 60.0  # whatever the surface asks for
THREAD_SECONDS: Final = 15.0  # for reading what stood in the thread
UNTOLD: Final = "the chat service did not give it"


class WaitForFile(Exception):
    """A file is to be fetched again at `at`: let the chat go till then."""

    def __init__(self, at: float) -> None:
        super().__init__(f"a file is to be fetched again at {at}")
        self.at = at


async def keep_files(
    core: Core, tx: Tx, chat: ChatRow, message_id: int, files: Sequence[FileRef]
) -> None:
    """Stores what files came with a queued message; the loop fetches them."""
    rows = attachment.sorted_out(
        files, chat_id=chat.id, message_id=message_id, key=new_id("attachment"), now=core.now()
    )
    for row in rows:
        await attachments.add(tx, row)
    await _tell_refused(core, tx, chat, message_id)


async def fetch_next(core: Core, held: Held) -> None:
    """Fetches one file that queued messages wait for. Raises WaitForFile."""
    async with core.db.transaction("claim_file") as tx:
        await held.fence(tx)
        row = await attachments.next_waiting(tx, held.chat.id)
        if row is None:
            return
        await attachments.count_attempt(tx, row.id)
    if row.attempts >= ATTEMPTS:  # each of them ended this process, or the call
        await _settle(core, held, row, b"", _unread(row, UNTOLD))
        return
    surface = core.surfaces.get(held.chat.surface)
    try:
        if surface is None:
            raise DeliveryError("the chat service is not connected")
        data = await surface.fetch(held.chat.place, row.reference, attachment.BYTES)
    except DeliveryError as error:
        log.warning("a file could not be fetched", chat=held.chat.id, error=str(error))
        if not error.permanent and row.attempts + 1 < ATTEMPTS:
            pause = error.retry_after or PAUSES[row.attempts]
            raise WaitForFile(core.now() + min(pause, LONGEST_PAUSE)) from error
        await _settle(core, held, row, b"", _unread(row, str(error)))
        return
    claimed = row.mime_type
    note = attachment.unlike(row.name, claimed, attachment.mime_of(data))
    await _settle(core, held, row, data, note)


async def _settle(
    core: Core, held: Held, row: AttachmentRow, data: bytes, note: str | None
) -> None:
    """`note`: why it was refused."""
    mime_type = attachment.mime_of(data) if note is None else row.mime_type
    async with core.db.transaction("record_file") as tx:
        await held.fence(tx)
        if await attachments.settle(
            tx,
            row.id,
            to=AttachmentState.READY if note is None else AttachmentState.REFUSED,
            mime_type=mime_type,
            size=len(data) if note is None else row.size,
            data=attachment.kept(mime_type, data) if note is None else None,
            note=note,
        ):
            await _tell_refused(core, tx, held.chat, row.message_id)


def _unread(row: AttachmentRow, why: str) -> str:
    return f"{row.name} could not be read: {why}."


async def _tell_refused(core: Core, tx: Tx, chat: ChatRow, message_id: int) -> None:
    """Once all files of a message are settled, its author is told which were not read, and why."""
    rows = await attachments.of_message(tx, message_id)
    notes = [row.note for row in rows if row.note is not None]
    if not notes or any(row.state == AttachmentState.WAITING for row in rows):
        return
    message = await messages.get(tx, message_id)
    author = None if message is None or message.author is None else person_of(message.author)
    if author is None:
        return
    await outbox.whisper(
        tx,
        chat.place,
        nonce=new_nonce(),
        recipient=author.user,
        text=" ".join(notes),
        now=core.now(),
        chat_id=chat.id,
    )
    await core.wake(tx, Job.DELIVER, chat.place.channel_key)


async def thread_before(core: Core, chat: ChatRow, first: MessageRow) -> list[Piece]:
    """What stood in the thread before the message that begins the chat; nothing where that message
    begins the thread too. That it could not be read is said to the model and logged."""
    if not first.source or first.source == chat.root:
        return []
    surface = core.surfaces.get(chat.surface)
    try:
        if surface is None:
            raise DeliveryError("the chat service is not connected")
        async with asyncio.timeout(THREAD_SECONDS):
            thread = await surface.earlier(chat.place, first.source)
    except DeliveryError as error:
        reason = str(error)
    except TimeoutError:
        reason = "it took too long"
    except Exception:  # a defect in reading it must not keep the message from the agent for ever
        log.exception("reading a thread raised", chat=chat.id)
        reason = UNTOLD
    else:
        if thread.missing:
            log.warning("a thread was read in part", chat=chat.id, error=thread.missing)
        return quoting.lines(thread, room=min(quoting.ROOM, _tokens(core, chat) // 2))
    log.warning("a thread could not be read", chat=chat.id, error=reason)
    return quoting.unreadable(reason)


async def take_up(core: Core, tx: Tx, chat: ChatRow, position: int, before: Sequence[Piece]) -> int:
    """Gives queued messages, up to one whose files are not settled, their places after `position`,
    the first with what stood `before` it; returns how many. Their words are final from here on."""
    agent = core.agents.get(chat.agent)
    taken = 0
    for message in await messages.queued(tx, chat.id):
        files = await attachments.of_message(tx, message.id)
        if any(row.state == AttachmentState.WAITING for row in files):
            break
        taken += 1
        shown = attachment.pieces(
            files,
            sees_images=agent is not None and agent.sees_images,
            room=min(attachment.TEXT, _tokens(core, chat)),
        )
        body = enclosed(message.body, before=before, after=shown) if shown or before else None
        await messages.take_up(tx, message.id, position + taken, body or message.body)
        if files:
            await attachments.forget_data(tx, message.id)
        before = ()
    return taken


def _tokens(core: Core, chat: ChatRow) -> int:
    """What the agent's model takes in at once. As many characters are about a quarter of it."""
    agent = core.agents.get(chat.agent)
    return DEFAULT_CONTEXT_TOKENS if agent is None else agent.model.context_tokens
