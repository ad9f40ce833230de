"""The form by which an approval is made to stand for later calls: who may, what they can choose,
and the standing rule that comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bot.approvers import Policy, askers_of, may_allow
from bot.core import Core, new_id
from bot.effect import Case
from bot.field import AnswerError, Choice, Field, FieldType, coerce
from bot.question import Changed, NotAllowed, QuestionError
from bot.remember import UNTIL, USES, Remember, What, rule_of, seconds_of
from bot.rules import BadRule
from bot.surface import Actor
from bot.text import visible
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import canonical
from storage.redact import mask, mask_field
from storage.rules import RuleRow, Scope
from storage.scope import Asked

_SHOWN: Final = 60  # characters of a value that a choice shows
_FIELDS: Final = 50  # arguments that can be chosen; a call with more is remembered exactly


def fields_to_remember(core: Core, asked: Asked, by: Actor) -> tuple[Field, ...]:
    """What this person can choose beside an approval. Raises QuestionError."""
    chat, call = asked.chat, asked.call
    policy = core.policies.of_question(chat.agent, call, asked.question)
    scopes = _scopes(core, chat, call, policy, by)
    named = () if _carries(core, chat, call) else _named(call)
    kinds = [Choice(What.EXACT.value, "this exact call")]
    if named:
        kinds.append(Choice(What.FIELDS.value, "calls where these are the same"))
    if not _carries(core, chat, call):
        kinds.append(Choice(What.TOOL.value, f"any call of {call.name}"))
    titles = {
        Scope.CHAT: "this thread",
        Scope.CHANNEL: "this channel",
        Scope.ORGANISATION: "this whole workspace",
        Scope.SURFACE: f"everywhere on {chat.surface.capitalize()}",
    }
    fields = [
        Field("what", title="Do not ask again for", choices=kinds, default=What.EXACT.value),
        Field(
            "where",
            title="Where",
            choices=[Choice(one.value, titles[one]) for one in scopes],
            default=Scope.CHAT.value,
        ),
        UNTIL,
        USES,
    ]
    if named:
        these = Field("fields", FieldType.CHOICES, title="These", required=False, choices=named)
        fields.insert(1, these)
    askers = askers_of(call, chat)
    if len(askers) == 1:
        title = "Only for the person who asked for this"
        fields.append(Field("requester", FieldType.BOOLEAN, title=title, default=False))
    return tuple(fields)


def chosen(fields: Sequence[Field], answer: Mapping[str, Any]) -> Remember:
    """What was chosen in the form. Raises bot.field.AnswerError."""
    given = coerce(fields, answer, lenient=True)
    what, named = What(str(given["what"])), given.get("fields") or []
    assert isinstance(named, list)
    if what is What.FIELDS and not named:
        raise AnswerError({"fields": "Choose which arguments have to be the same."})
    if what is What.TOOL and named:
        raise AnswerError(
            {"fields": "Any call was chosen, so leave these out, or choose calls like them."}
        )
    uses = given.get("uses")
    return Remember(
        what=what,
        fields=tuple(map(str, named)) if what is What.FIELDS else (),
        scope=Scope(str(given["where"])),
        seconds=seconds_of(given["until"]),
        uses=uses if isinstance(uses, int) else None,
        requester=given.get("requester") is True,
    )


def rule_for(core: Core, asked: Asked, by: Actor, remember: Remember) -> RuleRow:
    """The standing rule that an approval of this call makes. Its conditions are the validated
    arguments of the call. Raises QuestionError."""
    chat, call = asked.chat, asked.call
    policy = core.policies.of_question(chat.agent, call, asked.question)
    if remember.scope not in _scopes(core, chat, call, policy, by):
        raise NotAllowed(
            f"The policy {policy.name} lets your approvals of {call.name} be remembered for this "
            "thread only: choose this thread."
        )
    if remember.what is not What.EXACT and _carries(core, chat, call):
        raise NotAllowed(
            f"{call.name} can do anything that its arguments say, so only this exact call can be "
            "remembered."
        )
    askers = askers_of(call, chat)
    if remember.requester and len(askers) != 1:
        raise QuestionError("Several people asked for this, so it cannot be for one of them only.")
    try:
        return rule_of(
            remember,
            rule_id=new_id("rule"),
            chat=chat,
            call=call,
            by=by,
            requester=next(iter(askers)) if remember.requester else None,
            now=core.now(),
        )
    except BadRule as error:
        raise QuestionError(str(error)) from error


def rule_of_case(core: Core, case: Case) -> RuleRow | None:
    """The rule that a decision makes; None: it is for this call alone. Raises QuestionError."""
    if case.remember is None:
        return None
    if case.arguments is not None:
        raise QuestionError("A call that was changed is approved once: leave one of the two.")
    asked = Asked(case.question, case.call, case.chat)
    return rule_for(core, asked, case.by, case.remember)


def _scopes(
    core: Core, chat: ChatRow, call: CallRow, policy: Policy, by: Actor
) -> tuple[Scope, ...]:
    """Where this person may have the call remembered. Raises QuestionError: nowhere."""
    tool = core.tool(chat.agent, call.name)
    if tool is not None and tool.schema_digest != call.schema_digest:
        raise Changed(f"{call.name} was changed since this was asked, so it is approved once.")
    if policy.quorum > 1:
        raise NotAllowed(
            f"{policy.quorum} people must approve {call.name}, so it cannot be remembered."
        )
    askers, who = askers_of(call, chat), core.policies.who
    outsider = by.by_name_only
    if not outsider and may_allow(policy, by.key, thread=False, askers=askers, who=who):
        return tuple(Scope)
    if may_allow(policy, by.key, thread=True, askers=askers, who=who):
        return (Scope.CHAT,)
    raise NotAllowed(
        f"The policy {policy.name} does not let your approvals of {call.name} be remembered; "
        "approve it once."
    )


def _carries(core: Core, chat: ChatRow, call: CallRow) -> bool:
    """Whether only the exact call may be remembered; so may one of a tool that is not loaded."""
    tool = core.tool(chat.agent, call.name)
    return tool is None or tool.carrier


def _named(call: CallRow) -> list[Choice]:
    """The arguments that may have to be the same, with their values."""
    named = [name for name in call.args if name.isprintable() and name and name == name.strip()]
    if len(named) > _FIELDS or len(named) < len(call.args):
        return []
    return [Choice(name, f"{name} = {_brief(name, call.args[name])}") for name in named]


def _brief(name: str, value: Any) -> str:
    value = mask_field(name, value)
    shown = visible(mask(value if isinstance(value, str) else canonical(value)), keep="")
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
