"""What cards are made of. Untrusted text stands in TextRuns, in which no client reads markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from adapters.teams import actions, limits
from adapters.teams.events import HOME, NONCE, PAGE, VERB
from adapters.teams.text import plain, shorten
from bot.card import CardState

Element = dict[str, Any]

TYPE: Final = "application/vnd.microsoft.card.adaptive"
MARKS: Final = {CardState.DONE: "✅", CardState.REFUSED: "⛔", CardState.CLOSED: "⚪"}
_END: Final = "↵"
_LINES: Final = 60  # lines of a value that are shown as lines


def adaptive(body: list[Element]) -> Element:
    """The card with these elements."""
    return {
        "type": "AdaptiveCard",
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "version": "1.5",
        "body": body,
    }


def size(card: Element) -> int:
    return len(json.dumps(card, ensure_ascii=False).encode("utf-8", "replace"))


def heading(text: str) -> Element:
    inline = run(shorten(" ".join(text.split()), limits.TITLE), bold=True) | {"size": "Medium"}
    return {"type": "RichTextBlock", "inlines": [inline]}


def run(text: str, *, bold: bool = False) -> Element:
    return {"type": "TextRun", "text": plain(text)} | ({"weight": "Bolder"} if bold else {})


def line(*texts: tuple[str, bool]) -> Element:
    """Texts, each bold or not, on one line."""
    runs: Iterable[Element] = (run(text, bold=bold) for text, bold in texts if text)
    return {"type": "RichTextBlock", "inlines": list(runs) or [run("\xa0")]}


def subtle(text: str) -> Element:
    inline = run(text) | {"isSubtle": True, "size": "Small"}
    return {"type": "RichTextBlock", "inlines": [inline]}


def lines(text: str, *, mono: bool = True) -> list[Element]:
    """A text as it is, in lines; one with very many of them runs on, with the ends of its lines
    marked, because every line costs more than it says. What imitates the mark is written out as
    bot.text does it, whose escapes no text can imitate."""
    split = text.split("\n")
    if len(split) > _LINES:
        split = [f" {_END} ".join(text.replace(_END, f"⟨U+{ord(_END):04X}⟩").split("\n"))]
    elements = []
    for number, one in enumerate(split):
        inline = run(_spaced(one) or "\xa0") | ({"fontType": "Monospace"} if mono else {})
        block: Element = {"type": "RichTextBlock", "inlines": [inline]}
        elements.append(block | ({"spacing": "None"} if number or mono else {}))
    return elements


def _spaced(line: str) -> str:
    """The line with spaces that no client draws as one."""
    line = line.replace("\t", "    ")
    return re.sub(r"^ | (?= )| $", "\xa0", line)


def left_out(count: int) -> Element:
    return subtle(f"… {count:,} characters between …")


def execute(
    nonce: str,
    verb: str,
    title: str,
    *,
    style: str = "",
    inputs: bool = False,
    page: int = 0,
    home: bool = False,
) -> Element:
    """A button of ours; old clients get it as a Submit, which says the same. `page`: the one that
    it leads to; `home`: it stands on a list of questions of many threads."""
    rest: Element = {
        "title": title,
        "data": {NONCE: nonce, VERB: verb}
        | ({PAGE: page} if page else {})
        | ({HOME: True} if home else {}),
        "associatedInputs": "auto" if inputs else "none",
    } | ({"style": style} if style else {})
    submit = {"type": "Action.Submit"} | rest
    return {"type": "Action.Execute", "verb": verb} | rest | {"fallback": submit}


def back(nonce: str, *, home: bool = False) -> Element:
    """From what only the clicker sees to what stands there: the card, or the list."""
    return execute(nonce, actions.HOME if home else actions.BACK, "Back", home=home)


def buttons(shown: list[Element]) -> Element:
    return {"type": "ActionSet", "actions": shown}
