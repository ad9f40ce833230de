"""A standing rule that lets a call run is never used without a word."""

from __future__ import annotations

from bot.core import Core
from bot.reply import say
from storage import audit
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Tx
from storage.rules import RuleRow


async def tell_rule_use(core: Core, tx: Tx, chat: ChatRow, row: CallRow, rule: RuleRow) -> None:
    """Every use of a standing rule leaves a line in the thread and a row in the audit."""
    await audit.record(
        tx,
        "rule_used",
        now=core.now(),
        chat_id=row.chat_id,
        call_id=row.id,
        actor=rule.created_by,
        rule=rule.id,
        digest=row.digest,
    )
    await say(
        core,
        tx,
        chat,
        f"rule:{row.id}",
        f"{row.name} runs without asking: {rule.created_name} approved it for this thread.",
    )
