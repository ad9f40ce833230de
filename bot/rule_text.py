"""The parts of a standing rule as a person types them: conditions (`amount>=100`, `env=prod`,
`host in a,b`, `path under /etc`) and places."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from bot.rules import BadRule, Comparison, Condition
from storage.database import canonical
from storage.rules import Scope

_CONDITION: Final = re.compile(r"\s*([\w.-]+)\s*(>=|<=|=|\bin\b|\bunder\b)\s*(.+?)\s*", re.DOTALL)


def condition(text: str) -> Condition:
    """`amount>=100` and the like. A value is JSON where it is that (`"5"` is a text), else the text
    itself. Raises BadRule."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise BadRule(f"{text[:80]!r} is no condition: write one like amount>=100.")
    name, sign, value = found.groups()
    match sign:
        case "=":
            return Condition(name, Comparison.EQUAL, _value(value))
        case ">=":
            return Condition(name, Comparison.RANGE, [_value(value), None])
        case "<=":
            return Condition(name, Comparison.RANGE, [None, _value(value)])
        case "in":
            return Condition(name, Comparison.ONE_OF, [_value(one) for one in value.split(",")])
        case _:
            return Condition(name, Comparison.UNDER, value)


def _value(text: str) -> Any:
    """Raises BadRule."""
    try:
        value = json.loads(text)
    except ValueError:
        return text.strip()
    try:
        canonical(value)
    except ValueError:  # NaN and the like, which nothing equals: a rule that denies denied nothing
        raise BadRule(f"{text.strip()[:80]!r} is no value of an argument; correct it.") from None
    return value


_PLACE: Final = re.compile(
    r"slack(:[TE][A-Z0-9]+(/[CGD][A-Z0-9]+)?)?|(?!slack)[a-z]+(:[^\s:/]+(/[^\s:/]+)?)?"
)


def place(text: str) -> tuple[Scope, str]:
    """Where a rule holds, as `slack`, `slack:T0123` or `slack:T0123/C0456`. Raises BadRule: also
    for what no place can be called, where a rule that denies would be none."""
    if not _PLACE.fullmatch(text):
        raise BadRule(f"{text[:80]!r} is no place: write one like slack:T0123/C0456.")
    _, _, rest = text.partition(":")
    organisation, _, channel = rest.partition("/")
    if channel:
        return Scope.CHANNEL, text
    return (Scope.ORGANISATION if organisation else Scope.SURFACE), text
