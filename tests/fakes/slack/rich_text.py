"""The rich_text block: sections, lists, quotes and preformatted text."""

from collections.abc import Iterator
from typing import Any

from tests.fakes.slack.limits import limit
from tests.fakes.slack.schema import (
    Check,
    Problem,
    boolean,
    by_type,
    fields,
    integer,
    items,
    one_of,
    string,
    typed,
)

_STYLES = ("bold", "italic", "strike", "code", "underline", "highlight", "client_highlight")
STYLE = fields({}, {**dict.fromkeys(_STYLES, boolean), "unlink": boolean})
_STYLED = {"style": STYLE}
_ADDRESS = string(3000)

_PARTS: dict[str, Check] = {
    "text": typed("text", {"text": string(100_000)}, _STYLED),
    "link": typed("link", {"url": _ADDRESS}, {**_STYLED, "text": string(3000), "unsafe": boolean}),
    "emoji": typed("emoji", {"name": string(255)}, {**_STYLED, "unicode": string(255)}),
    "user": typed("user", {"user_id": string(64)}, _STYLED),
    "channel": typed("channel", {"channel_id": string(64)}, _STYLED),
    "usergroup": typed("usergroup", {"usergroup_id": string(64)}, _STYLED),
    "team": typed("team", {"team_id": string(64)}, _STYLED),
    "broadcast": typed("broadcast", {"range": one_of("here", "channel", "everyone")}, _STYLED),
    "date": typed(
        "date",
        {"timestamp": integer(0), "format": string(255)},
        {**_STYLED, "url": _ADDRESS, "fallback": string(255)},
    ),
    "color": typed("color", {"value": string(7)}, _STYLED),
}
_TEXT_ONLY = {kind: _PARTS[kind] for kind in ("text", "link")}
_MANY = 10_000

_INSIDE = items(by_type(_PARTS, "rich text"), _MANY, 0)
_SECTION = typed("rich_text_section", {"elements": _INSIDE})


def _border(name: str) -> dict[str, Check]:
    return {"border": integer(limit(f"{name}.border.min"), limit(f"{name}.border.max"))}


_ELEMENTS: dict[str, Check] = {
    "rich_text_section": _SECTION,
    "rich_text_quote": typed("rich_text_quote", {"elements": _INSIDE}, _border("rich_text_quote")),
    "rich_text_preformatted": typed(
        "rich_text_preformatted",
        {"elements": items(by_type(_TEXT_ONLY, "preformatted text"), _MANY)},
        {**_border("rich_text_preformatted"), "language": string(64)},
    ),
    "rich_text_list": typed(
        "rich_text_list",
        {"style": one_of("bullet", "ordered"), "elements": items(_SECTION, _MANY)},
        {
            **_border("rich_text_list"),
            "indent": integer(
                limit("rich_text_list.indent.min"), limit("rich_text_list.indent.max")
            ),
            "offset": integer(limit("rich_text_list.offset.min")),
        },
    ),
}
RICH_TEXT_ELEMENTS = items(by_type(_ELEMENTS, "a rich_text block"), _MANY)


def rich_text(value: Any, at: str) -> Iterator[Problem]:
    """A whole rich_text object (as a block, in a table cell, in a task card or in an input)."""
    identity = {"block_id": string(limit("block_id.max_length"))}
    yield from typed("rich_text", {"elements": RICH_TEXT_ELEMENTS}, identity)(value, at)
