"""An approval that stands for later calls too: what of the call, where and until when, as the
person chose it on a card (spec: Rules). What is chosen becomes a standing rule that allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from bot.rules import Comparison, Condition
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.rules import RuleRow, Scope, scope_key

if TYPE_CHECKING:
    from bot.surface import Actor


class What(StrEnum):
    """Which later calls are meant."""

    EXACT = "exact"  # the very same arguments
    FIELDS = "fields"  # some arguments are the same
    TOOL = "tool"  # whatever the arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """What a person chose. `fields`: the arguments that have to be the same, for FIELDS. `seconds`:
    how long it holds; None: until it is revoked, or its thread's end. `uses`: how often it lets a
    call run; None: as often as asked. `requester`: only for the one who asked."""

    what: What = What.TOOL
    fields: tuple[str, ...] = ()
    scope: Scope = Scope.CHAT
    seconds: float | None = None
    uses: int | None = None
    requester: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what.value,
            "fields": list(self.fields),
            "scope": self.scope.value,
            "seconds": self.seconds,
            "uses": self.uses,
            "requester": self.requester,
        }


THREAD = Remember()  # any later call of the tool in this thread, what RubyLLM calls remember


def rule_of(
    chosen: Remember,
    *,
    rule_id: str,
    chat: ChatRow,
    call: CallRow,
    by: Actor,
    requester: str | None,
    now: float,
) -> RuleRow:
    """The standing rule that was chosen. Raises bot.rules.BadRule."""
    return RuleRow(
        id=rule_id,
        effect="allow",
        scope=chosen.scope,
        scope_key=scope_key(chosen.scope, chat),
        requester=requester,
        server=call.server,
        tool=call.name,
        schema_digest=call.schema_digest,
        conditions=[one.to_json() for one in _conditions(chosen, call.args)],
        created_by=by.key,
        created_name=by.label,
        created_at=now,
        expires_at=None if chosen.seconds is None else now + chosen.seconds,
        uses_left=chosen.uses,
    )


def _conditions(chosen: Remember, args: Mapping[str, Any]) -> list[Condition]:
    match chosen.what:
        case What.EXACT:
            return [Condition("", Comparison.EXACT, dict(args))]
        case What.FIELDS:
            return [Condition(name, Comparison.EQUAL, args[name]) for name in chosen.fields]
        case What.TOOL:
            return []
