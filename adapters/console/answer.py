"""How a typed line becomes the answer to one field of a form."""

from __future__ import annotations

from pydantic import JsonValue

from bot.ask_user import AskedQuestion, Option, parse_line
from bot.field import AnswerError, Field, FieldType, Selection, coerce, written


class Again(Exception):
    """The line is no answer: one sentence for the person, who is asked again."""


def read(field: Field, line: str) -> JsonValue:
    """The field's value as it is recorded; None when it is left out. A blank line takes the
    default. Raises Again."""
    try:
        return coerce([field], {field.name: _given(field, line)}).get(field.name)
    except AnswerError as error:
        raise Again(str(error)) from error


def question(field: Field) -> AskedQuestion:
    """A field with choices as the question that `bot.ask_user` prints and reads. Its labels are
    the titles; the values, where two choices share a title."""
    titles = [choice.title for choice in field.choices]
    if len(set(titles)) < len(titles):
        titles = [written(choice.value) for choice in field.choices]
    descriptions = (choice.description for choice in field.choices)
    options = tuple(map(Option, titles, descriptions))
    return AskedQuestion(field.description, field.label, options, field.type is FieldType.CHOICES)


def _given(field: Field, line: str) -> object:
    if not field.choices or not line.strip():
        return line
    asked = question(field)
    picked = parse_line(asked, line)
    if picked is None:
        raise Again(f"{field.label} has no such option: {_how(field)}.")
    values = {
        option.label: choice.value
        for option, choice in zip(asked.options, field.choices, strict=True)
    }
    selected = tuple(values[str(label)] for label in picked.selected)
    if field.allow_other:
        return Selection(selected, picked.other)
    given = [*selected, *([] if picked.other is None else [picked.other])]
    return given if field.type is FieldType.CHOICES else given[0]


def _how(field: Field) -> str:
    numbers = f"numbers from 1 to {len(field.choices)}, separated by commas"
    if field.type is FieldType.CHOICE:
        numbers = f"one number from 1 to {len(field.choices)}"
    return f"type {numbers}" + (", or your own answer" if field.allow_other else "")
