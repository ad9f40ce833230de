"""Forms as JSON Schema: what an MCP server may ask for, and our own fields said the same way."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bot.field import Choice, Field, FieldType, Format, Value


class SchemaError(ValueError):
    """A form schema that cannot be shown to a person, in one sentence that names the field."""


_TYPES: Final = {
    "string": FieldType.TEXT,
    "integer": FieldType.INTEGER,
    "number": FieldType.NUMBER,
    "boolean": FieldType.BOOLEAN,
}
_BOUNDS: Final = {
    FieldType.TEXT: {"min_length": "minLength", "max_length": "maxLength"},
    FieldType.INTEGER: {"minimum": "minimum", "maximum": "maximum"},
    FieldType.NUMBER: {"minimum": "minimum", "maximum": "maximum"},
    FieldType.BOOLEAN: {},
    FieldType.CHOICE: {},
    FieldType.CHOICES: {"min_items": "minItems", "max_items": "maxItems"},
}


def fields_from_schema(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """Read the flat object schema of an MCP form (revision 2026-07-28 and the older shapes).

    Text, numbers, booleans, the four enum shapes and `enum` with `enumNames`; a type joined with
    null counts as the type. As in JSON Schema, keywords and formats we do not know, and those
    that do not apply to the type, say nothing: the server checks the answer against them.

    Raises SchemaError for anything nested, anything else, and a field that contradicts itself.
    """
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise SchemaError("The form's schema is not an object with properties.")
    if not isinstance(required, list) or not all(
        isinstance(name, str) and name in properties for name in required
    ):
        raise SchemaError("The form requires a field that it does not describe.")
    return tuple(_read(name, told, name in required) for name, told in properties.items())


def schema_from_fields(fields: Sequence[Field]) -> dict[str, Any]:
    """The flat object schema of these fields; `fields_from_schema` reads them back.

    `multiline` is how a field is drawn and has no keyword. Raises ValueError for a field that
    allows other answers: no flat schema describes what it takes.
    """
    return {
        "type": "object",
        "properties": {field.name: _schema_of(field) for field in fields},
        "required": [field.name for field in fields if field.required],
    }


# --- Reading


def _read(name: str, told: object, required: bool) -> Field:
    try:
        if not isinstance(told, Mapping):
            raise _Unreadable("is not described by an object")
        schema = _without_null(told)
        type, choices = _type_and_choices(schema)
        is_text = type is FieldType.TEXT
        return Field(
            name,
            type,
            title=_string(schema, "title") or "",
            description=_string(schema, "description") or "",
            required=required,
            default=schema.get("default"),
            choices=choices,
            format=_format(schema) if is_text else None,
            pattern=_string(schema, "pattern") if is_text else None,
            **{key: _bound(schema, keyword) for key, keyword in _BOUNDS[type].items()},
        )
    except _Unreadable as error:
        raise SchemaError(f"The form's field {name[:80]!r} {error}.") from None
    except ValueError as error:
        raise SchemaError(f"The form's field {name[:80]!r} cannot be shown: {error}") from None


class _Unreadable(Exception):
    """The rest of the sentence that begins with the field's name."""


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Version 1 of the Python MCP SDK says `T | None` with null, which a form does not need."""
    match schema:
        case {"anyOf": [Mapping() as kept, {"type": "null"}]}:
            return {**kept, **{key: schema[key] for key in schema if key != "anyOf"}}
        case {"type": [str() as kept, "null"]}:
            return {**schema, "type": kept}
        case _:
            return schema


def _type_and_choices(schema: Mapping[str, Any]) -> tuple[FieldType, list[Choice]]:
    if schema.get("type") == "array":
        items = schema.get("items")
        choices = _choices(items) if isinstance(items, Mapping) else []
        if not choices:
            raise _Unreadable("is a list without choices")
        return FieldType.CHOICES, choices
    if choices := _choices(schema):
        return FieldType.CHOICE, choices
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise _Unreadable("is neither text, a number, a yes or no, nor a choice")
    return _TYPES[kind], []


def _choices(schema: Mapping[str, Any]) -> list[Choice]:
    values, named = schema.get("enum"), schema.get("oneOf", schema.get("anyOf"))
    if isinstance(values, list):
        titles = schema.get("enumNames", [""] * len(values))
        if not isinstance(titles, list) or len(titles) != len(values):
            raise _Unreadable("names its choices unevenly")
        options = [
            {"const": value, "title": title} for value, title in zip(values, titles, strict=True)
        ]
    elif isinstance(named, list):
        options = named
    else:
        return []
    if not options:
        raise _Unreadable("offers an empty list of choices")
    return [_choice(option) for option in options]


def _choice(option: object) -> Choice:
    value = option.get("const") if isinstance(option, Mapping) else None
    if not isinstance(option, Mapping) or not isinstance(value, str | int | float):
        raise _Unreadable("offers a choice that is no plain value")
    return Choice(value, _string(option, "title") or "", _string(option, "description") or "")


def _string(schema: Mapping[str, Any], keyword: str) -> str | None:
    text = schema.get(keyword)
    if text is not None and not isinstance(text, str):
        raise _Unreadable(f"has a {keyword} that is not text")
    return text


def _format(schema: Mapping[str, Any]) -> Format | None:
    name = _string(schema, "format")
    return Format(name) if name in set(Format) else None


def _bound(schema: Mapping[str, Any], keyword: str) -> Any:
    bound = schema.get(keyword)
    if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | float)):
        raise _Unreadable(f"has a {keyword} that is not a number")
    # JSON Schema counts 3.0 as 3.
    whole = keyword.endswith(("Length", "Items"))
    return int(bound) if whole and isinstance(bound, float) and bound.is_integer() else bound


# --- Writing


def _schema_of(field: Field) -> dict[str, Any]:
    if field.allow_other:
        raise ValueError(f"The field {field.name[:80]!r} allows other answers: no schema says so.")
    told = {
        "title": field.title or None,
        "description": field.description or None,
        "format": field.format and field.format.value,
        "pattern": field.pattern,
        "default": list(field.default) if isinstance(field.default, tuple) else field.default,
        **{word: getattr(field, key) for key, word in _BOUNDS[field.type].items()},
    }
    return {
        **_shape(field),
        **{keyword: value for keyword, value in told.items() if value is not None},
    }


def _shape(field: Field) -> dict[str, Any]:
    match field.type:
        case FieldType.CHOICE:
            return _choices_schema(field.choices, "oneOf")
        case FieldType.CHOICES:
            return {"type": "array", "items": _choices_schema(field.choices, "anyOf")}
        case _:
            return {"type": next(word for word, type in _TYPES.items() if type is field.type)}


def _choices_schema(choices: tuple[Choice, ...], alternatives: str) -> dict[str, Any]:
    """The plain shape where titles say nothing more than the values, else the titled one."""
    kinds = {_json_type(choice.value) for choice in choices}
    shape: dict[str, Any] = {"type": kinds.pop()} if len(kinds) == 1 else {}
    if all(choice == Choice(choice.value) for choice in choices):
        return {**shape, "enum": [choice.value for choice in choices]}
    options = [
        {"const": choice.value, "title": choice.title, "description": choice.description}
        for choice in choices
    ]
    for option in options:
        if not option["description"]:
            del option["description"]
    return {**shape, alternatives: options}


def _json_type(value: Value) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
