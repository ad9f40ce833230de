"""Modals: every form is one that Slack takes, and what a person enters is what the field reads."""

from typing import Any

import pytest

from adapters.slack import limits, modals
from bot.card import Card, CardState, Kind
from bot.field import AnswerError, Choice, Field, FieldType, coerce
from tests.fakes.slack import text_of, validate_view
from tests.fakes.slack.blocks import view_too_large
from tests.fakes.slack.forms import ClientRefused, filled, initial_values

TEXT, CHOICE, CHOICES = FieldType.TEXT, FieldType.CHOICE, FieldType.CHOICES
INTEGER, NUMBER, BOOLEAN = FieldType.INTEGER, FieldType.NUMBER, FieldType.BOOLEAN
COLOURS = (Choice("r", "Red", "Like a rose"), Choice("g", "Green"), Choice(3, "Three"))


def card(*fields: Field, **given: Any) -> Card:
    base: dict[str, Any] = {"message": "Please say", "choosing": False, "url": "https://a.test/"}
    return Card(
        nonce="n0nce",
        version=1,
        kind=Kind.FORM,
        state=CardState.OPEN,
        title="refund asks",
        agent="ops",
        fields=fields,
        **(base | given),
    )


def many(count: int) -> list[Choice]:
    return [Choice(f"value-{n}", f"Title {n}") for n in range(count)]


def answered(drawn: Card, entered: dict[str, Any]) -> Any:
    """What the core reads when a person fills in the modal that way, through Slack's client."""
    view = modals.form(drawn)
    assert validate_view(view) == []
    return coerce(
        drawn.fields, modals.read_state(drawn, entered_state(view, entered)), lenient=True
    )


def entered_state(view: dict[str, Any], entered: dict[str, Any]) -> dict[str, Any]:
    return filled(view, initial_values(view, {}), entered)


@pytest.mark.parametrize(
    ("field", "entered", "read"),
    [
        (Field("f", TEXT), "hello", "hello"),
        (Field("f", TEXT, multiline=True), "a\nb", "a\nb"),
        (Field("f", TEXT, format="email"), "a@b.test", "a@b.test"),  # type: ignore[arg-type]
        (Field("f", TEXT, format="uri"), "https://a.test/x", "https://a.test/x"),  # type: ignore[arg-type]
        (Field("f", TEXT, format="date"), "2026-02-03", "2026-02-03"),  # type: ignore[arg-type]
        (Field("f", TEXT, format="date-time"), "2026-02-03T04:05:06Z", "2026-02-03T04:05:06Z"),  # type: ignore[arg-type]
        (Field("f", INTEGER), "42", 42),
        (Field("f", NUMBER), "4.5", 4.5),
        (Field("f", BOOLEAN), "No", False),
        (Field("f", BOOLEAN), "Yes", True),
        (Field("f", CHOICE, choices=COLOURS), "Three", 3),
        (Field("f", CHOICE, choices=[True, False]), "false", False),
        (Field("f", CHOICE, choices=many(10)), "Title 9", "value-9"),
        (Field("f", CHOICE, choices=many(100)), "Title 99", "value-99"),
        (Field("f", CHOICE, choices=many(600)), "Title 599", "value-599"),
        (Field("f", CHOICE, choices=many(5_000)), "value-4999", "value-4999"),
        (Field("f", CHOICES, choices=COLOURS), ["Green", "Three"], ["g", 3]),
        (Field("f", CHOICES, choices=many(10)), ["Title 0", "Title 9"], ["value-0", "value-9"]),
        (Field("f", CHOICES, choices=many(300)), ["Title 299"], ["value-299"]),
    ],
)
def test_what_is_entered_is_what_the_field_reads(field: Field, entered: Any, read: Any) -> None:
    assert answered(card(field), {"f": entered}) == {"f": read}


@pytest.mark.parametrize(
    "field",
    [
        Field("f", TEXT, default="kept"),
        Field("f", TEXT, format="uri", default="urn:isbn:1"),  # type: ignore[arg-type]
        Field("f", TEXT, format="email", default="a@b.test"),  # type: ignore[arg-type]
        Field("f", TEXT, format="date", default="2026-02-03"),  # type: ignore[arg-type]
        Field("f", TEXT, default="x" * 5_000),
        Field("f", TEXT, default="two\nlines"),
        Field("f", INTEGER, default=-7),
        Field("f", NUMBER, default=1e-7),
        Field("f", NUMBER, default=1e22),
        Field("f", BOOLEAN, default=False),
        Field("f", CHOICE, choices=COLOURS, default=3),
        Field("f", CHOICE, choices=many(5_000), default="value-7"),
        Field("f", CHOICES, choices=COLOURS, default=["r", 3]),
        Field("f", CHOICES, choices=many(5_000), default=["value-7", "value-8"]),
    ],
)
def test_a_default_that_is_left_alone_is_the_answer(field: Field) -> None:
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    assert answered(card(field), {}) == {"f": default}


