"""Approving a call with other arguments than the model gave (row D23)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bot.approvers import askers_of, refusal
from bot.core import Core
from bot.effect import Case
from bot.field import Field
from bot.gate import AskFirst, Deny, digest, gate
from bot.question import Changed, NotAllowed, Purpose, QuestionError
from bot.surface import Actor
from bot.tool import BadArguments
from storage.calls import CallRow
from storage.chats import ChatRow


def fields_to_edit(core: Core, chat: ChatRow, call: CallRow, by: Actor) -> tuple[Field, ...]:
    """The arguments as a form that holds those of the call. Raises QuestionError."""
    raise QuestionError("The arguments cannot be changed here.")


def edited(core: Core, case: Case) -> dict[str, Any]:
    """What changes in the row of the call: its arguments are validated and judged anew. Raises
    QuestionError."""
    call, assert_given = case.call, case.arguments
    assert assert_given is not None
    tool = core.tool(case.chat.agent, call.name)
    if tool is None:
        raise QuestionError(
            f"{call.name} is not loaded here, so its arguments cannot be changed; "
            "approve or decline it as it is."
        )
    if tool.schema_digest != call.schema_digest:
        raise Changed(f"{call.name} was changed since this was asked; decline it.")
    try:
        args = tool.validate(assert_given)
    except BadArguments as error:
        raise QuestionError(str(error)) from error
    edited = replace(call, args=args)
    policy = core.policies.of_question(case.chat.agent, edited, case.question)
    who = core.policies.who
    judged = gate(tool, args, policy=policy, askers=askers_of(call, case.chat), who=who)
    if isinstance(judged, Deny):
        raise NotAllowed(judged.reason)
    if isinstance(judged, AskFirst):
        refused = refusal(
            case.by,
            purpose=Purpose.APPROVAL,
            policy=policy,
            askers=askers_of(edited, case.chat),
            tool=edited.name,
            who=who,
        )
        if refused is None and policy.quorum > 1:
            refused = (
                f"{policy.quorum} people must approve these arguments of {call.name}, so they "
                "cannot be put in by one; decline it and say what it should be."
            )
        if refused is not None:
            raise NotAllowed(refused)
    return {
        "args": args,
        "digest": digest(call.server, call.name, call.schema_digest, args),
        "edited": {"by": case.by.label, "from": call.args},
    }
