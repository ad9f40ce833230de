"""What a server asks, as questions; and what people answered, as the server gets it."""

from __future__ import annotations

import json
from typing import Any

import mcp.types as t
import pytest

from bot.card import Card, CardState
from bot.field import (
    AnswerError,
    Choice,
    Field,
    FieldType,
    Format,
    field_from_json,
    field_to_json,
)
from bot.form_schema import schema_from_fields
from bot.mcp.elicitation import (
    CONFIRMATION,
    Kinds,
    Refused,
    Unsupported,
    asked,
    looks_secret,
    questions_of,
    result_of,
    settled_by,
    url_error,
)
from bot.question import Asked, Kind
from bot.tool import Action, Answered

RED_GREEN = [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]
EVERY_SHAPE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 3, "maxLength": 50},
        "check": {"type": "boolean", "title": "Agree", "description": "D", "default": True},
        "firstLine": {"type": "string", "title": "First line", "default": "It was a dark night."},
        "email": {"type": "string", "format": "email", "default": "name@example.com"},
        "homepage": {"type": "string", "format": "uri"},
        "birthdate": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "integer": {"type": "integer", "minimum": 1, "maximum": 100, "default": 42},
        "number": {"type": "number", "minimum": 0, "maximum": 1000, "default": 3.14},
        "plain": {"type": "string", "enum": ["Monica", "Rachel"], "default": "Monica"},
        "titled": {"type": "string", "oneOf": RED_GREEN, "default": "#f00"},
        "several": {
            "type": "array",
            "items": {"type": "string", "enum": ["Guitar", "Drums", "Bass"]},
            "minItems": 1,
            "maxItems": 2,
            "default": ["Guitar"],
        },
        "severalTitled": {
            "type": "array",
            "items": {"anyOf": RED_GREEN},
            "minItems": 0,
            "default": ["#0f0"],
        },
        "legacy": {
            "type": "string",
            "enum": ["cat", "dog"],
            "enumNames": ["Cats", "Dogs"],
            "default": "cat",
        },
    },
    "required": ["name"],
}
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


def form(properties: dict[str, Any], **more: Any) -> t.ElicitRequestFormParams:
    schema = {"type": "object", "properties": properties, **more}
    return t.ElicitRequestFormParams(message="Which one?", requested_schema=schema)


def every_shape() -> t.ElicitRequestFormParams:
    return t.ElicitRequestFormParams(message="Which one?", requested_schema=EVERY_SHAPE)


def page(url: str = "https://example.com/a") -> t.ElicitRequestURLParams:
    return t.ElicitRequestURLParams(message="Log in", url=url)


def ask(
    params: Any, *, kinds: Kinds = Kinds.BOTH, key: str = "k", plain_http: bool = False
) -> Asked | Refused:
    return asked(params, server="deploy", key=key, kinds=kinds, plain_http=plain_http)


def shown(params: Any, **options: Any) -> Asked:
    question = ask(params, **options)
    assert isinstance(question, Asked), question
    return question


def refused(params: Any, **options: Any) -> str:
    question = ask(params, **options)
    assert isinstance(question, Refused), question
    assert question.result == t.ElicitResult(action="decline")
    return question.reason


def answered(action: Action, content: dict[str, Any] | None = None) -> Answered:
    return Answered(ordinal=0, key="k", fingerprint="f", action=action, content=content)


def sent(result: t.ElicitResult) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


# --- Forms


def test_a_form_is_asked_under_its_key_and_says_which_server_asks() -> None:
    question = shown(form({"city": {"type": "string"}}), key="round-1")

    assert question == Asked(
        message="Which one?",
        fields=(Field("city", FieldType.TEXT, required=False),),
        key="round-1",
        notice="The server deploy asks this.",
    )


def test_every_kind_of_field_of_mcp_is_asked() -> None:
    fields = {field.name: field for field in shown(every_shape()).fields}

    assert {name: field.type.value for name, field in fields.items()} == {
        "name": "text", "check": "boolean", "firstLine": "text", "email": "text",
        "homepage": "text", "birthdate": "text", "at": "text", "code": "text",
        "integer": "integer", "number": "number", "plain": "choice", "titled": "choice",
        "several": "choices", "severalTitled": "choices", "legacy": "choice",
    }  # fmt: skip
    assert [fields[name].format for name in ("email", "homepage", "birthdate", "at")] == [*Format]
    assert fields["titled"].choices == (Choice("#f00", "Red"), Choice("#0f0", "Green"))
    assert fields["severalTitled"].choices == fields["titled"].choices
    assert fields["legacy"].choices == (Choice("cat", "Cats"), Choice("dog", "Dogs"))
    assert (fields["several"].min_items, fields["several"].max_items) == (1, 2)
    assert (fields["integer"].minimum, fields["integer"].maximum) == (1, 100)
    assert (fields["name"].min_length, fields["name"].max_length) == (3, 50)
    assert fields["name"].required
    assert not fields["check"].required


