"""What a server's tool gave back, as the model reads it and as files for the thread."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

import mcp.types as t
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.mcp.elicitation import Kinds, asked
from bot.mcp.results import (
    FILE_LIMIT,
    FILES_LIMIT,
    Produced,
    done,
    ran_but,
    rejected,
)
from bot.question import Asked
from bot.tool import RESULT_LIMIT, InputRequired
from bot.tool import Produced as File

steady = settings(max_examples=100, derandomize=True)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(11_992)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def text(words: str) -> t.TextContent:
    return t.TextContent(text=words)


def image(data: bytes = PNG, mime_type: str = "image/png") -> t.ImageContent:
    return t.ImageContent(data=encoded(data), mime_type=mime_type)


def blob(data: bytes, mime_type: str | None) -> t.EmbeddedResource:
    return t.EmbeddedResource(
        resource=t.BlobResourceContents(
            uri="file:///a.bin", mime_type=mime_type, blob=encoded(data)
        )
    )


def read(*content: t.ContentBlock, structured: Any = None, is_error: bool = False) -> Produced:
    return done(
        t.CallToolResult(content=[*content], structured_content=structured, is_error=is_error)
    )


# --- Text


def test_texts_are_joined() -> None:
    assert read(text("one"), text("two")) == Produced("one\ntwo")


@pytest.mark.parametrize("content", [[], [text("")], [text(" \n")]])
def test_a_result_without_content_says_so(content: list[t.ContentBlock]) -> None:
    assert read(*content) == Produced("(no content)")


def test_an_error_of_the_tool_is_a_failed_result_in_the_servers_words() -> None:
    assert read(text("No such branch."), is_error=True) == Produced("No such branch.", failed=True)


def test_an_error_without_words_is_still_a_sentence() -> None:
    result = read(is_error=True)

    assert result == Produced("The call failed; the server did not say why.", failed=True)


def test_a_link_is_text_and_nothing_more() -> None:
    link = t.ResourceLink(name="log", uri="https://example.com/log", mime_type="text/plain")

    assert read(text("See:"), link) == Produced("See:\nlog <https://example.com/log>")


def test_an_embedded_text_comes_with_its_address() -> None:
    resource = t.TextResourceContents(uri="demo://1", text="hello")

    assert read(t.EmbeddedResource(resource=resource)) == Produced("<demo://1>\nhello")


def test_annotations_and_meta_are_not_told() -> None:
    block = t.TextContent(
        text="a", annotations=t.Annotations(priority=1, audience=["user"]), _meta={"x": 1}
    )

    assert read(block) == Produced("a")


def test_a_long_text_is_cut_and_says_so() -> None:
    result = read(text("a" * (RESULT_LIMIT + 5))).result

    assert result == (
        "a" * RESULT_LIMIT + "\n[The server returned 100005 characters; "
        "only the first 100000 are here.]"
    )


def test_a_text_that_no_store_keeps_is_mended() -> None:
    block = t.TextContent.model_construct(type="text", text="a\x00b\ud800c")

    assert read(block).result == "a\ufffdb\ufffdc"


# --- Structured content


def test_structured_content_goes_before_the_text_that_repeats_it() -> None:
    value = {"city": "Rome", "degrees": [20, 21.5], "wet": False}

    assert read(text(json.dumps(value, indent=2)), structured=value) == Produced(value)


def test_structured_content_may_come_alone() -> None:
    assert read(structured={"a": 1}) == Produced({"a": 1})
    assert read(structured=[1, 2]) == Produced([1, 2])


@pytest.mark.parametrize("value", [3, 2.5, True, "done", "3", ["a"], {"b": 1}, None])
def test_a_wrapped_value_is_unwrapped_where_the_text_says_the_same(value: Any) -> None:
    mirror = value if isinstance(value, str) else json.dumps(value)

    assert read(text(mirror), structured={"result": value}) == Produced(value)


def test_a_list_is_unwrapped_where_a_text_says_each_of_its_items() -> None:
    listed = {"result": ["a", 2, {"b": 3}]}

    assert read(text("a"), text("2"), text('{"b": 3}'), structured=listed) == Produced(
        ["a", 2, {"b": 3}]
    )
    assert read(structured={"result": []}) == Produced([])


def test_an_object_of_the_tool_itself_is_not_unwrapped() -> None:
    own = {"result": 3}

    assert read(text('{"result": 3}'), structured=own) == Produced(own)
    assert read(structured=own) == Produced(own)
    assert read(text("3"), structured={"result": 3, "unit": "m"}).result == {
        "structured": {"result": 3, "unit": "m"},
        "text": "3",
    }


def test_a_text_that_says_something_else_is_kept_beside() -> None:
    result = read(text("It rains."), text('{"a":1}'), structured={"a": 1})

    assert result == Produced({"structured": {"a": 1}, "text": "It rains."})


def test_true_is_not_one() -> None:
    result = read(text("1"), structured={"result": True}).result

    assert result == {"structured": {"result": True}, "text": "1"}


def test_an_error_with_structured_content_is_failed_too() -> None:
    result = read(text("No."), structured={"code": 7}, is_error=True)

    assert result == Produced({"structured": {"code": 7}, "text": "No."}, failed=True)


def test_an_image_beside_structured_content_is_told_too() -> None:
    result = read(text("1"), image(), structured={"result": 1})

    assert result.result == {"structured": 1, "text": "[image 1: image/png, 12 kB]"}
    assert len(result.files) == 1


def test_long_structured_content_is_cut_text_and_says_so() -> None:
    result = read(structured={"a": "b" * RESULT_LIMIT}).result

    assert result.startswith('{"a":"bbb')
    assert result.endswith("only the first 100000 are here.]")


def deep() -> Any:
    value: Any = 1
    for _ in range(5_000):
        value = [value]
    return value


@pytest.mark.parametrize("value", [{"a": math.nan}, deep()])
def test_structured_content_that_is_not_plain_json_is_left_out_and_said(value: Any) -> None:
    result = t.CallToolResult.model_construct(
        content=[text("a")], structured_content=value, is_error=False
    )

    assert done(result).result == (
        "a\n[The structured content is not plain JSON, so it is left out.]"
    )


# --- Files


def test_an_image_is_a_file_with_a_name_of_ours_and_a_line_in_the_text() -> None:
    result = read(text("Here:"), image())

    assert result.result == "Here:\n[image 1: image/png, 12 kB]"
    assert result.files == (File("image-1.png", "image/png", PNG),)


def test_files_of_every_kind_are_numbered_as_they_come() -> None:
    sound = t.AudioContent(data=encoded(b"RIFF"), mime_type="audio/wav")

    result = read(image(), sound, blob(b"%PDF", "application/pdf; v=1"), blob(b"?", None))

    assert [(one.name, one.mime_type) for one in result.files] == [
        ("image-1.png", "image/png"),
        ("audio-2.wav", "audio/wav"),
        ("file-3.pdf", "application/pdf"),
        ("file-4.bin", "application/octet-stream"),
    ]
    assert result.result.splitlines()[1:] == [
        "[audio 2: audio/wav, 4 bytes]",
        "[file 3: application/pdf, 4 bytes <file:///a.bin>]",
        "[file 4: application/octet-stream, 1 byte <file:///a.bin>]",
    ]


@pytest.mark.parametrize("mime_type", ["", "png", "image/../../x", "a/b\n[image 9]", "a/" * 99])
def test_a_kind_of_file_that_is_none_is_not_repeated(mime_type: str) -> None:
    result = read(image(b"x", mime_type))

    assert result.result == "[image 1: application/octet-stream, 1 byte]"
    assert result.files[0].name == "image-1.bin"


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\n\n\n\nWEBPVP8 ", "image/webp"),
    ],
)
def test_an_image_is_known_by_how_it_begins(data: bytes, mime_type: str) -> None:
    (right,), (wrong,) = (
        read(image(data, "image/jpeg")).files,
        read(image(b"<svg>", mime_type)).files,
    )

    assert right.mime_type == mime_type
    assert wrong.mime_type == "application/octet-stream"


@pytest.mark.parametrize("data", ["a", "%%%%", "ab=c", "é"])
def test_a_file_that_cannot_be_read_is_left_out_and_said(data: str) -> None:
    result = read(t.ImageContent(data=data, mime_type="image/png"), image())

    assert result.result.startswith("[image 1 is left out: its data cannot be read]\n[image 2: ")
    assert [one.name for one in result.files] == ["image-2.png"]


def test_base64_in_lines_is_read() -> None:
    block = t.ImageContent(data=base64.encodebytes(PNG).decode(), mime_type="image/png")

    assert read(block).files[0].data == PNG


def test_a_file_over_the_limit_is_left_out_and_said() -> None:
    largest, larger = bytes(FILE_LIMIT), bytes(FILE_LIMIT + 1)

    result = read(blob(largest, None), blob(larger, None))

    assert [len(one.data) for one in result.files] == [FILE_LIMIT]
    assert result.result == (
        "[file 1: application/octet-stream, 10 MB <file:///a.bin>]\n"
        "[file 2 is left out: it is over 10 MB <file:///a.bin>]"
    )


def test_files_beyond_a_number_are_left_out_and_said() -> None:
    result = read(*[image()] * (FILES_LIMIT + 1))

    assert len(result.files) == FILES_LIMIT
    assert result.result.endswith("[image 21 is left out: a result may have 20 files]")


# --- Errors


def test_an_output_that_cannot_be_used_says_that_the_tool_ran() -> None:
    assert ran_but("It breaks its own schema.") == Produced(
        "The tool DID run, but what it returned cannot be used, so its result is lost: "
        "It breaks its own schema.",
        failed=True,
    )


def test_an_endless_reason_is_cut() -> None:
    assert len(ran_but("a" * 10**6).result) < RESULT_LIMIT + 100
    assert len(rejected(-32602, "a" * 10**6, server="deploy").result) < RESULT_LIMIT + 100


def test_an_error_of_the_server_is_a_failed_result_in_a_sentence() -> None:
    assert rejected(-32602, "Unknown tool: x", server="deploy") == Produced(
        "The server deploy refused the call: Unknown tool: x (error -32602)", failed=True
    )
    assert rejected(-32603, " ", server="deploy") == Produced(
        "The server deploy refused the call and did not say why (error -32603).", failed=True
    )


def pages(*urls: str) -> dict[str, Any]:
    return {"elicitations": [{"message": "Log in.", "url": url, "mode": "url"} for url in urls]}


@pytest.mark.row("M18")
def test_a_page_that_is_required_ends_the_text_with_message_and_address() -> None:
    data = pages("https://a.example/1")

    result = rejected(-32042, "URL elicitation required", server="deploy", data=data)

    assert result == Produced(
        "The server deploy wants a person to visit a page first: Log in. https://a.example/1",
        failed=True,
    )


@pytest.mark.row("M18")
def test_a_page_asked_outside_a_chat_ends_the_error_with_message_and_address() -> None:
    params = t.ElicitRequestURLParams(message="Log in.", url="https://a.example/1")
    question = asked(params, server="deploy", key="k", kinds=Kinds.BOTH)
    assert isinstance(question, Asked)

    assert str(InputRequired([question])).endswith("Log in. https://a.example/1")


def test_several_pages_are_all_named() -> None:
    data = pages("https://a.example/1", "https://a.example/2")

    assert rejected(-32042, "x", server="deploy", data=data).result == (
        "The server deploy wants a person to visit 2 pages first: "
        "Log in. https://a.example/1; Log in. https://a.example/2"
    )


@pytest.mark.row("M11")
@pytest.mark.parametrize(
    "data", [pages("javascript:alert(1)"), pages("http://a.example"), None, {"elicitations": 3}]
)
def test_a_page_that_nobody_may_be_sent_to_is_not_named(data: object) -> None:
    assert rejected(-32042, "URL required", server="deploy", data=data).result == (
        "The server deploy refused the call: URL required (error -32042)"
    )


def test_pages_are_only_read_from_their_own_error() -> None:
    data = pages("https://a.example/1")

    assert "a.example" not in rejected(-32000, "x", server="deploy", data=data).result


# --- What always holds


WORDS = st.text(max_size=8) | st.sampled_from(["1", "null", '{"a":1}', "[1]", "NaN", "[" * 9_999])
DATA = st.binary(max_size=9).map(encoded) | WORDS
MIME = st.sampled_from(["image/png", "audio/mpeg", "text/html"]) | WORDS
BLOCKS = st.one_of(
    st.builds(t.TextContent, text=WORDS),
    st.builds(t.ImageContent, data=DATA, mime_type=MIME),
    st.builds(t.AudioContent, data=DATA, mime_type=MIME),
    st.builds(t.ResourceLink, name=WORDS, uri=WORDS),
    st.builds(
        t.EmbeddedResource,
        resource=st.builds(t.TextResourceContents, uri=WORDS, text=WORDS)
        | st.builds(t.BlobResourceContents, uri=WORDS, blob=DATA, mime_type=MIME),
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["result", "a"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@steady
@given(st.lists(BLOCKS, max_size=4), JSON, st.booleans())
def test_any_result_can_be_told_and_kept(
    blocks: list[t.ContentBlock], structured: Any, is_error: bool
) -> None:
    produced = read(*blocks, structured=structured, is_error=is_error)

    spelled = json.dumps(produced.result, allow_nan=False, ensure_ascii=False)
    spelled.encode()
    assert len(spelled) < 2 * RESULT_LIMIT
    assert produced.failed is is_error
    for file in produced.files:
        assert re.fullmatch(r"(image|audio|file)-[0-9]+\.[a-z0-9]+", file.name)
        assert file.mime_type.isprintable()
        if isinstance(produced.result, str):
            assert file.mime_type in produced.result


@steady
@given(st.integers(), WORDS, JSON, WORDS, WORDS)
def test_any_error_can_be_told(code: int, message: str, junk: Any, said: str, url: str) -> None:
    for data in (junk, {"elicitations": junk}, {"elicitations": [{"message": said, "url": url}]}):
        for number in (code, -32042):
            produced = rejected(number, message, server="deploy", data=data)
            assert produced.failed
            assert produced.result.startswith("The server deploy ")
