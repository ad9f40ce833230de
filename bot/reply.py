"""What the agent says in its thread: posted once, edited while it grows, split where it is long."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass

from bot.closing import redraw
from bot.core import Core, Job
from bot.question import new_nonce
from bot.transcript import dump, response_message
from storage import chats, messages, outbox
from storage.chats import ChatRow
from storage.database import DatabaseUnavailable, Tx
from storage.outbox import Priority
from storage.redact import mask

ONE_MESSAGE = 2_500  # characters of a text that every surface takes as one message
LIVE_SECONDS = 1.2  # between two edits of one message (platforms/slack.md 3.3)
MESSAGES_LIMIT = 5  # that one answer may take, where a longer one can be attached as a file
ANSWER_FILE = "answer.md"

_ATTACHED = f"**This is only the beginning.** The whole answer is in the file {ANSWER_FILE} below."
_NOT_ATTACHED = (
    "**This is only the beginning.** The whole answer is too long for messages and could not be "
    "attached as a file: ask for it in shorter parts."
)
_WHOLE = "text:"


@dataclass(frozen=True, slots=True)
class Parts:
    """A text as it is posted: parts that each fit one message, and the whole of it when that goes
    along as a file because the parts are only its beginning."""

    parts: tuple[str, ...]
    whole: str | None = None


async def parts_of(core: Core, chat: ChatRow, text: str) -> Parts:
    """A long text as it is posted; worked out beside the loop, and before any transaction, since
    a surface parses the whole for it."""
    surface = core.surfaces.get(chat.surface)
    clean = _clean(text)
    if surface is None:
        return Parts((clean,))
    parts = await asyncio.to_thread(surface.split, clean)
    if len(parts) <= MESSAGES_LIMIT or not surface.takes_files:
        return Parts(tuple(parts))
    return Parts(tuple(surface.split(f"{parts[0].rstrip()}\n\n{_ATTACHED}")), whole=clean)


async def say(
    core: Core,
    tx: Tx,
    chat: ChatRow,
    subject: str,
    text: str | Parts,
    *,
    priority: Priority = Priority.POST,
    live: bool = False,
) -> None:
    """Makes `subject` say `text` in the chat's thread: a new post, or an edit of the earlier one.
    `live`: more of it is to come.

    A single text is cut to what one message holds; `parts_of` makes several of a long one. A
    subject that is said again after a crash is the same message, not a second one."""
    said = Parts((_short(text),)) if isinstance(text, str) else text
    for number, part in enumerate(said.parts):
        name = _part(subject, number)
        row = await outbox.post_of(tx, name)
        if row is None:
            await outbox.post(
                tx,
                chat.place,
                nonce=new_nonce(),
                subject=name,
                chat_id=chat.id,
                text=part,
                live=live,
                now=core.now(),
            )
        elif await outbox.rewrite(tx, row.id, part, live=live):
            await outbox.edit_all(tx, name, priority=priority, now=core.now())
    await _withdraw(core, tx, subject, max(1, len(said.parts)))
    if said.whole is not None:
        await _attach(core, tx, chat, subject, said.whole)
    await core.wake(tx, Job.DELIVER, chat.place.channel_key)


async def unsay(core: Core, tx: Tx, chat: ChatRow, subject: str) -> None:
    """Takes back what was said under `subject`, if anything was: it is not said after all."""
    if await outbox.post_of(tx, subject) is not None:
        await _withdraw(core, tx, subject, 0)
        await core.wake(tx, Job.DELIVER, chat.place.channel_key)


def _clean(text: str) -> str:
    """Without what PostgreSQL or UTF-8 cannot hold, and without secrets of known shapes."""
    return mask(text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode())


def _short(text: str) -> str:
    clean = _clean(text)
    return clean if len(clean) <= ONE_MESSAGE else f"{clean[:ONE_MESSAGE]}…"


async def _withdraw(core: Core, tx: Tx, subject: str, number: int) -> None:
    """The parts from `number` on of a text that was said before are no longer said."""
    while (row := await outbox.post_of(tx, _part(subject, number))) is not None:
        if await outbox.rewrite(tx, row.id, "(withdrawn)"):
            await outbox.edit_all(tx, row.subject, priority=Priority.POST, now=core.now())
        number += 1


async def _attach(core: Core, tx: Tx, chat: ChatRow, subject: str, whole: str) -> None:
    name = outbox.text_subject(subject, hashlib.sha256(whole.encode()).hexdigest())
    if await outbox.post_of(tx, name) is None:
        await outbox.post(
            tx,
            chat.place,
            nonce=new_nonce(),
            subject=name,
            chat_id=chat.id,
            text=whole,
            now=core.now(),
        )


def is_whole(subject: str) -> bool:
    """Whether a subject of the outbox is a whole answer in a file."""
    return subject.startswith(_WHOLE)


async def not_attached(core: Core, tx: Tx, subject: str) -> None:
    """The file with a whole answer was given up: its first messages do not promise it any more."""
    said = subject.removeprefix(_WHOLE).rpartition(":")[0]
    number = 0
    while (row := await outbox.post_of(tx, _part(said, number))) is not None:
        told = (row.text or "").replace(_ATTACHED, _NOT_ATTACHED)
        if await outbox.rewrite(tx, row.id, told):
            await redraw(core, tx, row.subject, priority=Priority.POST)
        number += 1


async def close_turn(core: Core, tx: Tx, chat: ChatRow, position: int, text: str) -> None:
    """Ends a turn in our own words, in the history and in the thread."""
    await messages.append(
        tx,
        chat.id,
        position=position,
        kind="response",
        body=dump(response_message(text)),
        now=core.now(),
    )
    await say(core, tx, chat, reply_subject(chat, position), text)


def _part(subject: str, number: int) -> str:
    return subject if number == 0 else f"{subject}.{number}"


def reply_subject(chat: ChatRow, position: int) -> str:
    return f"reply:{chat.id}:{position}"


def may_grow(subject: str) -> bool:
    """Whether what was posted under `subject` may have been the beginning of a reply."""
    return subject.startswith("reply:") and "." not in subject


class LiveReply:
    """Shows the text of a running turn at a pace the surface allows; the transcript gets it only
    when it is whole."""

    def __init__(self, core: Core, chat: ChatRow, subject: str, lease_seconds: float) -> None:
        self._core = core
        self._chat = chat
        self._subject = subject
        self._lease = lease_seconds
        self._shown_at = core.now()

    async def show(self, text: str) -> None:
        now = self._core.now()
        if now - self._shown_at < LIVE_SECONDS or not text.strip():
            return
        self._shown_at = now
        with contextlib.suppress(DatabaseUnavailable):  # the turn goes on; the end is what counts
            await self._show(text, now)

    async def _show(self, text: str, now: float) -> None:
        async with self._core.db.transaction("show_reply") as tx:
            if await chats.fence(tx, self._chat.id, self._chat.epoch, until=now + self._lease):
                await say(
                    self._core,
                    tx,
                    self._chat,
                    self._subject,
                    text,
                    priority=Priority.LIVE,
                    live=True,
                )