@pytest.mark.row("M17")
def test_the_choices_of_an_untitled_list_are_shown() -> None:
    items = {"type": "string", "enum": ["a", "b"]}
    (field,) = shown(form({"f": {"type": "array", "items": items}})).fields

    assert field.choices == (Choice("a"), Choice("b"))


@pytest.mark.row("M19")
def test_a_request_without_a_mode_is_a_form() -> None:
    raw = {"message": "Which one?", "requestedSchema": EVERY_SHAPE}

    assert shown(raw) == shown({**raw, "mode": "form"})


@pytest.mark.row("M19")
def test_an_address_without_a_mode_is_not_a_page() -> None:
    reason = refused({"message": "Log in", "url": "https://example.com/a"})

    assert reason == "The question is neither a form nor a page as MCP describes them."


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"mode": "video", "message": "m", "requestedSchema": EMPTY},
        {"mode": ["url"], "message": "m", "url": "https://example.com"},
        {"mode": "url", "message": "m"},
        {"mode": "form", "message": 3, "requestedSchema": EMPTY},
        {"mode": "form", "message": "m", "requestedSchema": "object"},
    ],
)
def test_what_is_neither_form_nor_page_is_declined(raw: dict[str, Any]) -> None:
    assert "neither a form nor a page" in refused(raw)


def test_a_form_that_cannot_be_shown_is_declined_and_the_log_gets_why() -> None:
    assert "'f'" in refused(form({"f": {"type": "object", "properties": {}}}))


def test_a_list_of_numbers_is_declined_because_no_answer_could_carry_them() -> None:
    numbers = {"type": "array", "items": {"type": "integer", "enum": [1, 2]}}

    assert "'f' lists values that MCP cannot carry back" in refused(form({"f": numbers}))


@pytest.mark.parametrize(
    "params",
    [
        t.ElicitRequestFormParams(message="a\x00b", requested_schema=EMPTY),
        form({"f": {"type": "string", "pattern": "a\x00"}}),
    ],
)
def test_a_question_that_no_store_keeps_is_declined(params: t.ElicitRequestFormParams) -> None:
    assert "cannot be kept" in refused(params)


def test_a_question_without_end_is_declined() -> None:
    params = t.ElicitRequestFormParams(message="a" * 100_001, requested_schema=EMPTY)

    assert refused(params) == "The question is longer than 100000 characters."


def test_our_own_forms_are_asked_as_they_are() -> None:
    fields = (Field("a", FieldType.TEXT), Field("b", choices=["x", "y"]))
    params = t.ElicitRequestFormParams(message="m", requested_schema=schema_from_fields(fields))

    assert shown(params).fields == fields
    assert not any(map(looks_secret, fields))


# --- The kinds accepted


@pytest.mark.row("M6")
@pytest.mark.parametrize("params", [form({"f": {"type": "string"}}), page()])
def test_a_server_that_may_not_ask_is_declined(params: Any) -> None:
    assert "not accepted from the server deploy" in refused(params, kinds=Kinds.NONE)


@pytest.mark.row("M7")
def test_a_kind_left_out_is_declined_and_the_other_is_asked() -> None:
    text = form({"f": {"type": "string"}})

    assert "kind form" in refused(text, kinds=Kinds.PAGE)
    assert shown(page(), kinds=Kinds.PAGE).kind is Kind.PAGE
    assert "kind page" in refused(page(), kinds=Kinds.FORM)
    assert shown(text, kinds=Kinds.FORM).kind is Kind.FORM


@pytest.mark.row("M9")
def test_an_unknown_kind_is_an_error_where_it_is_declared() -> None:
    with pytest.raises(ValueError, match="video"):
        Kinds("video")


# --- Pages


def test_a_page_is_asked_with_its_whole_address() -> None:
    url = "https://login.example.com:8443/a?b=c#d"

    assert shown(page(url)) == Asked(
        message="Log in", url=url, key="k", notice="The server deploy asks this."
    )


