"""Opening a question: its row, its card on the way, and the record of it, in one transaction."""

from __future__ import annotations

from bot import home
from bot.approvers import askers_of, audience
from bot.core import Core, Job
from bot.outcome import outcome_question
from bot.question import Asked, Kind, Purpose, new_nonce
from storage import audit, outbox, questions
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Tx
from storage.questions import QuestionRow


async def open_approval(core: Core, tx: Tx, chat: ChatRow, call: CallRow) -> None:
    """May this call run? Its id is the call's id; when the same call is asked about again (the
    policy became stricter) a nonce is added."""
    before = await questions.of_call(tx, call.id, purpose=Purpose.APPROVAL)
    nonce = new_nonce()
    row = QuestionRow(
        id=f"{call.id}/{nonce}" if before else call.id,
        nonce=nonce,
        chat_id=chat.id,
        call_id=call.id,
        purpose=Purpose.APPROVAL,
        kind=Kind.APPROVAL,
        body={},
        audience=_audience(core, chat, call, Purpose.APPROVAL),
        digest=call.digest,
        opened_at=core.now(),
    )
    await _open(core, tx, chat, row)


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
        opened_at=core.now(),
    )


def _audience(core: Core, chat: ChatRow, call: CallRow, purpose: Purpose) -> dict[str, object]:
    policy = core.policies.of(chat.agent, call.name)
    return audience(policy, purpose=purpose, askers=askers_of(call, chat))


async def _open(core: Core, tx: Tx, chat: ChatRow, row: QuestionRow) -> None:
    await questions.open_question(tx, row)
    await outbox.post(
        tx,
        chat.place,
        nonce=row.nonce,
        subject=outbox.card_of(row),
        chat_id=chat.id,
        call_id=row.call_id,
        now=core.now(),
    )
    await audit.record(
        tx,
        "asked",
        now=core.now(),
        chat_id=chat.id,
        call_id=row.call_id,
        question_id=row.id,
        purpose=row.purpose,
        digest=row.digest,
        audience=row.audience,
    )
    await core.wake(tx, Job.DELIVER, chat.place.channel_key)
    await home.redraw(core, tx, outbox.card_of(row))
