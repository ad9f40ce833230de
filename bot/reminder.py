"""Lines that tell people what still waits for them. Like a card they are drawn from rows when they
are sent, so that nobody is told of what was settled meanwhile."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, assert_never

from bot.core import Core, Job
from bot.markdown import age, code, link
from bot.notify import strangers
from bot.question import Purpose, new_nonce
from bot.surface import Place, Reply
from storage import calls, chats, outbox, questions
from storage.chats import ChatRow
from storage.database import Tx, canonical
from storage.outbox import OutboxRow
from storage.questions import QuestionRow, QuestionState

_SUBJECT: Final = "reminder:"
_NAMED: Final = 10  # tools that one line names


class About(StrEnum):
    """Why people are told."""

    WAITING = "waiting"
    ESCALATED = "escalated"


async def tell(
    core: Core, tx: Tx, chat: ChatRow, rows: Sequence[QuestionRow], about: About
) -> None:
    """One line for these questions of a chat: in its thread, and of a reminder also to each who has
    their card in a direct message. Whoever is escalated to gets the card itself instead."""
    if not rows:
        return
    places = [chat.place]
    if about is About.WAITING:
        approvals = [row for row in rows if row.purpose != Purpose.ASK]
        deciders = {one for row in approvals for one in row.audience["deciders"]}
        places += await strangers(core, tx, chat, deciders)
    for place in places:
        await _post(core, tx, chat, place, rows, about)


async def _post(
    core: Core, tx: Tx, chat: ChatRow, place: Place, rows: Sequence[QuestionRow], about: About
) -> None:
    nonce = new_nonce()
    await outbox.post(
        tx,
        place,
        nonce=nonce,
        subject=f"{_SUBJECT}{nonce}",
        chat_id=chat.id,
        text=canonical({"about": about, "questions": [row.id for row in rows]}),
        now=core.now(),
    )
    await core.wake(tx, Job.DELIVER, place.channel_key)


def is_reminder(subject: str) -> bool:
    """Whether a subject of the outbox is such a line."""
    return subject.startswith(_SUBJECT)


async def draw(core: Core, tx: Tx, row: OutboxRow) -> Reply | None:
    """The line as it is true now; None: nothing of it waits any more."""
    told = json.loads(row.text or "{}")
    about = About(told["about"])
    found = [await questions.get(tx, one) for one in told["questions"]]
    still = [one for one in found if one is not None and one.state == QuestionState.OPEN]
    chat = None if row.chat_id is None else await chats.get(tx, row.chat_id)
    if not still or chat is None:
        return None
    words = await _words(core, tx, still)
    match about:
        case About.WAITING:
            text = f"Still waiting for somebody to decide: {words}."
        case About.ESCALATED:
            text = f"Nobody has decided, so the next approvers may do so too: {words}."
        case unreachable:
            assert_never(unreachable)
    if row.place != chat.place:
        surface = core.surfaces.get(chat.surface)
        return Reply(text + link("thread", None if surface is None else surface.link(chat.place)))
    deciders = {key for one in still for key in one.audience["deciders"]}
    return Reply(text, mentions=tuple(sorted(deciders)))


async def _words(core: Core, tx: Tx, rows: Sequence[QuestionRow]) -> str:
    """What waits, each tool once, and for how long at most."""
    since: dict[str, float] = {}
    count: dict[str, int] = {}
    for row in rows:
        call = await calls.get(tx, row.call_id or "")
        assert call is not None
        since[call.name] = min(row.opened_at, since.get(call.name, row.opened_at))
        count[call.name] = count.get(call.name, 0) + 1
    parts = [
        f"{f'{count[name]} × ' if count[name] > 1 else ''}{code(name)} for {age(core.now() - at)}"
        for name, at in list(since.items())[:_NAMED]
    ]
    more = len(since) - len(parts)
    return ", ".join([*parts, f"and {more} more"] if more else parts)
