"""What Slack allows inside blocks: buttons, menus, inputs, and the small objects they carry."""

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
    matching,
    one_of,
    plain,
    string,
    text,
    typed,
    url,
)

ACTION_ID = {"action_id": string(limit("action_id.max_length"))}
PLACEHOLDER = {"placeholder": plain(limit("select.placeholder.max_length"))}
FOCUS = {"focus_on_load": boolean}

CONFIRM = fields(
    {
        "title": plain(limit("confirmation.title.max_length")),
        "text": text(limit("confirmation.text.max_length")),
        "confirm": plain(limit("confirmation.confirm.max_length")),
        "deny": plain(limit("confirmation.deny.max_length")),
    },
    {"style": one_of("primary", "danger")},
)
CONFIRMABLE = {"confirm": CONFIRM}
MENU = {**ACTION_ID, **PLACEHOLDER, **FOCUS, **CONFIRMABLE}
MULTI = {**MENU, "max_selected_items": integer(limit("multi_select.max_selected_items.min"))}


def _option(label: Check, extra: dict[str, Check] | None = None) -> Check:
    return fields(
        {"text": label, "value": string(limit("option.value.max_length"))},
        extra or {},
    )


PLAIN_OPTION = _option(
    plain(limit("option.text.max_length")),
    {"description": plain(limit("option.description.max_length"))},
)
TEXT_OPTION = _option(
    text(limit("option.text.max_length")),
    {"description": text(limit("option.description.max_length"))},
)
OVERFLOW_OPTION = _option(
    plain(limit("option.text.max_length")),
    {
        "description": plain(limit("option.description.max_length")),
        "url": url(limit("option.url.max_length")),
    },
)
OPTIONS = items(PLAIN_OPTION, limit("select.options.max_items"), limit("select.options.min_items"))
GROUPS = items(
    fields(
        {
            "label": plain(limit("option_group.label.max_length")),
            "options": items(PLAIN_OPTION, limit("option_group.options.max_items")),
        }
    ),
    limit("select.option_groups.max_items"),
)


def offered(element: dict[str, Any]) -> list[dict[str, Any]]:
    """Every option of a menu, groups flattened. Only what has the shape of an option."""
    flat = element.get("options") or []
    grouped = element.get("option_groups") or []
    every = [flat, *(group.get("options") or [] for group in grouped if isinstance(group, dict))]
    return [o for group in every if isinstance(group, list) for o in group if isinstance(o, dict)]


def _distinct_values(element: dict[str, Any], at: str) -> Iterator[Problem]:
    values = [option.get("value") for option in offered(element)]
    for index, value in enumerate(values):
        if value in values[:index]:
            yield Problem(f"{at}/options/{index}/value", f"duplicate option value: {value}")


def _one_source(element: dict[str, Any], at: str) -> Iterator[Problem]:
    if ("options" in element) == ("option_groups" in element):
        yield Problem(at, "must have exactly one of options and option_groups")


def _initial_offered(element: dict[str, Any], at: str) -> Iterator[Problem]:
    chosen = [("initial_option", element.get("initial_option"))]
    many = element.get("initial_options")
    if isinstance(many, list):
        chosen += [(f"initial_options/{index}", option) for index, option in enumerate(many)]
    for key, option in chosen:
        if option is not None and option not in offered(element):
            yield Problem(f"{at}/{key}", "must exactly match one of the options")


def _at_most_selected(element: dict[str, Any], at: str) -> Iterator[Problem]:
    for key in ("initial_options", "initial_users", "initial_channels", "initial_conversations"):
        chosen, most = element.get(key), element.get("max_selected_items")
        if isinstance(chosen, list) and isinstance(most, int) and len(chosen) > most:
            yield Problem(f"{at}/{key}", f"no more than {most} items allowed")


def _ordered(low: str, high: str) -> Any:
    def rule(element: dict[str, Any], at: str) -> Iterator[Problem]:
        try:
            wrong = float(element[low]) > float(element[high])
        except (KeyError, TypeError, ValueError):
            return
        if wrong:
            yield Problem(f"{at}/{low}", f"must not be greater than {high}")

    return rule


