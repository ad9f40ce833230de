"""People who are to read something, by mentions where Teams knows them, else by their keys."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Final

from adapters.teams.elements import Element, line
from adapters.teams.people import Member
from adapters.teams.text import whole
from bot.card import Card, Kind
from bot.group import GroupCard
from bot.text import visible

Names = Mapping[str, Member]
NOBODY: Final[Names] = {}

_NAME: Final = 80
_DECIDERS: Final = 12
_UNSAFE_IN_NAME: Final = re.compile(r"(?:[^\w .,'’-]|_)+")


def addressed(message: Element, whom: Sequence[str], names: Names) -> Element:
    """The message with mentions of those who are to read it, and the others by key."""
    if not whom:
        return message
    mentioned, others = _mentions(whom, names)
    named = ", ".join([*mentioned, *map(html.escape, others)])
    return message | {
        "text": f"<p>{named}</p>\n{message['text']}",
        "entities": list(mentioned.values()),
    }


def who_may(card: Card | GroupCard, names: Names) -> tuple[list[Element], list[Element]]:
    """Who may decide, by mentions where Teams knows them, and the entities of those mentions."""
    what = "decide" if isinstance(card, GroupCard) or card.kind is Kind.APPROVAL else "answer"
    if not card.deciders:
        nobody = f"Nobody may {what}: no approver is configured."
        return [line((nobody, True))], []
    mentioned, others = _mentions(card.deciders, names)
    head = f"Who may {what}: "
    drawn: list[Element] = []
    if mentioned:
        told = f"**{head.strip()}** {', '.join(mentioned)}"
        drawn.append({"type": "TextBlock", "wrap": True, "text": told})
        head = "And: "
    if others:
        drawn.append(line((head, True), (", ".join(others), False)))
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
