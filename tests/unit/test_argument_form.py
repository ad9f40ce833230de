"""The arguments of a call as a form: what it shows, what it leaves out, and what comes back."""

from __future__ import annotations

import enum
import json
import string
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.argument_form import (
    FIELDS_LIMIT,
    FORM_LIMIT,
    VALUE_LIMIT,
    Editable,
    FormAnswer,
    arguments_of,
    form_of,
)
from bot.field import AnswerError, FieldType, Format
from bot.tool import tool
from storage.database import canonical
from tests.hostile import TEXTS


def schema(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def one(told: Any, value: Any, **defs: Any) -> Editable:
    """The only field of a form with one argument."""
    (found,) = form_of({**schema(a=told), "$defs": defs}, {"a": value})
    return found


def sent(form: tuple[Editable, ...], **entered: Any) -> FormAnswer:
    """What a surface sends when a person enters these and leaves the rest as it is; None empties
    an input."""
    values: dict[str, Any] = {}
    for each in form:
        default = each.field.default
        values[each.field.name] = list(default) if isinstance(default, tuple) else default
    return FormAnswer(values | entered)


def entered(told: Any, value: Any, new: Any, *, required: bool = False) -> dict[str, Any]:
    """The arguments after a person entered `new` for the only one."""
    args = {} if value is None else {"a": value}
    form = form_of(schema(("a",) if required else (), a=told), args)
    return arguments_of(form, args, sent(form, a=new))


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@tool
async def paint(
    wall: str,
    colour: Colour,
    coats: Annotated[int, pydantic.Field(ge=1, le=5)] = 2,
    note: str | None = None,
    finish: Literal["matt", "gloss"] = "matt",
    dry: bool = True,
    litres: float = 0.5,
    extras: list[Literal["primer", "tape"]] | None = None,
    rooms: list[dict[str, Any]] | None = None,
    when: int | str = 0,
) -> str:
    """Paints a wall."""
    return "done"


def test_the_arguments_of_a_python_tool_get_the_inputs_that_fit_them() -> None:
    args = paint.validate({"wall": "north", "colour": "red", "rooms": [{"n": 1}]})

    form = {each.field.name: each for each in form_of(paint.parameters, args)}

    assert list(form) == list(args)
    types = {name: each.field.type for name, each in form.items() if not each.as_json}
    assert types == {
        "wall": FieldType.TEXT,
        "colour": FieldType.CHOICE,
        "coats": FieldType.INTEGER,
        "note": FieldType.TEXT,
        "finish": FieldType.CHOICE,
        "dry": FieldType.BOOLEAN,
        "litres": FieldType.NUMBER,
        "extras": FieldType.CHOICES,
    }
    assert [choice.value for choice in form["colour"].field.choices] == ["red", "blue"]
    assert (form["coats"].field.minimum, form["coats"].field.maximum) == (1, 5)
    assert {name for name, each in form.items() if each.field.required} == {"wall", "colour"}
    assert (form["rooms"].as_json, form["when"].as_json) == (True, True)
    assert json.loads(str(form["rooms"].field.default)) == [{"n": 1}]
    assert "Written as JSON." in form["rooms"].field.description
    assert form["coats"].field.description == "Its default is 2."
    assert form["note"].field.default is None


def test_a_field_is_named_as_the_card_names_it_whatever_its_title_says() -> None:
    found = one({"type": "string", "title": "Dry run", "description": "Where"}, "production")
    assert (found.field.label, found.field.description) == ("a", "Where")


@pytest.mark.parametrize(
    ("told", "value", "type_"),
    [
        ({"type": "string", "format": "email"}, "a@b.test", FieldType.TEXT),
        ({"type": ["null", "integer"]}, 3, FieldType.INTEGER),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, True, FieldType.BOOLEAN),
        ({"allOf": [{"$ref": "#/$defs/x~1y"}], "default": "b"}, "a", FieldType.CHOICE),
        ({"enum": ["a", None]}, "a", FieldType.CHOICE),
        ({"const": "a"}, "a", FieldType.CHOICE),
        ({"type": "array", "items": {"enum": [1, 2]}}, [2], FieldType.CHOICES),
    ],
)
def test_references_and_null_are_seen_through(told: Any, value: Any, type_: FieldType) -> None:
    found = one(told, value, **{"x/y": {"enum": ["a", "b"]}})
    assert (found.field.type, found.as_json) == (type_, False)