@pytest.mark.row("M11")
@pytest.mark.row("B98")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,<b>",
        "ftp://example.com/a",
        "slack://open",
        "//example.com/a",
        "example.com/a",
        "",
        "https://",
        "https://example.com\\@evil.example",
        "https://example.com/a b",
        " https://example.com/",
        "https://example.com/\n",
        "https://[::1",
        "https://example.com:port/",
        "https://example.com/\ud800",
    ],
)
@pytest.mark.parametrize("plain_http", [False, True])
def test_an_address_that_is_not_plainly_a_web_page_is_declined(url: str, plain_http: bool) -> None:
    params = t.ElicitRequestURLParams.model_construct(message="Log in", url=url)
    reason = refused(params, plain_http=plain_http)

    assert url not in reason or not url


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:3000/a",
        "HTTP://LOCALHOST/",
        "http://127.0.0.1/",
        "http://127.8.0.1:80/",
        "http://[::1]:3000/",
    ],
)
def test_a_page_of_this_machine_needs_no_encryption(url: str) -> None:
    assert shown(page(url)).url == url


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "http://localhost.example.com/",
        "http://localhost@example.com/",
        "http://10.0.0.1/",
        "http://127.0.0.1.example.com/",
        "http://2130706433/",
    ],
)
def test_a_page_that_is_not_encrypted_is_declined_unless_allowed(url: str) -> None:
    assert refused(page(url)) == "The connection to the page would not be encrypted (http)."
    assert shown(page(url), plain_http=True).url == url


# --- Secrets


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("password", ""),
        ("db_password2", ""),
        ("userPasswd", ""),
        ("value", "Your PASSWORD, please"),
        ("api_key", ""),
        ("apiKey", ""),
        ("APIKey", ""),
        ("api-key", ""),
        ("apikey", ""),
        ("v", "GitHub API key"),
        ("github_token", ""),
        ("clientSecret", ""),
        ("otp", ""),
        ("v", "One-time code"),
        ("pin", ""),
        ("v", "PIN code"),
        ("CVV2", ""),
        ("v", "Card number"),
        ("private_key", ""),
        ("v", "P\u200ba\u200bs\u200bs\u200bword"),
        ("v", "pássword"),
        ("v", "ｐａｓｓｗｏｒｄ"),
    ],
)
def test_a_field_that_asks_for_a_secret_is_flagged(name: str, title: str) -> None:
    question = shown(form({name: {"type": "string", "title": title}}))

    assert question.notice == (
        f"The server deploy asks this. “{title or name}” looks like a secret: a form is no place "
        "for that, so do not type it here."
    )


@pytest.mark.parametrize(
    "name",
    ["pinned", "shipping", "secretary", "max_tokens", "key", "tokenizer", "spinach", "keyword"],
)
def test_a_word_that_only_contains_one_is_not_flagged(name: str) -> None:
    assert shown(form({name: {"type": "string"}})).notice == "The server deploy asks this."


def test_what_nobody_types_into_is_not_flagged() -> None:
    question = shown(
        form({"pin": {"type": "boolean"}, "token": {"type": "string", "enum": ["short", "long"]}})
    )

    assert question.notice == "The server deploy asks this."


def test_many_secrets_are_named_in_one_short_notice() -> None:
    names = [f"{'x' * 500} password {index}" for index in range(9)]
    notice = shown(form({name: {"type": "string"} for name in names})).notice

    assert "and 4 more look like secrets" in notice
    assert len(notice) < 1_000


# --- Confirmations


def test_a_form_that_asks_nothing_is_a_confirmation_by_one_button() -> None:
    question = shown(t.ElicitRequestFormParams(message="Go on?", requested_schema=EMPTY))
    card = Card(
        nonce="n", version=1, kind=question.kind, state=CardState.OPEN, title="t", agent="a",
        tool="t", message=question.message, fields=question.fields,
    )  # fmt: skip

    assert card.quick == CONFIRMATION
    assert [choice.title for choice in CONFIRMATION.choices] == ["Confirm"]


@pytest.mark.parametrize("content", [{"confirm": "confirm"}, {}, None])
def test_a_confirmation_is_accepted_with_empty_content(content: dict[str, Any] | None) -> None:
    kept = field_from_json(json.loads(json.dumps(field_to_json(CONFIRMATION))))

    result = result_of(answered(Action.ACCEPT, content), [kept])

    assert sent(result) == {"action": "accept", "content": {}}


def test_a_confirmation_is_not_given_by_another_word() -> None:
    with pytest.raises(AnswerError):
        settled_by("no", shown(t.ElicitRequestFormParams(message="Go?", requested_schema=EMPTY)))


# --- Answers


def test_an_answer_is_sent_with_its_values() -> None:
    fields = shown(form({"city": {"type": "string"}, "n": {"type": "integer"}})).fields

    result = result_of(answered(Action.ACCEPT, {"city": "Rome", "n": 0}), fields)

    assert sent(result) == {"action": "accept", "content": {"city": "Rome", "n": 0}}


@pytest.mark.row("M4")
def test_what_was_left_out_has_the_servers_defaults() -> None:
    fields = shown(every_shape()).fields

    result = result_of(answered(Action.ACCEPT, {"name": "Ada"}), fields)

    assert result.content == {
        "name": "Ada", "check": True, "firstLine": "It was a dark night.",
        "email": "name@example.com", "integer": 42, "number": 3.14, "plain": "Monica",
        "titled": "#f00", "several": ["Guitar"], "severalTitled": ["#0f0"], "legacy": "cat",
    }  # fmt: skip