@pytest.mark.parametrize(
    "field",
    [
        Field("f", TEXT, required=False),
        Field("f", INTEGER, required=False),
        Field("f", BOOLEAN, required=False),
        Field("f", CHOICE, choices=COLOURS, required=False),
        Field("f", CHOICES, choices=COLOURS, required=False),
        Field("f", CHOICE, choices=many(100), required=False),
    ],
)
def test_an_optional_field_can_be_left_out(field: Field) -> None:
    assert answered(card(field), {}) == {}


@pytest.mark.parametrize("type_", [BOOLEAN, CHOICE])
def test_a_pick_of_an_optional_field_can_be_taken_back(type_: FieldType) -> None:
    field = Field("f", type_, choices=() if type_ is BOOLEAN else COLOURS, required=False)
    assert answered(card(field), {"f": "No answer"}) == {}


def test_a_required_field_is_asked_for_by_slack_itself() -> None:
    with pytest.raises(ClientRefused):
        answered(card(Field("f", TEXT)), {})


def test_marks_taken_off_a_prefilled_list_stay_off() -> None:
    field = Field("f", CHOICES, choices=COLOURS, default=["r"], required=False)
    assert answered(card(field), {"f": []}) == {"f": []}


@pytest.mark.row("D8")
def test_own_words_stand_alone_for_a_single_choice() -> None:
    drawn = card(
        Field("q1", CHOICE, title="Colour", choices=COLOURS, allow_other=True), choosing=True
    )
    other = "Colour: other, in your own words"
    both = answered(drawn, {"Colour": "Red", other: "violet"})
    assert both == {"q1": {"selected": [], "other_text": "violet"}}
    assert answered(drawn, {other: "violet"}) == both


@pytest.mark.row("D9")
def test_several_choices_and_own_words_are_both_kept() -> None:
    drawn = card(Field("q1", CHOICES, choices=COLOURS, allow_other=True), choosing=True)
    other = "q1: other, in your own words"
    both = answered(drawn, {"q1": ["Red", "Green"], other: "blue"})
    assert both == {"q1": {"selected": ["r", "g"], "other_text": "blue"}}


@pytest.mark.row("D7")
def test_one_option_alone_is_selected() -> None:
    drawn = card(Field("q1", CHOICE, choices=COLOURS, allow_other=True), choosing=True)
    assert answered(drawn, {"q1": "Red"}) == {"q1": {"selected": ["r"], "other_text": None}}


def test_a_question_that_allows_other_answers_still_needs_one() -> None:
    drawn = card(Field("q1", CHOICE, choices=COLOURS, allow_other=True), choosing=True)
    with pytest.raises(AnswerError):
        answered(drawn, {})


def test_ask_user_puts_the_whole_question_and_every_description_before_the_person() -> None:
    asked = Field(
        "q1", CHOICE, title="Colour", description="Which?", choices=COLOURS, allow_other=True
    )
    view = modals.form(card(asked, choosing=True))
    assert "Colour: Which?" in text_of(view)
    assert "Like a rose" in text_of(view)


def test_labels_that_the_widget_cuts_stand_before_it_in_full() -> None:
    long, longer = "a" * 120, "b" * 5_000
    field = Field("f", CHOICE, choices=[Choice("x", long, "d" * 90), Choice("y", longer)])
    shown = text_of(modals.form(card(field)))
    assert long in shown
    assert "d" * 90 in shown
    assert shown.count("b") >= 5_000
    labels = [o["text"]["text"] for o in last_input(modals.form(card(field)))["options"]]
    assert answered(card(field), {"f": labels[0]}) == {"f": "x"}


def last_input(view: dict[str, Any]) -> dict[str, Any]:
    return [block for block in view["blocks"] if block["type"] == "input"][-1]["element"]  # type: ignore[no-any-return]


def test_long_labels_and_descriptions_are_not_cut() -> None:
    field = Field("f", TEXT, title="t" * 3_000, description="d" * 4_000)
    view = modals.form(card(field))
    assert validate_view(view) == []
    assert text_of(view).count("t") >= 3_000
    assert text_of(view).count("d") >= 4_000


def test_a_list_too_long_for_a_menu_says_to_type_the_value() -> None:
    view = modals.form(card(Field("f", CHOICE, choices=many(5_000))))
    assert not view_too_large(view)
    assert "One of 5,000 values" in text_of(view)
    assert "“Show everything” on the card lists them." in text_of(view)


