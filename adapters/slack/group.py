"""Several approvals on one Slack message: an excerpt of each call with a look at all of it, and
the buttons for the selected ones and for all. Untrusted text stands in plain_text alone, every
argument on one line, so that none can look like another call or like a decision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from adapters.slack import limits
from adapters.slack.actions import (
    ACTION,
    AGAIN,
    APPROVE_ALL,
    APPROVE_SELECTED,
    DECLINE_ALL,
    DECLINE_SELECTED,
    SELECT,
    SHOW,
)
from adapters.slack.text import escape, mrkdwn, plain, shorten
from bot.card import Card, CardState, warnings
from bot.group import GroupCard
from bot.text import reveal, visible

Block = dict[str, Any]

MOST: Final = 15  # calls of one message: what its text has room for

MARKS: Final = {CardState.DONE: "✅", CardState.REFUSED: "⛔", CardState.CLOSED: "⚪"}
_TOOL: Final = 80
_TOLD: Final = 200
_CALL: Final = 400  # all that is shown of a call
_MINIMAL: Final = 550  # of a call in a message that has nothing else
_MORE: Final = "… (not all of it: press Look)"
_CUT: Final = "… (not all of it)"


def blocks(group: GroupCard, deciders: str) -> list[Block]:
    """`deciders`: the line about who may decide, in mrkdwn."""
    drawn: list[Block] = [
        {"type": "header", "text": plain(_line(group.title), limits.HEADER)},
        {"type": "section", "text": mrkdwn(deciders)},
    ]
    drawn += [_call(number, card, _CALL) for number, card in enumerate(group.cards, 1)]
    if group.open:
        drawn.append(_select(group))
        drawn.append(_actions(_buttons(group)))
    return [*drawn, *again(group)]


def minimal(group: GroupCard) -> dict[str, Any]:
    """The plainest message that still decides. All are approved at once only if it shows every
    argument of every call."""
    drawn = [_call(number, card, _MINIMAL) for number, card in enumerate(group.cards, 1)]
    if group.open:
        shown = all(
            _words(number, card, _MINIMAL)[1]
            for number, card in enumerate(group.cards, 1)
            if card.open
        )
        count = len(group.waiting)
        every = [_button(APPROVE_ALL, f"Approve all {count}", group.nonce, "primary")]
        none = _button(DECLINE_ALL, f"Decline all {count}", group.nonce, "danger")
        drawn.append(_actions([*(every if shown else ()), none]))
    drawn += again(group)
    return {"text": escape(shorten(_line(group.title), _TOLD)), "blocks": drawn}


def again(card: Card | GroupCard) -> list[Block]:
    """The button that asks again for what expired on a card."""
    if not card.again:
        return []
    block = _actions([_button(AGAIN, "Ask again", card.nonce)])
    return [block | {"block_id": ACTION + AGAIN}]


def _call(number: int, card: Card, size: int) -> Block:
    block = _section(_words(number, card, size)[0])
    return block | {"accessory": _button(SHOW, "Look", card.nonce)} if card.open else block


def _words(number: int, card: Card, size: int) -> tuple[str, bool]:
    """One call in about `size` characters: its number and tool, how it ended, and what fits of
    its arguments; and whether they are all there."""
    mark = "" if card.open else f"{MARKS.get(card.state, '')} "
    head = f"{mark}{number}. {shorten(_line(card.tool), _TOOL)}\n"
    told = " ".join([*card.notices, *warnings(card)]) if card.open else card.outcome
    head += f"{shorten(visible(told, keep=''), _TOLD)}\n" if told else ""
    excerpt, whole = _excerpt(card, size - len(head))
    cut = "" if whole else _MORE if card.open else _CUT
    return f"{head}{excerpt}{cut}", whole


def _excerpt(card: Card, size: int) -> tuple[str, bool]:
    """The arguments, each on a line of its own, and whether that is exactly all of them."""
    if not card.complete:
        return "", False
    lines = [f"• {_line(f'{one.name}: {one.value}')}" for one in card.arguments]
    shown = "\n".join(lines) or "(no arguments)"
    return shown[:size], len(shown) <= size and not card.exact


def _line(text: str) -> str:
    """The text on one line, with nothing hidden in it."""
    return reveal(text)


def _select(group: GroupCard) -> Block:
    options = [
        {"text": plain(_label(number, card), limits.OPTION), "value": card.nonce}
        for number, card in enumerate(group.cards, 1)
        if card.open
    ]
    menu = {
        "type": "multi_static_select",
        "action_id": ACTION + SELECT,
        "placeholder": plain("Select calls"),
        "options": options,
    }
    return _section("Some of them:") | {"block_id": ACTION + SELECT, "accessory": menu}


def _label(number: int, card: Card) -> str:
    values = " ".join(_line(one.value) for one in card.arguments)
    return f"{number}. {_line(card.tool)} {values}"


def _buttons(group: GroupCard) -> list[Block]:
    count = len(group.waiting)
    approvable = sum(card.complete for card in group.waiting)
    kept = f" {count - approvable} cannot be approved here." if approvable < count else ""
    buttons = [
        _button(APPROVE_SELECTED, "Approve selected", group.nonce, "primary"),
        _button(DECLINE_SELECTED, "Decline selected", group.nonce, "danger"),
        _button(APPROVE_ALL, f"Approve all {approvable}", group.nonce)
        | _confirm("Approve", approvable, f"They run with exactly these arguments.{kept}"),
        _button(DECLINE_ALL, f"Decline all {count}", group.nonce)
        | _confirm("Decline", count, "None of them runs."),
    ]
    return buttons if approvable else buttons[1::2]


def _confirm(verb: str, count: int, text: str) -> Block:
    what = f"{verb} {count} call{'' if count == 1 else 's'}"
    texts = {"title": f"{what}?", "text": text, "confirm": what, "deny": "Back"}
    return {"confirm": {name: plain(text) for name, text in texts.items()}}


def _actions(elements: Iterable[Block]) -> Block:
    return {"type": "actions", "block_id": "interlock.actions", "elements": list(elements)}


def _button(action: str, label: str, nonce: str, style: str = "") -> Block:
    return {
        "type": "button",
        "action_id": ACTION + action,
        "text": plain(label, limits.BUTTON),
        "value": nonce,
        **({"style": style} if style else {}),
    }


def _section(text: str) -> Block:
    return {"type": "section", "text": plain(text)}
