"""Fields and the coercion of answers (spec: Answer coercion)."""

import json
import math
import time
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest

from bot.field import (
    AnswerError,
    Choice,
    Field,
    FieldType,
    Format,
    Selection,
    coerce,
    field_from_json,
    field_to_json,
)

SEAT = Field("seat", title="Your seat", choices=["window", "aisle"])
AGE = Field("age", FieldType.INTEGER, title="Age")
NAME = Field("name", title="Name")
PRICE = Field("price", FieldType.NUMBER, title="Price")
SURE = Field("sure", FieldType.BOOLEAN, title="Are you sure?")
TAGS = Field("tags", FieldType.CHOICES, title="Tags", choices=["a", "b", "c"])
DATABASE = Field("db", title="Database", choices=["Postgres", "MySQL"], allow_other=True)
EXTRAS = Field("x", FieldType.CHOICES, title="Extras", choices=["a", "b"], allow_other=True)


def value_of(field: Field, given: object) -> object:
    return coerce([field], given)[field.name]


def refusal(*fields: Field, given: object, lenient: bool = False) -> dict[str, str]:
    with pytest.raises(AnswerError) as caught:
        coerce(fields, given, lenient=lenient)
    assert str(caught.value) == " ".join(caught.value.errors.values())
    return caught.value.errors


# --- Choice


@pytest.mark.row("Q2")
def test_an_offered_value_is_taken() -> None:
    assert coerce([SEAT], "window") == {"seat": "window"}


@pytest.mark.row("Q3")
def test_outer_spaces_are_stripped() -> None:
    assert coerce([SEAT], " window ") == {"seat": "window"}


@pytest.mark.row("Q4")
def test_a_value_not_offered_is_refused_with_the_offered_titles() -> None:
    field = Field("seat", title="Your seat", choices=[Choice("w", "Window"), Choice("a", "Aisle")])
    assert refusal(field, given="middle") == {"seat": "Your seat must be one of: Window, Aisle."}


def test_a_long_list_of_choices_is_named_in_part_and_counted() -> None:
    sentence = refusal(Field("n", choices=list(range(30))), given="x")["n"]
    assert "18, 19, 10 more." in sentence
    assert "20," not in sentence


@pytest.mark.parametrize(
    ("offered", "given"),
    [(1, "1"), (2.5, " 2.5 "), (True, "true"), (False, "false"), (" a ", "a"), (1.0, 1)],
)
def test_the_string_form_becomes_the_offered_value_in_its_own_type(
    offered: Any, given: object
) -> None:
    value = value_of(Field("f", choices=[offered, "z"]), given)
    assert value == offered
    assert type(value) is type(offered)


@pytest.mark.parametrize(("offered", "given"), [(1, True), (True, 1), ("1", 1), (0, False)])
def test_a_choice_of_another_json_type_is_not_offered(offered: Any, given: object) -> None:
    assert "f" in refusal(Field("f", choices=[offered, "z"]), given=given)


def test_an_enum_members_value_is_taken_for_a_choice_and_for_text() -> None:
    class Seat(Enum):
        WINDOW = "window"

    class Word(StrEnum):
        HELLO = "hello"

    class Level(IntEnum):
        LOW = 1

    assert value_of(SEAT, Seat.WINDOW) == "window"
    assert type(value_of(NAME, Word.HELLO)) is str
    assert refusal(NAME, given=Level.LOW) == {"name": "Name must be text."}


@pytest.mark.parametrize("given", [["window"], ["window", "aisle"], {"selected": ["window"]}])
def test_a_field_that_is_no_list_refuses_a_list(given: object) -> None:
    assert "seat" in refusal(SEAT, given=given)


# --- Left out, default, required


@pytest.mark.row("Q5")
@pytest.mark.parametrize("given", ["", "  ", None, {}, {"seat": ""}, {"seat": None}, []])
def test_a_required_field_left_blank_is_said(given: object) -> None:
    assert refusal(SEAT, given=given) == {"seat": "Your seat needs an answer."}


@pytest.mark.row("Q6")
@pytest.mark.parametrize("given", ["", " ", None, {}, {"seat": " "}])
def test_a_default_stands_in_for_a_blank_answer(given: object) -> None:
    assert value_of(Field("seat", choices=["window", "aisle"], default="aisle"), given) == "aisle"


@pytest.mark.row("Q14")
@pytest.mark.parametrize("required", [True, False])
def test_the_defaults_false_and_zero_are_values(required: bool) -> None:
    fields = [
        Field("sure", FieldType.BOOLEAN, default=False, required=required),
        Field("count", FieldType.INTEGER, default=0, required=required),
        Field("price", FieldType.NUMBER, default=0.0, required=required),
    ]
    answers = coerce(fields, {})
    assert answers == {"sure": False, "count": 0, "price": 0.0}
    assert answers["sure"] is False


