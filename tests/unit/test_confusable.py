"""Characters that imitate others are found, and what people write in their languages is not."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.confusable import imitations, settled
from bot.lookalikes import LOOKALIKES
from bot.text import reveal, visible

PROSE = [
    "pаypal",  # Cyrillic
    "vоut",
    "gοοgle",  # Greek
    "mіcrosoft",
    "fаcebооk.com/login",
    "ехес.sh",
    "раураӏ-login",
    "Sign in at аррӏе now",
    "Deploy ОК now",
    "TCP/ΙΡ",
    "СО2 in English",
    "googاe",  # Arabic
    "Տystem",  # Armenian
    "ԛuit",
    "ꓮdmin",  # Lisu
    "Ꭺdmin",  # Cherokee
    "ɡoogle",  # a phonetic g
    "a\u2215b",
    "etc\u2044passwd",
    "evil\u2024com",
    "evil\u3002com",
    "evil\uff0ecom",
    "http\ua789x",
    "pа\u0301ypal",  # an accent between does not part a word
    "1\u09e60 items in v১\u09e6x",
]
FINE = [
    "",
    "plain ASCII",
    "École, élève, naïve, façon, œuvre, À bientôt",
    "Straße, Łódź, Ørsted, žlutý kůň, ığdır, Ə",
    "Tiếng Việt không có gì lạ",
    "Привет, ухо, оса и ОК",
    "Сервер на AWS: PDFки и gitом, web-сервер, IT-отдел",
    "Docker, ее версия и хор",
    "дом 12а, 5с",
    "Ελλάδα και API",
    "β-carotene, TNF-α, α-helix, 5 Ω, 3 μm, Δx, sinα",
    "日本語とRustのテスト、ＡＢＣ株式会社。GitHubへ",
    "安装Python3。Python是一种语言：（注意）",
    "한국어 API 문서",
    "ไทย ๑๐๐ API",
    "हिन्दी १०० API",
    "वर्ष २०२५ में API",
    "שלום וGoogle ל-API",
    "مرحبا بكم في API ٥٠",
    "Հայերեն API",
    "ɡuːɡəl in phonetic writing",
    "“quotes” — dashes – and … it’s fine",
    "½ 1⁄2 ² № ™ € → ✓ 👩‍💻",
    "a × b ≤ c ∪ d",
]
STRICT = [
    "ｒｍ -ｒｆ",
    "𝐫𝐦 -rf",
    "conﬁg",
    "Ⅳ",
    "ℎello",
    "\u2014force",
    "rm \u2010\u2010force",
    "rm \u2212rf",
    "prod\u2010db",
    "prod\u2011db",
    "a\u00a0b",
    "rm\u2003x",
    "rm\u3000x",
    "ls\u037e",
    "x\u02d0y",
    "/\u2215etc",
    "1\u20442",
    "ехес",
    "PDFка",
    "ls \ufe63l",
]
STRICT_FINE = [
    "Prix\u00a0: 5\u00a0€\u202f! «\u00a0oui\u00a0» 10\u00a0km",
    "重要：（株）！",
    "東京\u3000大阪",
    "ＡＢＣ株式会社",
    "Он сказал: ухо и ОК — да",
    "“quotes” — dash – dash",
    "- item\n– item\n— item",
    "5 Ω, 3 μm, β-carotene",
    "École d’été",
    "👍🏽 ✅ → ok",
    "№ 5 ™",
]


@pytest.mark.row("B56")
@pytest.mark.parametrize("text", PROSE)
def test_what_imitates_is_found_in_prose_and_in_what_runs(text: str) -> None:
    assert imitations(text)
    assert imitations(text, strict=True)


@pytest.mark.parametrize("text", FINE)
def test_what_people_write_is_left_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.row("B56")
@pytest.mark.parametrize("text", STRICT)
def test_what_runs_may_have_no_other_form_of_a_character(text: str) -> None:
    assert imitations(text, strict=True)
    assert reveal(text) != text


@pytest.mark.parametrize("text", STRICT_FINE)
def test_arguments_are_written_in_languages_too(text: str) -> None:
    assert reveal(text, keep="\n") == text


def test_only_the_letters_that_imitate_are_written_out() -> None:
    assert visible("pаypal and Привет") == "p⟨U+0430⟩ypal and Привет"
    assert visible("see аррӏе") == "see ⟨U+0430⟩⟨U+0440⟩⟨U+0440⟩⟨U+04CF⟩⟨U+0435⟩"


@pytest.mark.parametrize("like", sorted(LOOKALIKES))
def test_every_lookalike_is_found_inside_a_word(like: str) -> None:
    for char in LOOKALIKES[like]:
        assert imitations(f"x{char}z0") == {1}, (like, char)


def test_what_is_escaped_belongs_to_no_word() -> None:
    shown = reveal("pаypаl ехес a\u200bо")
    assert visible(shown) == shown


def test_of_a_piece_only_what_is_sure_is_found() -> None:
    assert imitations("x pаypal y", part=True) == {3}
    assert not imitations("pаypal", part=True)  # it may go on: pаypalъ
    assert not imitations("see аррӏе here", part=True)  # the rest may be Russian


# Words of several alphabets, what parts them, and what is made of them.
PIECES = st.lists(
    st.sampled_from(
        [
            *"abzоаехсжАОαογσℎｒɡəíא०৪۵٥あ漢/.:_-@ \n\u00a0\u3000\u0301\u2215\u2014\u3002\u200b⟨⟩",
            "U+0430",
        ]
    ),
    max_size=14,
).map("".join)


@pytest.mark.row("B48")
@given(PIECES | st.text())
def test_what_is_revealed_reads_back_as_it_was(text: str) -> None:
    shown = reveal(text)
    assert re.sub("⟨U\\+([0-9A-F]{4,6})⟩", lambda found: chr(int(found[1], 16)), shown) == text


@given(PIECES, st.booleans())
def test_nothing_that_imitates_is_left(text: str, prose: bool) -> None:
    assert not imitations(reveal(text, prose=prose), strict=not prose)
    assert not imitations(visible(text))


@given(PIECES | st.text())
def test_what_is_shown_is_shown_once(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert visible(reveal(text), keep="") == reveal(text)


@given(PIECES, st.data())
def test_a_piece_of_what_is_shown_stays_as_it_is(text: str, data: st.DataObject) -> None:
    """Else a text that was measured would grow where it is drawn, and be cut."""
    shown = visible(text, keep="\n")
    start = data.draw(st.integers(0, len(shown)))
    end = data.draw(st.integers(start, len(shown)))
    piece = shown[start:end]
    assert visible(piece, keep="\n", part=True) == piece


def test_a_last_word_that_may_turn_out_to_imitate_is_held_back() -> None:
    assert settled("see gitо") == "see "
    assert settled("see gitо ") == "see gitо "
    assert settled("see git") == "see git"
    assert settled("日本語の") == "日本語の"


@pytest.mark.parametrize(
    "piece",
    [
        "pаypal ",
        "pа",
        "аррӏе ",
        "а\u0301",
        "\u00a0",
        "1\u00a0",
        "a\u2215",
        "—",
        "ｒ",
        "/а",
        "xn--",
        "а.",
    ],
)
def test_a_long_text_takes_linear_time(piece: str) -> None:
    """A quadratic search would take minutes here."""
    text = piece * (50_000 // len(piece))
    began = time.process_time()
    assert visible(text)
    assert reveal(text)
    assert time.process_time() - began < 3
