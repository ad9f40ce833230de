"""The built-in tool ask_user: one to four multiple-choice questions (spec: ask_user)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bot.field import Choice, Field, FieldType, Selection, Value, coerce
from bot.value import storable

QUESTIONS: Final = (1, 4)
OPTIONS: Final = (2, 4)
HEADER_LENGTH: Final = 12  # characters
OTHER: Final = "Other"

TOOL_NAME: Final = "ask_user"
TOOL_DESCRIPTION: Final = (
    "Ask the person one to four multiple-choice questions and wait for the answers. Use it when "
    "a decision is theirs to make or a fact is theirs to know, and you cannot find it out "
    "yourself. Give each question a header of at most 12 characters and two to four options, "
    "each with a short label and a description of what choosing it means; set multiSelect when "
    "several options can hold at once. Do not list an option for anything else: the person can "
    "always answer in own words, which come back as other_text."
)
TOOL_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "minItems": QUESTIONS[0],
            "maxItems": QUESTIONS[1],
            "items": {
                "type": "object",
                "properties": {
                    "question": {"type": "string", "description": "The question in full."},
                    "header": {
                        "type": "string",
                        "maxLength": HEADER_LENGTH,
                        "description": "A word or two that stand for the question.",
                    },
                    "options": {
                        "type": "array",
                        "minItems": OPTIONS[0],
                        "maxItems": OPTIONS[1],
                        "items": {
                            "type": "object",
                            "properties": {
                                "label": {"type": "string"},
                                "description": {"type": "string"},
                            },
                            "required": ["label", "description"],
                        },
                    },
                    "multiSelect": {"type": "boolean", "default": False},
                },
                "required": ["question", "header", "options"],
            },
        }
    },
    "required": ["questions"],
}


class BadQuestions(ValueError):
    """Questions the person never sees; the text lists every fault, for the model to mend."""


@dataclass(frozen=True, slots=True)
class Option:
    """One offered answer; the label is what comes back to the model."""

    label: str
    description: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of the model, found good: texts trimmed, nothing missing or doubled."""

    question: str
    header: str
    options: tuple[Option, ...]
    multi_select: bool = False


def check_questions(arguments: object) -> tuple[AskedQuestion, ...]:
    """Read the arguments the model gave; keys we do not know say nothing.

    Raises BadQuestions with all faults at once, questions and options numbered from 1.
    """
    asked = arguments.get("questions") if isinstance(arguments, Mapping) else None
    if isinstance(asked, str):
        raise BadQuestions("questions must be the list itself, not a list written as text.")
    if not isinstance(asked, list):
        raise BadQuestions("questions must be a list of 1 to 4 question objects.")
    faults = list(_count_faults(asked, QUESTIONS, "questions"))
    asked = asked[: QUESTIONS[1]]  # of thousands, the count says enough
    for number, question in enumerate(asked, 1):
        faults += [f"question {number}: {fault}" for fault in _question_faults(question)]
    faults += [
        f"question {number}: asks the same as question {first}"
        for number, first in _repeats(asked, "question")
    ]
    if faults:
        raise BadQuestions("; ".join(faults) + ".")
    return tuple(map(_read, asked))


def to_fields(questions: Sequence[AskedQuestion]) -> tuple[Field, ...]:
    """The form to show: one field per question, named q1 to q4, that allows other answers."""
    return tuple(
        Field(
            f"q{number}",
            FieldType.CHOICES if question.multi_select else FieldType.CHOICE,
            title=question.header,
            description=question.question,
            choices=[
                Choice(option.label, option.label, option.description)
                for option in question.options
            ],
            allow_other=True,
        )
        for number, question in enumerate(questions, 1)
    )


def result_json(questions: Sequence[AskedQuestion], answers: Mapping[str, object]) -> str:
    """What the model reads: the questions and their answers, in the order they were asked.

    `answers` is by field name, recorded or raw. Raises AnswerError when they are no answers.
    """
    fields = to_fields(questions)
    recorded = coerce(fields, answers)
    answered = []
    for question, field in zip(questions, fields, strict=True):
        selection = recorded[field.name]
        assert isinstance(selection, dict)  # every field here allows other answers
        answered.append({"question": question.question, **selection})
    asked = [
        {
            "question": question.question,
            "header": question.header,
            "options": [
                {"label": option.label, "description": option.description}
                for option in question.options
            ],
            "multiSelect": question.multi_select,
        }
        for question in questions
    ]
    return json.dumps({"questions": asked, "answers": answered}, ensure_ascii=False)


