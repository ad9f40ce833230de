"""What stood in a thread, as the model reads it: quoted, bounded, with nothing left out unsaid."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.quoting import ONE, ROOM, lines, unreadable
from bot.surface import Earlier, Quoted


def read(thread: Earlier, **options: Any) -> list[dict[str, str]]:
    return [json.loads(one.line) for one in lines(thread, **options)]


def says(number: int, size: int = 10) -> Quoted:
    return Quoted("ben", f"{number} " + "x" * size, 1_800_000_000.0 + number)


def test_each_message_has_its_author_its_time_and_its_files() -> None:
    person = Quoted("ben", "checkout is slow", 1_800_000_000.0, files=("graph.png",))
    program = Quoted("Pager", "firing", 1_800_000_060.0, bot=True)

    assert read(Earlier((person, program))) == [
        {
            "earlier in the thread": "checkout is slow",
            "by": "ben",
            "at": "2027-01-15 at 08:00 UTC",
            "files, not shown": "graph.png",
        },
        {
            "earlier in the thread": "firing",
            "by a program": "Pager",
            "at": "2027-01-15 at 08:01 UTC",
        },
    ]


def test_an_empty_thread_says_nothing() -> None:
    assert lines(Earlier(())) == []


def test_of_a_long_thread_the_beginning_and_the_end_are_read_and_the_rest_is_counted() -> None:
    thread = Earlier(tuple(says(number, 200) for number in range(40)), left_out=7)

    first, gap, *rest = read(thread, room=2_000)

    assert first["earlier in the thread"].startswith("0 ")
    assert rest[-1]["earlier in the thread"].startswith("39 ")
    assert gap == {
        "note": f"{7 + 39 - len(rest)} more messages stood here; they are not shown to you."
    }
    assert 2 < len(rest) < 39


def test_a_long_message_is_cut_and_says_so() -> None:
    (only,) = read(Earlier((Quoted("ben", "y" * (ONE + 5), 0.0),)))

    assert only["earlier in the thread"] == "y" * ONE + "… (cut: 5 more characters)"


@pytest.mark.parametrize("reason", ["Slack answered missing_scope", "it took too long"])
def test_what_could_not_be_read_is_said_with_the_reason(reason: str) -> None:
    told = {"note": f"What stood in this thread before could not be read: {reason}."}

    assert [json.loads(one.line) for one in unreadable(reason)] == [told]
    assert read(Earlier((), missing=reason)) == [told]
    (_, note) = read(Earlier((says(1),), missing=reason))
    assert note == {"note": f"What followed could not be read: {reason}."}


def test_a_time_that_no_calendar_has_is_left_out() -> None:
    (only,) = read(Earlier((Quoted("ben", "hi", 1e18),)))

    assert only["at"] == ""


@given(
    st.lists(st.builds(Quoted, st.text(), st.text(max_size=50), st.floats(0, 4e9), st.booleans()))
)
def test_no_message_gets_out_of_its_quotes_or_over_the_room(messages: list[Quoted]) -> None:
    shown = lines(Earlier(tuple(messages)))

    assert all(len(one.line.splitlines()) == 1 for one in shown)
    keys = {"earlier in the thread", "by", "by a program", "at", "files, not shown"}
    for one in shown:
        parsed = json.loads(one.line)
        assert set(parsed) <= keys or set(parsed) == {"note"}
        assert ("by" in parsed) != ("by a program" in parsed) or set(parsed) == {"note"}
    assert sum(len(one.line) for one in shown) <= ROOM + ONE * 6
