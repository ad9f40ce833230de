"""Filling in inputs the way Slack's client lets a person: by label, with the client's checks."""

import re
from typing import Any

from tests.fakes.slack.elements import offered
from tests.fakes.slack.visible import elements_of
from tests.fakes.slack.workspace import Json

State = dict[str, Json]
"""block id -> action id -> value, as in `view.state.values`."""

_EMPTY: dict[str, tuple[str, str | None]] = {
    "plain_text_input": ("value", "initial_value"),
    "number_input": ("value", "initial_value"),
    "email_text_input": ("value", "initial_value"),
    "url_text_input": ("value", "initial_value"),
    "rich_text_input": ("rich_text_value", "initial_value"),
    "static_select": ("selected_option", "initial_option"),
    "external_select": ("selected_option", "initial_option"),
    "radio_buttons": ("selected_option", "initial_option"),
    "users_select": ("selected_user", "initial_user"),
    "channels_select": ("selected_channel", "initial_channel"),
    "conversations_select": ("selected_conversation", "initial_conversation"),
    "datepicker": ("selected_date", "initial_date"),
    "timepicker": ("selected_time", "initial_time"),
    "datetimepicker": ("selected_date_time", "initial_date_time"),
    "checkboxes": ("selected_options", "initial_options"),
    "multi_static_select": ("selected_options", "initial_options"),
    "multi_external_select": ("selected_options", "initial_options"),
    "multi_users_select": ("selected_users", "initial_users"),
    "multi_channels_select": ("selected_channels", "initial_channels"),
    "multi_conversations_select": ("selected_conversations", "initial_conversations"),
    "file_input": ("files", None),
}
"""Element type -> the key that holds its value in the state, and the key of its initial value."""


class ClientRefused(AssertionError):
    """Slack's client would not let the person do this; nothing was sent to the app."""


def _is_many(key: str) -> bool:
    return key.endswith("s") and key != "selected_options_group"


def initial_values(shown: Json, kept: State) -> State:
    """The state of a fresh view or message: initial values, and what was typed under same ids."""
    state: State = {}
    for block, element in elements_of(shown):
        if element["type"] not in _EMPTY:
            continue
        key, initial = _EMPTY[element["type"]]
        before = kept.get(block["block_id"], {}).get(element["action_id"])
        if before is not None and before["type"] == element["type"]:
            value = _still_offered(element, before[key])
        else:
            value = element.get(initial) if initial else None
            value = [] if value is None and _is_many(key) else value
        entry = {"type": element["type"], key: value}
        state.setdefault(block["block_id"], {})[element["action_id"]] = entry
    return state


def _still_offered(element: Json, value: Any) -> Any:
    """Of options that were chosen, those that are there: a menu shows no other."""
    options = offered(element)
    if not options:
        return value
    if isinstance(value, list):
        return [one for one in value if one in options]
    return value if value in options else None


def _typed(element: Json, value: Any, label: str) -> Any:
    """What the client sends for something typed, or ClientRefused."""
    if value is None or value == "":
        return None
    text = str(value)
    match element["type"]:
        case "plain_text_input":
            if "\n" in text and not element.get("multiline"):
                raise ClientRefused(f"{label!r} takes one line only")
            low, high = element.get("min_length", 0), element.get("max_length", 3000)
            if not low <= len(text) <= high:
                raise ClientRefused(f"{label!r} takes {low} to {high} characters")
        case "number_input":
            decimal = element["is_decimal_allowed"]
            if not re.fullmatch(r"-?\d+(\.\d+)?" if decimal else r"-?\d+", text):
                raise ClientRefused(f"{label!r} takes a number, not {text!r}")
            low = float(element.get("min_value", "-inf"))
            if not low <= float(text) <= float(element.get("max_value", "inf")):
                raise ClientRefused(f"{label!r} does not take {text}")
        case "email_text_input" if not re.fullmatch(r"[^\s@]+@[^\s@]+\.[^\s@]+", text):
            raise ClientRefused(f"{label!r} takes an e-mail address")
        case "url_text_input" if not re.match(r"https?://[^\s/]+\.?[^\s]*$", text):
            raise ClientRefused(f"{label!r} takes a web address")
        case "datepicker" if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            raise ClientRefused(f"{label!r} takes a date")
        case "timepicker" if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
            raise ClientRefused(f"{label!r} takes a time")
        case "datetimepicker":
            return int(text)
        case "rich_text_input":
            section = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
            return {"type": "rich_text", "elements": [section]}
        case _:
            pass
    return text


def _option(element: Json, wanted: Any, label: str) -> Json:
    for option in offered(element):
        if option["text"]["text"] == wanted:
            return option
    there = [option["text"]["text"] for option in offered(element)]
    raise ClientRefused(f"{label!r} offers {there}, not {wanted!r}")


def chosen(element: Json, value: Any, label: str) -> Json:
    """The state entry for one element when a person enters this value.

    Options are named by their visible text; several of them come as a list.
    """
    if element["type"] not in _EMPTY:
        raise ClientRefused(f"{label!r} is a {element['type']}, nothing to fill in")
    key, _ = _EMPTY[element["type"]]
    if _is_many(key):
        wanted = [] if value is None else list(value)
        most = element.get("max_selected_items", len(wanted))
        if len(wanted) > most:
            raise ClientRefused(f"{label!r} takes {most} at most")
        if key == "selected_options":
            wanted = [_option(element, one, label) for one in wanted]
        return {"type": element["type"], key: wanted}
    if key == "selected_option":
        picked = None if value is None else _option(element, value, label)
        return {"type": element["type"], key: picked}
    return {"type": element["type"], key: _typed(element, value, label)}


def _inputs(shown: Json) -> list[Json]:
    return [block for block in shown["blocks"] if block["type"] == "input"]


def _called(shown: Json, name: str) -> Json:
    found = [b for b in _inputs(shown) if name in (b["label"]["text"], b["block_id"])]
    if len(found) != 1:
        labels = [block["label"]["text"] for block in _inputs(shown)]
        raise ClientRefused(f"{len(found)} inputs are called {name!r}; there are {labels}")
    return found[0]


def filled(shown: Json, state: State, entered: dict[str, Any]) -> State:
    """The state after a person filled in inputs, named by label or block id.

    Raises ClientRefused where the client would show an error instead of sending.
    """
    result = {block_id: dict(values) for block_id, values in state.items()}
    for name, value in entered.items():
        block = _called(shown, name)
        element = block["element"]
        entry = chosen(element, value, block["label"]["text"])
        result[block["block_id"]][element["action_id"]] = entry
    for block in _inputs(shown):
        element = block["element"]
        key, _ = _EMPTY[element["type"]]
        value = result[block["block_id"]][element["action_id"]][key]
        if value in (None, "", []) and not block.get("optional"):
            raise ClientRefused(f"{block['label']['text']!r} is required")
    return result
