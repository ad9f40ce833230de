"""What a person changed in the arguments of a call, told in short and without secrets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.difference import Change, changes_of, difference, listed, sentence
from bot.reply import ONE_MESSAGE
from storage.database import canonical
from tests.hostile import TEXTS, faults

KEY = "ghp_" + "a1B2" * 10
OTHER = "ghp_" + "c3D4" * 10


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"amount": 100}, {"amount": 50}, "amount: 100 → 50"),
        ({"env": "staging"}, {"env": "prod"}, 'env: "staging" → "prod"'),
        ({"a": 1, "b": 2}, {"a": 1}, "b: 2 → (nothing)"),
        ({}, {"note": None}, "note: (nothing) → null"),
        ({"a": 1}, {"a": 1.0}, "a: 1 → 1.0"),
        ({"a": True}, {"a": 1}, "a: true → 1"),
        ({"x": {"y": {"z": 1, "w": 2}}}, {"x": {"y": {"z": 3, "w": 2}}}, "x.y.z: 1 → 3"),
        ({"x": {"a.b": 1}}, {"x": {"a.b": 2}}, 'x: {"a.b":1} → {"a.b":2}'),
        ({"x": [1, 2]}, {"x": [2]}, "x: [1,2] → [2]"),
        ({"x": {}}, {"x": {"a": 1}}, 'x: {} → {"a":1}'),
        ({"a": 1, "b": "x"}, {"b": "y", "a": 2}, 'a: 1 → 2; b: "x" → "y"'),
        ({"a": 1}, {"a": 1}, ""),
    ],
)
def test_each_changed_value_is_told_with_what_it_was(before: Any, after: Any, told: str) -> None:
    assert sentence(difference(before, after)) == told


@pytest.mark.row("B59")
def test_secrets_are_masked_and_still_told_apart() -> None:
    (change,) = difference({"key": KEY}, {"key": OTHER})
    assert KEY not in str(change)
    assert OTHER not in str(change)
    assert change.before != change.after
    (named,) = difference({}, {KEY: {"pem": "-----BEGIN RSA PRIVATE KEY-----\nabcdefgh\n"}})
    assert KEY not in str(named)
    assert "abcdefgh" not in str(named)


@pytest.mark.parametrize("at", [0, 300, 4_999])
def test_long_values_are_told_where_they_differ(at: int) -> None:
    before = "a" * 5_000
    after = f"{before[:at]}b{before[at + 1 :]}"
    (change,) = difference({"text": before}, {"text": after})
    assert change.before is not None
    assert change.after is not None
    assert "b" in change.after
    assert "b" not in change.before
    assert max(len(change.before), len(change.after)) <= 122


def test_many_changes_are_cut_and_say_so() -> None:
    before, after = {f"a{n}": 0 for n in range(80)}, {f"a{n}": 1 for n in range(80)}
    changes = difference(before, after)
    assert len(changes) == 80
    assert sentence(changes).endswith("; a9: 0 → 1; and 70 more")
    assert listed(changes).endswith("`1`\n- and 70 more")


@pytest.mark.row("B57")
@pytest.mark.parametrize("text", TEXTS)
def test_the_lines_of_a_difference_are_inert(text: str) -> None:
    told = listed(difference({text: text}, {text: f"{text}!", "other": text}))
    assert faults([{"type": "plain_text", "text": told}]) == []
    assert told.count("\n") == 1
    assert told.count("`") % 2 == 0


def test_a_change_of_white_space_alone_is_seen() -> None:
    (change,) = difference({"text": "a  b"}, {"text": "a b"})
    assert change.line() == '`text`: `"a  b"` → `"a b"`'


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc."), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGS = st.dictionaries(st.sampled_from(["a", "b", "a.b"]), VALUES)


@given(ARGS, ARGS)
def test_there_is_a_difference_exactly_where_the_arguments_differ(before: Any, after: Any) -> None:
    changes = difference(before, after)
    assert bool(changes) is (canonical(before) != canonical(after))
    assert all(isinstance(one, Change) and one.before != one.after for one in changes)
    assert changes_of([one.to_json() for one in changes]) == changes


@pytest.mark.row("B57")
def test_long_changes_leave_out_whole_lines_so_that_no_message_is_cut_inside_of_code() -> None:
    text = "[Approve](https://evil.example/x) " * 8
    before = {f"argument_{n}": text for n in range(12)}
    told = listed(difference(before, {name: text.replace("x", "y") for name in before}))
    assert len(told) < ONE_MESSAGE - 300
    assert all(line.count("`") % 2 == 0 for line in told.splitlines())
    assert told.splitlines()[-1].startswith("- and ")
