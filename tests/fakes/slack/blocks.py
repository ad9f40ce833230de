"""The judge of blocks, messages and views: it refuses what Slack refuses.

The SDK's own models let most of this through (option values over 150, duplicate ids, mrkdwn in a
header, unknown keys ...), so a payload that passes here is worth more than one that merely builds.
"""

import json
from collections.abc import Iterator
from typing import Any, Literal

from tests.fakes.slack.elements import (
    BUTTON,
    CHOICES,
    CONTEXT_ACTIONS,
    FILE_INPUT,
    IMAGE,
    IN_ACTIONS,
    IN_CONTEXT,
    IN_SECTION,
    MENUS,
    PICKERS,
    TEXT_INPUTS,
    TYPED,
)
from tests.fakes.slack.limits import limit
from tests.fakes.slack.rich_text import rich_text
from tests.fakes.slack.schema import (
    Check,
    Problem,
    boolean,
    by_type,
    fields,
    integer,
    items,
    one_of,
    plain,
    string,
    text,
    typed,
    url,
)

Surface = Literal["message", "modal", "home"]

_ID = {"block_id": string(limit("block_id.max_length"))}


def _something_to_show(block: dict[str, Any], at: str) -> Iterator[Problem]:
    if not block.get("text") and not block.get("fields"):
        yield Problem(at, "must have text or fields")


def _distinct_actions(block: dict[str, Any], at: str) -> Iterator[Problem]:
    seen: set[str] = set()
    elements = block.get("elements")
    for index, element in enumerate(elements if isinstance(elements, list) else []):
        action_id = element.get("action_id") if isinstance(element, dict) else None
        if isinstance(action_id, str) and action_id in seen:
            yield Problem(f"{at}/elements/{index}/action_id", f"duplicate action_id: {action_id}")
        elif isinstance(action_id, str):
            seen.add(action_id)


def _one_picture(block: dict[str, Any], at: str) -> Iterator[Problem]:
    if ("image_url" in block) == ("slack_file" in block):
        yield Problem(at, "must have exactly one of image_url and slack_file")


def _card_has_content(block: dict[str, Any], at: str) -> Iterator[Problem]:
    if not any(block.get(key) for key in ("hero_image", "title", "actions", "body")):
        yield Problem(at, "must have a hero_image, title, actions or body")


def _one_title(block: dict[str, Any], at: str) -> Iterator[Problem]:
    if "title" in block and "rich_text_title" in block:
        yield Problem(at, "must not have both title and rich_text_title")


def _number(value: Any, at: str) -> Iterator[Problem]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield Problem(at, "must be a number")


_CELL = by_type(
    {
        "raw_text": typed("raw_text", {"text": string(10_000)}),
        "raw_number": typed("raw_number", {"value": _number}, {"text": string(10_000)}),
        "rich_text": rich_text,
    },
    "a table cell",
)
_COLUMN = fields({}, {"align": one_of("left", "center", "right"), "is_wrapped": boolean})
_ROW = items(_CELL, limit("table.columns.max_items"))
_INPUT_ELEMENTS = by_type(
    {
        **TEXT_INPUTS,
        **MENUS,
        **CHOICES,
        **PICKERS,
        "file_input": FILE_INPUT,
        "rich_text_input": typed(
            "rich_text_input",
            {},
            {
                **TYPED,
                "initial_value": rich_text,
                "min_lines": integer(1, limit("rich_text_input.min_lines.max")),
                "max_lines": integer(1, limit("rich_text_input.max_lines.max")),
            },
        ),
    },
    "an input block",
)
_SOURCE = typed("url", {"url": url(), "text": string(3000)})


def _task(statuses: tuple[str, ...], type_required: bool) -> Check:
    required: dict[str, Check] = {"task_id": string(255), "title": string(3000)}
    optional: dict[str, Check] = {
        **_ID,
        "status": one_of(*statuses),
        "details": rich_text,
        "output": rich_text,
        "sources": items(_SOURCE, 100, 0),
    }
    if type_required:
        return typed("task_card", required, optional)
    return fields(required, {**optional, "type": one_of("task_card")})


_CARD = typed(
    "card",
    {},
    {
        **_ID,
        "hero_image": IMAGE,
        "icon": IMAGE,
        "slack_icon": fields({"type": string(64)}, {"name": string(64)}),
        "title": text(limit("card.title.max_length")),
        "subtitle": text(limit("card.subtitle.max_length")),
        "body": text(limit("card.body.max_length")),
        "subtext": text(limit("card.subtext.max_length")),
        "actions": items(BUTTON, limit("card.actions.max_items")),
    },
    _card_has_content,
)

