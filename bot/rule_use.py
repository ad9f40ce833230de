"""A standing rule that decides about a call is never used without a word."""

from __future__ import annotations

from bot.core import Core
from bot.markdown import code, moment
from bot.remember import does, where
from bot.reply import say
from bot.rules import Effect, effect_of
from storage import audit
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Tx
from storage.rules import RuleRow


async def tell_rule_use(core: Core, tx: Tx, chat: ChatRow, row: CallRow, rule: RuleRow) -> None:
    """Every use of a standing rule leaves a line in the thread and a row in the audit."""
    effect = effect_of(rule)
    await audit.record(
        tx,
        "rule_used",
        now=core.now(),
        chat_id=row.chat_id,
        call_id=row.id,
        actor=rule.created_by,
        rule=rule.id,
        effect=effect.value,
        digest=row.digest,
    )
    await say(core, tx, chat, f"rule:{row.id}:{effect.value}", line(rule))


def line(rule: RuleRow) -> str:
    """Who said what, where and until when, in Markdown."""
    said = "allowed it" if effect_of(rule) is Effect.ALLOW else "said so"
    ends = "it is revoked" if rule.expires_at is None else moment(rule.expires_at)
    return (
        f"{code(rule.tool)} {does(rule)}: {code(rule.created_name)} {said} "
        f"{where(rule, here=True)} until {ends} (rule `{rule.id}`; `rules` lists it)."
    )
