"""The arguments of one call, whatever shape the SDK sent them in.

slack_sdk uses three shapes: GET with a query, POST with everything in the query, POST with JSON;
forms are accepted too. In the first two every value is a string, and structures are JSON in it.
"""

import json
from typing import Any

from tests.fakes.slack.workspace import Json, SlackError


class Args:
    """Typed access to the arguments of a call, refusing like Slack does."""

    def __init__(self, given: Json) -> None:
        self.given = given

    def has(self, name: str) -> bool:
        return self.given.get(name) not in (None, "")

    def text(self, name: str, default: str = "") -> str:
        value = self.given.get(name, default)
        return default if value is None else str(value)

    def need(self, name: str, code: str = "invalid_arguments") -> str:
        """A string that must be there."""
        if not self.has(name):
            raise invalid(f"missing required field: {name}", code)
        if not isinstance(self.given[name], str | int | float):
            raise invalid(f"must be a string: {name}", code)
        return str(self.given[name])

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.given.get(name, default)
        return value if isinstance(value, bool) else str(value).lower() in ("1", "true")

    def whole(self, name: str, default: int) -> int:
        try:
            return int(self.given.get(name, default))
        except (TypeError, ValueError):
            raise invalid(f"must be an integer: {name}") from None

    def data(self, name: str, code: str = "invalid_arguments") -> Any:
        """A structure, parsed when it travelled as a string. None when it was not given."""
        value = self.given.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise SlackError(code) from None

    def names(self, name: str) -> list[str]:
        """A list of ids, given as an array or with commas."""
        value = self.given.get(name) or []
        return value if isinstance(value, list) else [v for v in str(value).split(",") if v]

    def page(self, rows: list[Any], key: str, most: int = 1000) -> Json:
        """One page of rows under `key`, with the cursor of the next one."""
        start = self.whole("cursor", 0) if self.has("cursor") else 0
        size = self.whole("limit", 100 if key != "messages" else most) or most
        end = start + min(size, most)
        cursor = str(end) if end < len(rows) else ""
        return {key: rows[start:end], "response_metadata": {"next_cursor": cursor}}


def invalid(message: str, code: str = "invalid_arguments") -> SlackError:
    """The refusal of an argument, with its reason where Slack puts it."""
    if code != "invalid_arguments":
        return SlackError(code)
    return SlackError(code, response_metadata={"messages": [f"[ERROR] {message}"]})
