"""Commands and their answers, the parts that need no rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.commands import HELP, read
from bot.core import new_id
from bot.markdown import age, code, short_ids
from storage.place import Place
from storage.scope import Scope


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("status", ("status", "")),
        ("  Status  ", ("status", "")),
        ("status 2", ("status", "2")),
        ("pending", ("pending", "")),
        ("rules 3", ("rules", "3")),
        ("stop", ("stop", "")),
        ("usage", ("usage", "")),
        ("help", ("help", "")),
        ("task k3v9qz", ("task", "k3v9qz")),
        ("cancel `k3v9qz`", ("cancel", "`k3v9qz`")),
        ("cancel call_k3v9qz", ("cancel", "call_k3v9qz")),
    ],
)
def test_a_text_that_is_exactly_a_command_is_one(text: str, command: tuple[str, str]) -> None:
    assert read(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "",
        "status?",
        "status of checkout",
        "status 12345",
        "help me with checkout",
        "stop it",
        "stop 1",
        "usage please",
        "cancel",
        "cancel that",
        "cancel the deployment",
        "cancel rollout",
        "task",
        "please status",
        "approve",
        "<@U1> status",
    ],
)
def test_anything_more_is_for_the_agent(text: str) -> None:
    assert read(text) is None


def test_every_command_is_in_the_help() -> None:
    for name in ("status", "pending", "task", "cancel", "stop", "rules", "usage", "help"):
        assert f"- `{name}" in HELP


@pytest.mark.row("B95")
def test_the_ids_that_are_listed_can_be_given_in_a_mention() -> None:
    ids = [new_id("call") for _ in range(50)]
    for short in short_ids(ids).values():
        assert read(f"task {short}") == ("task", short)


def test_a_short_id_is_six_characters_or_as_many_as_tell_it_from_the_others() -> None:
    assert short_ids(["call_k3v9qz111", "call_k3v9qz122", "chat_k3v9qz2", "call_a1b2c3d4"]) == {
        "call_k3v9qz111": "k3v9qz11",
        "call_k3v9qz122": "k3v9qz12",
        "chat_k3v9qz2": "k3v9qz2",
        "call_a1b2c3d4": "a1b2c3",
    }


def test_an_id_that_is_listed_twice_stays_short() -> None:
    assert short_ids(["call_k3v9qz111", "call_k3v9qz111"]) == {"call_k3v9qz111": "k3v9qz"}


@given(st.text(max_size=200))
def test_code_is_one_code_span_whatever_stands_in_it(text: str) -> None:
    (paragraph,) = (
        token for token in MarkdownIt("commonmark").parse(f"- {code(text)} end") if token.children
    )
    assert paragraph.children is not None
    assert [child.type for child in paragraph.children] == ["code_inline", "text"]
    assert paragraph.children[1].content == " end"


def test_what_cannot_be_seen_is_written_out_and_a_cut_shows() -> None:
    assert code("a\u202eb\u200bc\x1b[0m") == "`a⟨U+202E⟩b⟨U+200B⟩c⟨U+001B⟩[0m`"
    assert code("x" * 50, 10) == f"`{'x' * 9}…`"
    assert code(" \n ") == "`—`"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "less than a minute"),
        (59, "less than a minute"),
        (60, "1 minute"),
        (3_599, "59 minutes"),
        (7_200, "2 hours"),
        (86_400 * 3, "3 days"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, words: str) -> None:
    assert age(seconds) == words


@pytest.mark.parametrize(
    "place",
    [Place("", "T1", "C1", "1"), Place("slack", "", "C1", "1"), Place("slack", "T1", "", "")],
)
def test_a_place_without_a_channel_does_not_widen_what_is_seen(place: Place) -> None:
    with pytest.raises(ValueError, match="channel"):
        Scope.of_channel(place)


def test_an_organisation_without_a_name_does_not_widen_what_is_seen() -> None:
    with pytest.raises(ValueError, match="organisation"):
        Scope.of_organisation("slack", "")