_COMMON: dict[str, Check] = {
    "actions": typed(
        "actions",
        {"elements": items(IN_ACTIONS, limit("actions.elements.max_items"))},
        _ID,
        _distinct_actions,
    ),
    "card": _CARD,
    "context": typed(
        "context", {"elements": items(IN_CONTEXT, limit("context.elements.max_items"))}, _ID
    ),
    "divider": typed("divider", {}, _ID),
    "header": typed("header", {"text": plain(limit("header.text.max_length"))}, _ID),
    "image": typed(
        "image",
        {"alt_text": string(limit("image.alt_text.max_length"))},
        {
            **_ID,
            "image_url": url(limit("image.image_url.max_length")),
            "slack_file": fields({}, {"id": string(64), "url": url()}),
            "title": plain(limit("image.title.max_length")),
        },
        _one_picture,
    ),
    "input": typed(
        "input",
        {"label": plain(limit("input.label.max_length")), "element": _INPUT_ELEMENTS},
        {
            **_ID,
            "hint": plain(limit("input.hint.max_length")),
            "optional": boolean,
            "dispatch_action": boolean,
        },
    ),
    "rich_text": rich_text,
    "section": typed(
        "section",
        {},
        {
            **_ID,
            "text": text(limit("section.text.max_length")),
            "fields": items(
                text(limit("section.fields.item_max_length")), limit("section.fields.max_items")
            ),
            "accessory": IN_SECTION,
            "expand": boolean,
        },
        _something_to_show,
    ),
}
_ALERT = typed(
    "alert",
    {"text": text(limit("alert.text.max_length"))},
    {**_ID, "level": one_of("default", "info", "warning", "error", "success")},
)
_CAROUSEL = typed("carousel", {"elements": items(_CARD, limit("carousel.elements.max_items"))}, _ID)
_TABLE = typed(
    "table",
    {"rows": items(_ROW, limit("table.rows.max_items"))},
    {**_ID, "column_settings": items(_COLUMN, limit("table.column_settings.max_items"), 0)},
)
_DATA_TABLE = typed(
    "data_table",
    {
        "caption": string(3000),
        "rows": items(
            items(_CELL, limit("data_table.columns.max_items")),
            limit("data_table.rows.max_items"),
            limit("data_table.rows.min_items"),
        ),
    },
    {
        **_ID,
        "page_size": integer(1, limit("data_table.page_size.max")),
        "row_header_column_index": integer(0, limit("data_table.columns.max_items") - 1),
    },
)
_CHILD = by_type({**_COMMON, "table": _TABLE, "data_table": _DATA_TABLE}, "a container")
_CONTAINER = typed(
    "container",
    {"child_blocks": items(_CHILD, limit("container.child_blocks.max_items"))},
    {
        **_ID,
        "title": plain(limit("container.title.max_length")),
        "rich_text_title": rich_text,
        "subtitle": text(limit("container.subtitle.max_length")),
        "width": one_of("narrow", "standard", "wide", "full"),
        "icon": IMAGE,
        "is_collapsible": boolean,
        "default_collapsed": boolean,
        "has_header_divider": boolean,
    },
    _one_title,
)
_HOME = {**_COMMON, "carousel": _CAROUSEL, "container": _CONTAINER, "table": _TABLE}
_HOME["data_table"] = _DATA_TABLE
_MESSAGE = {
    **_HOME,
    "context_actions": typed(
        "context_actions",
        {
            "elements": items(
                by_type(CONTEXT_ACTIONS, "a context_actions block"),
                limit("context_actions.elements.max_items"),
            )
        },
        _ID,
        _distinct_actions,
    ),
    "file": typed("file", {"external_id": string(255), "source": one_of("remote")}, _ID),
    "markdown": typed("markdown", {"text": string(limit("markdown.text.max_length"))}, _ID),
    "plan": typed(
        "plan",
        {"title": string(3000)},
        {
            **_ID,
            "tasks": items(
                _task(("pending", "in_progress", "complete", "error"), False),
                limit("plan.tasks.max_items"),
            ),
        },
    ),
    "task_card": _task(("in_progress", "complete", "error"), True),
}
_ALLOWED: dict[Surface, Check] = {
    "message": by_type(_MESSAGE, "a message"),
    "modal": by_type({**_COMMON, "alert": _ALERT}, "a modal"),
    "home": by_type(_HOME, "a home tab"),
}


