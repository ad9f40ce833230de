"""A standing rule that a person asks for in words or in a form, as the row that it would be."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

from bot.core import Core, ToolsUnavailable, new_id
from bot.rulebook import server_of
from bot.rules import Condition, Effect
from bot.surface import Actor
from storage.rules import RuleRow, Scope

NOTE: Final = 300  # characters of a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The rule that was asked for. `scope`: none was said. `seconds`: how long it holds; None:
    until it is revoked. `uses`: how often it speaks; None: always. `mine`: for calls that this
    person alone asked for. `sure`: it is to be saved, not only shown."""

    tool: str
    effect: Effect
    conditions: tuple[Condition, ...] = ()
    scope: Scope | None = None
    seconds: float | None = None
    uses: int | None = None
    mine: bool = False
    note: str = ""
    sure: bool = False


async def rule_of(core: Core, wish: Wish, scope: Scope, scope_key: str, by: Actor) -> RuleRow:
    """The rule as it would be now; whether it may be made is for `bot.rulebook` to say."""
    for agent in core.agents.values():
        with contextlib.suppress(ToolsUnavailable):
            await agent.find(wish.tool)  # a server tells its tools when it is asked
    now = core.now()
    return RuleRow(
        id=new_id("rule"),
        effect=wish.effect.value,
        scope=scope,
        scope_key=scope_key,
        requester=by.key if wish.mine else None,
        server=server_of(core, wish.tool),
        tool=wish.tool,
        schema_digest="",
        conditions=[one.to_json() for one in wish.conditions],
        created_by=by.key,
        created_name=by.label,
        created_at=now,
        expires_at=None if wish.seconds is None else now + wish.seconds,
        uses_left=wish.uses,
        note=wish.note or None,
    )
