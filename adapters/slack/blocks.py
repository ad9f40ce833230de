"""Cards and replies as Slack messages. Untrusted text stands in plain_text objects and in the text
elements of rich_text, which Slack never parses; mrkdwn is only for the agent's replies (made inert
by `text`) and for the mentions of those who may decide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, assert_never

from adapters.slack import group, limits
from adapters.slack.actions import ACTION as ACTION
from adapters.slack.actions import CHOOSE
from adapters.slack.actions import SHOW as SHOW
from adapters.slack.text import escape, mrkdwn, plain, sections, shorten
from bot import address
from bot.card import Card, Kind, TaskCard, revealed, revealed_task
from bot.excerpt import excerpt
from bot.field import Field
from bot.group import GroupCard
from bot.surface import Content, File, Reply
from bot.text import blank, chunks, reveal, visible

Block = dict[str, Any]

APPROVE: Final = "approve"
REMEMBER: Final = "remember"
EDIT: Final = "edit"
DECLINE: Final = "decline"
NOTE: Final = "note"
ANSWER: Final = "answer"
PICK: Final = "pick."  # and the index of the choice
LINK: Final = "link"
FINISHED: Final = "finished"
VISIT: Final = "visit"
CANCEL: Final = "cancel"
LEAF: Final = "leaf."  # and which button; its value is the number of the page of `pages`
HOME: Final = "home."  # and which way to turn; the value is the number of the page

SHOW_LABEL: Final = "Show everything"

STANDING: Final = "Approve for this thread"  # a phone shows some 30 characters of a button
CHOOSE_LABEL: Final = "Approve and remember…"
_BODY: Final = limits.MESSAGE_TEXT - 1_500  # what stands between the title and the buttons
_SHORT: Final = 300
_FEW: Final = 10  # choices that are listed on the card; more are listed by Answer
_LEAST: Final = 250  # characters of an argument that is shown in part, of which its name and
_NAME: Final = 80
_LINE: Final = 100  # the line in its middle
_OUTCOME: Final = 3_300  # a note of a modal, and who wrote it
_NOTICES: Final = 10
_NOTICE: Final = 1_000


def message(content: Content, team: str) -> dict[str, Any]:
    """`text` and `blocks` of a message. `team` is the workspace whose people may be mentioned."""
    match content:
        case Card():
            return {"text": summary(content), "blocks": _card(revealed(content), team)}
        case GroupCard():
            shown = group.blocks(content, _group_deciders(content, team))
            return {"text": _one_line(content.title), "blocks": shown}
        case TaskCard():
            content = revealed_task(content)
            return {"text": _one_line(content.title), "blocks": _task(content)}
        case Reply():
            return _reply(content, team)
        case File():
            name = visible(content.name)
            return {"text": _one_line(name), "blocks": [_section(name)]}
        case _:
            assert_never(content)


def minimal(content: Content) -> dict[str, Any]:
    """The same in plain texts, for when Slack refuses the whole. What does not fit is reached by
    the button, and Approve is there only if all of it is (no blind approval)."""
    if isinstance(content, Reply):
        return {"text": escape(shorten(visible(content.text), limits.FALLBACK_TEXT // 5))} | {
            "blocks": [_section(part) for part in chunks(visible(content.text), limits.SECTION)]
        }
    if isinstance(content, File):
        return message(content, "")
    if isinstance(content, GroupCard):
        return group.minimal(content)
    if isinstance(content, TaskCard):
        content = revealed_task(content)
        return {"text": _one_line(content.title), "blocks": _task(content)[1:]}
    card = revealed(content)
    shown = excerpt(_in_words(card), limits.SECTION)
    blocks = [_section(shown.head)]
    if shown.left_out:
        told = _between(shown.left_out, card)
        blocks += [_section(told), _section(shown.tail)]
    if card.open:
        blocks.append(_actions(card, whole=not (shown.left_out or card.exact)))
    blocks += group.again(card)
    return {"text": summary(card), "blocks": blocks}


def summary(card: Card) -> str:
    """One escaped line for notifications."""
    return _one_line(f"{card.title} — {card.outcome}" if card.outcome else card.title)


def _one_line(text: str) -> str:
    return escape(shorten(visible(text), _SHORT)) or "A question"


def _task(task: TaskCard) -> list[Block]:
    """A background call: what its server says of it, and Cancel while it goes on."""
    said = task.message or ("Nothing is known of it yet." if task.open else "")
    mark = "⏳" if task.open else group.MARKS.get(task.state, "")
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
            {
                "type": "text",
                "text": visible(text, part=True),
                **({"style": {"bold": True}} if bold else {}),
            }
            for text, bold in texts
            if text
        ],
    }


def shown_address(url: str) -> list[Block]:
    """The whole address as text that is no link, its host marked, and what is odd about it."""
    read = address.read(url)
    host = reveal(read.host)
    parts = ((visible(read.before), False), (host, True), (visible(read.after), False))
    blocks = [rich(words(*parts, kind="rich_text_quote"))]
    if host:
        blocks.append(rich(words(("It leads to ", False), (host, True), (".", False))))
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


def _reply(reply: Reply, team: str) -> dict[str, Any]:
    parts = sections(reply.text) or ["(an empty message)"]
    text = parts[0] if len(parts) == 1 else f"{parts[0]}\n…"
    if reply.mentions:
        named = ", ".join(_named(reply.mentions, team))
        parts, text = [named, *parts], f"{named} {text}"
    blocks = [{"type": "section", "text": mrkdwn(part)} for part in parts]
    return {"text": text, "blocks": blocks[: limits.MESSAGE_BLOCKS]}


def _card(card: Card, team: str) -> list[Block]:
    body, whole = _body(card)
    whole = whole and not card.exact
    blocks = [*_title(card), *_facts(card), *body]
    notices = list(card.notices)
    if card.remember is not None and card.open and card.complete:
        notices.append(f"“{STANDING}” means: {card.remember}.")
    if card.open:
        blocks.append({"type": "section", "text": mrkdwn(_deciders(card, team))})
    else:
        mark = group.MARKS.get(card.state, "")
        told = shorten(f"{mark} {card.outcome or 'This question is closed.'}", _OUTCOME)
        blocks += [_section(part) for part in chunks(told, limits.SECTION)]
    blocks += [_context(notice) for notice in notices[:_NOTICES]]
    if card.open:
        whole = whole and not notices[_NOTICES:] and max(map(len, notices), default=0) <= _NOTICE
        blocks.append(_actions(card, whole=whole))
    return [*blocks, *group.again(card)]


def _title(card: Card | TaskCard) -> list[Block]:
    title = " ".join(card.title.split())
    if len(title) <= limits.HEADER:
        return [{"type": "header", "text": plain(title, limits.HEADER)}]
    return [_section(shorten(title, 1_000))]


def _facts(card: Card) -> list[Block]:
    tool = (("Tool: ", True), (shorten(card.tool, _SHORT), False)) if card.tool else ()
    line = "\n" if card.tool else ""
    agent = ((f"{line}Agent: ", True), (shorten(card.agent, _SHORT), False))
    return [rich(words(*tool, *(agent if card.agent else ())))] if card.tool or card.agent else []


def abridged(card: Card, room: int) -> list[Block]:
    """What is asked, as far as it goes into `room` characters; it says so where it is cut."""
    return _body(card, room)[0]


def buttons(card: Card, *, approvable: bool) -> Block:
    """What can be pressed on an open card. `approvable`: every argument is seen beside it."""
    drawn = _actions(card, whole=True)
    approving = (APPROVE, REMEMBER, CHOOSE, EDIT)
    hidden = () if approvable else tuple(ACTION + one for one in approving)
    shown = [one for one in drawn["elements"] if one["action_id"] not in hidden]
    return drawn | {"elements": shown}


def _body(card: Card, room: int = _BODY) -> tuple[list[Block], bool]:
    """What is asked, and whether all of it is there."""
    whole = True
    blocks: list[Block] = []
    if card.message:
        whole = len(card.message) <= room
        told = card.message if whole else card.message[: room // 2]
        blocks += [_section(part) for part in chunks(told, limits.SECTION)]
        room -= len(told)
        if not whole:
            blocks.append(_context(_cut_note(card, len(card.message) - len(told), "characters")))
    arguments, room, all_there = _arguments(card, room)
    blocks += arguments
    whole = whole and all_there
    match card.kind:
        case Kind.APPROVAL:
            return blocks, whole
        case Kind.FORM:
            fields, all_there = _fields(card, room)
            return blocks + fields, whole and all_there
        case Kind.PAGE if len(reveal(card.url)) > min(room, limits.SECTION):
            where = ": “Show the link” shows all of it" if card.open else " to be shown here"
            return [*blocks, _context(f"The address is too long{where}.")], False
        case Kind.PAGE:
            return blocks + shown_address(card.url), whole
        case _:
            assert_never(card.kind)


def _arguments(card: Card, room: int) -> tuple[list[Block], int, bool]:
    """Each argument under its name, over as many blocks as it takes, with a clear line where a
    part of it is left out; the room that is left, and whether all of them are there."""
    sizes = [len(one.name) + 1 + len(one.value) for one in card.arguments]
    few = len(sizes) if sum(sizes) <= room else max(0, room // _LEAST)
    named = card.arguments[:few]
    elements: list[tuple[int, dict[str, Any]]] = []
    whole = len(named) == len(card.arguments)
    for argument, share in zip(named, _shares(sizes[:few], room), strict=True):
        there = share == len(argument.name) + 1 + len(argument.value)
        name = shorten(argument.name, limits.SECTION if there else _NAME)
        size = len(argument.value) if there else max(0, share - _NAME - _LINE)
        part, told = excerpt(argument.value, size), blank(argument.value)
        elements.append((len(name) + 1, words((f"{name}:", True), (shorten(told, _SHORT), False))))
        if told:
            whole = whole and len(told) <= _SHORT
        elif part.left_out:
            between = (_LINE, words((_between(part.left_out, card), True)))
            elements += [*_exact(part.head), between, *_exact(part.tail)]
        else:
            elements += _exact(part.head)
        whole = whole and name == argument.name and (bool(told) or not part.left_out)
    blocks = _packed(elements)
    if missing := len(card.arguments) - len(named):
        blocks.append(_context(_cut_note(card, missing, "arguments")))
    if card.kind is Kind.APPROVAL and card.complete and not card.arguments:
        blocks.append(_context("The call has no arguments."))
    return blocks, room - min(room, sum(sizes)), whole


def _shares(sizes: list[int], room: int) -> list[int]:
    """The room of each: the small ones get what they need, the large ones the rest in equal
    shares."""
    shares = [0] * len(sizes)
    for rank, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[index] = min(sizes[index], room // (len(sizes) - rank))
        room -= shares[index]
    return shares


def exact(piece: str) -> dict[str, Any]:
    """The text as it is, as a part of a rich_text block."""
    text = {"type": "text", "text": piece}
    return {"type": "rich_text_preformatted", "elements": [text]}


def _exact(text: str) -> list[tuple[int, dict[str, Any]]]:
    return [(len(piece), exact(piece)) for piece in chunks(text, limits.SECTION) if piece]


def _between(count: int, card: Card) -> str:
    press = f", press “{SHOW_LABEL}” to read them" if card.open else ""
    return f"… {count:,} characters between{press} …"


def _fields(card: Card, room: int) -> tuple[list[Block], bool]:
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
    return blocks, not left and all(len(field.choices) <= _FEW for field in card.fields)


def _field(field: Field, full: bool) -> list[dict[str, Any]]:
    needed = field.required and field.default is None
    optional = "" if needed else " (optional)"
    told = f" — {field.description}" if field.description else ""
    # Slack runs two sections of one block together: the line must end by itself.
    listed = "" if full else f" ({len(field.choices):,} choices)"
    lines = [words((field.label, True), (f"{optional}{told}{listed}\n", False))]
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
    press = f" Press “{SHOW_LABEL}” to read all." if card.open else ""
    return f"Cut here: {count:,} more {what}.{press}"


def _deciders(card: Card, team: str) -> str:
    what = "decide" if card.kind is Kind.APPROVAL else "answer"
    if not card.deciders:
        return f"*Nobody may {what}*: no approver is configured."
    return f"*Who may {what}:* {', '.join(_named(card.deciders, team))}"


def _named(deciders: Sequence[str], team: str) -> list[str]:
    """As mentions, those of this workspace; as many as there is room for."""
    of_team = r"(?:(?<=@)T[A-Z0-9_]{1,30}/)?"  # a user group of an Enterprise Grid names its own
    own = re.compile(rf"slack:{re.escape(team)}/([@#]?){of_team}([UWSCG][A-Z0-9_]{{1,30}})")
    named: list[str] = []
    size = 0
    for decider in deciders:
        found = own.fullmatch(decider)
        name = (found and _mention(found[1], found[2])) or escape(shorten(visible(decider), _SHORT))
        size += len(name) + 2
        if size > limits.SECTION // 2:
            named.append(f"and {len(deciders) - len(named)} more")
            break
        named.append(name)
    return named


def _mention(kind: str, id_: str) -> str | None:
    """A person, a user group or a channel of this workspace, as the configuration names it."""
    match kind, id_[0]:
        case "", "U" | "W":
            return f"<@{id_}>"
        case "@", "S":
            return f"<!subteam^{id_}>"
        case "#", "C" | "G":
            return f"<#{id_}>"
        case _:
            return None


def _group_deciders(asked: GroupCard, team: str) -> str:
    different = {card.deciders for card in asked.cards}
    line = _deciders(replace(asked.cards[0], deciders=asked.deciders), team)
    return line if len(different) == 1 else f"{line} (not all of them for every call)"


def approval_buttons(card: Card) -> list[dict[str, Any]]:
    """Approve and its kin, if all that would run can be read from the card, and Decline."""
    buttons = [_button(DECLINE, "Decline", card, "danger")]
    if card.complete and card.editable:
        buttons.insert(0, _button(EDIT, "Edit and approve", card))
    if card.complete and card.standing:
        buttons.insert(0, _button(CHOOSE, CHOOSE_LABEL, card))
    if card.complete and card.remember is not None:
        buttons.insert(0, _button(REMEMBER, STANDING, card))
    if card.complete:
        buttons.insert(0, _button(APPROVE, "Approve", card, "primary"))
    return buttons


def _actions(card: Card, *, whole: bool) -> Block:
    """The buttons of an open card. `whole`: all of it is in the message."""
    decline = _button(DECLINE, "Decline", card, "danger")
    match card.kind:
        case Kind.APPROVAL:
            buttons = [*approval_buttons(card), _button(NOTE, "Decline with a note", card)]
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
    if not whole:
        buttons.append(_button(SHOW, SHOW_LABEL, card))
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
    return {"type": "context", "elements": [plain(text, _NOTICE)]}


def _in_words(card: Card) -> str:
    """Everything of a card as one plain text."""
    lines = [card.title, f"Tool: {card.tool}" if card.tool else "", card.message, visible(card.url)]
    lines += [f"{argument.name}: {argument.value}" for argument in card.arguments]
    for field in card.fields:
        lines.append(f"{field.label} {field.description}")
        lines += [f"• {choice.title} {choice.description}" for choice in field.choices]
    return "\n".join(line for line in [*lines, *card.notices, card.outcome] if line.strip())