@pytest.mark.row("M4")
def test_an_answer_with_nothing_takes_the_default() -> None:
    fields = shown(form({"f": {"type": "string", "default": "main"}}, required=["f"])).fields

    result = result_of(answered(Action.ACCEPT, None), fields)

    assert sent(result) == {"action": "accept", "content": {"f": "main"}}


def test_only_what_was_asked_for_is_sent() -> None:
    fields = shown(form({"f": {"type": "string"}})).fields

    assert result_of(answered(Action.ACCEPT, {"f": "a", "g": "b"}), fields).content == {"f": "a"}


def test_a_list_that_was_cleared_is_sent_empty() -> None:
    fields = shown(every_shape()).fields

    content = result_of(
        answered(Action.ACCEPT, {"name": "Ada", "severalTitled": []}), fields
    ).content

    assert content is not None
    assert content["severalTitled"] == []


def test_an_answer_that_does_not_fit_is_not_sent() -> None:
    fields = shown(every_shape()).fields

    with pytest.raises(AnswerError) as error:
        result_of(answered(Action.ACCEPT, {"name": "A", "integer": 101}), fields)

    assert error.value.errors.keys() == {"name", "integer"}


@pytest.mark.row("M5")
@pytest.mark.parametrize("action", [Action.DECLINE, Action.CANCEL])
def test_a_no_is_sent_as_it_was_said_and_without_content(action: Action) -> None:
    fields = shown(form({"f": {"type": "string"}})).fields

    assert sent(result_of(answered(action, {"f": "a"}), fields)) == {"action": action.value}


@pytest.mark.row("M10")
def test_a_page_is_accepted_without_content() -> None:
    fields = shown(page()).fields

    assert sent(result_of(answered(Action.ACCEPT), fields)) == {"action": "accept"}


# --- Callbacks


def test_a_callback_settles_with_a_value_a_mapping_or_a_no() -> None:
    question = shown(form({"f": {"type": "integer", "default": 1}}))

    assert settled_by("2", question).content == {"f": 2}
    assert settled_by({"f": 3}, question).content == {"f": 3}
    assert settled_by(Action.ACCEPT, question).content == {"f": 1}
    assert sent(settled_by(Action.DECLINE, question)) == {"action": "decline"}
    assert sent(settled_by(Action.CANCEL, question)) == {"action": "cancel"}


def test_a_callback_may_answer_with_the_word_of_an_action() -> None:
    question = shown(form({"f": {"type": "string"}}))

    assert sent(settled_by("decline", question)) == {
        "action": "accept",
        "content": {"f": "decline"},
    }


def test_a_callback_agrees_to_a_page_without_a_value() -> None:
    assert sent(settled_by(Action.ACCEPT, shown(page()))) == {"action": "accept"}
    with pytest.raises(AnswerError):
        settled_by("yes", shown(page()))


@pytest.mark.parametrize("answer", [{"f": "x"}, {"g": 1}, "x", [1, 2]])
def test_an_answer_of_a_callback_that_does_not_fit_is_refused(answer: Any) -> None:
    with pytest.raises(AnswerError):
        settled_by(answer, shown(form({"f": {"type": "integer"}})))


# --- Rounds and errors


def test_the_questions_of_a_round_come_with_their_keys_in_order() -> None:
    one, two = form({"f": {"type": "string"}}), page()
    result = t.InputRequiredResult(
        input_requests={"b": t.ElicitRequest(params=one), "a": t.ElicitRequest(params=two)}
    )

    assert questions_of(result) == [("b", one), ("a", two)]


def test_a_round_with_nothing_but_state_asks_nothing() -> None:
    assert questions_of(t.InputRequiredResult(request_state="s")) == []


@pytest.mark.parametrize(
    "request_",
    [
        t.ListRootsRequest(),
        t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=[], max_tokens=1)),
    ],
)
def test_a_round_that_asks_for_more_than_people_is_unsupported(request_: t.InputRequest) -> None:
    result = t.InputRequiredResult(
        input_requests={"a": t.ElicitRequest(params=page()), "b": request_}
    )

    with pytest.raises(Unsupported, match=r"^The server wants .*\.$"):
        questions_of(result)


def test_the_pages_of_the_error_are_read_from_its_data() -> None:
    data = {"elicitations": [{"message": "m", "url": "https://a.example", "elicitationId": "1"}]}

    (params,) = url_error(data)

    assert (params.message, params.url, params.elicitation_id) == ("m", "https://a.example", "1")
    assert shown(params).kind is Kind.PAGE


@pytest.mark.parametrize(
    "data", [None, "x", [], {}, {"elicitations": "x"}, {"elicitations": [{"message": "m"}]}]
)
def test_an_error_that_cannot_be_read_has_no_pages(data: object) -> None:
    assert url_error(data) == []
