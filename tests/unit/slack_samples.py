"""A small card and a small form, for the tests of the fake Slack."""

from typing import Any

Json = dict[str, Any]

CARD: list[Json] = [
    {"type": "section", "block_id": "q", "text": {"type": "mrkdwn", "text": "Restart *web*?"}},
    {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "action_id": "yes",
                "text": {"type": "plain_text", "text": "Approve"},
                "value": "n1",
            },
            {
                "type": "button",
                "action_id": "form",
                "text": {"type": "plain_text", "text": "Details"},
                "value": "n1",
            },
        ],
    },
]
FORM: Json = {
    "type": "modal",
    "callback_id": "details",
    "title": {"type": "plain_text", "text": "Details"},
    "submit": {"type": "plain_text", "text": "Send"},
    "blocks": [
        {
            "type": "input",
            "block_id": "hours",
            "label": {"type": "plain_text", "text": "Hours"},
            "element": {
                "type": "number_input",
                "action_id": "v",
                "is_decimal_allowed": False,
                "min_value": "1",
                "max_value": "8",
            },
        },
        {
            "type": "input",
            "block_id": "seat",
            "label": {"type": "plain_text", "text": "Seat"},
            "element": {
                "type": "static_select",
                "action_id": "v",
                "options": [
                    {"text": {"type": "plain_text", "text": "Window"}, "value": "0"},
                    {"text": {"type": "plain_text", "text": "Aisle"}, "value": "1"},
                ],
            },
        },
    ],
}