def _number_shape(element: dict[str, Any], at: str) -> Iterator[Problem]:
    whole = element.get("is_decimal_allowed") is False
    shape = matching(r"-?\d+" if whole else r"-?\d+(\.\d+)?", "a number written as a string")
    for key in ("min_value", "max_value", "initial_value"):
        if key in element:
            yield from shape(element[key], f"{at}/{key}")


DISPATCH = fields(
    {
        "trigger_actions_on": items(
            one_of("on_enter_pressed", "on_character_entered"),
            limit("dispatch_action_configuration.trigger_actions_on.max_items"),
        )
    }
)
TYPED = {**ACTION_ID, **PLACEHOLDER, **FOCUS, "dispatch_action_config": DISPATCH}
ID = string(64)
IDS = items(ID, 1000)
DATE = matching(r"\d{4}-\d{2}-\d{2}", "a date YYYY-MM-DD")
TIME = matching(r"([01]\d|2[0-3]):[0-5]\d", "a time HH:mm")
FILTER = fields(
    {},
    {
        "include": items(one_of("im", "mpim", "private", "public"), 4),
        "exclude_external_shared_channels": boolean,
        "exclude_bot_users": boolean,
    },
)
CONVERSATIONS = {"default_to_current_conversation": boolean, "filter": FILTER}
RESPONDS = {"response_url_enabled": boolean}
QUERY = {"min_query_length": integer(limit("select.min_query_length.min"))}
ONE_INITIAL = {"initial_option": PLAIN_OPTION}
MANY_INITIAL = {"initial_options": items(PLAIN_OPTION, 100)}
STATIC = {"options": OPTIONS, "option_groups": GROUPS}

BUTTON = typed(
    "button",
    {"text": plain(limit("button.text.max_length"))},
    {
        **ACTION_ID,
        **CONFIRMABLE,
        "url": url(limit("button.url.max_length")),
        "value": string(limit("button.value.max_length")),
        "style": one_of("primary", "danger"),
        "accessibility_label": string(limit("button.accessibility_label.max_length")),
        "agent_prompt": string(limit("button.agent_prompt.max_length")),
        "visible_to_user_ids": items(ID, limit("icon_button.visible_to_user_ids.max_items")),
    },
)


def _choice(type_: str, name: str, initial: dict[str, Check]) -> Check:
    options = items(TEXT_OPTION, limit(f"{name}.options.max_items"))
    optional = {**ACTION_ID, **CONFIRMABLE, **FOCUS, **initial}
    return typed(type_, {"options": options}, optional, _distinct_values, _initial_offered)


MENUS: dict[str, Check] = {
    "static_select": typed(
        "static_select",
        {},
        {**MENU, **STATIC, **ONE_INITIAL},
        _one_source,
        _distinct_values,
        _initial_offered,
    ),
    "multi_static_select": typed(
        "multi_static_select",
        {},
        {**MULTI, **STATIC, **MANY_INITIAL},
        _one_source,
        _distinct_values,
        _initial_offered,
        _at_most_selected,
    ),
    "external_select": typed("external_select", {}, {**MENU, **QUERY, **ONE_INITIAL}),
    "multi_external_select": typed("multi_external_select", {}, {**MULTI, **QUERY, **MANY_INITIAL}),
    "users_select": typed("users_select", {}, {**MENU, "initial_user": ID}),
    "multi_users_select": typed(
        "multi_users_select", {}, {**MULTI, "initial_users": IDS}, _at_most_selected
    ),
    "channels_select": typed("channels_select", {}, {**MENU, **RESPONDS, "initial_channel": ID}),
    "multi_channels_select": typed(
        "multi_channels_select", {}, {**MULTI, "initial_channels": IDS}, _at_most_selected
    ),
    "conversations_select": typed(
        "conversations_select",
        {},
        {**MENU, **CONVERSATIONS, **RESPONDS, "initial_conversation": ID},
    ),
    "multi_conversations_select": typed(
        "multi_conversations_select",
        {},
        {**MULTI, **CONVERSATIONS, "initial_conversations": IDS},
        _at_most_selected,
    ),
}

