"""What holds for every field and every answer (spec: Answer coercion)."""

import contextlib
import json
import string
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.field import (
    AnswerError,
    Choice,
    Field,
    FieldType,
    Format,
    coerce,
    field_from_json,
    field_to_json,
)
from bot.form_schema import SchemaError, fields_from_schema, schema_from_fields

steady = settings(max_examples=200, derandomize=True)

NAMES = st.text(string.ascii_lowercase + "_é", min_size=1, max_size=6).filter("other".__ne__)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = TEXTS.filter(str.strip) | INTS | FLOATS | st.booleans()
ANSWERS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["yes", " a ", "b", "42", "1e999", "nan", "a@example.com", "2024-02-29"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["selected", "other_text", "other", "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def pair(draw: st.DrawFn, bounds: st.SearchStrategy[Any]) -> tuple[Any, Any]:
    perhaps = st.none() | st.none() | bounds
    low, high = draw(perhaps), draw(perhaps)
    if low is not None and high is not None and low > high:
        return high, low
    return low, high


@st.composite
def a_field(draw: st.DrawFn, *, in_schema: bool = False) -> Field:
    kind = draw(st.sampled_from(FieldType))
    options: dict[str, Any] = {
        "title": draw(TEXTS),
        "description": draw(TEXTS),
        "required": draw(st.booleans()),
    }
    default: Any = VALUES
    match kind:
        case FieldType.TEXT:
            options["min_length"], options["max_length"] = pair(draw, st.integers(0, 20))
            options["format"] = draw(st.sampled_from([None, None, None, *Format]))
            options["pattern"] = draw(st.sampled_from([None, None, None, "a", r"^\w+$"]))
            options["multiline"] = not in_schema and draw(st.booleans())
        case FieldType.INTEGER | FieldType.NUMBER:
            options["minimum"], options["maximum"] = pair(draw, st.integers(-50, 50) | FLOATS)
        case FieldType.BOOLEAN:
            default = st.booleans()
        case FieldType.CHOICE | FieldType.CHOICES:
            offered = draw(
                st.lists(
                    st.builds(Choice, VALUES | st.sampled_from(["a", "b"]), TEXTS, TEXTS),
                    min_size=1,
                    max_size=4,
                    unique_by=lambda choice: str(choice.value).strip().lower(),
                )
            )
            numbers = [c.value for c in offered if not isinstance(c.value, bool | str)]
            offered = offered if len(set(numbers)) == len(numbers) else offered[:1]
            options["choices"] = offered
            options["allow_other"] = not in_schema and draw(st.booleans())
            default = st.sampled_from([choice.value for choice in offered])
            if kind is FieldType.CHOICES:
                options["min_items"], options["max_items"] = pair(
                    draw, st.integers(0, len(offered))
                )
                default = st.lists(default, max_size=3)
    field = Field(draw(NAMES), kind, **options)
    # A default that the drawn bounds refuse is no default of this field.
    with contextlib.suppress(ValueError):
        field = Field(field.name, kind, **options, default=draw(st.none() | default))
    return field


def forms(**options: Any) -> st.SearchStrategy[list[Field]]:
    return st.lists(a_field(**options), max_size=3, unique_by=lambda field: field.name)


def fitting(field: Field) -> st.SearchStrategy[Any]:
    """Answers of the field's own kind; its bounds may still refuse them."""
    match field.type:
        case FieldType.TEXT:
            return TEXTS | st.sampled_from(["a@a.example", "urn:a", "2024-02-29"])
        case FieldType.INTEGER | FieldType.NUMBER:
            return st.integers(-50, 50) | st.integers(-50, 50).map(str) | FLOATS
        case FieldType.BOOLEAN:
            return st.booleans() | st.sampled_from(["yes", " OFF "])
        case FieldType.CHOICE | FieldType.CHOICES:
            offered = st.sampled_from([choice.value for choice in field.choices])
            marked = st.lists(offered, min_size=1, max_size=3)
            if field.allow_other:
                selection = st.fixed_dictionaries({"selected": marked, "other_text": TEXTS})
                return offered | TEXTS | marked | selection
            return offered | marked


@st.composite
def a_form_and_an_answer(draw: st.DrawFn) -> tuple[list[Field], object]:
    form = draw(forms())
    kind = draw(st.sampled_from(["fitting", "fitting", "any value", "anything"]))
    if kind == "anything":
        return form, draw(ANSWERS)
    answers = {
        field.name: fitting(field) if kind == "fitting" else fitting(field) | ANSWERS
        for field in form
    }
    optional = {field.name: answers.pop(field.name) for field in form if not field.required}
    return form, draw(st.fixed_dictionaries(answers, optional=optional))


@steady
@given(a_form_and_an_answer(), st.booleans())
def test_coercion_answers_or_refuses_in_sentences_that_name_the_field(
    case: tuple[list[Field], object], lenient: bool
) -> None:
    form, answer = case
    labels = {field.name: field.label for field in form}
    try:
        answers = coerce(form, answer, lenient=lenient)
    except AnswerError as refused:
        errors = refused.errors
    else:
        json.dumps(answers, allow_nan=False, ensure_ascii=False).encode()
        assert answers.keys() <= labels.keys()
        assert all(not field.required or field.name in answers for field in form)
        return
    assert errors
    for name, sentence in errors.items():
        assert sentence.endswith(".")
        assert name == "" or sentence.startswith(labels[name])


@steady
@given(a_form_and_an_answer())
def test_coercion_leaves_its_own_answers_as_they_are(case: tuple[list[Field], object]) -> None:
    form, answer = case
    with contextlib.suppress(AnswerError):
        answers = coerce(form, answer)
        stored = json.loads(json.dumps(answers))
        assert repr(coerce(form, stored)) == repr(answers)


@steady
@given(a_form_and_an_answer(), st.randoms(use_true_random=False))
def test_coercion_does_not_depend_on_the_order_of_fields_or_keys(
    case: tuple[list[Field], object], random: Any
) -> None:
    form, answer = case
    shuffled = random.sample(form, len(form))
    other = dict(reversed(answer.items())) if isinstance(answer, dict) else answer

    def outcome(fields: list[Field], given: object) -> object:
        try:
            return coerce(fields, given)
        except AnswerError as refused:
            return {name: error for name, error in refused.errors.items() if name}

    assert outcome(form, answer) == outcome(shuffled, other)


@steady
@given(a_field())
def test_the_default_of_a_field_is_an_answer_to_it(field: Field) -> None:
    if field.default is not None:
        answers = coerce([field], None)
        assert coerce([field], answers) == answers


@steady
@given(a_field())
def test_a_stored_field_comes_back_equal(field: Field) -> None:
    stored = json.loads(json.dumps(field_to_json(field)))
    assert repr(field_from_json(stored)) == repr(field)


@steady
@given(forms(in_schema=True))
def test_fields_come_back_from_their_schema(form: list[Field]) -> None:
    schema = json.loads(json.dumps(schema_from_fields(form)))
    assert repr(fields_from_schema(schema)) == repr(tuple(form))


WORDS = st.sampled_from(
    ["string", "integer", "number", "boolean", "array", "object", "null", "email", "a", "", "f"]
)
KEYWORDS = st.sampled_from(
    [
        "type", "title", "description", "default", "enum", "enumNames", "oneOf", "anyOf", "items",
        "const", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "format",
        "pattern",
    ]
)  # fmt: skip
SCHEMAS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**400)
    | st.floats()
    | WORDS
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=5),
    max_leaves=12,
)


@steady
@given(st.dictionaries(KEYWORDS, SCHEMAS, max_size=6), WORDS)
def test_any_schema_is_read_or_refused_in_a_sentence(described: dict[str, Any], kind: str) -> None:
    schema = {"type": "object", "properties": {"f": {"type": kind, **described}}}
    try:
        (field,) = fields_from_schema(schema)
    except SchemaError as refused:
        sentence = str(refused)
    else:
        assert fields_from_schema(schema_from_fields([field])) == (field,)
        return
    assert "'f'" in sentence