@pytest.mark.parametrize(
    ("told", "value"),
    [
        ({"type": "object"}, {"b": 1}),
        ({"type": "array", "items": {"type": "string"}}, ["x"]),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "5"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}, 5),
        ({}, "5"),
        (True, "5"),
        ({"$ref": "#/$defs/loop"}, "5"),
        ({"$ref": "https://evil.test/schema"}, "5"),
        ({"$ref": "#/nowhere"}, "5"),
        ({"type": "integer"}, 2**70),
        ({"type": "number"}, 1e300),
        ({"type": "number"}, 0.1234567890123456789e-5),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "a"]),
        ({"type": "string"}, "de\u200blete"),
        ({"type": "string"}, "a\r\nb"),
        ({"type": "string", "enum": ["  ", "a"]}, "a"),
    ],
)
def test_what_no_plain_input_shows_whole_is_json(told: Any, value: Any) -> None:
    found = one(told, value, loop={"$ref": "#/$defs/loop"})
    assert found.as_json
    assert json.loads(str(found.field.default)) == value


@pytest.mark.row("B56")
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("nested", [False, True])
def test_no_input_holds_a_character_that_cannot_be_seen(text: str, nested: bool) -> None:
    value: Any = {text: [text]} if nested else text
    kind = {"type": "object" if nested else "string"}
    for each in form_of(schema(a=kind), {"a": value}):
        shown = str(each.field.default or "")
        assert not [c for c in shown if c not in "\n\t" and not c.isprintable()]
        if each.as_json:
            assert json.loads(shown) == value


def test_a_text_whose_schema_no_form_reads_is_still_a_text() -> None:
    assert not one({"type": "string", "pattern": "(?=x)x"}, "x").as_json
    assert not one({"type": "string", "format": "date"}, "tomorrow").as_json
    assert one({"type": "string", "format": "date"}, "2026-02-03").field.format is Format.DATE


def test_what_is_too_long_for_an_input_is_left_out_and_stays() -> None:
    told = schema(long={"type": "string"}, wide={"type": "string"}, short={"type": "string"})
    args = {"long": "x" * (VALUE_LIMIT + 1), "wide": "😀" * (VALUE_LIMIT // 2 + 1), "short": "x"}

    form = form_of(told, args)

    assert [each.field.name for each in form] == ["short"]
    assert arguments_of(form, args, sent(form, short="y")) == {**args, "short": "y"}
    assert form_of(schema(long={"type": "string"}), {"long": "x" * VALUE_LIMIT}) != ()


def test_a_form_has_no_more_than_a_surface_can_show() -> None:
    names = [f"a{n}" for n in range(FIELDS_LIMIT + 10)]
    told = schema((), **{name: {"type": "string"} for name in names})
    assert len(form_of(told, dict.fromkeys(names, "x"))) == FIELDS_LIMIT
    full = form_of(told, dict.fromkeys(names, "x" * VALUE_LIMIT))
    assert len(full) == FORM_LIMIT // VALUE_LIMIT


def test_what_the_schema_does_not_name_is_no_field_and_stays() -> None:
    form = form_of(schema(a={"type": "string"}), {"a": "x", "fixed": "prod"})
    assert [each.field.name for each in form] == ["a"]
    answer = FormAnswer({"a": "y", "fixed": "dev", "server": "other"})
    assert arguments_of(form, {"a": "x", "fixed": "prod"}, answer) == {"a": "y", "fixed": "prod"}


@pytest.mark.parametrize("parameters", [{}, {"properties": []}, {"properties": {}}])
def test_a_schema_that_names_nothing_gives_no_form(parameters: Mapping[str, Any]) -> None:
    assert form_of(parameters, {"a": 1}) == ()


# What comes back


@pytest.mark.parametrize(
    ("told", "value", "new", "becomes"),
    [
        ({"type": "integer"}, 100, "50", 50),
        ({"type": "number"}, 1.5, "2", 2),
        ({"type": "number"}, 2.0, "2", 2.0),  # it showed that
        ({"type": "integer"}, 2.0, "2", 2.0),
        ({"type": "boolean"}, True, False, False),
        ({"enum": ["a", "b"]}, "a", "b", "b"),
        ({"type": "string"}, "  north\n", "south", "  south\n"),
        ({"type": "string"}, "", "south", "south"),
        ({"type": "object"}, {"b": 1}, '{"b": 2, "c": [null]}', {"b": 2, "c": [None]}),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}}, ["c", "a"], ["a", "b", "c"], None),
        ({}, "5", "5", 5),
        ({"type": "string"}, "a\u200bb", '"ab"', "ab"),
    ],
)
def test_what_is_entered_is_what_runs(told: Any, value: Any, new: Any, becomes: Any) -> None:
    becomes = ["c", "a", "b"] if becomes is None else becomes  # kept ones stay in their order
    found = entered(told, value, new)
    assert canonical(found) == canonical({"a": becomes})


@pytest.mark.parametrize(
    ("told", "value", "required", "becomes"),
    [
        ({"type": "string"}, "x", False, {}),
        ({"type": "string", "default": "d"}, "x", False, {}),  # the tool fills its default in
        ({"type": ["string", "null"], "default": "d"}, "x", False, {"a": None}),
        ({"type": ["string", "null"]}, "x", True, {"a": None}),
        ({"type": "object"}, {"b": 1}, False, {}),
        ({"type": "array", "items": {"enum": ["a"]}}, ["a"], False, {"a": []}),
        ({"type": "string"}, "", True, {"a": ""}),  # it was empty
        ({"type": "string"}, " ", False, {"a": " "}),
    ],
)
def test_what_is_left_empty_is_gone_or_null(
    told: Any, value: Any, required: bool, becomes: dict[str, Any]
) -> None:
    for empty in (None, "", "  "):
        assert entered(told, value, empty, required=required) == becomes


