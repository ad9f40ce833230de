"""The results of a round of calls, as the model reads them."""

from __future__ import annotations

from collections.abc import Sequence

from bot.core import Core
from bot.transcript import CallReturn, dump, returns_message
from storage import messages
from storage.calls import CallRow, CallState
from storage.database import Tx, canonical


async def append_results(
    core: Core, tx: Tx, chat_id: str, position: int, calls: Sequence[CallRow]
) -> int:
    """Puts the results of settled calls into the history after `position`; returns the last
    position now."""
    if not calls:
        return position
    await messages.append(
        tx,
        chat_id,
        position=position + 1,
        kind="request",
        body=dump(returns_message([return_of(call) for call in calls], [])),
        now=core.now(),
    )
    return position + 1


def return_of(call: CallRow) -> CallReturn:
    """What the model reads of a settled call: an edit, its result, a person's note."""
    content = call.result if isinstance(call.result, str) else canonical(call.result)
    if call.edited is not None:
        content = (
            f"[{call.edited['by']} changed the arguments to {canonical(call.args)} "
            f"before approving.]\n{content}"
        )
    if call.note is not None:
        note = call.note if isinstance(call.note, str) else canonical(call.note)
        content = f"{content}\n\n{note}"
    return CallReturn(
        provider_id=call.provider_id,
        name=call.name,
        content=content,
        failed=call.state == CallState.FAILED,
    )
