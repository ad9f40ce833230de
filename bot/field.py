"""A field of a form, and how what a person gives becomes its value (spec: Answer coercion)."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final, assert_never

from pydantic import JsonValue
from pydantic_core import SchemaError as PatternError

from bot.value import (
    FORMAT_SENTENCES,
    INT_LIMIT,
    PATTERN_LIMIT,
    PATTERN_SUBJECT_LIMIT,
    Number,
    Refused,
    boolean,
    finite,
    has_format,
    integer,
    number,
    pattern_finder,
    storable,
)
from bot.value import Format as Format
from bot.value import Value as Value


class FieldType(StrEnum):
    """What kind of answer a field takes."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    CHOICES = "choices"


class AnswerError(ValueError):
    """An answer that was refused; nothing of it counts.

    `errors` maps a field's name to one sentence for the person that names the field by its label;
    what is wrong with the answer as a whole is under "". The sentences quote labels and titles
    as they were given, so a surface makes them inert like any other text; they never quote the
    answer, apart from the names of keys nobody asked for.
    """

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__(" ".join(errors.values()))
        self.errors: dict[str, str] = dict(errors)


@dataclass(frozen=True, slots=True)
class Choice:
    """One offered value; `title` is what the person reads, by default the value itself."""

    value: Value
    title: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        match self.value:
            case bool():
                pass
            case int() if not -INT_LIMIT <= self.value < INT_LIMIT:
                raise ValueError("A choice is a number too large to keep.")
            case float() if not finite(self.value):
                raise ValueError("A choice must be a finite number.")
            case str() if not self.value.strip():
                raise ValueError("A choice is blank: a blank answer means that there is none.")
        object.__setattr__(self, "title", self.title.strip() or written(self.value))


@dataclass(frozen=True, slots=True)
class Selection:
    """An answer to a field that allows other answers: offered values and the person's own words.

    For a single choice, own words stand alone: `selected` is then empty (spec: ask_user).
    """

    selected: tuple[Value, ...]
    other: str | None

    def to_json(self) -> dict[str, JsonValue]:
        """The form that is recorded: `{"selected": [...], "other_text": text or None}`."""
        return {"selected": list(self.selected), "other_text": self.other}


@dataclass(frozen=True, slots=True, init=False)
class Field:
    """One thing a form asks for.

    `choices` are given as `Choice` or as plain values, and a field with choices and no type is a
    CHOICE. Lengths are in characters, items in choices, bounds are inclusive. `allow_other` lets
    the person answer in own words beside the offered choices; such an answer is recorded as
    `Selection.to_json` says. `pattern` is searched for anywhere in the text, as JSON Schema does,
    by an engine that takes linear time and so has no look-around and no back references.

    Raises ValueError, in one sentence, for a field that contradicts itself.
    """

    name: str
    type: FieldType
    title: str
    description: str
    required: bool
    default: Value | tuple[Value, ...] | None
    choices: tuple[Choice, ...]
    min_length: int | None
    max_length: int | None
    minimum: Number | None
    maximum: Number | None
    min_items: int | None
    max_items: int | None
    format: Format | None
    pattern: str | None
    multiline: bool
    allow_other: bool

    def __init__(
        self,
        name: str,
        type: FieldType | None = None,
        *,
        title: str = "",
        description: str = "",
        required: bool = True,
        default: Value | Sequence[Value] | None = None,
        choices: Iterable[Choice | Value] = (),
        min_length: int | None = None,
        max_length: int | None = None,
        minimum: Number | None = None,
        maximum: Number | None = None,
        min_items: int | None = None,
        max_items: int | None = None,
        format: Format | None = None,
        pattern: str | None = None,
        multiline: bool = False,
        allow_other: bool = False,
    ) -> None:
        if isinstance(choices, str):
            raise ValueError(f"The choices of {name!r} must be a list, not one text.")
        offered = tuple(c if isinstance(c, Choice) else Choice(c) for c in choices)
        for attribute, value in {
            "name": name,
            "type": FieldType(type or (FieldType.CHOICE if offered else FieldType.TEXT)),
            "title": title.strip(),
            "description": description,
            "required": required,
            "default": None,
            "choices": offered,
            "min_length": min_length,
            "max_length": max_length,
            "minimum": minimum,
            "maximum": maximum,
            "min_items": min_items,
            "max_items": max_items,
            "format": None if format is None else Format(format),
            "pattern": pattern,
            "multiline": multiline,
            "allow_other": allow_other,
        }.items():
            object.__setattr__(self, attribute, value)
        _check(self)
        object.__setattr__(self, "default", _check_default(self, default))

    @property
    def label(self) -> str:
        """What the person reads as the field's name."""
        return self.title or self.name


