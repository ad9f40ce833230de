"""The modal in which a call is approved with other arguments: an input with its value for each that
can be changed here. Only the one who decides sees it, secrets as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from adapters.slack import limits, modals
from adapters.slack.blocks import ACTION, exact, rich, words
from adapters.slack.events import Submission
from adapters.slack.outcome import BROKEN, NO_ANSWER, Outcome, told
from adapters.slack.text import plain, shorten
from bot.card import Argument, Card, revealed
from bot.surface import Actor, Decision, Entry, Form, Place, Verb
from bot.text import blank

EDIT: Final = ACTION + "edit"  # callback id

_ROOM: Final = 6_000  # characters of all arguments that stay as they are
_MOST: Final = 20  # of them
_NAME: Final = 200
_TOLD: Final = "It runs with what stands here, and the thread is told what you changed."
_TOO_LONG: Final = (
    "These arguments are too long to be changed in Slack: approve the call as it is, or decline it "
    "with a note that says what they should be."
)


def form(card: Card) -> modals.View:
    """`card` has the fields of `Entry.editing`."""
    names = {field.name for field in card.fields}
    stays = [one.name not in names for one in card.for_one().arguments]
    card = revealed(card.for_one())
    kept = [one for one, stay in zip(card.arguments, stays, strict=True) if stay]
    above = [*_facts(card), *_kept(kept)]
    view = modals.fitted(card, EDIT, "Edit and approve", above, submit="Approve", emptied=True)
    return view or modals.saying(_TOO_LONG)


def opened(form_: Form) -> modals.View:
    """The modal of what `Entry.editing` gives."""
    assert form_.card is not None
    return form(_with_fields(form_.card, form_))


async def sent(entry: Entry, submission: Submission, actor: Actor, place: Place) -> Outcome:
    """What came of the modal; `place` is the workspace. Raises NotOurs."""
    form_ = await entry.editing(submission.nonce, actor, place=place)
    if form_.card is None:
        tried = Decision(
            nonce=submission.nonce,
            verb=Verb.ANSWER,
            actor=actor,
            via="slack modal",
            place=place,
            response=NO_ANSWER,
            lenient=False,
        )
        await entry.decide(tried)
        return Outcome(form_.refusal or BROKEN)
    card = _with_fields(form_.card, form_)
    answer = await entry.decide(
        Decision(
            nonce=submission.nonce,
            verb=Verb.APPROVE,
            actor=actor,
            via="slack modal",
            place=place,
            edited=modals.read_state(card, submission.values),
        )
    )
    if answer.errors and not answer.done:
        return Outcome(errors=modals.errors_for(card, answer.errors))
    # It may lie on the pages of its card, whose buttons are of no use any more.
    return replace(told(answer), over=answer.done)


def _with_fields(card: Card, form_: Form) -> Card:
    return replace(card, fields=form_.fields)


def _facts(card: Card) -> list[modals.Block]:
    tool = (("Tool: ", True), (shorten(card.tool, _NAME), False))
    agent = (("\nAgent: ", True), (shorten(card.agent, _NAME), False))
    return [rich(words(*tool, *agent)), _section(_TOLD)]


def _kept(kept: Sequence[Argument]) -> list[modals.Block]:
    """The arguments that no input can hold, as far as there is room for them."""
    blocks = []
    whole = len(kept) <= _MOST
    for one in kept[:_MOST]:
        name, size = shorten(one.name, _NAME), min(_ROOM // len(kept), limits.SECTION - _NAME)
        value, told = shorten(one.value, size), shorten(blank(one.value), _NAME)
        whole = whole and (name, value) == (one.name, one.value)
        shown = [] if told else [exact(value)]
        blocks.append(rich(words((f"{name} stays as it is:", True), (told, False)), *shown))
    if not whole:
        blocks.append(_section("Cut here: the card shows all of what stays."))
    return blocks


def _section(text: str) -> modals.Block:
    return {"type": "section", "text": plain(text)}
