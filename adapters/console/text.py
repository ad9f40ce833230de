"""Text on a terminal: nothing in it can move the cursor, change colours or hide."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text

# Controls, formats (bidi, zero-width), surrogates, private and unknown ones, separators.
_UNSEEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that are drawn as nothing: fillers, the grapheme joiner, variation selectors.
_UNSEEN: Final = frozenset(
    map(chr, [0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0])
) | frozenset(map(chr, [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
_EMOJI_STYLE: Final = "\ufe0f"
_OPENS: Final = "⟨"  # begins our escapes, and so is escaped itself: no text can imitate one
_PLAIN: Final = re.compile(r"[\x20-\x7e]*")


def safe(text: str, *, lines: bool = False) -> str:
    """The text with every character that cannot be seen written out, as ⟨U+202E⟩; two texts that
    differ look different. `lines` keeps line breaks (spec: Deceptive text is revealed)."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(_shown(text, lines))


def _shown(text: str, lines: bool) -> Iterator[str]:
    before = ""
    for char in text:
        if char == "\n" and lines:
            yield char
        elif char == _EMOJI_STYLE and before and unicodedata.category(before) == "So":
            yield char  # asks for the coloured form of a symbol that is seen either way
        elif char == _OPENS or is_unseen(char):
            yield f"{_OPENS}U+{ord(char):04X}⟩"
        else:
            yield char
        before = char


def is_unseen(char: str) -> bool:
    """Whether a terminal would obey this character or draw nothing for it."""
    return char in _UNSEEN or unicodedata.category(char) in _UNSEEN_CATEGORIES


class Exact:
    """Draws safe text with every character on the screen: folded at the width, where rich's own
    wrapping would leave out spaces and cut what is long."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = max(2, options.max_width)  # a wide character takes two cells
        for line in self.text.split("\n", allow_blank=True):
            for piece in line.divide(_folds(line.plain, width)):
                piece.no_wrap, piece.overflow = True, "ignore"
                yield piece

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widest = max(2, *map(cell_len, self.text.plain.split("\n")), 0)
        return Measurement(min(widest, 8), widest).with_maximum(options.max_width)


def _folds(line: str, width: int) -> list[int]:
    """Where to fold a line: offsets in characters, never at its end."""
    offsets = []
    offset = 0
    for piece in chop_cells(line, width)[:-1]:
        offset += len(piece)
        offsets.append(offset)
    return offsets
