"""The arguments of a call as a file in its thread, where no card and no page can hold them."""

from __future__ import annotations

import json
import re

from bot.card import Reach, file_name, reach
from bot.closing import redraw
from bot.confusable import imitations
from bot.core import Core
from bot.question import Purpose, new_nonce
from bot.surface import File
from storage import outbox, questions
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Tx
from storage.outbox import Priority
from storage.questions import QuestionState
from storage.redact import mask_all

_PREFIX = "arguments:"


def file_of(call: CallRow) -> File:
    """Exactly the stored arguments as JSON for people to read: what is invisible or imitates
    another character is written as its escape, and secrets of known shapes are masked."""
    text = json.dumps(mask_all(call.args), indent=2, ensure_ascii=False, allow_nan=False)
    imitating = imitations(text, strict=True)
    seen = re.sub(r"[^\n -~]", lambda found: _seen(found, imitating), text)
    return File(file_name(call), "application/json", f"{seen}\n".encode())


def _seen(found: re.Match[str], imitating: set[int]) -> str:
    plain = found.group().isprintable() and found.start() not in imitating
    return found.group() if plain else json.dumps(found.group())[1:-1]


async def attach(core: Core, tx: Tx, chat: ChatRow, call: CallRow) -> None:
    """Puts the file on its way, before the card that needs it, unless it was put there before."""
    subject = outbox.arguments_subject(call.id, call.digest)
    if reach(call.args) is Reach.FILE and await outbox.post_of(tx, subject) is None:
        await outbox.post(
            tx,
            chat.place,
            nonce=new_nonce(),
            subject=subject,
            chat_id=chat.id,
            now=core.now(),
        )


def call_of(subject: str) -> str | None:
    """The call whose arguments a subject of the outbox is about; None: another subject."""
    return subject.split(":")[1] if subject.startswith(_PREFIX) else None


async def settled(core: Core, tx: Tx, subject: str) -> None:
    """The file was delivered, or given up: the cards that waited for it are drawn anew."""
    call_id = call_of(subject)
    if call_id is None:
        return
    for question in await questions.of_call(tx, call_id):
        if question.state == QuestionState.OPEN and question.purpose != Purpose.ASK:
            await questions.touch(tx, question.id)
            await outbox.bump(tx, outbox.card_of(question))
            await redraw(core, tx, outbox.card_of(question), priority=Priority.POST)
