"""The home page as a view of Slack. Texts of others stand in plain_text objects and in the text
elements of rich_text alone. Approve stands only where every byte of the arguments does; elsewhere
"Show everything" leads to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from adapters.slack import limits
from adapters.slack.actions import NEW_RULE, REVOKE
from adapters.slack.blocks import (
    ACTION,
    ANSWER,
    CANCEL,
    DECLINE,
    HOME,
    SHOW,
    STANDING,
    Block,
    abridged,
    buttons,
    rich,
    words,
)
from adapters.slack.text import plain, shorten
from bot.card import Card, Kind, TaskCard, revealed, revealed_task
from bot.markdown import moment
from bot.surface import Home, Item, Standing
from bot.text import visible

View = dict[str, Any]

_ROOM: Final = 1_500  # characters of one question that the page shows
_ROWS: Final = 15  # and lines of it
_TITLE: Final = 150
_NAME: Final = 100  # of a tool or an agent
_SAID: Final = 300
_LINES: Final = 5  # decisions in one block
_RULE: Final = 1_200  # of all that a standing rule says
_SURE: Final = {
    "title": plain("Revoke this rule?"),
    "text": plain("It ends now, for everybody. What it let run before is not called back."),
    "confirm": plain("Revoke"),
    "deny": plain("Back"),
}

NOTHING: Final = (
    "Nothing waits for you. To begin, mention me in a channel with what you need, or write to me "
    "under Messages; whatever needs your word then is on a card there and on this page."
)
REFUSED: Final = (
    "This page cannot be shown just now: the shortcut “My open questions” lists what waits for you."
)


def view(home: Home, notice: str = "") -> View:
    """The page, with a sentence for the person at its top. Where it would be more than Slack takes,
    every question is shown by its title and opened by its button."""
    drawn = _view(home, notice, whole=True)
    # Slack does not say how it counts: escaped is the most that it can be.
    if len(drawn["blocks"]) <= limits.VIEW_BLOCKS and len(json.dumps(drawn)) <= limits.VIEW_BYTES:
        return drawn
    return _view(home, notice, whole=False)


def saying(text: str) -> View:
    """A sentence and nothing else."""
    return _page([_section(text)], 1)


def _view(home: Home, notice: str, *, whole: bool) -> View:
    blocks = [_section(shorten(visible(notice), 1_000)), {"type": "divider"}] if notice else []
    if home.refusal:
        return _page([*blocks, _section(visible(home.refusal))], home.page)
    if home.waiting:
        blocks.append(_header("Waiting for you"))
    for item in home.waiting:
        blocks += _question(item, whole)
    if home.running:
        blocks.append(_header("Running in the background"))
    for item in home.running:
        blocks += _task(item)
    if not home.waiting and not home.running:
        blocks.append(_section(NOTHING))
    if home.decided:
        blocks += [_header("Decided lately"), *_decided(home.decided)]
    blocks += _rules(home)
    return _page([*blocks, *_turns(home)], home.page)


def _page(blocks: list[Block], number: int) -> View:
    return {
        "type": "home",
        "callback_id": ACTION + "home",
        "private_metadata": str(number),
        "blocks": blocks,
    }


def _question(item: Item, whole: bool) -> list[Block]:
    assert isinstance(item.card, Card)
    card = revealed(item.card)
    about = [shorten(card.tool, _NAME), f"agent {shorten(card.agent, _NAME)}"]
    about.append(f"since {moment(item.since)}")
    blocks = [_titled(item, " · ".join(part for part in about if part))]
    unread = "Too much for this page: open it to read it."
    notices = [unread, *(shorten(notice, _SAID) for notice in card.notices[:1])]
    if whole:
        approval = card.kind is Kind.APPROVAL
        blocks += _beginning(card) if approval and not _seen(card) else abridged(card, _ROOM)
        notices = [shorten(notice, 1_000) for notice in card.notices[:8]]
        if card.remember is not None and _seen(card):
            notices.append(f"“{STANDING}” means: {card.remember}.")
    if notices:
        elements = [plain(notice, 1_000) for notice in notices]
        blocks.append({"type": "context", "elements": elements})
    return [*blocks, _buttons(card, whole and _seen(card)), {"type": "divider"}]


def _seen(card: Card) -> bool:
    """Whether the page shows every byte of what is decided. Counts at least what is shown."""
    named = len(card.title) <= _TITLE and len(card.tool) <= _NAME
    size = len(card.message) + sum(len(one.name) + 1 + len(one.value) for one in card.arguments)
    for field in card.fields:
        size += 20 + len(field.label) + len(field.description)
        size += sum(5 + len(one.title) + len(one.description) for one in field.choices)
    return card.complete and named and size <= _ROOM and not card.exact


def _beginning(card: Card) -> list[Block]:
    """The beginning of the arguments, and how much is missing."""
    told = "\n".join(f"{one.name}: {one.value}" for one in card.arguments)
    if not told:
        return []
    shown = "\n".join(told[:_ROOM].split("\n")[:_ROWS])
    text = {"type": "text", "text": shown}
    missing = len(told) - len(shown)
    left = f"Cut here, {missing:,} characters more" if missing else "Cut here"
    where = f"the file {card.file} in the thread" if card.file else "“Show everything”"
    rest = plain(f"{left}: {where} has all of it.")
    return [
        rich({"type": "rich_text_preformatted", "elements": [text]}),
        {"type": "context", "elements": [rest]},
    ]


def _buttons(card: Card, seen: bool) -> Block:
    """As on the card, where everything is seen; else what leads to everything first."""
    drawn = buttons(card, approvable=seen)
    elements = drawn["elements"]
    if card.kind is Kind.APPROVAL and not seen:
        elements = [_button(SHOW, "Show everything", card.nonce, "primary"), *elements]
    if card.quick is not None and not seen:
        safe = [one for one in elements if one["action_id"] == ACTION + DECLINE]
        elements = [_button(ANSWER, "Answer", card.nonce, "primary"), *safe]
    return {**drawn, "block_id": f"{ACTION}actions.{card.nonce}", "elements": elements}


def _task(item: Item) -> list[Block]:
    assert isinstance(item.card, TaskCard)
    task = revealed_task(item.card)
    said = shorten(task.message or "Nothing is known of it yet.", _ROOM)
    blocks = [
        _titled(item, f"agent {shorten(task.agent, _NAME)} · since {moment(item.since)}"),
        _section(f"⏳ {said} ({shorten(task.status, _NAME)})"),
    ]
    if item.may and task.open:
        elements = [_button(CANCEL, "Cancel", task.nonce, "danger")]
        blocks.append({"type": "actions", "elements": elements})
    return blocks


def _decided(items: Sequence[Item]) -> list[Block]:
    lines = [
        [
            *words((shorten(_line(item.card.title), _TITLE), True))["elements"],
            *words((f" — {shorten(_line(_outcome(item)), _SAID)}", False))["elements"],
            *_link(item),
        ]
        for item in items
    ]
    sections = [{"type": "rich_text_section", "elements": line} for line in lines]
    return [
        rich({"type": "rich_text_list", "style": "bullet", "elements": sections[at : at + _LINES]})
        for at in range(0, len(sections), _LINES)
    ]


def _outcome(item: Item) -> str:
    return item.card.outcome if isinstance(item.card, Card) else ""


def _titled(item: Item, about: str) -> Block:
    title = words((shorten(_line(item.card.title), _TITLE), True), (f"\n{_line(about)}", False))
    return rich({**title, "elements": [*title["elements"], *_link(item)]})


def _link(item: Item) -> list[dict[str, Any]]:
    if item.link is None:
        return []
    dot = {"type": "text", "text": " · "}
    return [dot, {"type": "link", "url": item.link, "text": "thread"}]


def _rules(home: Home) -> list[Block]:
    """The standing rules, each with its end, and a way to make one."""
    if not home.rules and not home.maker:
        return []
    blocks = [_header("Standing rules")]
    for rule in home.rules:
        blocks.append(_rule(rule))
        if rule.may:
            revoke = _button(REVOKE, "Revoke", rule.id) | {"confirm": _SURE}
            blocks.append({"type": "actions", "elements": [revoke]})
    if home.more_rules:
        told = f"And {home.more_rules:,} more: the command “rules” lists those of a channel."
        blocks.append({"type": "context", "elements": [plain(told)]})
    if home.maker:
        elements = [_button(NEW_RULE, "New rule", "rule")]
        blocks.append({"type": "actions", "elements": elements})
    return blocks


def _rule(rule: Standing) -> Block:
    said = words(
        (shorten(_line(rule.sentence), _RULE), True),
        (f"\n{shorten(_line(rule.about), _SAID)}", False),
    )
    dot = {"type": "text", "text": " · "}
    link = [] if rule.link is None else [dot, {"type": "link", "url": rule.link, "text": "open"}]
    return rich({**said, "elements": [*said["elements"], *link]})


def _turns(home: Home) -> list[Block]:
    """To the pages beside this one."""
    turns = [("previous", "Earlier", home.page - 1), ("next", "More", home.page + 1)]
    elements = [
        _button(HOME + name, label, str(number))
        for name, label, number in turns
        if 1 <= number <= home.pages
    ]
    if not elements:
        return []
    told = plain(f"Page {home.page} of {home.pages}")
    return [
        {"type": "actions", "elements": elements},
        {"type": "context", "elements": [told]},
    ]


def _button(action: str, label: str, value: str, style: str = "") -> dict[str, Any]:
    return {
        "type": "button",
        "action_id": ACTION + action,
        "text": plain(label, limits.BUTTON),
        "value": value,
        **({"style": style} if style else {}),
    }


def _line(text: str) -> str:
    return visible(" ".join(text.split()))


def _header(text: str) -> Block:
    return {"type": "header", "text": plain(text, limits.HEADER)}


def _section(text: str) -> Block:
    return {"type": "section", "text": plain(text)}
