"""Cards and replies as Slack messages. Untrusted text stands in plain_text objects and in the text
elements of rich_text, which Slack never parses; mrkdwn is only for the agent's replies (made inert
by `text`) and for the mentions of those who may decide."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, assert_never

from adapters.slack import limits
from adapters.slack.text import chunks, escape, mrkdwn, plain, sections, shorten
from bot import address
from bot.card import Card, CardState, Kind, TaskCard
from bot.field import Field
from bot.surface import Content, File, Reply

Block = dict[str, Any]

ACTION: Final = "interlock."  # an action_id is this and what it does; the value is the nonce
APPROVE: Final = "approve"
REMEMBER: Final = "remember"
DECLINE: Final = "decline"
NOTE: Final = "note"
ANSWER: Final = "answer"
PICK: Final = "pick."  # and the index of the choice
LINK: Final = "link"
FINISHED: Final = "finished"
VISIT: Final = "visit"
CANCEL: Final = "cancel"
SHOW: Final = "show"
HOME: Final = "home."  # and which way to turn; the value is the number of the page

_MARKS: Final = {CardState.DONE: "✅", CardState.REFUSED: "⛔", CardState.CLOSED: "⚪"}
_BODY: Final = limits.MESSAGE_TEXT - 1_500  # what stands between the title and the buttons
_SHORT: Final = 300
_FEW: Final = 10  # choices that are listed on the card; more are listed by Answer


def message(content: Content, team: str) -> dict[str, Any]:
    """`text` and `blocks` of a message. `team` is the workspace whose people may be mentioned."""
    match content:
        case Card():
            return {"text": summary(content), "blocks": _card(content, team)}
        case TaskCard():
            return {"text": _one_line(content.title), "blocks": _task(content)}
        case Reply():
            return _reply(content)
        case File():
            return {"text": _one_line(content.name), "blocks": [_section(content.name)]}
        case _:
            assert_never(content)


def minimal(content: Content) -> dict[str, Any]:
    """The same in one plain text, for when Slack refuses the whole. Approve is there only if that
    text shows every argument (no blind approval)."""
    if isinstance(content, Reply):
        return {"text": escape(shorten(content.text, limits.FALLBACK_TEXT // 5))} | {
            "blocks": [_section(part) for part in chunks(content.text, limits.SECTION)]
        }
    if isinstance(content, File):
        return message(content, "")
    if isinstance(content, TaskCard):
        return {"text": _one_line(content.title), "blocks": _task(content)[1:]}
    whole = _in_words(content)
    fits = len(whole) <= limits.SECTION
    blocks = [_section(whole)]
    if content.open:
        blocks.append(_actions(content, approvable=content.complete and fits))
    return {"text": summary(content), "blocks": blocks}


def summary(card: Card) -> str:
    """One escaped line for notifications."""
    return _one_line(f"{card.title} — {card.outcome}" if card.outcome else card.title)


def _one_line(text: str) -> str:
    return escape(shorten(text, _SHORT)) or "A question"


def _task(task: TaskCard) -> list[Block]:
    """A background call: what its server says of it, and Cancel while it goes on."""
    said = task.message or ("Nothing is known of it yet." if task.open else "")
    mark = "⏳" if task.open else _MARKS.get(task.state, "")
    blocks = [*_title(task), _section(f"{mark} {shorten(said, 1_000)} ({task.status})".strip())]
    if task.open:
        cancel = {"type": "button", "action_id": ACTION + CANCEL, "text": plain("Cancel")}
        elements = [cancel | {"value": task.nonce, "style": "danger"}]
        blocks.append({"type": "actions", "elements": elements})
    return blocks


def rich(*elements: dict[str, Any]) -> Block:
    return {"type": "rich_text", "elements": list(elements)}


def words(*texts: tuple[str, bool], kind: str = "rich_text_section") -> dict[str, Any]:
    """Texts, each bold or not, as a part of a rich_text block."""
    return {
        "type": kind,
        "elements": [
            {"type": "text", "text": text, **({"style": {"bold": True}} if bold else {})}
            for text, bold in texts
            if text
        ],
    }


def shown_address(url: str) -> list[Block]:
    """The whole address as text that is no link, its host marked, and what is odd about it."""
    read = address.read(url)
    parts = ((read.before, False), (read.host, True), (read.after, False))
    blocks = [rich(words(*parts, kind="rich_text_quote"))]
    if read.host:
        blocks.append(rich(words(("It leads to ", False), (read.host, True), (".", False))))
    return blocks + [_section(f"⚠️ {warning}") for warning in read.warnings]


def option_lines(field: Field) -> list[dict[str, Any]]:
    """Every choice in full, as the elements of a rich_text block."""
    items = [
        words(
            (choice.title, True), (f" — {choice.description}" if choice.description else "", False)
        )
        for choice in field.choices
    ]
    return [{"type": "rich_text_list", "style": "bullet", "elements": items}] if items else []


def _reply(reply: Reply) -> dict[str, Any]:
    parts = sections(reply.text) or ["(an empty message)"]
    blocks = [{"type": "section", "text": mrkdwn(part)} for part in parts]
    text = parts[0] if len(parts) == 1 else f"{parts[0]}\n…"
    return {"text": text, "blocks": blocks[: limits.MESSAGE_BLOCKS]}


def _card(card: Card, team: str) -> list[Block]:
    body, whole = _body(card)
    blocks = [*_title(card), *_facts(card), *body]
    approvable = card.complete and whole
    notices = list(card.notices)
    if card.open and card.kind is Kind.APPROVAL and not whole:
        notices.append("Not every argument can be shown here, so Approve is not offered.")
    if card.remember is not None and len(card.remember) > limits.BUTTON:
        notices.append(f"The second button: {card.remember}.")
    if card.open:
        blocks.append({"type": "section", "text": mrkdwn(_deciders(card, team))})
    else:
        mark = _MARKS.get(card.state, "")
        blocks.append(_section(f"{mark} {card.outcome or 'This question is closed.'}"))
    blocks += [_context(notice) for notice in notices[:10]]
    if card.open:
        blocks.append(_actions(card, approvable=approvable))
    return blocks


def _title(card: Card | TaskCard) -> list[Block]:
    title = " ".join(card.title.split())
    if len(title) <= limits.HEADER:
        return [{"type": "header", "text": plain(title, limits.HEADER)}]
    return [_section(shorten(title, 1_000))]


def _facts(card: Card) -> list[Block]:
    tool = (("Tool: ", True), (shorten(card.tool, _SHORT), False)) if card.tool else ()
    line = "\n" if card.tool else ""
    agent = ((f"{line}Asked by: ", True), (shorten(card.agent, _SHORT), False))
    return [rich(words(*tool, *(agent if card.agent else ())))] if card.tool or card.agent else []


def excerpt(card: Card, room: int) -> list[Block]:
    """What is asked, as far as it goes into `room` characters; it says so where it is cut."""
    return _body(card, room)[0]


def buttons(card: Card, *, approvable: bool) -> Block:
    """What can be pressed on an open card. `approvable`: every argument is seen beside it."""
    return _actions(card, approvable=approvable)


def _body(card: Card, room: int = _BODY) -> tuple[list[Block], bool]:
    """What is asked, and whether all of it is there."""
    blocks: list[Block] = []
    if card.message:
        told = card.message if len(card.message) <= room else card.message[: room // 2]
        blocks += [_section(part) for part in chunks(told, limits.SECTION)]
        room -= len(told)
        if told != card.message:
            blocks.append(_context(_cut_note(card, len(card.message) - len(told), "characters")))
    arguments, room, whole = _arguments(card, room)
    blocks += arguments
    match card.kind:
        case Kind.APPROVAL:
            return blocks, whole
        case Kind.FORM:
            return blocks + _fields(card, room), whole
        case Kind.PAGE if len(card.url) > min(room, limits.SECTION):
            return [*blocks, _context("The address is long: the button shows all of it.")], whole
        case Kind.PAGE:
            return blocks + shown_address(card.url), whole
        case _:
            assert_never(card.kind)


def _arguments(card: Card, room: int) -> tuple[list[Block], int, bool]:
    """Each argument under its name, unabridged, over as many blocks as it takes; the room that is
    left, and whether all of them are there."""
    elements: list[tuple[int, dict[str, Any]]] = []
    for argument in card.arguments:
        size = len(argument.name) + 1 + len(argument.value)
        if size > room or len(argument.name) > limits.SECTION:
            missing = _context(
                "The arguments are longer than a Slack message: the rest is missing."
            )
            return [*_packed(elements), missing], 0, False
        room -= size
        empty = "" if argument.value.strip() else " (an empty text)"
        if argument.value and empty:
            empty = f" (nothing but white space: {json.dumps(argument.value)[:_SHORT]})"
        elements.append(
            (size - len(argument.value), words((f"{argument.name}:", True), (empty, False)))
        )
        for piece in chunks(argument.value, limits.SECTION) if not empty else ():
            text = {"type": "text", "text": piece}
            elements.append((len(piece), {"type": "rich_text_preformatted", "elements": [text]}))
    blocks = _packed(elements)
    if card.kind is Kind.APPROVAL and card.complete and not elements:
        blocks.append(_context("The call has no arguments."))
    return blocks, room, True


def _fields(card: Card, room: int) -> list[Block]:
    elements: list[tuple[int, dict[str, Any]]] = []
    left = 0
    for field in card.fields:
        lines = _field(field, full=len(field.choices) <= _FEW)
        size = sum(len(text) for line in lines for text in _texts(line))
        room -= size
        if room < 0:
            left += 1
        else:
            elements += [(size if line is lines[0] else 0, line) for line in lines]
    blocks = _packed(elements)
    if left:
        blocks.append(_context(_cut_note(card, left, "of the things asked for")))
    return blocks


def _field(field: Field, full: bool) -> list[dict[str, Any]]:
    needed = field.required and field.default is None
    optional = "" if needed else " (optional)"
    told = f" — {field.description}" if field.description else ""
    # Slack runs two sections of one block together: the line must end by itself.
    lines = [words((field.label, True), (f"{optional}{told}\n", False))]
    return lines + option_lines(field) if full else lines


def _texts(element: dict[str, Any]) -> Iterable[str]:
    if "text" in element:
        yield element["text"]
    for inner in element.get("elements", ()):
        yield from _texts(inner)


def _packed(elements: list[tuple[int, dict[str, Any]]]) -> list[Block]:
    """The elements in as few rich_text blocks as keep each of them under the size of a section."""
    blocks: list[Block] = []
    used = limits.SECTION + 1
    for size, element in elements:
        if used + size > limits.SECTION or not blocks:
            blocks.append(rich())
            used = 0
        blocks[-1]["elements"].append(element)
        used += size
    return blocks


def _cut_note(card: Card, count: int, what: str) -> str:
    where = "the button" if card.kind is Kind.PAGE else "Answer"
    return f"Cut here, {count:,} {what} more: open it by {where} to read all."


def _deciders(card: Card, team: str) -> str:
    what = "decide" if card.kind is Kind.APPROVAL else "answer"
    if not card.deciders:
        return f"*Nobody may {what}*: no approver is configured."
    mention = re.compile(rf"slack:{re.escape(team)}/([UW][A-Z0-9_]{{1,30}})")
    named: list[str] = []
    size = 0
    for decider in card.deciders:
        found = mention.fullmatch(decider)
        name = f"<@{found[1]}>" if found else escape(shorten(decider, _SHORT))
        size += len(name) + 2
        if size > limits.SECTION // 2:
            named.append(f"and {len(card.deciders) - len(named)} more")
            break
        named.append(name)
    return f"*Who may {what}:* {', '.join(named)}"


def _actions(card: Card, *, approvable: bool) -> Block:
    decline = _button(DECLINE, "Decline", card, "danger")
    match card.kind:
        case Kind.APPROVAL:
            buttons = [decline, _button(NOTE, "Decline with a note", card)]
            if approvable and card.remember is not None:
                buttons.insert(0, _button(REMEMBER, card.remember, card))
            if approvable:
                buttons.insert(0, _button(APPROVE, "Approve", card, "primary"))
        case Kind.FORM if (quick := card.quick) is not None:
            buttons = [
                _button(f"{PICK}{index}", choice.title, card)
                for index, choice in enumerate(quick.choices)
            ]
            if quick.allow_other or not quick.required:
                buttons.append(_button(ANSWER, "Other…", card))
            buttons.append(decline)
        case Kind.FORM:
            buttons = [_button(ANSWER, "Answer", card, "primary"), decline]
        case Kind.PAGE:
            buttons = [
                _button(LINK, "Show the link", card),
                _button(FINISHED, "I have finished", card, "primary"),
                decline,
            ]
        case _:
            assert_never(card.kind)
    return {"type": "actions", "block_id": "interlock.actions", "elements": buttons}


def _button(action: str, label: str, card: Card, style: str = "") -> dict[str, Any]:
    return {
        "type": "button",
        "action_id": ACTION + action,
        "text": plain(label, limits.BUTTON),
        "value": card.nonce,
        **({"style": style} if style else {}),
    }


def _section(text: str) -> Block:
    return {"type": "section", "text": plain(text)}


def _context(text: str) -> Block:
    return {"type": "context", "elements": [plain(text, 1_000)]}


def _in_words(card: Card) -> str:
    """Everything of a card as one plain text."""
    lines = [card.title, f"Tool: {card.tool}" if card.tool else "", card.message, card.url]
    lines += [f"{argument.name}: {argument.value}" for argument in card.arguments]
    for field in card.fields:
        lines.append(f"{field.label} {field.description}")
        lines += [f"• {choice.title} {choice.description}" for choice in field.choices]
    return "\n".join(line for line in [*lines, *card.notices, card.outcome] if line.strip())
