"""The form by which an approval is made to stand for later calls: who may, what they can choose."""

from __future__ import annotations

from bot.core import Core
from bot.field import Field
from bot.question import QuestionError
from bot.surface import Actor
from storage.calls import CallRow
from storage.chats import ChatRow


def fields_to_remember(core: Core, chat: ChatRow, call: CallRow, by: Actor) -> tuple[Field, ...]:
    """What this person can choose. Raises QuestionError."""
    raise QuestionError("Nothing can be remembered here.")
