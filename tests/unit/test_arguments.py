"""The file with the arguments of a call: exactly what is stored, and nothing in it is unseen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.arguments import call_of, file_of
from bot.excerpt import excerpt
from storage import outbox
from storage.calls import CallRow
from storage.database import canonical

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def the_call(args: Any) -> CallRow:
    return CallRow(
        id="call_k3v9",
        chat_id="chat",
        message_id=1,
        position=0,
        provider_id="p",
        server="",
        name="refund",
        args=args,
        digest="d",
        schema_digest="s",
        state="waiting",
        created_at=0.0,
    )


@pytest.mark.row("B48")
@settings(max_examples=200)
@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_the_file_says_exactly_what_is_stored_and_all_of_it_can_be_seen(args: Any) -> None:
    stored = json.loads(canonical(args))
    text = file_of(the_call(stored)).data.decode()
    assert canonical(json.loads(text)) == canonical(stored)
    assert all(one.isprintable() for one in text.replace("\n", ""))


def test_half_a_character_and_what_turns_text_around_are_spelled_out() -> None:
    text = file_of(the_call({"path": "a\udc80\u202eb\u200bé"})).data.decode()
    assert text == '{\n  "path": "a\\udc80\\u202eb\\u200bé"\n}\n'


def test_a_subject_of_the_outbox_names_its_call() -> None:
    assert call_of(outbox.arguments_subject("call_k3v9", "abc")) == "call_k3v9"
    assert call_of("reply:chat:1") is None


@given(st.text(max_size=300), st.integers(0, 300))
def test_an_excerpt_is_the_beginning_and_the_end_and_counts_what_is_between(
    text: str, size: int
) -> None:
    part = excerpt(text, size)
    assert len(part.head) + len(part.tail) + part.left_out == len(text)
    assert len(part.head) + len(part.tail) <= max(size, 0)
    assert text.startswith(part.head)
    assert text.endswith(part.tail)
    assert bool(part.left_out) is (len(text) > size)
