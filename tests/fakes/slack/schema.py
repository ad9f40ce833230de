"""A small vocabulary for saying what a JSON document may look like, with JSON pointers.

A check looks at one value and reports every problem under it. The tables of elements and blocks are
built from these, so that they read like the reference pages they follow.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.fakes.slack.limits import limit


@dataclass(frozen=True)
class Problem:
    """One thing Slack would refuse, and where it is (a JSON pointer)."""

    pointer: str
    message: str

    def __str__(self) -> str:
        return f"[ERROR] {self.message} [json-pointer:{self.pointer}]"


Check = Callable[[Any, str], Iterator[Problem]]
Rule = Callable[[dict[str, Any], str], Iterator[Problem]]


def string(maximum: int, minimum: int = 1) -> Check:
    """A string of so many characters."""

    def check(value: Any, at: str) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield Problem(at, "must be a string")
        elif len(value) > maximum:
            yield Problem(at, f"must be less than {maximum + 1} characters, not {len(value)}")
        elif len(value) < minimum:
            yield Problem(at, f"must be more than {minimum - 1} characters")

    return check


def matching(pattern: str, what: str) -> Check:
    """A string of one syntax."""
    compiled = re.compile(pattern)

    def check(value: Any, at: str) -> Iterator[Problem]:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            yield Problem(at, f"must be {what}")

    return check


def url(maximum: int = 3000) -> Check:
    """An http or https address; Slack refuses every other scheme."""

    def check(value: Any, at: str) -> Iterator[Problem]:
        yield from string(maximum)(value, at)
        if isinstance(value, str) and not re.match(r"https?://[^\s/]", value):
            yield Problem(at, "must be a valid http or https URL")

    return check


def boolean(value: Any, at: str) -> Iterator[Problem]:
    """true or false."""
    if not isinstance(value, bool):
        yield Problem(at, "must be a boolean")


def integer(minimum: int, maximum: int | None = None) -> Check:
    """A whole JSON number in a range."""

    def check(value: Any, at: str) -> Iterator[Problem]:
        if isinstance(value, bool) or not isinstance(value, int):
            yield Problem(at, "must be an integer")
        elif value < minimum or (maximum is not None and value > maximum):
            yield Problem(at, f"must be in the range {minimum}..{maximum}")

    return check


def one_of(*allowed: str) -> Check:
    """One of the given words."""

    def check(value: Any, at: str) -> Iterator[Problem]:
        if value not in allowed:
            yield Problem(at, f"must be one of {', '.join(allowed)}")

    return check


def items(check_item: Check, maximum: int, minimum: int = 1) -> Check:
    """An array of so many things."""

    def check(value: Any, at: str) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield Problem(at, "must be an array")
            return
        if len(value) > maximum:
            yield Problem(at, f"no more than {maximum} items allowed, not {len(value)}")
        if len(value) < minimum:
            yield Problem(at, f"no less than {minimum} items allowed")
        for index, item in enumerate(value):
            yield from check_item(item, f"{at}/{index}")

    return check


def fields(
    required: dict[str, Check], optional: dict[str, Check] | None = None, *rules: Rule
) -> Check:
    """An object with these keys and no others, then rules that look at several keys at once."""
    known = {**required, **(optional or {})}

    def check(value: Any, at: str) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield Problem(at, "must be an object")
            return
        for key in required:
            if key not in value:
                yield Problem(at, f"missing required field: {key}")
        for key, inner in value.items():
            if key in known:
                yield from known[key](inner, f"{at}/{key}")
            else:
                yield Problem(f"{at}/{key}", f"invalid additional property: {key}")
        for rule in rules:
            yield from rule(value, at)

    return check


def typed(
    type_: str,
    required: dict[str, Check] | None = None,
    optional: dict[str, Check] | None = None,
    *rules: Rule,
) -> Check:
    """An object that says its own type."""
    return fields({"type": one_of(type_), **(required or {})}, optional, *rules)


def by_type(kinds: dict[str, Check], what: str) -> Check:
    """One of several kinds of objects, told apart by their `type`."""

    def check(value: Any, at: str) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield Problem(at, "must be an object")
        elif not isinstance(value.get("type"), str):
            yield Problem(at, "missing required field: type")
        elif value["type"] not in kinds:
            yield Problem(f"{at}/type", f"unsupported type for {what}: {value['type']}")
        else:
            yield from kinds[value["type"]](value, at)

    return check


def plain(maximum: int, minimum: int = 1) -> Check:
    """A plain_text object; Slack refuses mrkdwn here."""
    return typed("plain_text", {"text": string(maximum, minimum)}, {"emoji": boolean})


def text(maximum: int | None = None) -> Check:
    """A text object of either kind."""
    longest = maximum or limit("text.max_length")
    mrkdwn = typed("mrkdwn", {"text": string(longest)}, {"verbatim": boolean})
    return by_type({"plain_text": plain(longest), "mrkdwn": mrkdwn}, "a text object")
