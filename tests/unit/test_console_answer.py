"""How a typed line becomes the answer to a field."""

import pytest

from adapters.console.answer import Again, read
from bot.ask_user import AskedQuestion, Option, to_fields
from bot.field import Choice, Field, FieldType, Format

SIZES = [Choice(3, "Small"), Choice(1, "Middle"), Choice(2, "Large, with a lid")]
OPTIONS = tuple(Option(label, f"It is {label}.") for label in ("red", "green", "blue"))
SINGLE, MULTI = to_fields(
    [
        AskedQuestion("Which colour?", "Colour", OPTIONS),
        AskedQuestion("Which colours?", "Colours", OPTIONS, multi_select=True),
    ]
)


@pytest.mark.parametrize(
    ("field", "line", "value"),
    [
        (Field("t"), "  two words ", "two words"),
        (Field("t", required=False), " ", None),
        (Field("t", default="main"), "", "main"),
        (Field("t", format=Format.DATE), "2026-02-28", "2026-02-28"),
        (Field("n", FieldType.INTEGER, minimum=1), "7", 7),
        (Field("n", FieldType.NUMBER), "2.5", 2.5),
        (Field("b", FieldType.BOOLEAN), "y", True),
        (Field("b", FieldType.BOOLEAN), "N", False),
        (Field("b", FieldType.BOOLEAN, default=False), "", False),
        (Field("c", choices=SIZES), "1", 3),
        (Field("c", choices=SIZES), "Small", 3),
        (Field("c", choices=SIZES), "Large, with a lid", 2),
        (Field("c", choices=SIZES, default=2), "", 2),
        (Field("c", choices=SIZES, required=False), "", None),
        (Field("c", FieldType.CHOICES, choices=SIZES), "3, 1, 3", [2, 3]),
        (Field("c", FieldType.CHOICES, choices=SIZES), "2", [1]),
    ],
)
def test_a_line_that_fits_is_the_value(field: Field, line: str, value: object) -> None:
    assert read(field, line) == value


@pytest.mark.parametrize(
    ("field", "line", "sentence"),
    [
        (Field("t", title="Name"), " ", "Name needs an answer."),
        (Field("t", title="Name", max_length=3), "abcd", "Name must be at most 3 characters long."),
        (Field("n", FieldType.INTEGER), "3.5", "n must be a whole number."),
        (Field("b", FieldType.BOOLEAN), "maybe", "b must be yes or no."),
        (
            Field("c", choices=SIZES),
            "4",
            "c has no such option: type one number from 1 to 3.",
        ),
        (
            Field("c", choices=SIZES),
            "1, 2",
            "c has no such option: type one number from 1 to 3.",
        ),
        (
            Field("c", choices=SIZES),
            "huge",
            "c must be one of: Small, Middle, Large, with a lid.",
        ),
        (
            Field("c", FieldType.CHOICES, choices=SIZES, max_items=1),
            "1, 2",
            "c takes at most 1 choices.",
        ),
        (
            Field("c", FieldType.CHOICES, choices=SIZES),
            "1, huge",
            "c takes only: Small, Middle, Large, with a lid.",
        ),
    ],
)
def test_a_line_that_does_not_fit_is_said_at_once(field: Field, line: str, sentence: str) -> None:
    with pytest.raises(Again) as refused:
        read(field, line)
    assert str(refused.value) == sentence


@pytest.mark.row("D11")
def test_a_number_that_is_not_offered_asks_again() -> None:
    for field in (SINGLE, MULTI):
        with pytest.raises(Again, match="no such option"):
            read(field, "7")


@pytest.mark.row("D12")
def test_an_empty_line_asks_again() -> None:
    for field in (SINGLE, MULTI):
        with pytest.raises(Again, match="needs an answer"):
            read(field, " ")


@pytest.mark.row("D13")
def test_numbers_with_commas_pick_several() -> None:
    assert read(MULTI, "1, 3") == {"selected": ["red", "blue"], "other_text": None}


def test_own_words_stand_alone_for_one_and_beside_picks_for_several() -> None:
    assert read(SINGLE, "teal, please") == {"selected": [], "other_text": "teal, please"}
    assert read(MULTI, "1, teal") == {"selected": ["red"], "other_text": "teal"}


def test_choices_that_share_a_title_are_told_apart_by_their_values() -> None:
    field = Field("c", choices=[Choice("eu-1", "Europe"), Choice("eu-2", "Europe")])
    assert read(field, "2") == "eu-2"
    assert read(field, "eu-1") == "eu-1"
    other = Field("c", choices=field.choices, allow_other=True)
    assert read(other, "2") == {"selected": ["eu-2"], "other_text": None}
