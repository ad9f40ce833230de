"""What a person sees of a message or a modal, and finding what they can press."""

import html
from collections.abc import Iterator
from typing import Any

from tests.fakes.slack.workspace import Json


def _decoded(text: str) -> str:
    return html.unescape(text)


def _part(element: Json) -> str:
    """The visible form of one inline element of rich text."""
    match element.get("type"):
        case "text":
            return str(element["text"])
        case "link":
            return str(element.get("text") or element["url"])
        case "user":
            return f"<@{element['user_id']}>"
        case "channel":
            return f"<#{element['channel_id']}>"
        case "usergroup":
            return f"<!subteam^{element['usergroup_id']}>"
        case "broadcast":
            return f"@{element['range']}"
        case "emoji":
            return f":{element['name']}:"
        case _:
            return str(element.get("fallback") or element.get("value") or "")


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for inner in value:
            yield from _lines(inner)
    if not isinstance(value, dict):
        return
    kind = str(value.get("type", ""))
    if kind == "rich_text_list":
        yield from _lines(value["elements"])
    elif kind.startswith("rich_text_") and "elements" in value:
        yield "".join(_part(element) for element in value["elements"])
    elif kind in ("mrkdwn", "markdown"):
        yield _decoded(str(value["text"]))
    elif isinstance(value.get("text"), str):
        yield str(value["text"])
    elif kind == "raw_number":
        yield str(value["value"])
    else:
        for key, inner in value.items():
            if key in ("title", "alt_text", "caption") and isinstance(inner, str):
                yield inner
            elif key not in ("confirm", "initial_option", "initial_options"):
                yield from _lines(inner)


def text_of(shown: Json) -> str:
    """All visible text of a message or view, one line per text, buttons and options included.

    Where there are blocks, the top-level text is only a notification and is not seen.
    """
    lines = [*_lines(shown.get("title")), *_lines(shown.get("blocks"))]
    if not shown.get("blocks"):
        lines.append(_decoded(str(shown.get("text", ""))))
    for attachment in shown.get("attachments") or []:
        lines += [_decoded(str(attachment[k])) for k in ("pretext", "text") if k in attachment]
        lines += _lines(attachment.get("blocks"))
    return "\n".join(lines)


def elements_of(shown: Json) -> Iterator[tuple[Json, Json]]:
    """Every element a person can use, with the block it stands in."""
    blocks = list(shown.get("blocks") or [])
    for attachment in shown.get("attachments") or []:
        blocks += attachment.get("blocks") or []
    for block in blocks:
        if block["type"] in ("actions", "context_actions"):
            yield from ((block, element) for element in block["elements"])
        elif block["type"] == "section" and "accessory" in block:
            yield block, block["accessory"]
        elif block["type"] == "input":
            yield block, block["element"]
        elif block["type"] == "card":
            yield from ((block, element) for element in block.get("actions", []))


def buttons_of(shown: Json) -> list[str]:
    """The labels of all buttons, in order."""
    return [e["text"]["text"] for _, e in elements_of(shown) if e["type"] == "button"]


def names_of(block: Json, element: Json) -> set[str]:
    """What a test may call this element: action id, button label, input label, placeholder."""
    named = {str(element.get("action_id", ""))}
    for label in (element.get("text"), element.get("placeholder"), block.get("label")):
        if isinstance(label, dict):
            named.add(str(label["text"]))
    return named


def find_element(shown: Json, name: str, value: str | None, user: str) -> tuple[Json, Json]:
    """The element of that action id or label. AssertionError when the person cannot press it."""
    for block, element in elements_of(shown):
        if name not in names_of(block, element):
            continue
        if element["type"] == "button" and value not in (None, element.get("value")):
            continue
        if user in (element.get("visible_to_user_ids") or [user]):
            return block, element
    there = [sorted(names_of(b, e)) for b, e in elements_of(shown)]
    raise AssertionError(f"{user} sees nothing called {name!r} to press; there is {there}")
