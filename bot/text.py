"""Text of others made honest: what cannot be seen, or looks like something else, is written out
(spec: Deceptive text).

Invisible, direction and control characters let a text show something else than it is (row B56), and
so do letters that imitate others (`bot.confusable`). Each is written as ⟨U+202E⟩. That is for the
eye alone: what runs stays as it is."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Final

from bot.confusable import imitations

# Controls, formats (bidi, zero-width), surrogates, private and unknown ones, separators.
_UNSEEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that are drawn as nothing: fillers, the grapheme joiner, variation selectors.
_UNSEEN: Final = frozenset(
    map(chr, [0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0])
) | frozenset(map(chr, [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
_EMOJI_STYLE: Final = "\ufe0f"
_KEYCAP: Final = "\u20e3"
_COLOURED: Final = frozenset("‼⁉ℹ↔⤴⤵◻◼◽◾〰")  # emoji that Unicode counts as no symbols
_JOINER: Final = "\u200d"
_TONES: Final = frozenset(map(chr, range(0x1F3FB, 0x1F400)))
_OPENS: Final = "⟨"  # begins our escapes, and so is escaped itself: no text can imitate one
_ESCAPE: Final = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")
_PLAIN: Final = re.compile(r"[\x20-\x7e]*")

LINES: Final = "\n\t"  # what lays a text out in lines and columns


def reveal(text: str, *, keep: str = "", prose: bool = False) -> str:
    """The text with every character written out that cannot be seen or imitates another; two texts
    that differ look different. Done once: what is revealed again is no longer the text. `keep` is
    left as it is. `prose`: it is no argument, and any language may be written in its own way."""
    if _PLAIN.fullmatch(text):
        return text
    return _shown(text, keep, _OPENS, partial(imitations, strict=not prose))


def visible(text: str, *, keep: str = LINES, part: bool = False) -> str:
    """As `reveal` of prose, for text in which something may have been revealed before: nothing in
    it hides, though it may imitate an escape. `part`: a piece of a text that was made visible as
    a whole; nothing more is found in it but what no text has."""
    if _PLAIN.fullmatch(text):
        return text
    return _shown(text, keep, "", partial(imitations, part=part))


def written_out(before: str, after: str) -> frozenset[str]:
    """The characters of a text that are escaped in what was made of it."""
    if before == after:
        return frozenset()
    there = (chr(int(code, 16)) for code in _ESCAPE.findall(after))
    return frozenset(char for char in there if char in before)


def is_unseen(char: str) -> bool:
    """Whether a screen would obey this character or draw nothing for it."""
    return char in _UNSEEN or unicodedata.category(char) in _UNSEEN_CATEGORIES


def _shown(text: str, keep: str, escaped: str, find: Callable[[str], set[int]]) -> str:
    unseen = {one for one in set(text) if one not in keep and (one == escaped or is_unseen(one))}
    # What is written out is no part of the words around it.
    imitating = find(text.translate(dict.fromkeys(map(ord, unseen), _OPENS)) if unseen else text)
    chars = unseen | {text[place] for place in imitating}
    if not chars:
        return text

    shown = list(text)
    for place in imitating:
        shown[place] = _OPENS
    rest = "".join(shown)  # in which no emoji has what is written out
    for place, char in enumerate(text):
        if char in chars and (
            place in imitating or (char in unseen and not _in_emoji(rest, place))
        ):
            shown[place] = f"{_OPENS}U+{ord(char):04X}⟩"
    return "".join(shown)


def _in_emoji(text: str, index: int) -> bool:
    """Whether the character asks for the coloured form of a symbol that is seen either way, or
    joins two of them."""
    char = text[index]
    if char not in (_EMOJI_STYLE, _JOINER) or index == 0:
        return False
    before, after = text[index - 1], text[index + 1 : index + 2]
    if char == _EMOJI_STYLE:
        return _is_symbol(before) or (before in "0123456789#*" and after == _KEYCAP)
    joined = before == _EMOJI_STYLE and index > 1 and _is_symbol(text[index - 2])
    return (joined or before in _TONES or _is_symbol(before)) and bool(after) and _is_symbol(after)


def _is_symbol(char: str) -> bool:
    return char in _COLOURED or unicodedata.category(char) == "So"


def chunks(text: str, size: int) -> list[str]:
    """The text in pieces of at most `size`, cut after a line or a word where there is one.
    Joined they are the text again."""
    pieces = []
    while len(text) > size:
        cut = text.rfind("\n", size // 2, size) + 1 or text.rfind(" ", size // 2, size) + 1 or size
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text]


def blank(value: str) -> str:
    """What is said of a text in which nothing can be seen; empty for every other."""
    if value.strip():
        return ""
    return f" (nothing but white space: {json.dumps(value)})" if value else " (an empty text)"