def written(value: Value) -> str:
    """The string form of an offered value, stripped; no two choices of a field share one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip()


def coerce(
    fields: Sequence[Field], given: object, *, lenient: bool = False
) -> dict[str, JsonValue]:
    """Turn what was given into one JSON value per field, or refuse all of it (spec: the table).

    One field takes its value itself or a mapping of its name, several take a mapping, none take
    nothing. Strict refuses keys nobody asked for; `lenient` drops them. An optional field that
    is left out and has no default is absent from the result.

    Raises AnswerError with every failing field at once.
    """
    if len({field.name for field in fields}) < len(fields):
        raise ValueError("Two fields of a form have the same name.")
    by_name, errors = _by_name(fields, given, lenient)
    answers: dict[str, JsonValue] = {}
    for field in fields:
        try:
            value = _answer(field, by_name.get(field.name))
        except Refused as refused:
            errors[field.name] = f"{field.label} {refused}"
        else:
            if value is not None:
                answers[field.name] = value
    if errors:
        raise AnswerError(errors)
    return answers


def field_to_json(field: Field) -> dict[str, JsonValue]:
    """The field as a row keeps it; `field_from_json` gives back an equal one."""
    stored: dict[str, JsonValue] = {}
    for attribute in dataclasses.fields(Field):
        value = getattr(field, attribute.name)
        if value in (None, "", ()):
            continue
        match value:
            case Enum():
                stored[attribute.name] = value.value
            case tuple() if attribute.name == "choices":
                stored["choices"] = [dataclasses.asdict(choice) for choice in value]
            case tuple():
                stored[attribute.name] = list(value)
            case _:
                stored[attribute.name] = value
    return stored


def field_from_json(stored: Mapping[str, Any]) -> Field:
    """Read back what `field_to_json` wrote."""
    choices = [Choice(**choice) for choice in stored.get("choices", ())]
    return Field(**{**stored, "choices": choices})


# --- Construction


_CHOOSING: Final = frozenset({FieldType.CHOICE, FieldType.CHOICES})
_NUMERIC: Final = frozenset({FieldType.INTEGER, FieldType.NUMBER})
_BOUNDS: Final = (
    ("min_length", "max_length", frozenset({FieldType.TEXT})),
    ("minimum", "maximum", _NUMERIC),
    ("min_items", "max_items", frozenset({FieldType.CHOICES})),
)


def _check(field: Field) -> None:
    for contradiction in _contradictions(field):
        raise ValueError(f"The field {field.name[:80]!r} {contradiction}.")


def _contradictions(field: Field) -> Iterator[str]:
    if not field.name.isprintable() or not field.name or field.name != field.name.strip():
        yield "needs a name of visible characters"
    if not all(map(storable, _texts(field))):
        yield "has a text with a character that cannot be kept"
    if field.choices and field.type not in _CHOOSING:
        yield f"offers choices, but its type is {field.type}"
    if not field.choices and field.type in _CHOOSING:
        yield "needs choices to choose from"
    values = [choice.value for choice in field.choices]
    numbers = [v for v in values if not isinstance(v, bool | str)]
    if len(set(map(written, values))) < len(values) or len(set(numbers)) < len(numbers):
        yield "offers the same choice twice"
    if field.allow_other and (not field.choices or field.name in _SELECTION_KEYS):
        yield "cannot allow other answers under this name or without choices"
    if field.type is not FieldType.TEXT and (field.format or field.pattern or field.multiline):
        yield f"has a format, a pattern or several lines, but its type is {field.type}"
    for lowest, highest, types in _BOUNDS:
        low, high = getattr(field, lowest), getattr(field, highest)
        bounds = [bound for bound in (low, high) if bound is not None]
        if bounds and field.type not in types:
            yield f"has {lowest} or {highest}, but its type is {field.type}"
        if not all(_is_bound(bound, whole=types is not _NUMERIC) for bound in bounds):
            yield f"has a {lowest} or {highest} that is no usable number"
        if low is not None and high is not None and low > high:
            yield f"has a {lowest} above its {highest}"
    if (field.min_items or 0) > len(field.choices) + field.allow_other:
        yield "asks for more choices than it offers"
    if field.pattern is not None:
        yield from _pattern_problem(field.pattern)


def _texts(field: Field) -> Iterator[str]:
    yield from (field.title, field.description)
    for choice in field.choices:
        yield from (str(choice.value), choice.title, choice.description)


def _is_bound(bound: Number, *, whole: bool) -> bool:
    if isinstance(bound, bool) or not finite(bound):
        return False
    return not whole or (isinstance(bound, int) and bound >= 0)


def _pattern_problem(pattern: str) -> Iterator[str]:
    if len(pattern) > PATTERN_LIMIT:
        yield f"has a pattern of more than {PATTERN_LIMIT} characters"
    try:
        pattern_finder(pattern)
    except PatternError:
        yield "has a pattern that cannot be read (look-around and back references are not)"


def _check_default(
    field: Field, default: Value | Sequence[Value] | None
) -> Value | tuple[Value, ...] | None:
    """The default in its own type; a blank one is none, as a blank answer is."""
    given = _strip(default)
    if given is None or given == []:
        return None
    try:
        value = _typed(field, given)
    except Refused as refused:
        raise ValueError(f"The default of the field {field.name[:80]!r} {refused}") from None
    return tuple(value) if isinstance(value, list) else value


# --- Answers


def _by_name(
    fields: Sequence[Field], given: object, lenient: bool
) -> tuple[Mapping[Any, object], dict[str, str]]:
    """What was given for each field, and what is wrong with the answer as a whole."""
    names = {field.name for field in fields}
    only = fields[0] if len(fields) == 1 else None
    if given is None:
        return {}, {}
    if only and not (isinstance(given, Mapping) and _names_fields(only, given)):
        return {only.name: given}, {}
    if not isinstance(given, Mapping):
        if not fields:
            raise AnswerError({"": "This question takes no value: approve or decline it."})
        labels = ", ".join(field.label for field in fields)
        raise AnswerError({"": f"Answer each of these by its name: {labels}."})
    unknown = [key for key in given if key not in names]
    if lenient or not unknown:
        return given, {}
    shown = ", ".join(repr(key[:40]) if isinstance(key, str) else "a number" for key in unknown[:5])
    more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
    return given, {"": f"This question does not ask for {shown}{more}."}


def _names_fields(only: Field, given: Mapping[Any, object]) -> bool:
    """Tell a mapping of the one field's name from a selection, its value itself."""
    return not only.allow_other or only.name in given or not _SELECTION_KEYS.intersection(given)