def test_false_and_zero_given_are_never_left_out() -> None:
    fields = [
        Field("sure", FieldType.BOOLEAN, default=True),
        Field("count", FieldType.INTEGER, default=7),
    ]
    assert coerce(fields, {"sure": False, "count": 0}) == {"sure": False, "count": 0}


def test_an_optional_field_left_out_is_absent() -> None:
    assert coerce([Field("a", required=False), NAME], {"a": " ", "name": "x"}) == {"name": "x"}


def test_clearing_a_prefilled_list_does_not_bring_the_default_back() -> None:
    field = Field("t", FieldType.CHOICES, choices=["a", "b"], default=["a"], required=False)
    assert coerce([field], []) == {"t": []}
    assert coerce([field], {}) == {"t": ["a"]}


def test_clearing_a_prefilled_required_list_is_refused() -> None:
    field = Field("t", FieldType.CHOICES, choices=["a", "b"], default=["a"])
    assert refusal(field, given=[]) == {"t": "t needs an answer."}


# --- Text


@pytest.mark.parametrize("given", [1, 1.5, True, ["a"], {"name": {"a": 1}}])
def test_text_takes_strings_only(given: object) -> None:
    assert refusal(NAME, given=given) == {"name": "Name must be text."}


@pytest.mark.parametrize("given", ["a\x00b", "\ud800"])
def test_text_that_no_store_can_keep_is_refused(given: str) -> None:
    assert "cannot be kept" in refusal(NAME, given=given)["name"]


def test_lengths_count_characters_of_the_stripped_text() -> None:
    field = Field("code", title="Code", min_length=2, max_length=3)
    assert value_of(field, " äöü ") == "äöü"
    assert refusal(field, given=" a ") == {"code": "Code must be at least 2 characters long."}
    assert refusal(field, given="abcd") == {"code": "Code must be at most 3 characters long."}


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [
        (Format.EMAIL, "a.b+c@mail.example.com", "a@b"),
        (Format.EMAIL, "o'neil@example.co", "a b@example.com"),
        (Format.EMAIL, "a@example.com", "a..b@example.com"),
        (Format.EMAIL, "a@x-y.example", "a@-x.example"),
        (Format.URI, "https://example.com/a?b=%20#c", "example.com"),
        (Format.URI, "mailto:a@example.com", "http://"),
        (Format.URI, "http://[::1]:8080/", "http://[::1"),
        (Format.URI, "urn:isbn:1", "http://exa mple.com"),
        (Format.URI, "ftp://example.com", "http://example.com:99999/"),
        (Format.DATE, "2024-02-29", "2025-02-29"),
        (Format.DATE, "2024-01-01", "20240101"),
        (Format.DATE, "1999-12-31", "31.12.1999"),
        (Format.DATE_TIME, "2024-02-29T18:30:00Z", "2024-02-29T18:30:00"),
        (Format.DATE_TIME, "2024-02-29t18:30:00.1234567+05:30", "2024-02-29 18:30:00Z"),
        (Format.DATE_TIME, "2024-02-29T00:00:00-08:00", "2024-02-29T25:00:00Z"),
    ],
)
def test_formats_accept_the_good_and_say_what_the_bad_should_be(
    format: Format, good: str, bad: str
) -> None:
    field = Field("f", title="Contact", format=format)
    assert value_of(field, good) == good
    assert refusal(field, given=bad)["f"].startswith("Contact must be a")


def test_a_pattern_is_searched_for_anywhere() -> None:
    field = Field("id", title="Ticket", pattern=r"[A-Z]+-\d+")
    assert value_of(field, "see OPS-12 please") == "see OPS-12 please"
    assert refusal(field, given="ops-x")["id"].startswith("Ticket must match the pattern")


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*$", r"a*a*a*a*a*a*b", r"^(.*a){20}$"])
def test_no_pattern_can_hold_up_the_bot(pattern: str) -> None:
    field = Field("f", pattern=pattern)
    began = time.perf_counter()
    assert refusal(field, given="a" * 999 + "!" if pattern != r"^(.*a){20}$" else "b" * 999)
    assert time.perf_counter() - began < 1


def test_a_text_too_long_for_its_pattern_is_refused() -> None:
    assert "1000 characters" in refusal(Field("f", pattern="a"), given="a" * 1001)["f"]


# --- Numbers and booleans


