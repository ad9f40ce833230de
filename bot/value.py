"""Plain values: how text from a form or a chat becomes one, and what a text must look like."""

import math
import re
from datetime import date, datetime
from enum import StrEnum
from typing import Final, assert_never
from urllib.parse import urlsplit

from pydantic_core import SchemaValidator, core_schema

Value = str | int | float | bool
Number = int | float


class Format(StrEnum):
    """What a text must look like; the values are JSON Schema's names."""

    EMAIL = "email"
    URI = "uri"
    DATE = "date"
    DATE_TIME = "date-time"


class Refused(Exception):
    """A value that was refused: the rest of a sentence that begins with the field's label."""


INT_LIMIT: Final = 2**63  # what every store and every JSON reader of ours keeps exactly
_DIGITS: Final = 400  # more than any number a float holds; int() itself raises beyond 4,300

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def integer(given: object) -> int:
    """A whole number from an int, a whole float or digits; never from a boolean."""
    match given:
        case bool():
            raise Refused("must be a whole number.")
        case int():
            value = int(given)
        case float() if given.is_integer():
            value = int(given)
        case str() if len(given) <= _DIGITS and _WHOLE.fullmatch(given):
            value = int(given)
        case _:
            raise Refused("must be a whole number.")
    if not -INT_LIMIT <= value < INT_LIMIT:
        raise Refused("must be a whole number of at most 18 digits.")
    return value


def number(given: object) -> Number:
    """A finite number from an int, a float or decimal text; whole text stays an int."""
    match given:
        case bool():
            value: Number = math.nan
        case int() | float():
            value = given
        case str() if len(given) <= _DIGITS and _WHOLE.fullmatch(given):
            value = int(given)
        case str() if len(given) <= _DIGITS and _DECIMAL.fullmatch(given):
            value = float(given)
        case _:
            value = math.nan
    if not finite(value):
        raise Refused("must be a number.")
    return value


_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1", "y", "t"), True),
    **dict.fromkeys(("false", "no", "off", "0", "n", "f"), False),
}


def boolean(given: object) -> bool:
    """Yes or no from a boolean, from 1 and 0, or from the words people and forms use."""
    match given:
        case bool():
            return given
        case 0 | 1 if isinstance(given, int):
            return given == 1
        case str() if given.lower() in _WORDS:
            return _WORDS[given.lower()]
        case _:
            raise Refused("must be yes or no.")


FORMAT_SENTENCES: Final = {
    Format.EMAIL: "an email address such as name@example.com",
    Format.URI: "a full address such as https://example.com/page",
    Format.DATE: "a date such as 2025-12-31",
    Format.DATE_TIME: "a date and time with a zone such as 2025-12-31T18:30:00Z",
}
_HOST_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL: Final = re.compile(
    rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~.-]{{1,64}}@(?:{_HOST_LABEL}\.)+{_HOST_LABEL}"
)
_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+"
)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def has_format(format: Format, text: str) -> bool:
    """Check by rules a person understands, in linear time; the asker checks again anyway."""
    try:
        match format:
            case Format.EMAIL:
                local = text.partition("@")[0]
                dotted = local.startswith(".") or local.endswith(".") or ".." in local
                return len(text) <= 254 and not dotted and _EMAIL.fullmatch(text) is not None
            case Format.URI:
                parts = urlsplit(text)
                rooted = parts.scheme.lower() not in ("http", "https") or bool(parts.hostname)
                return rooted and parts.port != 0 and _URI.fullmatch(text) is not None
            case Format.DATE:
                return _DATE.fullmatch(text) is not None and bool(date.fromisoformat(text))
            case Format.DATE_TIME:
                text = text.upper()
                return _DATE_TIME.fullmatch(text) is not None and bool(datetime.fromisoformat(text))
            case _:
                assert_never(format)
    except ValueError:  # no such day, hour or port
        return False


PATTERN_LIMIT: Final = 500  # characters of a pattern
PATTERN_SUBJECT_LIMIT: Final = 1000  # characters of a text that a pattern is looked for in


def pattern_finder(pattern: str) -> SchemaValidator:
    """Compile a pattern for `isinstance_python(text)`, which searches anywhere in the text.

    The pattern may come from a server nobody vouches for, and `re` can be made to run for years.
    This engine takes linear time and refuses a pattern that compiles to more than 10 MB; for that
    it has no look-around and no back references. Nothing is cached: 10 MB each would add up.

    Raises pydantic_core.SchemaError for a pattern it does not read.
    """
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def finite(value: Number) -> bool:
    """Whether a float can hold the number; not so for nan, infinity and ints beyond every float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def storable(text: str) -> bool:
    """Whether every store keeps the text: PostgreSQL no NUL, no encoding half a surrogate pair."""
    return "\x00" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