def _answer(field: Field, given: object) -> JsonValue:
    """The field's value; None when it is left out."""
    given = _strip(given)
    if field.allow_other and isinstance(given, Mapping):
        selection = _selection(field, given)
        given = selection.to_json() if selection.selected or selection.other else []
    if given is None or given == []:
        # Who takes every mark off a prefilled list chose nothing: the default stays away.
        cleared = given == [] and field.default is not None and field.type is FieldType.CHOICES
        if field.default is not None and not cleared:
            given = list(field.default) if isinstance(field.default, tuple) else field.default
        elif field.required:
            raise Refused("needs an answer.")
        elif not cleared:
            return None
    if field.allow_other:
        selection = _selection(field, given)
        _check_count(field, len(selection.selected) + (selection.other is not None))
        return selection.to_json()
    value = _typed(field, given)
    return list(value) if isinstance(value, list) else value


def _strip(given: object) -> object:
    """Take off what carries no answer: an Enum around a value, outer spaces, blank items."""
    match given:
        case Selection():
            return given.to_json()
        case list() | tuple():
            return [item for item in map(_strip_one, given) if item is not None]
        case _:
            return _strip_one(given)


def _strip_one(given: object) -> object:
    if isinstance(given, Enum):
        given = given.value
    return (given.strip() or None) if isinstance(given, str) else given


