"""Whether a value fits a server's schema, and that no schema keeps us busy."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry

from bot.mcp.schema import (
    DEPTH_LIMIT,
    EACH,
    FAULTS_LIMIT,
    SCHEMA_LIMIT,
    VALUE_LIMIT,
    Unchecked,
    faults,
)

steady = settings(max_examples=300, derandomize=True)

SLOW = "^(a+)+$"  # `re` needs 2**n steps to see that it is not there
AS = "a" * 28  # half a minute for `re`, so that a test that fails does end
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def wrong(schema: dict[str, Any], value: Any) -> list[str]:
    return faults(schema, value, "arguments")


@contextmanager
def within_a_second() -> Iterator[None]:
    """Of this thread's own time: what else the machine does has no part in it."""
    start = time.thread_time()
    yield
    assert time.thread_time() - start < 1


# --- What fits


def test_what_fits_has_no_faults() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    assert wrong(schema, {"n": 1}) == []


def test_each_fault_has_its_place() -> None:
    schema = {
        "properties": {"a": {"items": {"type": "integer"}}},
        "required": ["b"],
        "additionalProperties": False,
    }

    assert wrong(schema, {"a": [1, "x"], "c": 2}) == [
        "a.1: 'x' is not of type 'integer'",
        "arguments: 'b' is a required property",
        "c: is not expected",
    ]


def test_a_fault_quotes_no_more_than_a_line() -> None:
    (fault,) = wrong({"properties": {"k" * 1000: {"type": "integer"}}}, {"k" * 1000: "x" * 1000})

    assert len(fault) <= 602


def test_a_long_text_is_told_shortly_however_often() -> None:
    value = {"a": {"k" * 10**6: "x" * 10**6}}
    tracemalloc.start()

    (fault,) = wrong({"properties": {"a": {"anyOf": [{"type": "string"}] * 500}}}, value)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert fault.startswith("a: {'kkk")
    assert peak < 20_000_000  # bytes; each of the 501 would quote two million


def test_the_first_faults_are_enough() -> None:
    assert len(wrong({"items": {"type": "string"}}, [1] * 1000)) == FAULTS_LIMIT


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("b", "abc", "ac"),  # anywhere
        ("^[a-z]+$", "abc", "abc\n"),
        (r"^\p{L}+$", "été", "1"),
        (
            "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
            "0f" * 4 + "-0f0f" * 3 + "-" + "0f" * 6,
            "0",
        ),
        (r"^\(?ext\)? [\[\]]$", "ext [", "ext"),
        (r"^\S+$", "a" * 400_000, "a" * 400_000 + " "),
    ],
)
def test_a_pattern_is_looked_for_in_texts_and_keys(pattern: str, fits: str, does_not: str) -> None:
    texts = {"properties": {"t": {"pattern": pattern}}}
    keys = {"patternProperties": {pattern: {"type": "integer"}}, "additionalProperties": False}
    unevaluated = {"patternProperties": {pattern: {}}, "unevaluatedProperties": False}

    assert wrong(texts, {"t": fits}) == wrong(texts, {"t": 3}) == wrong(keys, {fits: 3}) == []
    assert wrong(unevaluated, {fits: 3}) == []
    assert wrong(texts, {"t": does_not})
    assert wrong(keys, {fits: "x"})
    assert wrong(keys, {does_not: 3})
    assert wrong(unevaluated, {does_not: 3})


def test_a_list_of_draft_7_is_read() -> None:
    schema = {"$schema": DRAFT_7, "items": [{"type": "string"}, {"type": "integer"}]}

    assert wrong(schema, ["a", 1]) == []
    assert wrong(schema, ["a", "b"]) == ["1: 'b' is not of type 'integer'"]


def test_a_reference_into_the_schema_is_followed() -> None:
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"properties": {"next": {"$ref": "#node"}}, "$anchor": "node"}},
    }
    tree["$defs"]["node"]["required"] = ["name"]  # type: ignore[index]

    assert wrong(tree, {"name": "a", "next": {"name": "b"}}) == []
    assert wrong(tree, {"name": "a", "next": {}}) == ["next: 'name' is a required property"]


NAMES = st.sampled_from(["a", "b", "ab"])
SCHEMAS = st.recursive(
    st.sampled_from(
        [
            True,
            False,
            {"type": "integer"},
            {"type": ["string", "null"]},
            {"const": 1},
            {"pattern": "^a"},
            {"$ref": "#/$defs/one"},
        ]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "unevaluatedItems": inner,
            "uniqueItems": st.booleans(),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "$ref": st.just("#/$defs/one"),
        },
    ),
    max_leaves=8,
)
ONES = st.sampled_from([True, {"properties": {"a": {"const": 1}}}, {"prefixItems": [True]}])
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@steady
@given(SCHEMAS, ONES, VALUES)
def test_what_fits_is_what_jsonschema_says(schema: Any, one: Any, value: Any) -> None:
    whole = {"allOf": [schema], "$defs": {"one": one}}

    expected = Draft202012Validator(whole, registry=Registry()).is_valid(value)

    assert (not wrong(whole, value)) is expected


