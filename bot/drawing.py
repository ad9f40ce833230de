"""The card of a question from all rows that it shows, and from where it is seen."""

from __future__ import annotations

from dataclasses import replace

from bot.approvers import askers_of
from bot.card import Attached, Card, Reach, draw, reach, unreachable
from bot.group import GroupCard, draw_group
from bot.surface import Place
from storage import calls, chats, outbox, questions
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Tx
from storage.questions import QuestionRow
from storage.scope import Asked

_ELSEWHERE = (
    "Its arguments are in a file in its thread: approve it from the card there, or decline it."
)


async def card(tx: Tx, question: QuestionRow, call: CallRow, chat: ChatRow) -> Card:
    """The card of a question as all its rows stand now."""
    drawn = draw(question, call, chat.agent, await _attached(tx, call))
    return replace(drawn, thread=chat.place, askers=tuple(sorted(askers_of(call, chat))))


def seen_from(card: Card, place: Place) -> Card:
    """The card as it stands in a place: a file is in the thread alone, which not everybody who gets
    a copy may read."""
    if not card.file or place == card.thread or not card.open:
        return card
    return replace(card, complete=False, notices=(*card.notices, _ELSEWHERE))


async def group(tx: Tx, subject: str, place: Place) -> GroupCard:
    """The card that several questions share, as it stands in a place."""
    asking = {call.id: call for call in await calls.on_card(tx, subject)}
    asked = await questions.of_card(tx, subject)
    chat = await chats.get(tx, next(iter(asking.values())).chat_id)
    assert chat is not None
    cards = [await card(tx, one, asking[one.call_id or ""], chat) for one in asked]
    return draw_group(asked, [seen_from(one, place) for one in cards], chat.agent)


async def standing(tx: Tx, asked: Asked, place: Place | None) -> Card | GroupCard:
    """What stands in a place for a question: the card that it shares, or its own. A place without
    a channel has cards of single questions alone."""
    question, call, chat = asked.question, asked.call, asked.chat
    if place is None or not place.channel:
        return await card(tx, question, call, chat)
    if question.card is not None:
        return await group(tx, question.card, place)
    return seen_from(await card(tx, question, call, chat), place)


async def unread(tx: Tx, call: CallRow, chat: ChatRow, place: Place | None) -> str | None:
    """Why the call cannot be approved by somebody who sees its card there; None: all can be
    read."""
    why = unreachable(call, await _attached(tx, call))
    if why is None and reach(call.args) is Reach.FILE and place != chat.place:
        return _ELSEWHERE
    return why


async def _attached(tx: Tx, call: CallRow) -> Attached:
    if reach(call.args) is not Reach.FILE:
        return Attached.COMING
    row = await outbox.post_of(tx, outbox.arguments_subject(call.id, call.digest))
    match None if row is None else row.state:
        case "sent":
            return Attached.THERE
        case None | "failed":
            return Attached.FAILED
        case _:
            return Attached.COMING
