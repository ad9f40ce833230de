"""Modals for standing rules: what is filled in, then what it means and a button that saves it.

One is for an approval that is to be remembered, one for a rule by itself. The second view of each
carries what was filled in back to us. It is the person's own answer, and it is read and judged anew
when it is saved: nothing is believed for having been there before."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from adapters.slack import limits, modals
from adapters.slack.actions import ACTION
from adapters.slack.events import Submission
from adapters.slack.outcome import BROKEN, Outcome, told
from adapters.slack.text import plain, shorten
from bot.card import Card, CardState, Kind
from bot.field import Field
from bot.surface import Actor, Decision, Entry, Form, NewRule, Place, Response, Verb
from bot.text import chunks, visible

RULE: Final = "rule"  # the metadata of the form of a rule that belongs to no card

_ASKED: Final = "Nothing is saved yet. "
_TOO_MUCH: Final = "This is more than Slack carries from one step to the next: choose less."


@dataclass(frozen=True, slots=True)
class Steps:
    """The two views: their callback ids, and what their buttons say."""

    form: str
    save: str
    title: str
    button: str


REMEMBER: Final = Steps(
    ACTION + "remember_form", ACTION + "remember_save", "Remember", "Approve and remember"
)
NEW: Final = Steps(ACTION + "rule_form", ACTION + "rule_save", "New rule", "Save")

SAVES: Final = frozenset({REMEMBER.save, NEW.save})
CALLBACKS: Final = SAVES | {REMEMBER.form, NEW.form}


# --- Drawing


def remembering(form: Form) -> modals.View:
    """What an approval may stand for, to be chosen."""
    assert form.card is not None
    about = f"{form.card.title}\nIf you approve it, what about later calls of {form.card.tool}?"
    drawn = _asking(form.card.nonce, about, form.fields)
    return modals.inputs(drawn, REMEMBER.form, REMEMBER.title, "Preview")


def making(form: Form) -> modals.View:
    """A rule by itself, to be filled in."""
    drawn = _asking(
        RULE, "A standing rule decides about calls before anybody is asked.", form.fields
    )
    return modals.inputs(drawn, NEW.form, NEW.title, "Preview")


def preview(steps: Steps, key: str, answer: Mapping[str, Any], said: str) -> modals.View | None:
    """What it means, and the button that saves it; None: the answer is more than a view carries."""
    carried = json.dumps([key, answer], separators=(",", ":"), ensure_ascii=False)
    if len(carried.encode("utf-8", "surrogatepass")) > limits.METADATA:
        return None
    parts = chunks(shorten(visible(said), limits.PAGE_TEXT), limits.SECTION)
    asked = f"{_ASKED}“{steps.button}” saves it, and then it holds."
    return {
        "type": "modal",
        "callback_id": steps.save,
        "private_metadata": carried,
        "title": plain(steps.title),
        "close": plain("Back"),
        "submit": plain(steps.button),
        "blocks": [{"type": "section", "text": plain(part)} for part in (*parts, asked)],
    }


def _asking(key: str, message: str, fields: tuple[Field, ...]) -> Card:
    return Card(
        nonce=key,
        version=0,
        kind=Kind.FORM,
        state=CardState.OPEN,
        title="",
        agent="",
        message=message,
        fields=fields,
    )


# --- What was sent


def carried(metadata: str) -> tuple[str, dict[str, Any]]:
    """The question and the answer that the second view brought back. Raises NotOurs."""
    try:
        key, answer = json.loads(metadata)
    except (ValueError, TypeError, RecursionError):
        key, answer = None, None
    if not isinstance(key, str) or not isinstance(answer, dict):
        raise modals.NotOurs("The form came back in a shape that Slack does not give.")
    return key, answer


async def sent(entry: Entry, submission: Submission, actor: Actor, place: Place) -> Outcome:
    """What came of one of the views. `place` is the workspace. Raises NotOurs."""
    match submission.callback:
        case REMEMBER.form:
            form = await entry.remembering(submission.nonce, actor, place=place)
            ask = _approval(entry.preview, actor, place)
            return await _previewed(REMEMBER, submission, form, ask)
        case NEW.form:
            form = await entry.rule_form(actor, place.organisation)
            return await _previewed(NEW, submission, form, _rule(entry, actor, place, sure=False))
        case REMEMBER.save:
            return await _saved(submission, _approval(entry.decide, actor, place))
        case _:
            return await _saved(submission, _rule(entry, actor, place, sure=True))


_Ask = Callable[[str, Mapping[str, Any]], Awaitable[Response]]


def _approval(ask: Callable[[Decision], Awaitable[Response]], actor: Actor, place: Place) -> _Ask:
    def asked(nonce: str, answer: Mapping[str, Any]) -> Awaitable[Response]:
        return ask(
            Decision(
                nonce=nonce,
                verb=Verb.APPROVE,
                actor=actor,
                via="slack modal",
                place=place,
                rule=answer,
            )
        )

    return asked


def _rule(entry: Entry, actor: Actor, place: Place, *, sure: bool) -> _Ask:
    def asked(_: str, answer: Mapping[str, Any]) -> Awaitable[Response]:
        wish = NewRule(
            actor=actor,
            organisation=place.organisation,
            via="slack modal",
            answer=answer,
            sure=sure,
        )
        return entry.new_rule(wish)

    return asked


async def _previewed(steps: Steps, submission: Submission, form: Form, ask: _Ask) -> Outcome:
    if not form.fields:
        return Outcome(form.refusal or BROKEN, final=True)
    shown = _asking(submission.nonce, "", form.fields)
    answer = modals.read_state(shown, submission.values)
    response = await ask(submission.nonce, answer)
    if response.errors:
        return Outcome(errors=modals.errors_for(shown, response.errors))
    if not response.done:
        return told(response)
    view = preview(steps, submission.nonce, answer, response.sentence)
    if view is None:
        return Outcome(errors=modals.errors_for(shown, {"": _TOO_MUCH}))
    return Outcome(view=view)


async def _saved(submission: Submission, ask: _Ask) -> Outcome:
    response = await ask(*carried(submission.nonce))
    if not response.done:
        return told(response)
    return Outcome(done=response.sentence, over=True)
