"""What holds for every question of a server and every answer to it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import mcp.types as t
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from bot.field import AnswerError, coerce
from bot.mcp.elicitation import CONFIRMATION, Kinds, Refused, asked, result_of
from bot.question import Asked
from bot.tool import Action, Answered

steady = settings(max_examples=100, derandomize=True)


def ask(params: Any, *, kinds: Kinds = Kinds.BOTH, plain_http: bool = False) -> Asked | Refused:
    return asked(params, server="deploy", key="k", kinds=kinds, plain_http=plain_http)


def shown(schema: dict[str, Any]) -> Asked:
    question = ask(t.ElicitRequestFormParams(message="m", requested_schema=schema))
    assert isinstance(question, Asked), question
    return question


def accepted(content: dict[str, Any]) -> Answered:
    return Answered(0, "k", "f", Action.ACCEPT, content)


def sent(result: t.ElicitResult) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**400)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["object", "string", "integer", "array", "url", "form", "javascript:a", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "required", "enum", "oneOf", "items", "anyOf", "const",
                 "default", "title", "pattern", "minLength", "maximum", "f"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """What a server might send: mostly nearly right, sometimes anything."""
    schema = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(TEXTS, JUNK, max_size=3)},
        optional={"required": st.lists(TEXTS, max_size=2)},
    )
    return draw(
        st.fixed_dictionaries(
            {"message": st.text(max_size=5) | JUNK},
            optional={
                "mode": st.sampled_from(["form", "url"]) | JUNK,
                "url": st.text(max_size=9).map("https://".__add__) | JUNK,
                "requestedSchema": schema | JUNK,
            },
        )
    )


@steady
@given(requests(), st.sampled_from(Kinds), st.booleans())
def test_whatever_is_asked_is_a_question_or_refused(
    raw: dict[str, Any], kinds: Kinds, plain_http: bool
) -> None:
    match ask(raw, kinds=kinds, plain_http=plain_http):
        case Refused() as no:
            assert no.reason.endswith((".", ")"))
        case Asked() as question:
            assert bool(question.fields) != bool(question.url)
            assert kinds.accepts(question.kind)
            json.dumps(question.body(), allow_nan=False, ensure_ascii=False).encode()


@st.composite
def properties(draw: st.DrawFn) -> dict[str, Any]:
    """One well-formed field as a server describes it, with a default now and then."""
    values = draw(
        st.lists(TEXTS.filter(str.strip), min_size=1, max_size=4, unique_by=lambda one: one.strip())
    )
    low, high = sorted([draw(st.integers(-9, 9)), draw(st.integers(-9, 9))])
    options = [{"const": value, "title": draw(TEXTS)} for value in values]
    count = {"minItems": draw(st.integers(0, len(values))), "maxItems": len(values)}
    shape: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"type": "string", "minLength": abs(low) // 3, "maxLength": abs(low) // 3 + 5},
                {"type": "string", "pattern": r"^\w+"},
                {"type": "string", "format": "date"},
                {"type": "integer", "minimum": low, "maximum": high},
                {"type": "number", "minimum": low, "maximum": high},
                {"type": "boolean"},
                {"type": "string", "enum": values},
                {"type": "string", "enum": values, "enumNames": [one["title"] for one in options]},
                {"type": "string", "oneOf": options},
                {"type": "array", "items": {"type": "string", "enum": values}, **count},
                {"type": "array", "items": {"anyOf": options}, **count},
            ]
        )
    )
    match shape:
        case {"type": "array"}:
            default: Any = values[: count["minItems"]]
        case {"enum": _} | {"oneOf": _}:
            default = values[0]
        case {"type": "boolean"}:
            default = False
        case {"minimum": int()}:
            default = high
        case _:
            return shape
    return {**shape, "default": default} if draw(st.booleans()) else shape


def answers_to(described: dict[str, Any]) -> st.SearchStrategy[Any]:
    match described:
        case {"type": "array", "items": {"enum": offered}} | {"enum": offered}:
            return st.sampled_from(offered) | st.lists(st.sampled_from(offered), max_size=4)
        case {"items": {"anyOf": offered}} | {"oneOf": offered}:
            offered = [one["const"] for one in offered]
            return st.sampled_from(offered) | st.lists(st.sampled_from(offered), max_size=4)
        case {"type": "boolean"}:
            return st.sampled_from([True, False, "yes", 0])
        case {"type": "integer" | "number"}:
            return st.integers(-9, 9) | st.sampled_from(["3", 2.0, 1.5, "1e0"])
    return TEXTS | st.just("2024-02-29")


@st.composite
def forms_and_answers(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    names = st.text("abcé_", min_size=1, max_size=4)
    described = draw(st.dictionaries(names, properties(), max_size=3))
    needed = [name for name in described if draw(st.booleans())]
    schema = {"type": "object", "properties": described, "required": needed}
    answers = {name: answers_to(one) for name, one in described.items()}
    content = draw(st.fixed_dictionaries({}, optional=answers))
    return schema, content


@steady
@given(forms_and_answers())
def test_what_is_sent_is_what_the_servers_schema_describes(
    case: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    schema, content = case
    question = shown(schema)
    with contextlib.suppress(AnswerError):
        result = result_of(accepted(content), question.fields)
        Draft202012Validator(schema).validate(sent(result)["content"])


@steady
@given(forms_and_answers())
def test_a_recorded_answer_is_sent_again_unchanged(
    case: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    schema, content = case
    fields = shown(schema).fields
    with contextlib.suppress(AnswerError):
        recorded = coerce(fields, content, lenient=True)
        once = sent(result_of(accepted(recorded), fields))
        assert once["content"] == ({} if fields == (CONFIRMATION,) else recorded)