@pytest.mark.parametrize(
    ("told", "new", "words"),
    [
        ({"type": "string"}, None, "a needs an answer."),
        ({"type": "string"}, "de\u200blete", "a has characters that cannot be seen"),
        ({"type": "object"}, '{"b": "\u202e"}', "a has characters that cannot be seen"),
        ({"type": "string", "maxLength": 2}, "xyz", "a must be at most 2"),
        ({"type": "object"}, "{b: 1}", r"a is not JSON: .* \(line 1\)"),
        ({"type": "object"}, '{"b": 1, "b": 2}', "the same name twice"),
        ({"type": "object"}, '{"b": NaN}', "NaN is no number"),
        ({"type": "object"}, '{"b": 1e999}', "a is not JSON"),
        ({"type": "object"}, "[" * 2_900, "nested too deeply"),
    ],
)
def test_what_does_not_fit_is_told_at_its_input(told: Any, new: Any, words: str) -> None:
    value = {"b": 1} if told["type"] == "object" else "x"
    with pytest.raises(AnswerError, match=words) as error:
        entered(told, value, new, required=True)
    assert list(error.value.errors) == ["a"]


def test_every_mistake_is_told_at_once_and_nothing_is_changed() -> None:
    told = schema(("a",), a={"type": "integer"}, b={"type": "object"})
    args = {"a": 1, "b": {}}
    form = form_of(told, args)
    with pytest.raises(AnswerError) as error:
        arguments_of(form, args, sent(form, a="much", b="{"))
    assert set(error.value.errors) == {"a", "b"}
    assert args == {"a": 1, "b": {}}


# Properties

NAMES = st.text(string.ascii_letters + "_.", min_size=1, max_size=8)
TEXT = st.one_of(
    st.text(max_size=30),
    st.text(" \t\n\u00a0\u200bab", max_size=10),
    st.sampled_from([text for text in TEXTS if text]),
)
NUMBERS = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-5, 5).map(float)
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
CHOICES = st.lists(st.one_of(NAMES, st.integers(-9, 9)), min_size=1, max_size=5, unique=True)


@st.composite
def arguments(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    """A schema of one argument and a value that it may have."""
    kind = draw(st.sampled_from(["string", "integer", "number", "boolean", "enum", "list", "any"]))
    options = draw(CHOICES)
    named: dict[str, Any] = {
        "enum": {"enum": options},
        "list": {"type": "array", "items": {"enum": options}},
        "any": draw(st.sampled_from([{}, {"type": "object"}, {"type": ["string", "object"]}])),
    }
    told: dict[str, Any] = named.get(kind, {"type": kind})
    value = {
        "string": TEXT,
        "integer": st.one_of(st.integers(), st.integers(-5, 5).map(float)),
        "number": NUMBERS,
        "boolean": st.booleans(),
        "enum": st.sampled_from(options),
        "list": st.lists(st.sampled_from(options), max_size=4),
        "any": JSON,
    }[kind]
    wrapped = draw(st.sampled_from(["as it is", "nullable", "reference", "default", "bounded"]))
    match wrapped:
        case "nullable":
            told = {"anyOf": [told, {"type": "null"}], "default": None}
        case "reference":
            told = {"$ref": "#/$defs/T", "description": "More"}
        case "default":
            told = {**told, "default": draw(JSON)}
        case "bounded" if kind == "string":
            told = {**told, "minLength": draw(st.integers(0, 9)), "pattern": "a"}
    return told, draw(value)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, arguments(), min_size=1, max_size=5), st.data())
def test_a_form_that_is_sent_as_it_is_gives_the_very_same_arguments(
    drawn: dict[str, tuple[dict[str, Any], Any]], data: st.DataObject
) -> None:
    given = {name: data.draw(st.booleans()) for name in drawn}
    args = {name: value for name, (_, value) in drawn.items() if given[name]}
    required = tuple(name for name in args if data.draw(st.booleans()))
    told = {name: each for name, (each, _) in drawn.items()}
    defs = {"T": next((each for each in told.values() if "$ref" not in each), {})}

    form = form_of({**schema(required, **told), "$defs": defs}, args)
    as_typed = {  # what an input of text gives back for whatever it shows
        each.field.name: f" {default}\n" if isinstance(default, str) else default
        for each in form
        if (default := each.field.default) is not None and not isinstance(default, tuple)
    }

    for answer in (sent(form), FormAnswer({**sent(form).values, **as_typed})):
        assert canonical(arguments_of(form, args, answer)) == canonical(args)
