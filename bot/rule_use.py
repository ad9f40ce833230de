"""A standing rule that decides about a call is never used without a word."""

from __future__ import annotations

from typing import Final

from bot.core import Core
from bot.markdown import code, moment
from bot.remember import where
from bot.reply import say
from bot.rules import Effect, effect_of
from storage import audit
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Tx
from storage.rules import RuleRow

_WORDS: Final = {
    Effect.ALLOW: ("runs without asking", "allowed it"),
    Effect.ASK: ("is asked about", "said so"),
    Effect.DENY: ("is refused", "said so"),
}


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
    does, said = _WORDS[effect_of(rule)]
    ends = "it is revoked" if rule.expires_at is None else moment(rule.expires_at)
    return (
        f"{code(rule.tool)} {does}: {code(rule.created_name)} {said} "
        f"{where(rule, here=True)} until {ends} (rule `{rule.id}`; `rules` lists it)."
    )
