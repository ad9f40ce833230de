"""What a standing rule says of a call, on typed argument values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.rules import (
    BadRule,
    Comparison,
    Condition,
    Effect,
    conditions_of,
    covers,
    same,
    strongest,
    told,
)
from storage.rules import RuleRow

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def rule(effect: Effect = Effect.ALLOW, *conditions: Condition, **given: Any) -> RuleRow:
    base: dict[str, Any] = {
        "id": "rule_1",
        "effect": effect.value,
        "scope": "chat",
        "scope_key": "chat_1",
        "server": "",
        "tool": "run",
        "schema_digest": "d",
        "conditions": [one.to_json() for one in conditions],
        "created_by": "slack:T1/U_BEN",
        "created_name": "Ben",
        "created_at": 1.0,
    }
    return RuleRow(**(base | given))


def speaks(one: RuleRow, **args: Any) -> bool:
    return covers(one, server="", tool="run", args=args)


def test_a_rule_without_conditions_speaks_of_every_call_of_its_tool() -> None:
    assert speaks(rule(), anything=1)
    assert not covers(rule(), server="", tool="other", args={})
    assert not covers(rule(), server="srv", tool="run", args={})


@pytest.mark.row("B62")
@given(st.dictionaries(st.text(), JSON, max_size=3), st.dictionaries(st.text(), JSON, max_size=3))
def test_an_exact_rule_speaks_of_these_arguments_and_no_others(
    args: dict[str, Any], other: dict[str, Any]
) -> None:
    exact = rule(Effect.ALLOW, Condition("", Comparison.EXACT, args))
    stored = rule(conditions=json.loads(json.dumps(exact.conditions)))
    assert covers(stored, server="", tool="run", args=args)
    assert covers(stored, server="", tool="run", args=other) is same(args, other)


def test_one_changed_byte_or_one_more_argument_is_another_call() -> None:
    exact = rule(Effect.ALLOW, Condition("", Comparison.EXACT, {"command": "make clean"}))
    assert speaks(exact, command="make clean")
    assert not speaks(exact, command="make clean ")
    assert not speaks(exact, command="make clean", force=True)
    assert not speaks(exact)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (1, "1", False),
        (None, False, False),
        ([1], [1.0], True),
        ([True], [1], False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ("é", "e\u0301", False),
    ],
)
def test_values_are_compared_as_json(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) is equal
    assert speaks(rule(Effect.ALLOW, Condition("a", Comparison.EQUAL, one)), a=other) is equal
    assert (
        speaks(rule(Effect.ALLOW, Condition("a", Comparison.ONE_OF, ["x", one])), a=other) is equal
    )


@pytest.mark.parametrize("value", [0, 99.5, 100])
def test_a_range_includes_its_bounds(value: float) -> None:
    assert speaks(rule(Effect.ALLOW, Condition("n", Comparison.RANGE, [0, 100])), n=value)


@pytest.mark.parametrize("value", [-1, 101, "50", True, None, [50], float("nan")])
def test_what_is_no_number_in_a_range_is_not_allowed_by_it(value: Any) -> None:
    assert not speaks(rule(Effect.ALLOW, Condition("n", Comparison.RANGE, [0, 100])), n=value)


@pytest.mark.parametrize("bounds", [[None, 5], [5, None]])
def test_a_range_may_have_one_bound(bounds: list[Any]) -> None:
    assert speaks(rule(Effect.ALLOW, Condition("n", Comparison.RANGE, bounds)), n=5)
    assert not speaks(
        rule(Effect.ALLOW, Condition("n", Comparison.RANGE, bounds)), n=4 + 2 * bool(bounds[1])
    )


@pytest.mark.row("B64")
@pytest.mark.parametrize("path", ["/srv/app", "/srv/app/", "/srv/app/x", "/srv/app/x/y.txt"])
def test_a_path_below_is_allowed(path: str) -> None:
    assert speaks(rule(Effect.ALLOW, Condition("path", Comparison.UNDER, "/srv/app")), path=path)


@pytest.mark.row("B64")
@pytest.mark.parametrize(
    "path",
    [
        "/srv/application",
        "/srv/app/../etc/passwd",
        "/srv/app/./x",
        "/srv/app//x",
        "/srv",
        "srv/app/x",
        "/srv/app/%2e%2e/etc",
        "/srv/app/\\..\\x",
        "/srv/app/$HOME",
        "/srv/app/\u202ex",
        "",
        5,
        None,
    ],
)
def test_a_path_elsewhere_or_an_odd_one_is_not_allowed(path: Any) -> None:
    assert not speaks(
        rule(Effect.ALLOW, Condition("path", Comparison.UNDER, "/srv/app")), path=path
    )


@pytest.mark.parametrize("path", ["/srv/../etc/passwd", "/etc//passwd", "/%65tc/passwd", 5])
@pytest.mark.parametrize("effect", [Effect.DENY, Effect.ASK])
def test_an_odd_path_does_not_slip_by_a_rule_that_denies_or_asks(path: Any, effect: Effect) -> None:
    assert speaks(rule(effect, Condition("path", Comparison.UNDER, "/etc")), path=path)


def test_an_argument_inside_an_object_is_named_with_dots() -> None:
    inner = rule(Effect.ALLOW, Condition("target.host", Comparison.EQUAL, "db-1"))
    assert speaks(inner, target={"host": "db-1"})
    assert not speaks(inner, target={"host": "db-2"})
    assert not speaks(inner, target="db-1")
    assert speaks(inner, **{"target.host": "db-1"})


def test_all_conditions_must_hold() -> None:
    both = rule(
        Effect.ALLOW, Condition("a", Comparison.EQUAL, 1), Condition("b", Comparison.ONE_OF, [1, 2])
    )
    assert speaks(both, a=1, b=2)
    assert not speaks(both, a=1, b=3)
    assert not speaks(both, a=1)


@pytest.mark.parametrize("effect", list(Effect))
@pytest.mark.parametrize("broken", [None, 5, [{}], [{"argument": "a", "test": "like", "value": 1}]])
def test_a_rule_that_cannot_be_read_allows_nothing(effect: Effect, broken: Any) -> None:
    assert speaks(rule(effect, conditions=broken)) is (effect is not Effect.ALLOW)


@pytest.mark.row("B60")
@given(st.lists(st.sampled_from(Effect)))
def test_deny_beats_ask_beats_allow(effects: list[Effect]) -> None:
    found = strongest([rule(effect) for effect in effects])
    expected = next(
        (one for one in (Effect.DENY, Effect.ASK, Effect.ALLOW) if one in effects), None
    )
    assert (None if found is None else found.effect) == expected


@pytest.mark.parametrize(
    ("argument", "test", "value"),
    [
        ("", Comparison.EQUAL, 1),
        ("a", Comparison.EXACT, {}),
        ("", Comparison.EXACT, []),
        ("a", Comparison.ONE_OF, []),
        ("a", Comparison.ONE_OF, "abc"),
        ("a", Comparison.RANGE, [None, None]),
        ("a", Comparison.RANGE, [2, 1]),
        ("a", Comparison.RANGE, [True, 2]),
        ("a", Comparison.RANGE, ["1", "2"]),
        ("a", Comparison.UNDER, "/srv/../etc"),
        ("a", Comparison.UNDER, ""),
        ("a", Comparison.UNDER, 5),
    ],
)
def test_a_condition_that_says_nothing_is_refused(
    argument: str, test: Comparison, value: Any
) -> None:
    with pytest.raises(BadRule):
        Condition(argument, test, value)


@given(
    st.lists(st.builds(Condition, st.text(min_size=1), st.just(Comparison.EQUAL), JSON), max_size=3)
)
def test_conditions_come_back_from_their_row(conditions: list[Condition]) -> None:
    stored = json.loads(json.dumps([one.to_json() for one in conditions]))
    assert [one.to_json() for one in conditions_of(stored)] == stored


def test_a_rule_says_in_words_when_it_speaks() -> None:
    assert told([Condition("n", Comparison.RANGE, [None, 100])]) == "n is at most 100"
    words = told(
        [Condition("a", Comparison.ONE_OF, ["x", 1]), Condition("p", Comparison.UNDER, "/srv")]
    )
    assert words == "a is one of “x”, 1 and p is /srv or below it"


def test_no_text_in_a_condition_closes_its_quotes() -> None:
    value = "x”, in this thread, for 1 hour, once at most. “"
    words = Condition("note", Comparison.EQUAL, value).sentence()
    assert words.count("“") == words.count("”") == 1
    assert words.endswith("”")
