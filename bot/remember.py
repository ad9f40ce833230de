"""An approval that stands for later calls too: what of the call, where and until when, as the
person chose it on a card (spec: Rules). What is chosen becomes a standing rule that allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, assert_never

from bot.field import Field, FieldType
from bot.markdown import moment
from bot.rules import BadRule, Comparison, Condition, Effect, conditions_of, effect_of, told
from bot.text import visible
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.redact import mask
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


SPANS: Final = {  # seconds that can be chosen, as people say them
    3_600.0: "1 hour",
    86_400.0: "1 day",
    604_800.0: "1 week",
    2_592_000.0: "30 days",
}
_REVOKED: Final = "until revoked"
UNTIL: Final = Field(
    "until", title="For how long", choices=[*SPANS.values(), _REVOKED], default="1 day"
)
USES: Final = Field(
    "uses",
    FieldType.INTEGER,
    title="How often at most",
    required=False,
    minimum=1,
    maximum=1_000,
)
_DOES: Final = {
    Effect.ALLOW: "runs without asking",
    Effect.ASK: "is asked about",
    Effect.DENY: "is refused",
}
_WORDS: Final = 400  # characters of all conditions
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
            missing = [name for name in chosen.fields if name not in args]
            if missing or not chosen.fields:
                raise BadRule("Choose the arguments of this call that have to be the same.")
            return [Condition(name, Comparison.EQUAL, args[name]) for name in chosen.fields]
        case What.TOOL:
            return []
        case unreachable:
            assert_never(unreachable)


def sentence(rule: RuleRow, *, here: bool = True) -> str:
    """All that a rule says (row B69): what becomes of which calls, where, until when, how often and
    for whom. `here`: it is read where the rule holds; else its scope is named. The text is plain
    and holds what others wrote, without secrets of known shapes and cut where it is long."""
    try:
        words = visible(mask(told(conditions_of(rule.conditions))), keep="")
        words = words if len(words) <= _WORDS else f"{words[: _WORDS - 1]}…"
        when = f" when {words}" if words else ""
    except BadRule:
        when = " (its conditions cannot be read)"
    parts = [f"{rule.tool} {does(rule)}{when}", where(rule, here=here), end(rule)]
    if rule.uses_left is not None:
        parts.append("once at most" if rule.uses_left == 1 else f"{rule.uses_left} times at most")
    if rule.requester is not None:
        parts.append(f"when {rule.requester.rpartition('/')[2]} asks")
    return f"{', '.join(parts)}."


def seconds_of(until: object) -> float | None:
    """How long what was picked in UNTIL holds; None: until it is revoked."""
    return next((span for span, title in SPANS.items() if title == until), None)


def does(rule: RuleRow) -> str:
    """What becomes of a call that the rule speaks of."""
    return _DOES[effect_of(rule)]


def used(rule: RuleRow) -> str:
    """How often it was."""
    return f"used {'once' if rule.uses == 1 else f'{rule.uses} times' if rule.uses else 'never'}"


def where(rule: RuleRow, *, here: bool) -> str:
    match Scope(rule.scope):
        case Scope.CHAT:
            return "in this thread" if here else "in its thread"
        case Scope.CHANNEL:
            return "in this channel" if here else f"in {rule.scope_key}"
        case Scope.ORGANISATION:
            return "in this whole workspace" if here else f"in {rule.scope_key}"
        case Scope.SURFACE:
            return f"everywhere on {rule.scope_key.capitalize()}"
        case unreachable:
            assert_never(unreachable)


def end(rule: RuleRow) -> str:
    """Until when it holds."""
    if rule.expires_at is None:
        return "until it is revoked"
    span = SPANS.get(round(rule.expires_at - rule.created_at, 3))
    return f"for {span}" if span else f"until {moment(rule.expires_at)}"