# --- What cannot be checked


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"pattern": 3}, "malformed"),
        ({"allOf": 3}, "malformed"),
        ({"type": "strng"}, "malformed"),
        ({"multipleOf": 0, "items": 3, "$ref": 3}, "malformed"),
        ({"$ref": "#"}, "round in a circle"),
        ({"$ref": "#/$defs/missing"}, "refers to something that is not in it"),
        ({"enum": ["x" * SCHEMA_LIMIT]}, "the schema is too large"),
        ({"x" * SCHEMA_LIMIT: 1}, "the schema is too large"),
    ],
)
def test_a_schema_of_no_use_is_said_in_words(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(Unchecked, match=why):
        wrong(schema, "text")


UNREADABLE = ["^(?!a)", r"(.)\1", "[[a]b]", "(?x)a # b", r"\w{9999}"]


@pytest.mark.parametrize("pattern", UNREADABLE)
def test_a_pattern_that_cannot_be_run_says_nothing_of_a_text_and_decides_no_key(
    pattern: str,
) -> None:
    assert not wrong({"pattern": pattern}, "text")
    with pytest.raises(Unchecked, match="cannot be read"):
        wrong({"patternProperties": {pattern: {"type": "integer"}}}, {"text": "x"})


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_value_is_checked_up_to_a_size_and_a_depth() -> None:
    assert wrong({}, nested(DEPTH_LIMIT - 1)) == []
    assert wrong({}, "x" * (VALUE_LIMIT - EACH)) == []
    assert wrong({}, [0] * (VALUE_LIMIT // EACH - 1)) == []
    with pytest.raises(Unchecked, match=f"has more than {DEPTH_LIMIT} levels"):
        wrong({}, nested(DEPTH_LIMIT))
    with pytest.raises(Unchecked, match="has more than"):
        wrong({}, nested(100_000))
    with pytest.raises(Unchecked, match="what is checked is too large"):
        wrong({}, "x" * VALUE_LIMIT)
    with pytest.raises(Unchecked, match="is too large"):
        wrong({}, [0] * (VALUE_LIMIT // EACH))


def test_a_schema_is_read_up_to_a_depth() -> None:
    with pytest.raises(Unchecked, match="the schema has more than"):
        wrong({"enum": nested(DEPTH_LIMIT)}, 1)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x", "file:///etc/passwd"])
def test_no_address_is_asked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("an address was asked")

    monkeypatch.setattr("urllib.request.urlopen", asked)

    with pytest.raises(Unchecked, match="refers to something that is not in it"):
        wrong({"$ref": address}, 1)


# --- What takes no time


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"x": {"pattern": SLOW}}}, {"x": AS + "!"}),
        ({"patternProperties": {SLOW: True, "!": False}}, {AS + "!": 1}),
        ({"patternProperties": {SLOW: True}, "additionalProperties": False}, {AS + "!": 1}),
        ({"patternProperties": {SLOW: True}, "unevaluatedProperties": False}, {AS + "!": 1}),
        ({"propertyNames": {"pattern": SLOW}}, {AS + "!": 1}),
    ],
)
def test_a_pattern_takes_no_time(schema: dict[str, Any], value: Any) -> None:
    with within_a_second():
        assert wrong(schema, value)


@pytest.mark.parametrize("dialect", [DRAFT_7, DRAFT_2020])
def test_no_other_dialect_brings_its_own_keywords(dialect: str) -> None:
    slow = {"$schema": dialect, "pattern": SLOW}
    there = {"$ref": "#/$defs/slow"}

    with within_a_second():
        for part in (slow, there, {"anyOf": [there]}):
            schema = {"$schema": dialect, "properties": {"x": part}, "$defs": {"slow": slow}}
            assert wrong(schema, {"x": AS + "!"})


def test_the_schema_of_schemas_brings_no_other_keywords() -> None:
    """What it says of parts, `$dynamicRef`, is a place that a schema can put itself at."""
    schema = {
        "$id": "urn:x",
        "$ref": DRAFT_2020,
        "$dynamicAnchor": "meta",
        "properties": {"const": {"pattern": SLOW}},
    }

    with within_a_second():
        assert wrong(schema, {"properties": {"a": {"const": AS + "!"}}})


def doubling(*keywords: str) -> dict[str, Any]:
    """Each level leads to the next one twice."""

    def level(number: int) -> dict[str, Any]:
        there = {"$ref": f"#/$defs/{number + 1}"}
        if keywords == ("$ref", "$dynamicRef"):
            return dict.fromkeys(keywords, there["$ref"])
        return {one: [there, there] for one in keywords}

    levels = {str(number): level(number) for number in range(60)}
    return {"$ref": "#/$defs/0", "$defs": levels | {"60": {}}, "unevaluatedProperties": False}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubling("allOf"), {}),
        (doubling("oneOf"), {}),
        (doubling("$ref", "$dynamicRef"), {"a": 1}),
        ({"anyOf": [{"maxItems": 0}] * 5000}, [[1]] * 100_000),
        ({"pattern": "(?:(?:a?){300}){300}b$"}, "a" * 1000),
        ({"pattern": "(?:(?:a?){300}[)]){300}b$"}, "a" * 1000),
        ({"items": {"pattern": "(?:a?){5000}b$"}}, ["a" * 500] * 900),
    ],
)
def test_what_would_take_too_long_is_left(schema: dict[str, Any], value: Any) -> None:
    with within_a_second(), pytest.raises(Unchecked, match=r"takes too long|is too long for"):
        wrong(schema, value)


def test_a_long_list_is_compared_in_no_time() -> None:
    first = {"allOf": [{"prefixItems": [True] * 300}] * 50, "unevaluatedItems": False}

    with within_a_second():
        assert wrong(first, [0] * 200_000)[0] == "300: is not expected"
        assert wrong({"uniqueItems": True}, [{"a": n} for n in range(20_000)]) == []
        assert wrong({"uniqueItems": True}, [{"a": 1}, {"a": 2}, {"a": 1}])