def strings_under(value: Any) -> Iterator[str]:
    """Every text that the value shows, in order (the strings under a `text` key)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "text" and isinstance(inner, str):
                yield inner
            else:
                yield from strings_under(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_under(inner)


def _of_type(blocks: list[Any], *types: str) -> list[tuple[int, dict[str, Any]]]:
    return [
        (index, block)
        for index, block in enumerate(blocks)
        if isinstance(block, dict) and block.get("type") in types
    ]


def _across(blocks: list[Any], at: str) -> Iterator[Problem]:
    """The rules that look at all blocks together."""
    seen: set[str] = set()
    for index, block in enumerate(blocks):
        block_id = block.get("block_id") if isinstance(block, dict) else None
        if isinstance(block_id, str) and block_id in seen:
            yield Problem(f"{at}/{index}/block_id", f"duplicate block_id: {block_id}")
        elif isinstance(block_id, str):
            seen.add(block_id)
    if len(_of_type(blocks, "table")) > 1:
        yield Problem(at, "only one table allowed")
    for types, name in (
        (("table",), "table.total_content.max_length"),
        (("data_table",), "data_table.total_content.max_length"),
        (("markdown",), "markdown.total_text.max_length"),
    ):
        total = sum(len(s) for _, block in _of_type(blocks, *types) for s in strings_under(block))
        if total > limit(name):
            yield Problem(at, f"no more than {limit(name)} characters in {types[0]} blocks")


def validate_blocks(
    blocks: Any, surface: Surface = "message", at: str = "/blocks"
) -> list[Problem]:
    """Everything Slack would refuse in these blocks on that surface; empty means accepted."""
    most = limit("message.blocks.max_items" if surface == "message" else "view.blocks.max_items")
    problems = list(items(_ALLOWED[surface], most, 0)(blocks, at))
    if isinstance(blocks, list):
        problems += _across(blocks, at)
    return problems


def _submit_for_inputs(view: dict[str, Any], at: str) -> Iterator[Problem]:
    blocks = view.get("blocks")
    inputs = isinstance(blocks, list) and _of_type(blocks, "input")
    if view.get("type") == "modal" and inputs and "submit" not in view:
        yield Problem(f"{at}/submit", "missing required field: submit (the view has inputs)")


def _anything(value: Any, at: str) -> Iterator[Problem]:
    del value, at
    yield from ()


_VIEW = {
    "private_metadata": string(limit("view.private_metadata.max_length"), 0),
    "callback_id": string(limit("view.callback_id.max_length"), 0),
    "external_id": string(limit("view.external_id.max_length"), 0),
    "clear_on_close": boolean,
    "notify_on_close": boolean,
}
_MODAL = fields(
    {"type": one_of("modal"), "title": plain(limit("view.title.max_length")), "blocks": _anything},
    {
        **_VIEW,
        "submit": plain(limit("view.submit.max_length")),
        "close": plain(limit("view.close.max_length")),
        "submit_disabled": boolean,
    },
    _submit_for_inputs,
)
_HOME_VIEW = fields({"type": one_of("home"), "blocks": _anything}, _VIEW)


def validate_view(view: Any, at: str = "/view") -> list[Problem]:
    """Everything Slack would refuse in a modal or home view; empty means accepted."""
    if not isinstance(view, dict) or view.get("type") not in ("modal", "home"):
        return [Problem(f"{at}/type", "must be modal or home")]
    surface: Surface = "modal" if view["type"] == "modal" else "home"
    problems = list((_MODAL if surface == "modal" else _HOME_VIEW)(view, at))
    if "blocks" in view:
        problems += validate_blocks(view["blocks"], surface, f"{at}/blocks")
    return problems


def view_too_large(view: Any) -> bool:
    """Whether the view is over 250 KB as JSON."""
    return len(json.dumps(view, ensure_ascii=False).encode()) > limit("view.json.max_bytes")


def message_error(text_: str, blocks: Any, attachments: Any) -> tuple[str, list[Problem]] | None:
    """Why Slack would refuse a message with these parts, as (error code, problems); None if fine.

    The sum of all block text is what Slack answers `msg_blocks_too_long` for (bolt-js#2509).
    """
    if len(text_) > limit("message.text.max_length"):
        return "msg_too_long", []
    problems: list[Problem] = []
    for index, attachment in enumerate(attachments or []):
        if isinstance(attachment, dict) and "blocks" in attachment:
            inner = f"/attachments/{index}/blocks"
            problems += validate_blocks(attachment["blocks"], at=inner)
    if len(attachments or []) > limit("message.attachments.max_items"):
        return "too_many_attachments", problems
    problems += validate_blocks(blocks or [])
    if problems:
        return "invalid_blocks", problems
    if sum(map(len, strings_under(blocks or []))) > limit("message.total_content.max_length"):
        return "msg_blocks_too_long", []
    return None
