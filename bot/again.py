"""Asking again for what expired: nobody has to write the request anew, and nobody who presses the
button has asked for anything by that, so that an approver who does so may still approve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bot.approvers import askers_of, may_speak
from bot.card import may_ask_again
from bot.chat import queue
from bot.closing import redraw
from bot.desk import Desk
from bot.question import UnknownQuestion
from bot.surface import Actor, Place, Response
from storage import audit, calls, chats, outbox, questions
from storage.calls import CallRow
from storage.database import Tx
from storage.questions import QuestionRow

OUTSIDER = "The agent takes messages from people of this organisation only."


async def ask_again(
    desk: Desk, nonce: str, actor: Actor, *, via: str, place: Place | None
) -> Response:
    """The model is asked to make the calls that expired on a card once more, on behalf of those who
    asked for them: each is a new call, with a new card. Once for each card that expired."""
    async with desk.core.db.transaction("ask_again") as tx:
        return await _ask(desk, tx, nonce, actor, via, place)


async def _ask(
    desk: Desk, tx: Tx, nonce: str, actor: Actor, via: str, place: Place | None
) -> Response:
    core = desk.core
    found = await questions.by_nonce(tx, nonce)
    if found is None or found.chat_id is None:
        return Response(done=False, sentence=str(UnknownQuestion()))
    chat = await chats.lock(tx, found.chat_id)
    assert chat is not None
    speaks = may_speak(actor)
    if not speaks or not await desk.belongs(tx, found, chat, place, None, actor):
        why = str(UnknownQuestion()) if speaks else OUTSIDER
        await audit.record_on(
            tx, "refused", found, now=core.now(), actor=actor.key, via=via, why=why
        )
        return Response(done=False, sentence=why)
    rows = await questions.beside(tx, found)
    expired = [row for row in rows if may_ask_again(row)]
    if not expired:
        return Response(done=False, sentence=_late(rows))
    asked = [await _call(tx, row) for row in expired]
    askers = {one for call in asked for one in askers_of(call, chat)}
    text = _request([call.name for call in asked])
    await queue(core, tx, chat.id, text, by=actor, on_behalf=sorted(askers))
    for row in expired:
        await questions.mark(tx, row, {**row.body, "again": actor.label})
        await audit.record_on(
            tx,
            "asked_again",
            row,
            now=core.now(),
            actor=actor.key,
            via=via,
            askers=sorted(askers),
        )
    await redraw(core, tx, outbox.card_of(found))
    return Response(done=True, sentence="The agent was asked to do it again.")


async def _call(tx: Tx, row: QuestionRow) -> CallRow:
    call = await calls.get(tx, row.call_id or "")
    assert call is not None
    return call


def _request(tools: Sequence[str]) -> str:
    """What the model reads: a sentence of ours, without anything that the calls carried."""
    if len(tools) == 1:
        return f"Please call {tools[0]} once more with the same arguments: nobody decided in time."
    counted = ", ".join(
        name if count == 1 else f"{name} ({count} calls)" for name, count in Counter(tools).items()
    )
    return (
        "Please make the calls that nobody decided in time once more, each with the same "
        f"arguments, and no others: {counted}."
    )


def _late(rows: Sequence[QuestionRow]) -> str:
    names = [row.body["again"] for row in rows if row.body.get("again")]
    if names:
        return f"{names[0]} asked again before you; look for the new card."
    return "Nothing on this card has expired, so there is nothing to ask again."
