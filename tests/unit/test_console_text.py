"""Text on a terminal is inert and whole."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from adapters.console.text import Exact, safe
from bot.text import is_unseen

HOSTILE = (
    "\x1b[2J\x1b]8;;http://evil\x07 \u202e\u200b\u2066\x9b31m\r\x08\u2028\ufe0e\u3164\ue000 ok"
)


def printed(renderable: object, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, markup=False).print(renderable)
    return out.getvalue()


@pytest.mark.parametrize("char", HOSTILE.replace(" ok", ""))
def test_what_a_terminal_would_obey_or_hide_is_written_out(char: str) -> None:
    if char.isascii() and char.isprintable():
        assert safe(char) == char
    else:
        assert safe(char) == f"⟨U+{ord(char):04X}⟩"


@given(st.text())
def test_nothing_unseen_is_left_of_any_text(text: str) -> None:
    kept = safe(text).replace("\ufe0f", "").replace("\u200d", "")  # only ever in an emoji
    assert not any(map(is_unseen, kept))


@given(st.text(alphabet="a⟨⟩U+0\u200b\n😀\ufe0f"), st.text(alphabet="a⟨⟩U+0\u200b\n😀\ufe0f"))
def test_texts_that_differ_look_different(one: str, other: str) -> None:
    assert (safe(one) == safe(other)) == (one == other)


def test_an_escape_cannot_be_imitated() -> None:
    assert safe("⟨U+202E⟩") == "⟨U+27E8⟩U+202E⟩"


def test_line_breaks_stay_only_where_they_are_asked_for() -> None:
    assert safe("a\nb", lines=True) == "a\nb"
    assert safe("a\nb") == "a⟨U+000A⟩b"
    assert safe("a\r\nb", lines=True) == "a⟨U+000D⟩\nb"


def test_letters_of_every_script_and_emoji_stay_as_they_are() -> None:
    text = "Zoë 東京 שלום Привет 😀 ⚠️ 1 000 €"
    assert safe(text) == text


def test_a_variation_selector_stays_only_after_a_symbol() -> None:
    assert safe("⚠\ufe0f") == "⚠\ufe0f"
    assert safe("a\ufe0f\ufe0f") == "a⟨U+FE0F⟩⟨U+FE0F⟩"


@given(st.text(), st.integers(2, 40))
def test_exact_puts_every_character_on_the_screen(text: str, width: int) -> None:
    shown = safe(text, lines=True)
    assert printed(Exact(Text(shown)), width).replace("\n", "") == shown.replace("\n", "")


def test_exact_keeps_runs_of_spaces_at_a_fold() -> None:
    text = "a" + " " * 30 + "b"
    lines = printed(Exact(Text(text)), 10).splitlines()
    assert "".join(lines) == text
    assert max(map(len, lines)) == 10
