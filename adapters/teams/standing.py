"""Standing rules: a form for the one who pressed, then what it means and a button that saves it.

That button carries the answer back to us. It is the person's own, and it is read and judged anew
when it is saved: nothing is believed for having been there before."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from adapters.teams import actions, forms, limits
from adapters.teams.elements import (
    Element,
    adaptive,
    back,
    buttons,
    execute,
    heading,
    line,
    lines,
    size,
    subtle,
)
from adapters.teams.events import Pressed, storable
from adapters.teams.outcome import VIA, Handler, Outcome, refused, told
from adapters.teams.text import shorten
from bot.card import Card
from bot.surface import Actor, Decision, Entry, Form, Home, NewRule, Response, Verb
from bot.text import visible

CHOOSE_LABEL: Final = "Approve and remember…"
RULE: Final = "rule"  # the nonce of what belongs to no card
CARRIED: Final = "answer"  # of the data of a button: what was filled in before

_ROOM: Final = 12_000  # characters of a form
_SAID: Final = 6_000  # of what a rule means
_LINE: Final = 1_200  # of all that a rule of a list says
_KEYS: Final = 30
_ABOUT: Final = "A standing rule decides about calls before anybody is asked."
_SURE: Final = "It ends now, for everybody. What it let run before is not called back."
_TOO_MUCH: Final = "This is more than Teams carries from one step to the next: choose less."
_TOO_LONG: Final = "This form is too long for a card of Teams, so it cannot be filled in here."


# --- Drawing


def choose(card: Card, *, home: bool = False) -> list[Element]:
    """The button of a card that opens the form, if all that would run can be read there."""
    if not (card.open and card.complete and card.standing):
        return []
    return [execute(card.nonce, actions.CHOOSE, CHOOSE_LABEL, home=home)]


def rules(home: Home) -> list[Element]:
    """The standing rules of a home, each with its end, and a way to make one."""
    if not home.rules and not home.maker:
        return []
    drawn = [heading("Standing rules")]
    for rule in home.rules:
        drawn.append(line((shorten(" ".join(rule.sentence.split()), _LINE), True)))
        about = subtle(shorten(" ".join(rule.about.split()), _LINE))
        drawn.append(about | {"spacing": "None"})
        offered: list[Element] = []
        if rule.link is not None:
            offered.append({"type": "Action.OpenUrl", "title": "Open", "url": rule.link})
        if rule.may:
            offered.append(execute(rule.id, actions.REVOKE, "Revoke", home=True))
        drawn += [buttons(offered)] if offered else []
    if home.more_rules:
        more = f"And {home.more_rules:,} more: the command “rules” lists those of a channel."
        drawn.append(subtle(more))
    if home.maker:
        drawn.append(buttons([execute(RULE, actions.NEW_RULE, "New rule", home=True)]))
    return drawn


def _form(pressed: Pressed, form: Form, title: str, about: str, verb: str) -> Outcome:
    shown, there = forms.elements(form.fields, open_=True, room=_ROOM)
    ask = execute(pressed.nonce, verb, "Preview", style="positive", inputs=True, home=pressed.home)
    body = [
        heading(title),
        *lines(about, mono=False),
        *shown,
        buttons([ask, back(pressed.nonce, home=pressed.home)]),
    ]
    view = adaptive(body)
    return Outcome(view=view) if there and size(view) <= limits.CARD_BYTES else refused(_TOO_LONG)


def _promise(
    pressed: Pressed, said: str, answer: Mapping[str, Any], label: str, verb: str, form: str
) -> Outcome:
    """What it means, and the button that saves it."""
    if len(json.dumps(answer).encode()) > limits.CARRIED_BYTES:
        return refused(_TOO_MUCH)
    save = execute(pressed.nonce, verb, label, style="positive", home=pressed.home)
    save["data"][CARRIED] = answer  # the fallback has the same data
    body = [
        heading(label),
        *lines(shorten(visible(said), _SAID), mono=False),
        subtle(f"Nothing is saved yet. “{label}” saves it, and then it holds."),
        buttons([save, execute(pressed.nonce, form, "Back", home=pressed.home)]),
    ]
    view = adaptive(body)
    return Outcome(view=view) if size(view) <= limits.CARD_BYTES else refused(_TOO_MUCH)


# --- What came back


def carried(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer that the second view brought back. Raises forms.NotOurs."""
    answer = inputs.get(CARRIED)
    if not isinstance(answer, dict) or len(answer) > _KEYS:
        raise forms.NotOurs
    for name, value in answer.items():
        every = value if isinstance(value, list) else [value]
        if not _plain(name) or not isinstance(name, str) or not all(map(_plain, every)):
            raise forms.NotOurs
    try:
        fits = len(json.dumps(answer, allow_nan=False).encode()) <= limits.CARRIED_BYTES
    except ValueError:
        raise forms.NotOurs from None
    if not fits:
        raise forms.NotOurs
    return answer


