"""The inputs of a form on its card, and what comes back of them.

Teams gives every value as text, several choices joined by commas, and leaves out what is blank
(platforms/teams.md 4). A choice is so sent as its number and looked up here; what a field demands
is for `bot.field` to judge, since a client may send anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from adapters.teams import limits
from adapters.teams.text import escaped, plain
from bot.field import Field, FieldType, Format, Value

Element = dict[str, Any]

_EXPANDED: Final = 6  # choices that are shown as a list, and not in a menu
_MOST: Final = 200  # choices of one menu
_BOOLEANS: Final = (("Yes", True), ("No", False))


class NotOurs(ValueError):
    """What came back does not fit the form; the text is a sentence for the person."""

    def __init__(self) -> None:
        super().__init__("The form came back with something that was not offered: send it again.")


def note(name: str) -> Element:
    """Where somebody says why they decline."""
    return {
        "type": "Input.Text",
        "id": name,
        "label": "Note for the agent, if you decline with one",
        "isMultiline": True,
        "maxLength": limits.NOTE,
    }


def elements(
    fields: Sequence[Field], *, open_: bool, room: int, editing: bool = False
) -> tuple[list[Element], bool]:
    """The fields as inputs (as names alone once it is closed), and whether all of them fit.
    `editing`: what is left empty is no answer, so that every default stands in its input."""
    drawn: list[Element] = []
    for number, field in enumerate(fields):
        told = f" — {field.description}" if field.description else ""
        room -= (
            len(field.label)
            + len(told)
            + sum(len(one.title) + len(one.description) for one in field.choices)
        )
        if room < 0 or len(field.choices) > _MOST:
            return drawn, False
        if open_:
            drawn += _open(field, number, editing)
            continue
        runs = [{"type": "TextRun", "text": plain(field.label), "weight": "Bolder"}]
        if told:
            runs.append({"type": "TextRun", "text": plain(told)})
        drawn.append({"type": "RichTextBlock", "inlines": runs, "separator": bool(number)})
        drawn += _described(field)
    return drawn, True


def answer_of(fields: Sequence[Field], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer by field name, as `bot.field.coerce` takes it; what is left out is absent. Raises
    NotOurs."""
    answer: dict[str, Any] = {}
    for number, field in enumerate(fields):
        given = _given(field, inputs.get(_id(number)))
        if field.allow_other:
            other = inputs.get(_other_id(number))
            selected = given if isinstance(given, list) else [] if given is None else [given]
            answer[field.name] = {"selected": selected, "other_text": other or None}
        elif given is not None:
            answer[field.name] = given
    return answer


def _given(field: Field, sent: object) -> Any:
    """The value, a list of values, or None for what was left out."""
    if sent is None or sent == "":
        return None
    if field.type is FieldType.BOOLEAN:
        return _offered([value for _, value in _BOOLEANS], sent)
    offered: list[Value] = [one.value for one in field.choices]
    if field.type is FieldType.CHOICES and offered:
        if not isinstance(sent, str):
            raise NotOurs
        return [_offered(offered, one) for one in sent.split(",") if one]
    if field.type is FieldType.CHOICE and offered:
        return _offered(offered, sent)
    if not isinstance(sent, str | int | float):
        raise NotOurs
    if field.type is FieldType.CHOICES:
        return [line for line in str(sent).split("\n") if line.strip()]
    return sent


def _offered(offered: Sequence[Value], sent: object) -> Value:
    if not isinstance(sent, str) or not sent.isascii() or not sent.isdigit() or len(sent) > 6:
        raise NotOurs
    if int(sent) >= len(offered):
        raise NotOurs
    return offered[int(sent)]


def _open(field: Field, number: int, editing: bool) -> list[Element]:
    """The inputs of a field, the first one named by its label, and what is said about it: a
    question stands above its choices, a hint below what is typed."""
    first, *rest = _inputs(field, number, editing)
    told: Element = {"type": "TextRun", "text": plain(field.description)}
    about: Element = {"type": "RichTextBlock", "inlines": [told]}
    drawn = [first, *_described(field), *rest]
    if field.description and field.choices:
        drawn = [about, first | {"spacing": "Small"}, *drawn[1:]]
    elif field.description:
        told |= {"isSubtle": True, "size": "Small"}
        drawn.append(about | {"spacing": "Small"})
    drawn[0] |= {"separator": bool(number)}
    return drawn


def _described(field: Field) -> list[Element]:
    """What is said about the choices, which a menu has no room for."""
    lines = [(one.title, one.description) for one in field.choices if one.description]
    return [
        {
            "type": "RichTextBlock",
            "spacing": "None",
            "inlines": [
                {"type": "TextRun", "text": plain(f"• {title}"), "weight": "Bolder"},
                {"type": "TextRun", "text": plain(f" — {description}")},
            ],
        }
        for title, description in lines
    ]


def _inputs(field: Field, number: int, editing: bool) -> list[Element]:
    label = plain(" ".join(field.label.split()), limits.TITLE)
    needed = field.required and field.default is None and not field.allow_other
    shown: Element = {"id": _id(number), "label": label, "isRequired": needed}
    if needed:
        shown["errorMessage"] = "This is needed."
    if field.choices or field.type is FieldType.BOOLEAN:
        inputs = [_choice_set(field, shown, editing)]
    elif field.type in (FieldType.INTEGER, FieldType.NUMBER) and _countable(field.default):
        inputs = [{"type": "Input.Number"} | shown | _default(field)]
    elif field.format is Format.DATE:
        inputs = [{"type": "Input.Date"} | shown | _default(field)]
    else:
        most = {"maxLength": min(field.max_length or limits.INPUT, limits.INPUT)}
        lines = {"isMultiline": field.multiline or field.type is FieldType.CHOICES}
        inputs = [{"type": "Input.Text"} | shown | most | lines | _default(field, text=True)]
    if field.allow_other:
        other = {"type": "Input.Text", "id": _other_id(number), "label": "Something else"}
        inputs.append(other | {"maxLength": limits.INPUT})
    return inputs


def _choice_set(field: Field, shown: Element, editing: bool) -> Element:
    titles = (
        [title for title, _ in _BOOLEANS]
        if field.type is FieldType.BOOLEAN
        else [one.title for one in field.choices]
    )
    values: list[Value] = (
        [value for _, value in _BOOLEANS]
        if field.type is FieldType.BOOLEAN
        else [one.value for one in field.choices]
    )
    several = field.type is FieldType.CHOICES
    # Some clients lose a pick that several choices begin with (AdaptiveCards issue 8626), so that
    # they do only where it would be lost otherwise.
    default = field.default if isinstance(field.default, tuple) else (field.default,)
    chosen = [
        str(number)
        for number, value in enumerate(values)
        if any(value == one and type(value) is type(one) for one in default)
    ]
    preset = {"value": ",".join(chosen)} if chosen and (editing or not several) else {}
    choices = [
        {"title": escaped(title, limits.CHOICE), "value": str(number)}
        for number, title in enumerate(titles)
    ]
    drawn: Element = {"type": "Input.ChoiceSet", "choices": choices, "isMultiSelect": several}
    style = "expanded" if len(titles) <= _EXPANDED or several else "compact"
    return drawn | shown | {"style": style} | preset


def _countable(default: object) -> bool:
    """Whether a client's number input holds it: they count in doubles."""
    return not isinstance(default, int) or abs(default) <= 2**53


def _default(field: Field, *, text: bool = False) -> Element:
    value = field.default
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return {"value": str(value) if text else value}
    return {}


def _id(number: int) -> str:
    return f"f{number}"


def _other_id(number: int) -> str:
    return f"f{number}o"