def _typed(field: Field, given: object) -> Value | list[Value]:
    match field.type:
        case FieldType.TEXT:
            return _text(field, given)
        case FieldType.INTEGER:
            return _within(field, integer(given))
        case FieldType.NUMBER:
            return _within(field, number(given))
        case FieldType.BOOLEAN:
            return boolean(given)
        case FieldType.CHOICE:
            return _offered(field, given)
        case FieldType.CHOICES:
            picked = _unique(_offered(field, item) for item in _items(given))
            _check_count(field, len(picked))
            return list(picked)
        case _:
            assert_never(field.type)


def _text(field: Field, given: object) -> str:
    if not isinstance(given, str):
        raise Refused("must be text.")
    if not storable(given):
        raise Refused("contains a character that cannot be kept: please type it anew.")
    if field.min_length is not None and len(given) < field.min_length:
        raise Refused(f"must be at least {field.min_length} characters long.")
    if field.max_length is not None and len(given) > field.max_length:
        raise Refused(f"must be at most {field.max_length} characters long.")
    if field.format is not None and not has_format(field.format, given):
        raise Refused(f"must be {FORMAT_SENTENCES[field.format]}.")
    if field.pattern is not None:
        if len(given) > PATTERN_SUBJECT_LIMIT:
            raise Refused(f"must be at most {PATTERN_SUBJECT_LIMIT} characters long.")
        if not pattern_finder(field.pattern).isinstance_python(given):
            raise Refused(f"must match the pattern “{field.pattern}”.")
    return given


def _within(field: Field, value: Number) -> Number:
    if field.minimum is not None and value < field.minimum:
        raise Refused(f"must be at least {field.minimum}.")
    if field.maximum is not None and value > field.maximum:
        raise Refused(f"must be at most {field.maximum}.")
    return value


def _offered(field: Field, given: object) -> Value:
    choice = _find(field, given)
    if choice is None:
        raise Refused(_not_offered(field))
    return choice.value


def _find(field: Field, given: object) -> Choice | None:
    """The choice whose value or stripped written form was given; true is not 1, as in JSON."""
    for choice in field.choices:
        match given:
            case bool():
                same = given is choice.value
            case int() | float():
                same = not isinstance(choice.value, bool | str) and given == choice.value
            case str():
                same = given == written(choice.value)
            case _:
                same = False
        if same:
            return choice
    return None


def _not_offered(field: Field) -> str:
    titles = [choice.title for choice in field.choices[:20]]
    if len(field.choices) > 20:
        titles.append(f"{len(field.choices) - 20} more")
    if field.allow_other:
        titles.append("your own words")
    verb = "must be one of" if field.type is FieldType.CHOICE else "takes only"
    return f"{verb}: {', '.join(titles)}."


def _items(given: object) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _unique(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple({(isinstance(value, bool), value): value for value in values}.values())


def _check_count(field: Field, count: int) -> None:
    if field.min_items is not None and count < field.min_items:
        raise Refused(f"needs at least {field.min_items} choices.")
    if field.max_items is not None and count > field.max_items:
        raise Refused(f"takes at most {field.max_items} choices.")


_SELECTION_KEYS: Final = frozenset({"selected", "other_text", "other"})


def _selection(field: Field, given: object) -> Selection:
    """Read a selection, offered values or own words; several own words are joined by commas."""
    picked: list[Value] = []
    own: list[str] = []
    if isinstance(given, Mapping):
        if not _SELECTION_KEYS.issuperset(given) or {"other", "other_text"}.issubset(given):
            raise Refused("takes only selected and other_text.")
        marked = _strip(given.get("selected"))
        if marked is not None:
            picked = [_offered(field, item) for item in _items(marked)]
        words = _strip(given.get("other_text", given.get("other")))
        if words is not None:
            own = [_own_words(field, words)]
    elif isinstance(given, list) and field.type is FieldType.CHOICE:
        raise Refused("takes one answer, not a list.")
    else:
        for item in _items(given):
            choice = _find(field, item)
            if choice is not None:
                picked.append(choice.value)
            else:
                own.append(_own_words(field, item))
    selected = _unique(picked)
    if field.type is FieldType.CHOICE and len(selected) > 1:
        raise Refused("takes one answer, not several.")
    if field.type is FieldType.CHOICE and own:
        selected = ()
    return Selection(selected, ", ".join(own) or None)


def _own_words(field: Field, given: object) -> str:
    if not isinstance(given, str):
        raise Refused(_not_offered(field))
    if not storable(given):
        raise Refused("contains a character that cannot be kept: please type it anew.")
    return given