def render_lines(question: AskedQuestion) -> list[str]:
    """The question for a console, one line each; the caller makes deceptive text visible.

    Line breaks inside a text become spaces, so that no text can pass for an option.
    """
    hint = "numbers separated by commas" if question.multi_select else "a number"
    return [
        _one_line(f"{question.header}: {question.question}"),
        *(
            _one_line(f"{number}. {option.label}: {option.description}")
            for number, option in enumerate(question.options, 1)
        ),
        f"{OTHER}: type {hint}, or your own answer.",
    ]


def parse_line(question: AskedQuestion, line: str) -> Selection | None:
    """Read what a person typed below `render_lines`; None means ask again.

    A number picks an option and a label typed in full picks it too; a number that matches neither
    asks again, so does a line without an answer. Anything else is the person's own answer. Commas
    separate several answers in a multi-select question only: elsewhere a text with commas is one
    own answer, and several numbers ask again.
    """
    text = line.strip()
    labels = [option.label for option in question.options]
    if text in labels and not _NUMBER.fullmatch(text):  # also a label with commas
        return Selection((text,), None)
    parts = [part for part in map(str.strip, text.split(",")) if part]
    if len(parts) > 1 and not question.multi_select:
        return None if all(map(_NUMBER.fullmatch, parts)) else Selection((), text)
    picked: list[Value] = []
    own: list[str] = []
    for part in parts:
        label = _picked(labels, part)
        if label is not None:
            picked.append(label)
        elif _NUMBER.fullmatch(part):
            return None
        else:
            own.append(part)
    if not parts:
        return None
    if not picked:
        return Selection((), text)
    return Selection(tuple(dict.fromkeys(picked)), ", ".join(own) or None)


_NUMBER: Final = re.compile(r"[+-]?\d+")


def _picked(labels: Sequence[str], part: str) -> str | None:
    if _NUMBER.fullmatch(part) and len(part) < 10:  # int() raises for thousands of digits
        position = int(part)
        if 1 <= position <= len(labels):
            return labels[position - 1]
    return part if part in labels else None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _read(question: Mapping[str, Any]) -> AskedQuestion:
    return AskedQuestion(
        question["question"].strip(),
        question["header"].strip(),
        tuple(
            Option(option["label"].strip(), option["description"].strip())
            for option in question["options"]
        ),
        bool(question.get("multiSelect")),
    )


def _question_faults(question: object) -> Iterator[str]:
    if not isinstance(question, Mapping):
        yield "must be an object with question, header and options"
        return
    yield from _text_faults(question, "question")
    yield from _text_faults(question, "header")
    length = len(_text(question, "header"))
    if length > HEADER_LENGTH:
        yield f"header has {length} characters, at most {HEADER_LENGTH} fit"
    if not isinstance(question.get("multiSelect", False), bool | None):
        yield "multiSelect must be true or false"
    options = question.get("options")
    if not isinstance(options, list):
        yield "options must be a list of 2 to 4 objects with label and description"
        return
    yield from _count_faults(options, OPTIONS, "options")
    options = options[: OPTIONS[1]]
    for number, option in enumerate(options, 1):
        for fault in _option_faults(option):
            yield f"option {number}: {fault}"
    for number, first in _repeats(options, "label"):
        yield f"option {number}: has the same label as option {first}"


def _option_faults(option: object) -> Iterator[str]:
    if not isinstance(option, Mapping):
        yield "must be an object with label and description"
        return
    yield from _text_faults(option, "label")
    yield from _text_faults(option, "description")
    if _text(option, "label").casefold() == OTHER.casefold():
        yield f"leave {OTHER} out, the person is always offered it"


def _count_faults(items: Sequence[object], bounds: tuple[int, int], noun: str) -> Iterator[str]:
    if not bounds[0] <= len(items) <= bounds[1]:
        yield f"give {bounds[0]} to {bounds[1]} {noun}, not {len(items)}"


def _text_faults(item: Mapping[str, Any], key: str) -> Iterator[str]:
    text = item.get(key)
    if text is None:
        yield f"{key} is missing"
    elif not isinstance(text, str):
        yield f"{key} must be text"
    elif not text.strip():
        yield f"{key} is empty"
    elif not storable(text):
        yield f"{key} has a character that cannot be kept"


def _text(item: object, key: str) -> str:
    text = item.get(key) if isinstance(item, Mapping) else None
    return text.strip() if isinstance(text, str) else ""


def _repeats(items: Sequence[object], key: str) -> Iterator[tuple[int, int]]:
    """The numbers of items whose text was there before, with the number of its first."""
    seen: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        text = _text(item, key)
        if text and seen.setdefault(text, number) != number:
            yield number, seen[text]
