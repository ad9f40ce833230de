"""What waits for a person, runs for them, was decided lately and stands as a rule, as a card that
only they see: the answer to `pending`, and what stands in the place of a personal tab.

Approve stands only where every byte of the arguments does; elsewhere “Open” leads to the card."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from adapters.teams import actions, cards, limits, standing, tasks
from adapters.teams.approval import STANDING, approve, decline
from adapters.teams.elements import (
    Element,
    adaptive,
    buttons,
    execute,
    heading,
    line,
    lines,
    size,
    subtle,
)
from adapters.teams.events import Pressed
from adapters.teams.outcome import Handler, Outcome, refused
from adapters.teams.text import shorten, whole
from bot.card import Card, Kind, TaskCard, revealed, revealed_task
from bot.markdown import moment
from bot.surface import Actor, Entry, Home, Item
from bot.text import visible

KEY: Final = "home"  # stands for a nonce in the buttons that turn to other pages
NOTHING: Final = (
    "Nothing waits for you. To begin, mention me in a channel or write to me here with what you "
    "need; whatever needs your word then is on a card there and in this list."
)
_ROOM: Final = 600  # characters of one question that the list shows
_TITLE: Final = 150
_NAME: Final = 100  # of a tool or an agent
_SAID: Final = 300
_TOLD: Final = 1_000  # of a sentence at the top
_MORE_RULES: Final = "The command “rules” lists the standing rules."


def draw(home: Home, notice: str = "") -> Element:
    """The list, with a sentence for the person at its top. Where it would be more than a card
    takes, the later questions are shown by their titles and opened by their buttons."""
    count = len(home.waiting)
    for seen, rules in ((count, True), (count * 2 // 3, True), (0, True), (0, False)):
        drawn = adaptive(_body(home, notice, seen=seen, rules=rules))
        if size(drawn) <= limits.CARD_BYTES:
            return drawn
    return adaptive([*_notice(notice), *_titles(home), *_turns(home)])


def running(home: Home) -> Element | None:
    """The calls that go on in the background, each with a way to stop it; None: there are none."""
    if not home.running:
        return None
    drawn = adaptive([heading("Running in the background"), *_tasks(home.running)])
    return drawn if size(drawn) <= limits.CARD_BYTES else None


def _body(home: Home, notice: str, *, seen: int, rules: bool) -> list[Element]:
    """`seen`: so many of the questions may be decided in the list."""
    body = _notice(notice)
    if home.refusal:
        return [*body, line((whole(home.refusal, _TOLD), False))]
    if home.waiting:
        body.append(heading("Waiting for you"))
    for number, item in enumerate(home.waiting):
        body += _question(item, whole_=number < seen)
    if home.running:
        body += [heading("Running in the background"), *_tasks(home.running)]
    if not home.waiting and not home.running:
        body.append(line((NOTHING, False)))
    if home.decided:
        body += [heading("Decided lately"), *map(_decided, home.decided)]
    if rules:
        body += standing.rules(home)
    elif home.rules:
        body.append(subtle(_MORE_RULES))
    return [*body, *_turns(home)]


def _notice(notice: str) -> list[Element]:
    return [line((whole(notice, _TOLD), True))] if notice else []


def _question(item: Item, *, whole_: bool) -> list[Element]:
    assert isinstance(item.card, Card)
    card = revealed(item.card)
    about = [shorten(card.tool, _NAME), f"agent {shorten(card.agent, _NAME)}"]
    about.append(f"since {moment(item.since)}")
    elements = _titled(item, " · ".join(one for one in about if one))
    if not (whole_ and _seen(card)):
        open_ = execute(card.nonce, actions.OPEN, "Open", style="positive", home=True)
        return [*elements, buttons([open_, decline(card, home=True), *_thread(item)])]
    for one in card.arguments:
        elements.append(line((f"{one.name}:", True)))
        elements += lines(one.value)
    notices = list(card.notices)
    if card.remember is not None:
        notices.append(f"“{STANDING}” means: {card.remember}.")
    elements += [subtle(shorten(one, _TOLD)) for one in notices]
    offered = [*approve(card, home=True), decline(card, home=True), *_thread(item)]
    return [*elements, buttons(offered)]


def _seen(card: Card) -> bool:
    """Whether the list shows every byte of what is decided."""
    named = len(card.title) <= _TITLE and len(card.tool) <= _NAME
    told = all(len(one) <= _TOLD for one in card.notices) and len(card.notices) < 4
    shown = sum(len(one.name) + 1 + len(one.value) for one in card.arguments) <= _ROOM
    bare = all(one.value.strip() for one in card.arguments) and not card.message
    approval = card.kind is Kind.APPROVAL and card.complete and not card.exact
    return approval and named and told and shown and bare


def _tasks(items: Sequence[Item]) -> list[Element]:
    elements: list[Element] = []
    for item in items:
        assert isinstance(item.card, TaskCard)
        task = revealed_task(item.card)
        said = shorten(task.message or "Nothing is known of it yet.", _SAID)
        about = f"agent {shorten(task.agent, _NAME)} · since {moment(item.since)}"
        elements += _titled(item, about)
        elements.append(line((f"⏳ {said} ({shorten(task.status, _NAME)})", False)))
        offered = [tasks.cancel(task, home=True)] if item.may and task.open else []
        if offered := [*offered, *_thread(item)]:
            elements.append(buttons(offered))
    return elements


def _decided(item: Item) -> Element:
    outcome = item.card.outcome if isinstance(item.card, Card) else ""
    title = shorten(_line(item.card.title), _TITLE)
    return line((f"• {title}", True), (f" — {shorten(_line(outcome), _SAID)}", False))


def _titled(item: Item, about: str) -> list[Element]:
    title = line((shorten(_line(item.card.title), _TITLE), True)) | {"separator": True}
    return [title, subtle(_line(about)) | {"spacing": "None"}]


def _thread(item: Item) -> list[Element]:
    if item.link is None:
        return []
    return [{"type": "Action.OpenUrl", "title": "Thread", "url": item.link}]


def _titles(home: Home) -> list[Element]:
    """The least that still leads to everything."""
    elements = [heading("Waiting for you")]
    for item in home.waiting:
        elements.append(line((shorten(_line(item.card.title), _SAID), False)))
        elements.append(buttons([execute(item.card.nonce, actions.OPEN, "Open", home=True)]))
    return elements


def _turns(home: Home) -> list[Element]:
    """To the pages beside this one."""
    turns = [("Earlier", home.page - 1), ("More", home.page + 1)]
    turning = [
        execute(KEY, actions.HOME, label, page=number, home=True)
        for label, number in turns
        if 1 <= number <= home.pages
    ]
    told = subtle(f"Page {home.page:,} of {home.pages:,}")
    return [buttons(turning), told] if turning else []


def _line(text: str) -> str:
    return visible(" ".join(text.split()))


# --- What was pressed


async def listed(
    entry: Entry, pressed: Pressed, actor: Actor, notice: str = ""
) -> Mapping[str, Any]:
    """The list as it stands now, at the page that was pressed."""
    organisation = pressed.conversation.organisation
    found = await entry.home(actor, organisation, page=pressed.page)
    return await asyncio.to_thread(draw, found, notice)


async def _turned(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    return Outcome(view=await listed(entry, pressed, actor))


async def _opened(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    """The card of a question, with the way back to the list."""
    look = await entry.read(pressed.nonce, actor, place=pressed.within)
    if look.card is None:
        return refused(look.refusal)
    view = await asyncio.to_thread(cards.draw, look.card, pressed.place, home=True)
    return Outcome(view=view)


HANDLERS: Final[Mapping[str, Handler]] = {actions.HOME: _turned, actions.OPEN: _opened}