def _plain(value: object) -> bool:
    if isinstance(value, str):
        return storable(value) == value
    return isinstance(value, bool | int | float)


def _errors(form: Form, response: Response) -> Outcome:
    labels = {field.name: field.label for field in form.fields}
    said = [
        f"{labels[name]}: {error}" if name in labels else error
        for name, error in response.errors.items()
    ]
    return refused(" ".join(said))


# --- An approval that is remembered


async def _choose(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    form = await entry.remembering(pressed.nonce, actor, place=pressed.within)
    if form.card is None or not form.fields:
        return refused(form.refusal)
    about = f"If you approve it, what about later calls of {form.card.tool}?"
    return _form(pressed, form, form.card.title, about, actions.CHOOSE_PREVIEW)


async def _chosen(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    form = await entry.remembering(pressed.nonce, actor, place=pressed.within)

    def ask(answer: Mapping[str, Any]) -> Awaitable[Response]:
        return entry.preview(_decision(pressed, actor, answer))

    steps = "Approve and remember", actions.CHOOSE_SAVE, actions.CHOOSE
    return await _previewed(pressed, form, ask, *steps)


async def _remembered(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    return told(await entry.decide(_decision(pressed, actor, carried(pressed.inputs))))


def _decision(pressed: Pressed, actor: Actor, answer: Mapping[str, Any]) -> Decision:
    return Decision(
        nonce=pressed.nonce,
        verb=Verb.APPROVE,
        actor=actor,
        via=VIA,
        place=pressed.within,
        rule=answer,
    )


# --- A rule by itself


async def _new(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    form = await entry.rule_form(actor, pressed.conversation.organisation)
    if not form.fields:
        return refused(form.refusal)
    return _form(pressed, form, "New rule", _ABOUT, actions.RULE_PREVIEW)


async def _filled(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    form = await entry.rule_form(actor, pressed.conversation.organisation)

    def ask(answer: Mapping[str, Any]) -> Awaitable[Response]:
        return entry.new_rule(_wish(pressed, actor, answer, sure=False))

    return await _previewed(pressed, form, ask, "Save", actions.RULE_SAVE, actions.NEW_RULE)


async def _saved(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    return told(await entry.new_rule(_wish(pressed, actor, carried(pressed.inputs), sure=True)))


def _wish(pressed: Pressed, actor: Actor, answer: Mapping[str, Any], *, sure: bool) -> NewRule:
    where = pressed.conversation.organisation
    return NewRule(actor=actor, organisation=where, via=VIA, answer=answer, sure=sure)


async def _revoke(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    sure = execute(pressed.nonce, actions.REVOKE_SURE, "Revoke", style="destructive", home=True)
    asked = [
        heading("Revoke this rule?"),
        *lines(_SURE, mono=False),
        buttons([sure, back(pressed.nonce, home=True)]),
    ]
    return Outcome(view=adaptive(asked))


async def _revoked(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    where = pressed.conversation.organisation
    return told(await entry.revoke_rule(pressed.nonce, actor, where, via=VIA))


async def _previewed(
    pressed: Pressed,
    form: Form,
    ask: Callable[[Mapping[str, Any]], Awaitable[Response]],
    label: str,
    save: str,
    again: str,
) -> Outcome:
    if not form.fields:
        return refused(form.refusal)
    answer = forms.answer_of(form.fields, pressed.inputs)
    response = await ask(answer)
    if response.errors:
        return _errors(form, response)
    if not response.done:
        return told(response)
    return _promise(pressed, response.sentence, answer, label, save, again)


HANDLERS: Final[Mapping[str, Handler]] = {
    actions.CHOOSE: _choose,
    actions.CHOOSE_PREVIEW: _chosen,
    actions.CHOOSE_SAVE: _remembered,
    actions.NEW_RULE: _new,
    actions.RULE_PREVIEW: _filled,
    actions.RULE_SAVE: _saved,
    actions.REVOKE: _revoke,
    actions.REVOKE_SURE: _revoked,
}