@pytest.mark.row("Q7")
@pytest.mark.parametrize(
    ("given", "value"), [("42", 42), (" -3 ", -3), ("+3", 3), (42, 42), (42.0, 42), ("007", 7)]
)
def test_whole_numbers_are_taken(given: object, value: int) -> None:
    assert value_of(AGE, given) == value
    assert type(value_of(AGE, given)) is int


@pytest.mark.row("Q7")
@pytest.mark.parametrize(
    "given",
    ["4.2", "abc", 4.2, True, False, "true", "1e3", "1_000", "٤٢", "- 3", [1], math.inf, math.nan],
)
def test_what_is_no_whole_number_is_refused(given: object) -> None:
    assert refusal(AGE, given=given) == {"age": "Age must be a whole number."}


@pytest.mark.parametrize(
    "given", ["9" * 5000, "9" * 100, pytest.param(10**5000, id="huge"), 2**63, 1e300]
)
def test_whole_numbers_too_large_to_keep_are_refused_in_a_sentence(given: object) -> None:
    assert refusal(AGE, given=given)["age"].startswith("Age must be a whole number")


@pytest.mark.parametrize(
    ("given", "value"), [("42", 42), ("1.50", 1.5), (" -.5 ", -0.5), ("1e3", 1000.0), (7, 7)]
)
def test_numbers_are_taken(given: object, value: float) -> None:
    assert value_of(PRICE, given) == value


@pytest.mark.parametrize(
    "given",
    ["nan", "inf", "-Infinity", "1e999", math.nan, math.inf, 10**400, "9" * 350, "1,5", True, "x"],
)
def test_what_is_no_finite_number_is_refused(given: object) -> None:
    assert refusal(PRICE, given=given) == {"price": "Price must be a number."}


def test_bounds_are_inclusive() -> None:
    field = Field("age", FieldType.INTEGER, title="Age", minimum=18, maximum=99)
    assert [value_of(field, age) for age in (18, "99")] == [18, 99]
    assert refusal(field, given="17") == {"age": "Age must be at least 18."}
    assert refusal(field, given=100) == {"age": "Age must be at most 99."}


@pytest.mark.row("Q8")
@pytest.mark.parametrize("given", [True, "true", "YES", "on", "1", 1, "Y", " t "])
def test_yes_in_its_forms(given: object) -> None:
    assert value_of(SURE, given) is True


@pytest.mark.row("Q8")
@pytest.mark.parametrize("given", [False, "false", "No", "OFF", "0", 0, "n", "F"])
def test_no_in_its_forms(given: object) -> None:
    assert value_of(SURE, given) is False


@pytest.mark.parametrize("given", ["maybe", 2, 1.0, [True], "ja"])
def test_anything_else_is_neither_yes_nor_no(given: object) -> None:
    assert refusal(SURE, given=given) == {"sure": "Are you sure? must be yes or no."}


# --- Choices


@pytest.mark.row("Q9")
def test_list_items_are_stripped_and_keep_their_order() -> None:
    assert value_of(TAGS, [" b ", "a"]) == ["b", "a"]


@pytest.mark.parametrize(
    ("given", "value"), [(["b", "", "b", " ", "a"], ["b", "a"]), ("c", ["c"]), (("a",), ["a"])]
)
def test_blanks_and_repeats_are_dropped_and_one_scalar_is_a_list(
    given: object, value: list[str]
) -> None:
    assert value_of(TAGS, given) == value


def test_an_item_not_offered_is_refused() -> None:
    assert refusal(TAGS, given=["a", "z"]) == {"tags": "Tags takes only: a, b, c."}
    assert "tags" in refusal(TAGS, given=[["a"]])


def test_too_few_and_too_many_items_are_refused() -> None:
    field = Field(
        "t", FieldType.CHOICES, title="Tags", choices=["a", "b", "c"], min_items=2, max_items=2
    )
    assert value_of(field, ["a", "a", "b"]) == ["a", "b"]
    assert refusal(field, given=["a", "a"]) == {"t": "Tags needs at least 2 choices."}
    assert refusal(field, given=["a", "b", "c"]) == {"t": "Tags takes at most 2 choices."}


def test_true_and_one_are_different_items() -> None:
    field = Field("t", FieldType.CHOICES, choices=[True, 1])
    assert json.dumps(value_of(field, [1, True, 1])) == "[1, true]"


# --- Own words beside the choices


