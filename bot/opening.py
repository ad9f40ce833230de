"""Opening a question: its row, its card on the way, and the record of it, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from math import ceil
from typing import Any

from bot import arguments, home
from bot.approvers import askers_of, audience
from bot.changed import stale_notice
from bot.core import Core, Job
from bot.deadlines import next_time, times_of
from bot.notify import notify_approvers
from bot.outcome import outcome_question
from bot.question import Asked, Kind, Purpose, new_nonce
from storage import audit, outbox, questions
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Tx
from storage.questions import QuestionRow


async def open_approval(core: Core, tx: Tx, chat: ChatRow, call: CallRow) -> None:
    """May this call run? On a card of its own."""
    await _open(core, tx, chat, await _approval(core, tx, chat, call))


async def open_approvals(core: Core, tx: Tx, chat: ChatRow, asked: Sequence[CallRow]) -> None:
    """May these calls of one response run? More of them than the surface shows one by one are
    asked on shared cards, in their order and about as many on each."""
    surface = core.surfaces.get(chat.place.surface)
    together = None if surface is None else surface.together
    if together is None or len(asked) <= together.above:
        for call in asked:
            await open_approval(core, tx, chat, call)
        return
    cards = ceil(len(asked) / together.size)
    size = ceil(len(asked) / cards)
    for number in range(cards):
        card = outbox.round_subject(asked[0].message_id, number)
        group = asked[number * size : (number + 1) * size]
        rows = [replace(await _approval(core, tx, chat, call), card=card) for call in group]
        await _open(core, tx, chat, *rows)


async def _approval(core: Core, tx: Tx, chat: ChatRow, call: CallRow) -> QuestionRow:
    """Its id is the call's id; when the same call is asked about again (the policy became
    stricter) a nonce is added."""
    await arguments.attach(core, tx, chat, call)
    before = await questions.of_call(tx, call.id, purpose=Purpose.APPROVAL)
    nonce = new_nonce()
    return QuestionRow(
        id=f"{call.id}/{nonce}" if before else call.id,
        nonce=nonce,
        chat_id=chat.id,
        call_id=call.id,
        purpose=Purpose.APPROVAL,
        kind=Kind.APPROVAL,
        body={},
        audience=_audience(core, chat, call, Purpose.APPROVAL),
        digest=call.digest,
        **_times(core, chat, call, Purpose.APPROVAL),
    )


async def open_ask(
    core: Core, tx: Tx, chat: ChatRow, call: CallRow, asked: Asked, ordinal: int
) -> str:
    """What a tool wants to know; returns the question's id."""
    row = _asked_row(core, chat, call, asked, Purpose.ASK, ordinal)
    await _open(core, tx, chat, row)
    return row.id


async def open_outcome(core: Core, tx: Tx, chat: ChatRow, call: CallRow) -> None:
    """What came of a call whose runner was lost."""
    asked = outcome_question(call.name)
    await arguments.attach(core, tx, chat, call)
    await _open(core, tx, chat, _asked_row(core, chat, call, asked, Purpose.OUTCOME, 0))


def _asked_row(
    core: Core, chat: ChatRow, call: CallRow, asked: Asked, purpose: Purpose, ordinal: int
) -> QuestionRow:
    nonce = new_nonce()
    return QuestionRow(
        id=f"{call.id}/{nonce}",
        nonce=nonce,
        chat_id=chat.id,
        call_id=call.id,
        purpose=purpose,
        kind=asked.kind,
        ordinal=ordinal,
        fingerprint=asked.fingerprint,
        body=asked.body() | {"key": asked.key, "notice": asked.notice},
        audience=_audience(core, chat, call, purpose),
        digest=call.digest,
        **_times(core, chat, call, purpose),
    )


def _times(core: Core, chat: ChatRow, call: CallRow, purpose: Purpose) -> dict[str, Any]:
    policy = core.policies.of_call(chat.agent, call)
    return asdict(times_of(policy, purpose, core.now()))


def _audience(core: Core, chat: ChatRow, call: CallRow, purpose: Purpose) -> dict[str, object]:
    policies = core.policies
    told = audience(
        policies.of_call(chat.agent, call),
        purpose=purpose,
        askers=askers_of(call, chat),
        who=policies.who,
    )
    tool = core.tool(chat.agent, call.name)
    if tool is not None and tool.carrier:
        told["remember"] = False  # whatever its arguments: at most this exact call, by a form
    return told


async def _open(core: Core, tx: Tx, chat: ChatRow, *rows: QuestionRow) -> None:
    """Stores the questions of one card, which is on its way with that."""
    stale = await stale_notice(tx, chat.id)
    for row in rows:
        marked = row.body if stale is None else {**row.body, "stale": stale}
        await questions.open_question(tx, replace(row, body=marked))
        await audit.record_on(
            tx,
            "asked",
            row,
            now=core.now(),
            purpose=row.purpose,
            digest=row.digest,
            audience=row.audience,
        )
        if (first := next_time(row)) is not None:
            await core.wake(tx, Job.DUE, row.id, at=first)
    await outbox.post(
        tx,
        chat.place,
        nonce=rows[0].nonce,
        subject=outbox.card_of(rows[0]),
        chat_id=chat.id,
        call_id=None if rows[0].card else rows[0].call_id,
        now=core.now(),
    )
    if rows[0].purpose != Purpose.ASK:  # what a tool wants to know is for those in the thread
        await notify_approvers(
            core,
            tx,
            chat,
            subject=outbox.card_of(rows[0]),
            deciders={one for row in rows for one in row.audience["deciders"]},
            call_id=None if rows[0].card else rows[0].call_id,
        )
    await core.wake(tx, Job.DELIVER, chat.place.channel_key)
    await home.redraw(core, tx, outbox.card_of(rows[0]))
