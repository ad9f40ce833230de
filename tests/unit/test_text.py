"""What cannot be seen is written out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.confusable import settled
from bot.text import LINES, is_unseen, reveal, visible

MIXED = st.text(alphabet="a⟨⟩U+0\u200b\u200d\n😀👩\ufe0f")


@pytest.mark.row("B56")
@pytest.mark.parametrize(
    "char",
    [
        chr(one)
        for first, last in ((0x202A, 0x202E), (0x2066, 0x2069), (0x200B, 0x200F))
        for one in range(first, last + 1)
    ]
    + ["\u061c", "\ufeff", "\u00ad", "\u2060"],
)
def test_characters_that_hide_or_reorder_are_written_out(char: str) -> None:
    assert reveal(f"a{char}b") == visible(f"a{char}b") == f"a⟨U+{ord(char):04X}⟩b"


@given(st.text())
def test_nothing_unseen_is_left(text: str) -> None:
    for shown in (reveal(text), visible(text, keep="")):
        assert not any(map(is_unseen, shown.replace("\ufe0f", "").replace("\u200d", "")))


@given(MIXED, MIXED)
def test_revealed_texts_that_differ_look_different(one: str, other: str) -> None:
    assert (reveal(one) == reveal(other)) == (one == other)


@given(st.text())
def test_what_was_revealed_is_left_alone_by_visible(text: str) -> None:
    assert visible(reveal(text, keep=LINES)) == reveal(text, keep=LINES)


def test_an_emoji_of_several_parts_stays_one() -> None:
    family = "👩\u200d👧 ⚠\ufe0f 👩🏽\u200d💻"
    assert reveal(family) == family


def test_every_emoji_that_unicode_lists_as_coloured_stays_one() -> None:
    lists = "1\ufe0f\u20e3 #\ufe0f\u20e3 *\ufe0f\u20e3 ‼\ufe0f ⁉\ufe0f ↔\ufe0f ⤴\ufe0f 〰\ufe0f"
    told = f"{lists} ℹ\ufe0f 🙂\u200d↔\ufe0f ◻\ufe0f"
    assert reveal(lists) == lists
    assert visible(told) == reveal(told, prose=True) == told


@pytest.mark.parametrize(
    "text", ["1\ufe0f", "1\ufe0f2", "a\ufe0f\u20e3", "ℹ\ufe0f", "👩\u200dℹ\ufe0f"]
)
def test_what_is_no_whole_emoji_where_it_counts_is_written_out(text: str) -> None:
    shown = reveal(text)
    assert "\ufe0f" not in shown
    assert visible(shown) == shown


@given(st.text(alphabet="a1#👩ℹ↔⚠\u200d\ufe0f\u20e3"))
def test_emoji_that_are_cut_are_shown_as_they_stay(text: str) -> None:
    for shown in (reveal(text), visible(text)):
        assert visible(shown) == shown
    for end in range(len(text)):
        assert visible(text).startswith(visible(settled(text[:end])))


@pytest.mark.parametrize("text", ["a\u200db", "👩\u200db", "👩\u200d", "a\ufe0f", "\u200d👩"])
def test_a_joiner_that_joins_no_symbols_is_written_out(text: str) -> None:
    assert "⟨U+" in reveal(text)


def test_line_breaks_and_tabs_stay_where_they_are_asked_for() -> None:
    assert reveal("a\n\tb", keep=LINES) == "a\n\tb"
    assert reveal("a\n\tb") == "a⟨U+000A⟩⟨U+0009⟩b"
