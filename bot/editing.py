"""Approving a call with other arguments than the model gave (row D23).

Its tool and server stay what they are. What is put in is validated and judged like the model's own,
and everybody is told of the difference."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.approvers import askers_of, refusal
from bot.argument_form import Editable, FormAnswer, arguments_of, form_of
from bot.card import Reach, reach
from bot.core import Core
from bot.difference import Change, difference, listed
from bot.effect import Case
from bot.field import Field
from bot.gate import Deny, Run, digest, gate
from bot.markdown import code
from bot.question import Changed, NotAllowed, Purpose, QuestionError
from bot.reply import say
from bot.surface import Actor
from bot.tool import BadArguments, Tool
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Tx, canonical
from storage.redact import mask
from storage.rules import RuleRow
from storage.scope import Asked


class BadEdit(QuestionError):
    """The tool does not take the arguments. `errors`: why, by the name of the argument."""

    def __init__(self, sentence: str, errors: Mapping[str, str]) -> None:
        super().__init__(sentence)
        self.errors = dict(errors)


@dataclass(frozen=True, slots=True)
class Edit:
    """What an edit does to the row of the call, and what it changed."""

    values: Mapping[str, Any]
    changes: tuple[Change, ...]


def fields_to_edit(core: Core, asked: Asked, by: Actor) -> tuple[Field, ...]:
    """The arguments as a form that holds those of the call. Raises QuestionError."""
    return tuple(one.field for one in _form(core, asked.chat, asked.call))


def _form(core: Core, chat: ChatRow, call: CallRow) -> tuple[Editable, ...]:
    tool = _tool(core, chat, call)
    quorum = core.policies.of_call(chat.agent, call).quorum
    if quorum > 1:
        raise NotAllowed(
            f"{quorum} people must approve {call.name}, so none of them can change it alone; "
            "decline it with a note that says what it should be."
        )
    if not _readable(call.args):
        raise QuestionError(
            f"The arguments of {call.name} are too long to be changed here; approve or decline it "
            "as it is."
        )
    form = form_of(tool.parameters, call.args)
    if not form:
        raise QuestionError(
            f"{call.name} has no arguments that can be changed here; approve or decline it as it "
            "is."
        )
    return form


def _tool(core: Core, chat: ChatRow, call: CallRow) -> Tool:
    """The tool as it was when it was asked about. Raises QuestionError."""
    tool = core.tool(chat.agent, call.name)
    if tool is None:
        raise QuestionError(
            f"{call.name} is not loaded here, so its arguments cannot be changed; "
            "approve or decline it as it is."
        )
    if tool.schema_digest != call.schema_digest or tool.server != call.server:
        raise Changed(f"{call.name} was changed since this was asked; decline it.")
    return tool


def _readable(args: Mapping[str, Any]) -> bool:
    """Whether a person can read all of it without a file, which nobody has of what is put in."""
    return reach(args) in (Reach.CARD, Reach.PAGES)


def edited(core: Core, case: Case, rules: Sequence[RuleRow], alike: Collection[str]) -> Edit | None:
    """What the new arguments of the case do: they are validated and judged anew, by the policy
    and the rules in force (`alike` as of `gate`). None: they are the old ones, so that nothing
    is changed.

    Raises QuestionError, BadEdit for what the tool refuses, and bot.field.AnswerError."""
    call, given = case.call, case.arguments
    assert given is not None
    tool = _tool(core, case.chat, call)
    if isinstance(given, FormAnswer):
        given = arguments_of(_form(core, case.chat, call), call.args, given)
    try:
        args = tool.validate(given)
    except BadArguments as error:
        faults = {name: mask(fault) for name, fault in error.faults.items()}
        raise BadEdit(mask(str(error)), faults) from error
    if canonical(args) == canonical(call.args):
        return None
    if isinstance(case.arguments, FormAnswer) and not _readable(args):
        raise QuestionError(
            f"With these arguments {call.name} would be too long for anybody to read here; "
            "make them shorter, or decline it."
        )
    _judge(core, case, tool, replace(call, args=args), rules, alike)
    return Edit(
        {
            "args": args,
            "digest": digest(call.server, call.name, call.schema_digest, args),
            "edited": _history(call, case.by),
        },
        difference(call.args, args),
    )


def _judge(
    core: Core,
    case: Case,
    tool: Tool,
    new: CallRow,
    rules: Sequence[RuleRow],
    alike: Collection[str],
) -> None:
    """Raises NotAllowed unless this person may have the call run with the new arguments."""
    policy = core.policies.of_question(case.chat.agent, new, case.question)
    who = core.policies.who
    askers = askers_of(new, case.chat)
    judged = gate(tool, new.args, policy=policy, askers=askers, alike=alike, rules=rules, who=who)
    if isinstance(judged, Deny):
        raise NotAllowed(judged.reason)
    if judged == Run():
        return  # anybody could have it run; what a rule allows is the model's, and is counted then
    refused = refusal(
        case.by, purpose=Purpose.APPROVAL, policy=policy, askers=askers, tool=new.name, who=who
    )
    if refused is None and policy.quorum > 1:
        refused = (
            f"{policy.quorum} people must approve these arguments of {new.name}, so they "
            "cannot be put in by one; decline it and say what it should be."
        )
    if refused is not None:
        raise NotAllowed(refused)


def _history(call: CallRow, by: Actor) -> dict[str, Any]:
    """Who changed the call, and what the model had asked for."""
    if call.edited is None:
        return {"by": by.label, "from": call.args}
    names = list(dict.fromkeys([call.edited["by"], by.label]))
    return {"by": " and ".join(names), "from": call.edited["from"]}


async def tell_edit(core: Core, tx: Tx, case: Case, changes: Sequence[Change]) -> None:
    """A line in the thread, for everybody there: what runs is not what was asked for."""
    told = f"{code(case.by.label)} approved {code(case.call.name)} with changes:\n{listed(changes)}"
    await say(core, tx, case.chat, f"edited:{case.question.id}", told)