def test_a_form_with_more_inputs_than_a_modal_holds_says_so() -> None:
    view = modals.form(card(*(Field(f"f{n}", TEXT) for n in range(120))))
    assert validate_view(view) == []
    assert "too long for Slack" in text_of(view)


def test_a_long_message_is_cut_visibly() -> None:
    view = modals.form(card(Field("f", TEXT), message="m" * 100_000))
    assert validate_view(view) == []
    assert "press “Show everything” on the card to read 42,000 more characters" in text_of(view)


def test_choices_that_do_not_fit_before_the_menu_are_said_to_be_on_the_card() -> None:
    choices = [Choice(f"v{n}", f"{n} " + "t" * 2_000) for n in range(200)]
    drawn = card(Field("f", CHOICE, choices=choices))
    view = modals.form(drawn)
    assert validate_view(view) == []
    assert not view_too_large(view)
    assert "“Show everything” on the card has all choices in full." in text_of(view)
    options = [o for group in last_input(view)["option_groups"] for o in group["options"]]
    assert len(options) == 200
    assert answered(drawn, {"f": options[199]["text"]["text"]}) == {"f": "v199"}


def test_only_the_nonce_travels_with_a_view() -> None:
    assert modals.form(card(Field("f", TEXT)))["private_metadata"] == "n0nce"
    assert modals.note(card())["private_metadata"] == "n0nce"


def test_a_note_is_read_back() -> None:
    view = modals.note(card())
    assert validate_view(view) == []
    state = entered_state(view, {"Your note to the agent": "it shipped\nalready"})
    assert modals.read_note(state) == "it shipped\nalready"


def test_sayings_are_views_of_slack() -> None:
    for view in (modals.loading(), modals.saying("x" * 80_000), modals.saying("")):
        assert validate_view(view) == []


def test_a_page_is_opened_only_by_a_button_under_its_whole_address() -> None:
    view = modals.link(card(url="https://a.test/x?y=1"))
    assert validate_view(view) == []
    assert "https://a.test/x?y=1" in text_of(view)
    [actions] = [block for block in view["blocks"] if block["type"] == "actions"]
    assert actions["elements"][0]["url"] == "https://a.test/x?y=1"


@pytest.mark.parametrize(
    "url", ["https://[x", "https://evil.test\\@a.test/", "https://a.test/" + "a" * 9_000]
)
def test_an_address_that_cannot_be_trusted_or_held_has_no_button(url: str) -> None:
    view = modals.link(card(url=url))
    assert validate_view(view) == []
    assert not [block for block in view["blocks"] if block["type"] == "actions"]
    assert "".join(text_of(view).split("\n")).count("a" * 2_000) == (4 if len(url) > 9_000 else 0)


def test_an_address_that_no_view_holds_is_cut_visibly() -> None:
    view = modals.link(card(url="https://a.test/" + "a" * 400_000))
    assert validate_view(view) == []
    assert not view_too_large(view)
    assert "press “Show everything” on the card to read the rest" in text_of(view)


def test_a_saying_that_no_view_holds_is_cut_visibly() -> None:
    assert "… (cut)" in text_of(modals.saying("x" * 80_000))


def test_errors_stand_at_their_inputs_and_the_rest_at_the_first() -> None:
    drawn = card(Field("a", TEXT), Field("b", TEXT))
    placed = modals.errors_for(drawn, {"b": "B is wrong.", "": "All is wrong.", "a": "A is wrong."})
    assert placed == {"field.0": "All is wrong. A is wrong.", "field.1": "B is wrong."}


@pytest.mark.parametrize(
    "state",
    [
        {"field.0": []},
        {"field.0": {"input": "x"}},
        {"field.0": {"input": {"selected_option": {"value": "9"}}}},
        {"field.0": {"input": {"selected_option": {"value": "-1"}}}},
        {"field.0": {"input": {"selected_option": {"value": "²"}}}},
        {"field.0": {"input": {"selected_option": "0"}}},
        {"field.0": {"input": {"selected_options": {}}}},
    ],
)
def test_a_state_that_our_view_cannot_give_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(modals.NotOurs):
        modals.read_state(card(Field("f", CHOICE, choices=COLOURS)), state)


def test_every_input_has_its_own_block() -> None:
    fields = [Field(f"q{n}", CHOICES, choices=COLOURS, allow_other=True) for n in range(4)]
    view = modals.form(card(*fields, choosing=True))
    assert len(view["blocks"]) <= limits.VIEW_BLOCKS
    ids = [block["block_id"] for block in view["blocks"] if block["type"] == "input"]
    assert len(set(ids)) == len(ids) == 8
