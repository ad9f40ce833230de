"""Text on a terminal: nothing in it can move the cursor, change colours or hide."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text

from bot.text import reveal


def safe(text: str, *, lines: bool = False, exact: bool = False) -> str:
    """The text with every character that cannot be seen or imitates another written out, as
    ⟨U+202E⟩; two texts that differ look different. `lines` keeps line breaks, `exact` is for what
    runs (spec: Deceptive text is revealed)."""
    return reveal(text, keep="\n" if lines else "", prose=not exact)


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