@pytest.mark.parametrize(
    ("given", "selected", "other"),
    [
        ("Postgres", ["Postgres"], None),
        (" sqlite ", [], "sqlite"),
        ({"selected": ["MySQL"]}, ["MySQL"], None),
        ({"selected": "MySQL", "other_text": " "}, ["MySQL"], None),
        ({"other": "sqlite"}, [], "sqlite"),
        ({"selected": ["MySQL"], "other_text": "sqlite"}, [], "sqlite"),
        ({"db": {"selected": ["MySQL"], "other_text": None}}, ["MySQL"], None),
        (Selection(("MySQL",), None), ["MySQL"], None),
    ],
)
def test_one_choice_or_own_words(given: object, selected: list[str], other: str | None) -> None:
    assert value_of(DATABASE, given) == {"selected": selected, "other_text": other}


@pytest.mark.parametrize(
    ("given", "selected", "other"),
    [
        (["b", "a"], ["b", "a"], None),
        (["a", "blue", "red"], ["a"], "blue, red"),
        ("blue", [], "blue"),
        ({"selected": ["a", "b", "a"], "other_text": "blue"}, ["a", "b"], "blue"),
    ],
)
def test_several_choices_and_own_words(
    given: object, selected: list[str], other: str | None
) -> None:
    assert value_of(EXTRAS, given) == {"selected": selected, "other_text": other}


@pytest.mark.parametrize(
    "given",
    [
        {"selected": ["sqlite"]},
        {"selected": ["MySQL", "Postgres"]},
        {"other_text": 3},
        {"selected": [], "extra": 1},
        {"other": "a", "other_text": "b"},
        {"other_text": "a\x00"},
        ["MySQL"],
        7,
    ],
)
def test_a_selection_that_is_none_is_refused(given: object) -> None:
    assert refusal(DATABASE, given=given)["db"].startswith("Database ")


@pytest.mark.parametrize("given", [{"selected": [], "other_text": None}, {"other": " "}, " ", []])
def test_an_empty_selection_is_left_out(given: object) -> None:
    assert refusal(DATABASE, given=given) == {"db": "Database needs an answer."}
    optional = Field("db", choices=["Postgres"], allow_other=True, required=False)
    assert coerce([optional], given) == {}


def test_own_words_count_as_one_choice() -> None:
    field = Field(
        "x", FieldType.CHOICES, title="Extras", choices=["a", "b"], allow_other=True, max_items=2
    )
    assert value_of(field, ["a", "blue"]) == {"selected": ["a"], "other_text": "blue"}
    assert refusal(field, given=["a", "b", "blue"]) == {"x": "Extras takes at most 2 choices."}
    both = Field("x", FieldType.CHOICES, choices=["a"], allow_other=True, min_items=2)
    assert value_of(both, ["a", "blue"]) == {"selected": ["a"], "other_text": "blue"}


def test_a_default_beside_own_words_is_a_selection() -> None:
    field = Field("db", choices=["Postgres"], allow_other=True, default="Postgres")
    assert value_of(field, "") == {"selected": ["Postgres"], "other_text": None}


# --- The whole answer


@pytest.mark.row("Q10")
def test_several_fields_take_a_mapping() -> None:
    assert coerce([NAME, AGE], {"age": "3", "name": "Bo"}) == {"name": "Bo", "age": 3}


@pytest.mark.row("Q11")
def test_an_unknown_key_is_refused() -> None:
    assert refusal(NAME, AGE, given={"age": 3, "name": "Bo", "sex": "x"}) == {
        "": "This question does not ask for 'sex'."
    }


@pytest.mark.row("Q12")
def test_the_lenient_entry_ignores_extra_keys() -> None:
    given = {"age": 3, "name": "Bo", "csrf": "x", "utf8": "✓"}
    assert coerce([NAME, AGE], given, lenient=True) == {"name": "Bo", "age": 3}


def test_the_lenient_entry_still_checks_the_fields() -> None:
    assert refusal(NAME, AGE, given={"age": "x", "csrf": "x"}, lenient=True) == {
        "name": "Name needs an answer.",
        "age": "Age must be a whole number.",
    }


@pytest.mark.row("Q13")
@pytest.mark.parametrize("lenient", [True, False])
@pytest.mark.parametrize("given", ["Bo", 3, ["Bo", 3], False])
def test_several_fields_refuse_a_bare_value(given: object, lenient: bool) -> None:
    assert refusal(NAME, AGE, given=given, lenient=lenient) == {
        "": "Answer each of these by its name: Name, Age."
    }


def test_all_failing_fields_are_reported_at_once() -> None:
    assert refusal(NAME, AGE, SEAT, given={"age": "x", "seat": "middle", "no": 1}) == {
        "": "This question does not ask for 'no'.",
        "name": "Name needs an answer.",
        "age": "Age must be a whole number.",
        "seat": "Your seat must be one of: window, aisle.",
    }


