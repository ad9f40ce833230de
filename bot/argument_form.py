"""The arguments of a call as a form that holds their values, and back: made from the schema of its
tool. A form that is sent as it was gives the very same arguments.

What a form cannot hold whole is not in it, for what is cut would be written back: such an argument
stays as it is."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from bot.confusable import imitations
from bot.field import AnswerError, Field, FieldType, coerce
from bot.form_schema import SchemaError, fields_from_schema
from bot.text import LINES, is_unseen, reveal, visible
from bot.value import Refused
from storage.database import canonical

VALUE_LIMIT: Final = 3_000  # characters (as UTF-16) of a value that an input of every surface takes
FORM_LIMIT: Final = 40_000  # of all values together
FIELDS_LIMIT: Final = 40
_NUMBER_LIMIT: Final = 18  # of a number; longer ones are written as JSON, which keeps each digit
_REFERENCES: Final = 10  # how far a schema is followed
_TOLD: Final = 1_000  # characters of a description
_SPOKEN: Final = 200  # characters of a default that a description tells

_HIDDEN: Final = "has characters that cannot be seen: type it anew without them."


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """What a person sent back: the values by the name of their field, as they came."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Editable:
    """An argument in the form. The field has its value as default; it is `as_json` text where no
    plain input holds such a value. `nullable`: left empty it is null."""

    field: Field
    as_json: bool
    nullable: bool

    @property
    def size(self) -> int:
        return len(_utf16(str(self.field.default or "")))


def form_of(parameters: Mapping[str, Any], args: Mapping[str, Any]) -> tuple[Editable, ...]:
    """The arguments that `parameters` (a JSON Schema) names and a form can hold: those of the call
    in their order, then those that it left out."""
    told, needed = parameters.get("properties"), parameters.get("required")
    if not isinstance(told, Mapping):
        return ()
    required = set(needed) if isinstance(needed, list) else set()
    names = [*(name for name in args if name in told), *(name for name in told if name not in args)]
    found: list[Editable] = []
    room = FORM_LIMIT
    for name in names:
        one = _editable(name, told[name], parameters, args.get(name), required=name in required)
        if one is not None and one.size <= room and len(found) < FIELDS_LIMIT:
            room -= one.size
            found.append(one)
    return tuple(found)


def arguments_of(
    form: tuple[Editable, ...], args: Mapping[str, Any], answer: FormAnswer
) -> dict[str, Any]:
    """The arguments with what was entered; all that is not in the form stays as it is.

    What was left empty is gone, or null where the schema takes it. White space at the ends of a
    text, which nobody sees there, stays as it was. Raises AnswerError."""
    changed = dict(args)
    errors: dict[str, str] = {}
    for one in form:
        name = one.field.name
        try:
            _enter(one, changed, answer.values.get(name))
        except AnswerError as error:
            errors |= error.errors
        except Refused as refused:
            errors[name] = f"{one.field.label} {refused}"
    if errors:
        raise AnswerError(errors)
    return changed


def _enter(one: Editable, args: dict[str, Any], given: Any) -> None:
    """Raises AnswerError and Refused."""
    field, name = one.field, one.field.name
    # An input that was emptied says so: here its default is no answer.
    asked = dataclasses.replace(field, default=None, required=False)
    value = coerce([asked], {name: given}, lenient=True).get(name)
    if value is None:
        _leave_empty(one, args)
        return
    if _shows(field, value):
        return
    if isinstance(value, str) and field.type is FieldType.TEXT and visible(value) != value:
        raise Refused(_HIDDEN)
    before = args.get(name)
    if one.as_json:
        parsed = _parsed(str(value))
        if name not in args or canonical(parsed) != canonical(before):
            args[name] = parsed
    elif isinstance(value, list):
        kept = before if isinstance(before, list) else []
        args[name] = [*(x for x in kept if x in value), *(x for x in value if x not in kept)]
    elif field.type is FieldType.TEXT and isinstance(before, str):
        start, end = _ends(before)
        args[name] = f"{start}{value}{end}"
    else:
        args[name] = value


def _leave_empty(one: Editable, args: dict[str, Any]) -> None:
    field = one.field
    if field.default is None:
        return  # it was empty
    if field.required:
        raise Refused("needs an answer.")
    if field.type is FieldType.CHOICES:
        args[field.name] = []
    elif one.nullable:
        args[field.name] = None
    else:
        del args[field.name]


def _shows(field: Field, value: Any) -> bool:
    """Whether this is what the field showed."""
    shown = field.default
    if shown is None:
        return False
    match value:
        case list():
            return isinstance(shown, tuple) and sorted(map(repr, value)) == sorted(map(repr, shown))
        case int() | float() if not isinstance(value, bool) and isinstance(shown, float):
            return float(value) == shown
        case _:
            return type(value) is type(shown) and value == shown


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _ends(text: str) -> tuple[str, str]:
    """The white space around a text; none of one that is nothing else."""
    bare = text.strip()
    if not bare:
        return "", ""
    start = text.index(bare)
    return text[:start], text[start + len(bare) :]


# --- JSON


