"""Forms as JSON Schema, in the shapes MCP servers send."""

from typing import Any

import pytest

from bot.field import Choice, Field, FieldType, Format, coerce
from bot.form_schema import SchemaError, fields_from_schema, schema_from_fields


def read(described: object, *, required: bool = False) -> Field:
    names = ["f"] if required else []
    (field,) = fields_from_schema(
        {"type": "object", "properties": {"f": described}, "required": names}
    )
    return field


def optional(type: FieldType, **options: Any) -> Field:
    return Field("f", type, required=False, **options)


RED_GREEN = (Choice("#f00", "Red"), Choice("#0f0", "Green"))


@pytest.mark.parametrize(
    ("described", "field"),
    [
        (
            {"type": "string", "title": "T", "description": "D", "minLength": 1, "maxLength": 3.0},
            optional(FieldType.TEXT, title="T", description="D", min_length=1, max_length=3),
        ),
        (
            {"type": "string", "format": "email", "default": "a@example.com"},
            optional(FieldType.TEXT, format=Format.EMAIL, default="a@example.com"),
        ),
        ({"type": "string", "pattern": "^a"}, optional(FieldType.TEXT, pattern="^a")),
        (
            {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
            optional(FieldType.INTEGER, minimum=1, maximum=9, default=2),
        ),
        ({"type": "number", "minimum": 0.5}, optional(FieldType.NUMBER, minimum=0.5)),
        ({"type": "boolean", "default": False}, optional(FieldType.BOOLEAN, default=False)),
        (
            {"type": "string", "enum": ["a", "b"], "default": "b"},
            optional(FieldType.CHOICE, choices=["a", "b"], default="b"),
        ),
        ({"enum": [1, True, "x"]}, optional(FieldType.CHOICE, choices=[1, True, "x"])),
        (
            {"type": "string", "enum": ["#f00", "#0f0"], "enumNames": ["Red", "Green"]},
            optional(FieldType.CHOICE, choices=RED_GREEN),
        ),
        (
            {
                "type": "string",
                "oneOf": [
                    {"const": "#f00", "title": "Red"},
                    {"const": "#0f0", "title": "Green", "description": "as grass"},
                ],
            },
            optional(
                FieldType.CHOICE,
                choices=[Choice("#f00", "Red"), Choice("#0f0", "Green", "as grass")],
            ),
        ),
        (
            {
                "type": "array",
                "items": {"type": "string", "enum": ["a", "b", "c"]},
                "minItems": 1,
                "maxItems": 2,
                "default": ["b"],
            },
            optional(
                FieldType.CHOICES, choices=["a", "b", "c"], min_items=1, max_items=2, default=["b"]
            ),
        ),
        (
            {
                "type": "array",
                "items": {
                    "anyOf": [
                        {"const": "#f00", "title": "Red"},
                        {"const": "#0f0", "title": "Green"},
                    ]
                },
            },
            optional(FieldType.CHOICES, choices=RED_GREEN),
        ),
    ],
)
def test_every_shape_of_an_mcp_form_is_read(described: dict[str, Any], field: Field) -> None:
    assert read(described) == field


def test_required_is_what_the_schema_requires() -> None:
    assert read({"type": "string"}, required=True).required
    assert not read({"type": "string"}).required


@pytest.mark.parametrize(
    "described",
    [
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "title": "T"},
        {"type": ["integer", "null"], "minimum": 1, "title": "T", "default": None},
    ],
)
def test_a_type_joined_with_null_is_the_type(described: dict[str, Any]) -> None:
    assert read(described) == optional(FieldType.INTEGER, minimum=1, title="T")


def test_unknown_keywords_and_formats_say_nothing() -> None:
    described = {"type": "string", "format": "uuid", "$comment": "x", "minimum": 3}
    assert read(described) == optional(FieldType.TEXT)


def test_a_form_without_fields_is_read() -> None:
    assert fields_from_schema({"type": "object", "properties": {}}) == ()


@pytest.mark.parametrize(
    "described",
    [
        "string",
        {},
        {"type": "object", "properties": {"x": {"type": "string"}}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array"},
        {"$ref": "#/$defs/x"},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": ["string", "integer"]},
        {"type": "null"},
        {"enum": []},
        {"enum": [None, "a"]},
        {"enum": [["a"]]},
        {"enum": ["", "a"]},
        {"enum": ["a", "a"]},
        {"enum": ["a"], "enumNames": [1]},
        {"oneOf": [{"title": "no const"}]},
        {"oneOf": ["a"]},
        {"type": "string", "title": 3},
        {"type": "string", "minLength": "3"},
        {"type": "string", "minLength": 1.5},
        {"type": "string", "pattern": "("},
        {"type": "string", "pattern": ["a"]},
        {"type": "integer", "minimum": True},
        {"type": "integer", "minimum": 3, "maximum": 1},
        {"type": "integer", "default": "x"},
        {"type": "string", "default": {"a": 1}},
        {"type": "string", "enum": ["a"], "default": "b"},
    ],
)
def test_what_cannot_be_shown_is_refused_and_the_field_is_named(described: object) -> None:
    with pytest.raises(SchemaError, match="field 'f'"):
        read(described)


def test_choices_are_never_shown_under_the_names_of_others() -> None:
    with pytest.raises(SchemaError, match="names its choices unevenly"):
        read({"enum": ["yes", "no"], "enumNames": ["No"]})


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "array", "items": {}},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {}, "required": ["f"]},
        {"type": "object", "properties": {"f": {"type": "string"}}, "required": "f"},
        {"type": "object", "properties": {"f": {"type": "string"}}, "required": [["f"]]},
    ],
)
def test_a_schema_that_is_no_form_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="form"):
        fields_from_schema(schema)


@pytest.mark.row("Q14")
def test_fields_left_out_take_the_defaults_of_the_schema() -> None:
    fields = fields_from_schema(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "default": "Bo"},
                "age": {"type": "integer", "default": 0},
                "sure": {"type": "boolean", "default": False},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "blue"},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "default": ["a"]},
            },
        }
    )
    assert coerce(fields, {}) == {
        "name": "Bo",
        "age": 0,
        "sure": False,
        "color": "blue",
        "tags": ["a"],
    }


def test_titled_and_plain_choices_are_written_in_their_own_shapes() -> None:
    schema = schema_from_fields(
        [
            Field("plain", choices=["a", "b"]),
            Field("titled", FieldType.CHOICES, choices=[Choice(1, "One")], required=False),
        ]
    )
    assert schema == {
        "type": "object",
        "properties": {
            "plain": {"type": "string", "enum": ["a", "b"]},
            "titled": {
                "type": "array",
                "items": {"type": "integer", "anyOf": [{"const": 1, "title": "One"}]},
            },
        },
        "required": ["plain"],
    }


def test_a_field_with_own_words_has_no_schema() -> None:
    with pytest.raises(ValueError, match="other answers"):
        schema_from_fields([Field("f", choices=["a"], allow_other=True)])
