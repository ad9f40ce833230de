"""Places and conditions of standing rules as they are typed."""

from __future__ import annotations

import pytest

from bot.rule_text import condition, place
from bot.rules import BadRule
from storage.rules import Scope


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("slack", Scope.SURFACE),
        ("slack:T0123", Scope.ORGANISATION),
        ("slack:E0123/C0456", Scope.CHANNEL),
        ("slack:T0123/G0456", Scope.CHANNEL),
        ("console:local", Scope.ORGANISATION),
        ("teams:contoso/19", Scope.CHANNEL),
    ],
)
def test_a_place_is_its_scope(text: str, scope: Scope) -> None:
    assert place(text) == (scope, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Slack",
        "SLACK:T0123",
        "slack:t0123",
        "slack:",
        "slack:T0123/",
        "slack:T0123/general",
        "slack:T0123/#C0456",
        "slack:T0123/C0456/1.2",
        "slack:T0123:C0456",
        "slack:T0123/C0456\n",
        "console:a/b/c",
    ],
)
def test_what_no_place_can_be_called_is_refused_so_that_no_rule_denies_nothing(text: str) -> None:
    with pytest.raises(BadRule, match="is no place"):
        place(text)


@pytest.mark.parametrize("text", ["a>=NaN", "a<=Infinity", "a=NaN", "a=-Infinity", "a in 1,1e999"])
def test_what_no_argument_can_be_is_no_value_of_a_condition(text: str) -> None:
    with pytest.raises(BadRule, match="is no value of an argument"):
        condition(text)
