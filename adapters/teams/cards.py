"""Cards as Adaptive Cards 1.5. Untrusted text stands in TextRuns, in which no client reads markup;
the one TextBlock, with the mentions of those who may decide, holds cleaned names alone.

A card is the same for everybody, and what a button sends back names a question and nothing else."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, assert_never

from adapters.teams import forms, limits
from adapters.teams.events import NONCE, VERB
from adapters.teams.people import Member
from adapters.teams.text import message as text_message
from adapters.teams.text import plain, shorten, whole
from bot import address
from bot.card import Card, CardState, Kind, TaskCard, revealed, revealed_task
from bot.excerpt import excerpt
from bot.group import GroupCard
from bot.surface import Content, File, Place, Reply
from bot.text import reveal, visible

Element = dict[str, Any]

TYPE: Final = "application/vnd.microsoft.card.adaptive"
APPROVE: Final = "approve"
REMEMBER: Final = "remember"
DECLINE: Final = "decline"
NOTE: Final = "note"  # decline with what stands in the input of this name
ANSWER: Final = "answer"
FINISHED: Final = "finished"

STANDING: Final = "Approve for this thread"
REPEATED: Final = (
    "This may stand here twice, since Teams did not confirm the first copy. Both count as one."
)
_ROOMS: Final = (9_000, 6_000, 4_000, 2_500, 1_200, 400)  # characters of what is asked
_LEAST: Final = 120  # characters of an argument that is shown in part
_NAME: Final = 80
_LINES: Final = 60  # lines of a value that are shown as lines
_NOTICES: Final = 10
_NOTICE: Final = 1_000
_DECIDERS: Final = 12
_UNSAFE_IN_NAME: Final = re.compile(r"(?:[^\w .,'’-]|_)+")
_MARKS: Final = {CardState.DONE: "✅", CardState.REFUSED: "⛔", CardState.CLOSED: "⚪"}
_COLOURS: Final = {CardState.DONE: "Good", CardState.REFUSED: "Attention"}

Names = Mapping[str, Member]
NOBODY: Final[Names] = {}


def activity(
    content: Content,
    place: Place,
    names: Names = NOBODY,
    *,
    repeated: bool = False,
) -> Element:
    """What is posted in a place. `names`: people who may be mentioned, by key. `repeated`: an
    earlier copy may be there."""
    match content:
        case Reply():
            told = f"{content.text}\n\n*{REPEATED}*" if repeated else content.text
            return _addressed(text_message(told), content.mentions, names)
        case File():
            return text_message(f"The file `{content.name}` cannot be shown in Teams yet.")
        case Card():
            summary = f"{content.title} — {content.outcome}" if content.outcome else content.title
            shown = draw(content, place, names, repeated=repeated)
        case GroupCard():
            summary, shown = content.title, _plain_card(_group(content))
        case TaskCard():
            summary, shown = content.title, _plain_card(_task(content))
        case _:
            assert_never(content)
    return {
        "type": "message",
        "summary": whole(" ".join(summary.split()), limits.SUMMARY),
        "attachments": [{"contentType": TYPE, "content": shown}],
    }


def _addressed(message: Element, whom: Sequence[str], names: Names) -> Element:
    """The message with mentions of those who are to read it, and the others by key."""
    if not whom:
        return message
    mentioned, others = _mentions(whom, names)
    named = ", ".join([*mentioned, *map(html.escape, others)])
    return message | {
        "text": f"<p>{named}</p>\n{message['text']}",
        "entities": list(mentioned.values()),
    }


def draw(card: Card, place: Place, names: Names = NOBODY, *, repeated: bool = False) -> Element:
    """The card as it stands in a place, with as much of what is asked as fits."""
    seen = revealed(card)
    extra = [REPEATED] if repeated else []
    if card.thread is not None and card.thread != place and card.askers:
        extra.append(_requested(card, names))
    for room in _ROOMS:
        drawn = _drawn(seen, names, room, extra)
        if size(drawn) <= limits.CARD_BYTES:
            return drawn
    told = _runs((shorten(seen.title, limits.TITLE), True)), _subtle(_too_long(card))
    return _plain_card([*told, *([_buttons([_decline(card)])] if card.open else [])])


def offers(card: Element, verb: str) -> bool:
    """Whether a card that was drawn has the button of this verb."""
    return any(one.get("verb") == verb for part in card["body"] for one in part.get("actions", ()))


def size(card: Element) -> int:
    return len(json.dumps(card, ensure_ascii=False).encode("utf-8", "replace"))


def _drawn(card: Card, names: Names, room: int, extra: list[str]) -> Element:
    body = [_title(card), *_facts(card)]
    asked, whole = _asked(card, room)
    body += asked
    notices = [*card.notices, *extra]
    if card.open and card.complete and whole and card.remember is not None:
        notices.append(f"“{STANDING}” means: {card.remember}.")
    if card.open and not whole:
        notices.append(_too_long(card))
    entities: list[Element] = []
    if card.open:
        deciders, entities = _deciders(card, names)
        body += deciders
    else:
        body += _outcome(card)
    body += [_subtle(shorten(one, _NOTICE)) for one in notices[:_NOTICES]]
    if card.open:
        whole = whole and not notices[_NOTICES:] and max(map(len, notices), default=0) <= _NOTICE
        body += _actions(card, whole)
    drawn = _plain_card(body)
    return drawn | {"msteams": {"entities": entities}} if entities else drawn


def _plain_card(body: list[Element]) -> Element:
    return {
        "type": "AdaptiveCard",
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "version": "1.5",
        "body": body,
    }


# --- What is asked


def _title(card: Card | TaskCard) -> Element:
    run = _run(shorten(" ".join(card.title.split()), limits.TITLE), bold=True) | {"size": "Medium"}
    return {"type": "RichTextBlock", "inlines": [run]}


def _facts(card: Card) -> list[Element]:
    told: list[tuple[str, bool]] = []
    for name, value in (("Tool: ", card.tool), ("Agent: ", card.agent)):
        if value:
            told += [("   " if told else "", False), (name, True), (shorten(value, 200), False)]
    return [_runs(*told)] if told else []


def _asked(card: Card, room: int) -> tuple[list[Element], bool]:
    """What is asked, and whether all of it is there."""
    elements: list[Element] = []
    whole = True
    if card.message:
        part = excerpt(card.message, max(_LEAST, room // 2))
        elements += _value(part.head, mono=False)
        if part.left_out:
            elements += [_between(part.left_out), *_value(part.tail, mono=False)]
        whole = not part.left_out
        room -= min(room, len(card.message))
    arguments, there = _arguments(card, room)
    elements += arguments
    whole = whole and there
    match card.kind:
        case Kind.APPROVAL:
            return elements, whole
        case Kind.FORM:
            shown, there = forms.elements(card.fields, open_=card.open, room=max(room, 3_000))
            return elements + shown, whole and there
        case Kind.PAGE:
            return elements + _address(card.url), whole
        case _:
            assert_never(card.kind)


def _arguments(card: Card, room: int) -> tuple[list[Element], bool]:
    """Each argument under its name, with a clear line where a part of it is left out."""
    if not card.arguments:
        nothing = card.kind is Kind.APPROVAL and card.complete
        return ([_subtle("The call has no arguments.")] if nothing else []), True
    sizes = [len(one.name) + len(one.value) for one in card.arguments]
    if sum(sizes) <= room:
        share, count = room, len(sizes)
    else:
        count = max(1, min(len(sizes), room // _LEAST))
        share = max(_LEAST, room // count)
    elements: list[Element] = []
    whole = count == len(sizes)
    for argument in card.arguments[:count]:
        there = sum(sizes) <= room
        name = argument.name if there else shorten(argument.name, _NAME)
        part = excerpt(argument.value, share)
        whole = whole and name == argument.name and not part.left_out
        elements.append(_runs((f"{name}:", True), (_empty(argument.value), False)))
        if argument.value.strip():
            elements += _value(part.head)
        if part.left_out:
            elements += [_between(part.left_out), *_value(part.tail)]
    if missing := len(sizes) - count:
        elements.append(_subtle(f"Cut here: {missing:,} more arguments."))
    return elements, whole


def _value(text: str, *, mono: bool = True) -> list[Element]:
    """A text as it is, in lines; one with very many of them runs on, with the ends of its lines
    marked, because every line costs more than it says."""
    lines = text.split("\n")
    if len(lines) > _LINES:
        lines = [" ↵ ".join(lines)]
    elements = []
    for number, line in enumerate(lines):
        run = _run(_spaced(line) or "\xa0") | ({"fontType": "Monospace"} if mono else {})
        block: Element = {"type": "RichTextBlock", "inlines": [run]}
        elements.append(block | ({"spacing": "None"} if number or mono else {}))
    return elements


def _spaced(line: str) -> str:
    """The line with spaces that no client draws as one."""
    line = line.replace("\t", "    ")
    return re.sub(r"^ | (?= )| $", "\xa0", line)


def _empty(value: str) -> str:
    """What is said of a text in which nothing can be seen; empty for every other."""
    if value.strip():
        return ""
    return f" (nothing but white space: {json.dumps(value)[:200]})" if value else " (an empty text)"


def _address(url: str) -> list[Element]:
    """The whole address as text, its host marked, and what is odd about it."""
    read = address.read(url)
    before, host, after = whole(read.before), reveal(read.host), whole(read.after)
    elements = [_runs((before, False), (host, True), (after, False))]
    if host:
        elements.append(_runs(("It leads to ", False), (host, True), (".", False)))
    return elements + [_subtle(f"⚠️ {whole(warning)}") for warning in read.warnings]


def _too_long(card: Card) -> str:
    if card.kind is Kind.FORM:
        return "This form is too long for a card of Teams, so it cannot be answered here."
    return "Not all of it fits a card of Teams, so it cannot be approved here; decline it."


def _between(count: int) -> Element:
    return _subtle(f"… {count:,} characters between …")


# --- Who may decide, and what came of it


def _deciders(card: Card, names: Names) -> tuple[list[Element], list[Element]]:
    """Who may decide, by mentions where Teams knows them, and the entities of those mentions."""
    what = "decide" if card.kind is Kind.APPROVAL else "answer"
    if not card.deciders:
        nobody = f"Nobody may {what}: no approver is configured."
        return [_runs((nobody, True))], []
    mentioned, others = _mentions(card.deciders, names)
    head = f"Who may {what}: "
    drawn: list[Element] = []
    if mentioned:
        told = f"**{head.strip()}** {', '.join(mentioned)}"
        drawn.append({"type": "TextBlock", "wrap": True, "text": told})
        head = "And: "
    if others:
        drawn.append(_runs((head, True), (", ".join(others), False)))
    return drawn, list(mentioned.values())


def _mentions(keys: Sequence[str], names: Names) -> tuple[dict[str, Element], list[str]]:
    """The mentions of these people with their entities, and the others as text."""
    mentioned: dict[str, Element] = {}
    others: list[str] = []
    for key in keys[:_DECIDERS]:
        member = names.get(key)
        name = _UNSAFE_IN_NAME.sub(" ", visible(member.name)).strip()[:_NAME] if member else ""
        text = f"<at>{name}</at>"
        if member is None or not name or text in mentioned:  # of two with one name, Teams finds one
            others.append(whole(key, 200))
            continue
        known = {"id": member.id, "name": name}
        mentioned[text] = {"type": "mention", "text": text, "mentioned": known}
    if len(keys) > _DECIDERS:
        others.append(f"{len(keys) - _DECIDERS} more")
    return mentioned, others


def _requested(card: Card, names: Names) -> str:
    """Who asked the agent for it, in a conversation that is not this one."""
    known = [member.name if (member := names.get(key)) else key for key in card.askers[:3]]
    told = [whole(one, _NAME) for one in known]
    more = f" and {len(card.askers) - 3} more" if len(card.askers) > 3 else ""
    return f"Requested by {', '.join(told)}{more} in another conversation."


def _outcome(card: Card) -> list[Element]:
    mark = _MARKS.get(card.state, "")
    told = shorten(f"{mark} {card.outcome or 'This question is closed.'}", limits.NOTE + 500)
    colour = _COLOURS.get(card.state)
    elements = _value(told, mono=False)
    for element in elements:
        for run in element["inlines"]:
            run |= {"weight": "Bolder"} | ({"color": colour} if colour else {})
    return elements


# --- Buttons


def _actions(card: Card, whole: bool) -> list[Element]:
    """The buttons of an open card. `whole`: all that would be decided can be read from it."""
    approve = whole and card.complete
    decline = _decline(card)
    match card.kind:
        case Kind.APPROVAL:
            buttons = [_execute(card, APPROVE, "Approve", style="positive")] if approve else []
            if approve and card.remember is not None:
                buttons.append(_execute(card, REMEMBER, STANDING))
            buttons.append(decline)
            note = _execute(card, NOTE, "Decline with the note", inputs=True)
            return [forms.note(NOTE), _buttons([*buttons, note])]
        case Kind.FORM:
            send = [_execute(card, ANSWER, "Send", style="positive", inputs=True)]
            return [_buttons([*(send if whole else []), decline])]
        case Kind.PAGE:
            opened = address.read(card.url).host and whole
            link = {"type": "Action.OpenUrl", "title": "Open the page", "url": card.url}
            done = _execute(card, FINISHED, "I have finished")
            return [_buttons([*([link] if opened else []), done, decline])]
        case _:
            assert_never(card.kind)


def _decline(card: Card) -> Element:
    return _execute(card, DECLINE, "Decline", style="destructive")


def _execute(
    card: Card, verb: str, title: str, *, style: str = "", inputs: bool = False
) -> Element:
    """A button of ours; old clients get it as a Submit, which says the same."""
    rest: Element = {
        "title": title,
        "data": {NONCE: card.nonce, VERB: verb},
        "associatedInputs": "auto" if inputs else "none",
    } | ({"style": style} if style else {})
    submit = {"type": "Action.Submit"} | rest
    return {"type": "Action.Execute", "verb": verb} | rest | {"fallback": submit}


def _buttons(actions: list[Element]) -> Element:
    return {"type": "ActionSet", "actions": actions}


# --- Other cards, as far as Teams has them


def _group(asked: GroupCard) -> list[Element]:
    titles = [_runs((f"• {whole(one.title, 200)}", False)) for one in asked.cards[:20]]
    told = _subtle("They are decided in their own thread.")
    return [_runs((whole(asked.title, limits.TITLE), True)), *titles, told]


def _task(task: TaskCard) -> list[Element]:
    task = revealed_task(task)
    said = task.message or ("Nothing is known of it yet." if task.open else "")
    mark = "⏳" if task.open else _MARKS.get(task.state, "")
    return [_title(task), _runs((f"{mark} {shorten(said, 1_000)} ({task.status})".strip(), False))]


# --- Text


def _run(text: str, *, bold: bool = False) -> Element:
    return {"type": "TextRun", "text": plain(text)} | ({"weight": "Bolder"} if bold else {})


def _runs(*texts: tuple[str, bool]) -> Element:
    """Texts, each bold or not, on one line."""
    runs: Iterable[Element] = (_run(text, bold=bold) for text, bold in texts if text)
    return {"type": "RichTextBlock", "inlines": list(runs) or [_run("\xa0")]}


def _subtle(text: str) -> Element:
    run = _run(text) | {"isSubtle": True, "size": "Small"}
    return {"type": "RichTextBlock", "inlines": [run]}