CHOICES: dict[str, Check] = {
    "checkboxes": _choice("checkboxes", "checkboxes", {"initial_options": items(TEXT_OPTION, 10)}),
    "radio_buttons": _choice("radio_buttons", "radio_buttons", {"initial_option": TEXT_OPTION}),
}

PICKERS: dict[str, Check] = {
    "datepicker": typed("datepicker", {}, {**MENU, "initial_date": DATE}),
    "timepicker": typed("timepicker", {}, {**MENU, "initial_time": TIME, "timezone": string(64)}),
    "datetimepicker": typed(
        "datetimepicker",
        {},
        {
            **ACTION_ID,
            **FOCUS,
            **CONFIRMABLE,
            "initial_date_time": integer(1_000_000_000, 9_999_999_999),
        },
    ),
}

TEXT_INPUTS: dict[str, Check] = {
    "plain_text_input": typed(
        "plain_text_input",
        {},
        {
            **TYPED,
            "initial_value": string(3000, 0),
            "multiline": boolean,
            "min_length": integer(0, limit("plain_text_input.min_length.max")),
            "max_length": integer(1, limit("plain_text_input.max_length.max")),
        },
        _ordered("min_length", "max_length"),
    ),
    "number_input": typed(
        "number_input",
        {"is_decimal_allowed": boolean},
        {
            **TYPED,
            "initial_value": string(3000),
            "min_value": string(3000),
            "max_value": string(3000),
        },
        _number_shape,
        _ordered("min_value", "max_value"),
        _ordered("min_value", "initial_value"),
        _ordered("initial_value", "max_value"),
    ),
    "email_text_input": typed(
        "email_text_input", {}, {**TYPED, "initial_value": matching(r"\S+@\S+", "an address")}
    ),
    "url_text_input": typed("url_text_input", {}, {**TYPED, "initial_value": url()}),
}

FILE_INPUT = typed(
    "file_input",
    {},
    {
        **ACTION_ID,
        "filetypes": items(string(32), 100),
        "max_files": integer(limit("file_input.max_files.min"), limit("file_input.max_files.max")),
    },
)
OVERFLOW = typed(
    "overflow",
    {"options": items(OVERFLOW_OPTION, limit("overflow.options.max_items"))},
    {**ACTION_ID, **CONFIRMABLE},
    _distinct_values,
)
IMAGE = typed(
    "image",
    {"alt_text": string(limit("image_element.alt_text.max_length"))},
    {
        "image_url": url(limit("image_element.image_url.max_length")),
        "slack_file": fields({}, {"id": string(64), "url": url()}),
    },
)
_FEEDBACK = fields(
    {
        "text": plain(limit("feedback_button.text.max_length")),
        "value": string(limit("feedback_button.value.max_length")),
    },
    {"accessibility_label": string(limit("feedback_button.accessibility_label.max_length"))},
)
CONTEXT_ACTIONS: dict[str, Check] = {
    "feedback_buttons": typed(
        "feedback_buttons",
        {"positive_button": _FEEDBACK, "negative_button": _FEEDBACK},
        ACTION_ID,
    ),
    "icon_button": typed(
        "icon_button",
        {"icon": one_of("trash"), "text": plain(limit("button.text.max_length"))},
        {
            **ACTION_ID,
            **CONFIRMABLE,
            "value": string(limit("icon_button.value.max_length")),
            "accessibility_label": string(limit("icon_button.accessibility_label.max_length")),
            "visible_to_user_ids": items(ID, limit("icon_button.visible_to_user_ids.max_items")),
        },
    ),
}

INTERACTIVE: dict[str, Check] = {
    "button": BUTTON,
    "overflow": OVERFLOW,
    **MENUS,
    **CHOICES,
    **PICKERS,
}
IN_ACTIONS = by_type(INTERACTIVE, "an actions block")
IN_SECTION = by_type({**INTERACTIVE, "image": IMAGE}, "a section accessory")
IN_CONTEXT = by_type(
    {"image": IMAGE, "plain_text": text(), "mrkdwn": text()},
    "a context block",
)
