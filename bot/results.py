"""The results of a round of calls, as the model reads them."""

from __future__ import annotations

from collections.abc import Sequence

from bot.core import Core
from bot.difference import difference, sentence
from bot.transcript import CallReturn, Image, dump, returns_message
from storage import files, messages
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import Tx, canonical

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
IMAGES_LIMIT = 4_000_000  # bytes of all images of one round: they are sent with every turn


async def append_results(
    core: Core, tx: Tx, chat: ChatRow, position: int, calls: Sequence[CallRow]
) -> int:
    """Puts the results of settled calls into the history after `position`; returns the last
    position now."""
    if not calls:
        return position
    agent = core.agents.get(chat.agent)
    images = await _images(tx, calls) if agent is not None and agent.sees_images else []
    await messages.append(
        tx,
        chat.id,
        position=position + 1,
        kind="request",
        body=dump(returns_message([return_of(call) for call in calls], [], images)),
        now=core.now(),
    )
    return position + 1


async def _images(tx: Tx, calls: Sequence[CallRow]) -> list[Image]:
    """What the calls produced that a model can look at, up to a size that can be sent each turn."""
    found, room = [], IMAGES_LIMIT
    for call in calls:
        for file in await files.of_call(tx, call.id):
            if file.mime_type in IMAGE_TYPES and len(file.data) <= room:
                room -= len(file.data)
                found.append(Image(file.name, file.mime_type, file.data))
    return found


def return_of(call: CallRow) -> CallReturn:
    """What the model reads of a settled call: an edit, its result, a person's note."""
    content = call.result if isinstance(call.result, str) else canonical(call.result)
    if call.edited is not None:
        told = sentence(difference(call.edited["from"], call.args))
        content = (
            f"[{call.edited['by']} changed the arguments before approving ({told}), to "
            f"{canonical(call.args)}.]\n{content}"
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