def _written(value: Any) -> str:
    """The value for people to read and change: what cannot be seen, or imitates another character,
    is an escape of JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    imitating = {text[place] for place in imitations(text, strict=True)}
    return re.sub(
        r"[^\n -~]",
        lambda found: (
            json.dumps(found[0])[1:-1] if found[0] in imitating or is_unseen(found[0]) else found[0]
        ),
        text,
    )


def _parsed(text: str) -> Any:
    """Raises Refused."""
    try:
        value = json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
        canonical(value)
    except json.JSONDecodeError as error:
        raise Refused(f"is not JSON: {error.msg} (line {error.lineno}).") from None
    except RecursionError:
        raise Refused("is not JSON that can be read: it is nested too deeply.") from None
    except ValueError as error:
        raise Refused(f"is not JSON: {error}.") from None
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What is read first must not be something else than what counts."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("an object has the same name twice")
    return dict(pairs)


# --- The schema


def _editable(
    name: str, told: Any, root: Mapping[str, Any], value: Any, *, required: bool
) -> Editable | None:
    """None: no form holds it."""
    schema, nullable = _plain(told, root)
    needed = required and not nullable and not (value == [] or _is_blank(value))
    description = _described(schema, required=required)
    field = _plain_field(name, schema, value, description, required=needed)
    try:
        if field is not None:
            found = Editable(field, as_json=False, nullable=nullable)
        else:
            text = None if value is None else _written(value)
            found = Editable(
                Field(
                    name,
                    FieldType.TEXT,
                    description=f"{description} Written as JSON.".strip(),
                    required=required and not nullable,
                    default=text,
                    multiline=True,
                ),
                as_json=True,
                nullable=nullable,
            )
    except ValueError:
        return None  # a name that no form can show
    return found if found.size <= VALUE_LIMIT else None


def _plain_field(
    name: str, schema: Mapping[str, Any], value: Any, description: str, *, required: bool
) -> Field | None:
    """An input for a plain value that shows this one; None: there is none."""
    if not _seen_whole(value):
        return None
    bare = {key: schema[key] for key in schema if key not in ("default", "title", "description")}
    described = {**bare, "description": description}
    if value is not None:
        described["default"] = value
    for tried in (described, {key: described[key] for key in described if key in _TEXT}):
        if tried is not described and (tried.get("type") != "string" or "enum" in schema):
            return None
        try:
            (field,) = fields_from_schema(
                {
                    "type": "object",
                    "properties": {name: tried},
                    "required": [name] if required else [],
                }
            )
        except (SchemaError, TypeError):
            continue
        if not _faithful(field, value):
            return None
        if field.type is FieldType.TEXT and field.format is None:
            long = isinstance(value, str) and ("\n" in value or len(value) > 150)
            return dataclasses.replace(field, multiline=long)
        return field
    return None


_TEXT: Final = frozenset({"type", "description", "default"})  # what is kept of a text's schema


def _faithful(field: Field, value: Any) -> bool:
    """Whether the field shows exactly this value."""
    match value:
        case list():
            return isinstance(field.default, tuple) and canonical(
                sorted(field.default, key=repr)
            ) == canonical(sorted(value, key=repr))
        case bool():
            return field.default is value
        case int() | float():
            return not isinstance(field.default, bool | str) and field.default == value
        case str():
            return field.default == (value.strip() or None)
        case _:
            return value is None


def _seen_whole(value: Any) -> bool:
    """Whether an input can show every character and digit of it."""
    match value:
        case str():
            return reveal(value, keep=LINES) == value
        case float() | int() if not isinstance(value, bool):
            return len(format(Decimal(str(value)), "f")) <= _NUMBER_LIMIT
        case _:
            return True


def _described(schema: Mapping[str, Any], *, required: bool) -> str:
    described = schema.get("description")
    text = described.strip() if isinstance(described, str) else ""
    if len(text) > _TOLD:
        text = f"{text[: _TOLD - 1]}…"
    default = schema.get("default")
    if required or default is None:
        return text
    said = canonical(default)
    return f"{text} Its default is {said}.".strip() if len(said) <= _SPOKEN else text


def _plain(told: Any, root: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The schema with its reference followed and null taken out of its alternatives, and whether
    null is one of them."""
    schema: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    nullable = False
    for _ in range(_REFERENCES):
        inner: Any = None
        dropped = ""
        match schema:
            case {"$ref": str() as where}:
                inner, dropped = _lookup(root, where), "$ref"
            case {"allOf": [Mapping() as only]}:
                inner, dropped = only, "allOf"
            case {"anyOf": [*options]} if _NULL in options:
                nullable, dropped = True, "anyOf"
                rest = [one for one in options if one != _NULL]
                inner = rest[0] if len(rest) == 1 else {"anyOf": rest}
            case {"oneOf": [*options]} if _NULL in options:
                nullable, dropped = True, "oneOf"
                rest = [one for one in options if one != _NULL]
                inner = rest[0] if len(rest) == 1 else {"oneOf": rest}
            case {"type": [*types]} if "null" in types:
                nullable, dropped = True, "type"
                kinds = [one for one in types if one != "null"]
                inner = {"type": kinds[0] if len(kinds) == 1 else kinds}
            case {"enum": [*values]} if None in values:
                nullable, dropped = True, "enum"
                inner = {"enum": [one for one in values if one is not None]}
            case {"const": value} if value is not None:
                inner, dropped = {"enum": [value]}, "const"
            case _:
                return schema, nullable
        if not isinstance(inner, Mapping):
            return {}, nullable
        schema = {**inner, **{key: schema[key] for key in schema if key != dropped}}
    return {}, nullable


_NULL: Final = {"type": "null"}


def _lookup(root: Mapping[str, Any], where: str) -> Any:
    """What a reference within the schema names; None: nothing."""
    if not where.startswith("#"):
        return None
    found: Any = root
    for part in where[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _utf16(text: str) -> str:
    """The text with every character counted as JavaScript counts it."""
    return re.sub(r"[\U00010000-\U0010ffff]", "  ", text)