def test_many_unknown_keys_are_named_in_part_and_counted() -> None:
    sentence = refusal(NAME, given={"name": "x", **{f"k{n}": 1 for n in range(9)}})[""]
    assert sentence == "This question does not ask for 'k0', 'k1', 'k2', 'k3', 'k4' and 4 more."


@pytest.mark.parametrize("given", [None, {}])
def test_an_approval_takes_no_value(given: object) -> None:
    assert coerce([], given) == {}


@pytest.mark.parametrize("given", ["yes", True, {"a": 1}, [], 0])
def test_an_approval_refuses_any_value(given: object) -> None:
    assert list(refusal(given=given)) == [""]


def test_two_fields_of_one_name_are_a_mistake_of_the_asker() -> None:
    with pytest.raises(ValueError, match="same name"):
        coerce([NAME, NAME], {})


# --- Construction and storage


def test_plain_choices_make_a_choice_field() -> None:
    assert SEAT.type is FieldType.CHOICE
    assert SEAT.choices == (Choice("window", "window"), Choice("aisle", "aisle"))
    assert Field("seat", choices=[True]).choices[0].title == "true"


def test_a_field_without_choices_takes_text_and_is_labelled_by_its_name() -> None:
    assert Field("city").type is FieldType.TEXT
    assert (Field("city").label, Field("city", title="City").label) == ("city", "City")
    assert Field("city", title=" ").label == "city"


def test_a_default_is_kept_in_its_own_type_and_a_blank_one_is_none() -> None:
    assert Field("n", FieldType.INTEGER, default="42").default == 42
    assert Field("t", default=" ").default is None
    field = Field("t", FieldType.CHOICES, choices=[1, 2], default=["2", "1"])
    assert field.default == (2, 1)
    assert hash(field) == hash(field_from_json(field_to_json(field)))


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("", {}, "needs a name"),
        ("a\nb", {}, "needs a name"),
        (" a", {}, "needs a name"),
        ("a", {"title": "x\x00"}, "cannot be kept"),
        ("a", {"choices": ["x", "x"]}, "same choice twice"),
        ("a", {"choices": ["x", " x "]}, "same choice twice"),
        ("a", {"choices": [1, "1"]}, "same choice twice"),
        ("a", {"choices": [1, 1.0]}, "same choice twice"),
        ("a", {"choices": "xy"}, "must be a list"),
        ("a", {"choices": ["x", " "]}, "blank"),
        ("a", {"choices": [math.inf]}, "finite"),
        ("a", {"choices": [10**5000]}, "too large"),
        ("a", {"choices": ["x"], "default": "y"}, "must be one of: x"),
        ("a", {"choices": ["x"], "default": "y", "allow_other": True}, "must be one of: x"),
        ("a", {"type": FieldType.CHOICE}, "needs choices"),
        ("a", {"type": FieldType.TEXT, "choices": ["x"]}, "its type is text"),
        ("a", {"type": FieldType.INTEGER, "default": "x"}, "must be a whole number"),
        ("a", {"type": FieldType.INTEGER, "minimum": 2, "maximum": 1}, "above"),
        ("a", {"type": FieldType.NUMBER, "minimum": math.nan}, "no usable number"),
        ("a", {"type": FieldType.NUMBER, "maximum": 10**5000}, "no usable number"),
        ("a", {"type": FieldType.INTEGER, "minimum": 2, "default": 1}, "at least 2"),
        ("a", {"minimum": 2}, "its type is text"),
        ("a", {"min_length": -1}, "no usable number"),
        ("a", {"min_length": 2, "default": "x"}, "at least 2"),
        ("a", {"choices": ["x"], "max_length": 2}, "its type is choice"),
        ("a", {"choices": ["x"], "multiline": True}, "its type is choice"),
        ("a", {"choices": ["x"], "type": FieldType.CHOICES, "min_items": 2}, "than it offers"),
        ("a", {"pattern": "("}, "cannot be read"),
        ("a", {"pattern": r"(a)\1"}, "cannot be read"),
        ("a", {"pattern": "a" * 501}, "500 characters"),
        ("a", {"allow_other": True}, "other answers"),
        ("other", {"choices": ["x"], "allow_other": True}, "other answers"),
    ],
)
def test_a_field_that_contradicts_itself_is_refused(
    name: str, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Field(name, **options)


def test_a_row_keeps_only_what_was_said() -> None:
    assert field_to_json(Field("sure", FieldType.BOOLEAN, default=False)) == {
        "name": "sure",
        "type": "boolean",
        "required": True,
        "default": False,
        "multiline": False,
        "allow_other": False,
    }
