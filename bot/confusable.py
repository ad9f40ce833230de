"""Which characters of a text imitate others: a Cyrillic а in `pаypal`, a ∕ that is no slash.

Two measures. Prose is written in any language and only what no language writes is found: letters
of another alphabet among Latin ones, whole words of nothing but such letters in a Latin text, and
what is no slash, dot or colon inside a word. In what runs (`strict`) a character that is taken for
another changes what is done, so other forms, spaces and dashes of ASCII are found as well."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from bot.lookalikes import LOOKALIKES


def _alphabet(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0]


_ALL: Final = "".join(LOOKALIKES.values())
_PHONETIC: Final = frozenset(char for char in _ALL if _alphabet(char) == "LATIN")
_LIKE: Final = frozenset(_ALL) - _PHONETIC
_MARKS: Final = "\u0300-\u036f"
_LATINS: Final = (
    "A-Za-z\u00c0-\u02ff\u1d00-\u1d25\u1d2c-\u1dbf\u1e00-\u1eff\ua720-\ua7ff\uab30-\uab6f"
)
_ESCAPE: Final = re.compile(r"⟨U\+[0-9A-F]{4,6}⟩")  # ours (bot.text): no part of any word
_WORD: Final = re.compile(rf"[\w{_MARKS}./@:+~-]+")
_RUN: Final = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
_FOREIGN: Final = re.compile(f"[^{_LATINS}0-9]+")
_NOT_LIKE: Final = re.compile(f"[^{''.join(_LIKE)}{_MARKS}]")
_NOT_PHONETIC: Final = re.compile(f"[^A-Za-z0-9{''.join(_PHONETIC | _LIKE)}]")
_LATIN: Final = re.compile("[A-Za-z]")
_ASCII: Final = re.compile("[A-Za-z0-9]")
_MATHS: Final = frozenset("αγνρσ")  # beside a short name in prose they are a formula's: sinα
_PASSES: Final = 5  # two do for all but what is made up against it
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL", "AN"})

# Separators of paths, addresses and commands, between letters or digits of ASCII; full stops of
# Chinese and Japanese are none in a text that has their letters.
_SEPARATORS: Final = "\u2215\u2044\u29f8\u29f9\u29f5\u2216\uff0f\u2236\ua789\u2024\ua4f8"
_STOPS: Final = "\u3002\uff0e\uff61"
_BETWEEN: Final = re.compile(rf"(?<=[A-Za-z0-9])[{_SEPARATORS}{_STOPS}](?=[A-Za-z0-9])")
_BETWEEN_STRICT: Final = re.compile(
    rf"(?<=[A-Za-z0-9])[{_SEPARATORS}{_STOPS}\u02f8\u05c3\u0589\u2010\u2011\u2212]"
    "(?=[A-Za-z0-9])"
)
_NEVER: Final = re.compile(
    "[\u02d0\u037e\u2024\u2044\u2215-\u2217\u2223\u2236\u29f5\u29f8\u29f9\ua789\ufe50-\ufe6b]"
    "|(?<!\\S)[\u2010-\u2015\u2212\uff0d]{1,2}(?=[A-Za-z])"  # as an option begins
)
_SPACE: Final = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_FRENCH: Final = re.compile("(?<=[«0-9])[\u00a0\u202f]|[\u00a0\u202f](?=[!?:;»%€$£])")
_FORM: Final = re.compile(
    "[\u2100-\u214f\u2160-\u217f\ufb00-\ufb06\uff01-\uff5e"
    "\U0001d400-\U0001d7ff\U0001fbf0-\U0001fbf9]"
)
_CJK: Final = re.compile("[\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fef\uac00-\ud7a3]")


def imitations(text: str, *, strict: bool = False, part: bool = False) -> set[int]:
    """The places of all characters in it that imitate ASCII. `part`: it may be a piece of a text,
    and only what would be found in the whole is. Takes linear time."""
    if text.isascii():
        return set()
    plain = _ESCAPE.sub(lambda found: "⟨" * len(found.group()), text)
    found: set[int] = set()
    # What is written out belongs to no word any more, so that the rest is looked at again, until
    # nothing is found: what was made visible stays as it is when that is done twice.
    for _ in range(_PASSES):
        new = _pass(plain, strict, part)
        if not new:
            break
        found |= new
        plain = "".join("⟨" if place in new else char for place, char in enumerate(plain))
    return found


def _pass(plain: str, strict: bool, part: bool) -> set[int]:
    chinese = _CJK.search(plain) is not None
    found = set()
    for one in (_BETWEEN_STRICT if strict else _BETWEEN).finditer(plain):
        known = one.group() not in _STOPS or not (chinese or part)
        if known and (strict or _lettered(plain, one)):
            found.add(one.start())
    if strict:
        for one in _NEVER.finditer(plain):
            found.update(range(*one.span()))
        found.update(_spaces(plain))
        found.update(_forms(plain, chinese))
    like = set(plain) & (_LIKE | _PHONETIC)
    if not like:
        return found
    for word in _WORD.finditer(plain):
        cut = part and (word.start() == 0 or word.end() == len(plain))
        if not cut and not word.group().isascii():
            found.update(_in_word(word, strict))
    if not part and (strict or _LATIN.search(plain)):
        found.update(_whole_words(plain, like - _PHONETIC))
    return found


def settled(text: str) -> str:
    """A growing text as far as it stands fast: without a last word that holds lookalikes, which
    imitate or not as it goes on (gitо, gitом), nor what joins an emoji with what comes."""
    text = text.rstrip("\u200d\ufe0f")
    start = len(text)
    while start and _WORD.match(text[start - 1]):
        start -= 1
    return text[:start] if not _LIKE.isdisjoint(text[start:]) else text


def _lettered(text: str, one: re.Match[str]) -> bool:
    """Whether a letter stands beside it: 1⁄2 is a number."""
    return text[one.start() - 1].isalpha() or text[one.end()].isalpha()


# --- Letters


def _in_word(word: re.Match[str], strict: bool) -> Iterator[int]:
    """What imitates in a word, which may have several parts: аррӏе.com, pаypal-login."""
    latin = _LATIN.search(word.group()) is not None
    for run in _RUN.finditer(word.group()):
        start, letters = word.start() + run.start(), run.group()
        if letters.isascii():
            continue
        if _ASCII.search(letters):
            yield from (start + place for place in _mixed(letters, strict))
        elif latin and (len(letters) > 1 or (strict and letters not in _MATHS)):
            lone = _NOT_LIKE.search(letters) or _read_leftwards(letters[0])
            yield from () if lone else range(start, start + len(letters))


def _mixed(run: str, strict: bool) -> Iterator[int]:
    """What imitates in letters and digits that stand together, some of them of ASCII."""
    latin = _LATIN.search(run) is not None
    for same in _FOREIGN.finditer(run):
        start, foreign = same.start(), same.group()
        if not strict and _NOT_LIKE.search(foreign):
            continue  # PDFки: Russian after a Latin name, as its own letter shows
        if not latin and not foreign.isdigit():
            continue  # 12а: a number with a letter
        inside = start > 0 and same.end() < len(run)
        if not inside and _read_leftwards(foreign[0]):
            continue  # a prefix, as Hebrew writes one before a Latin name
        if not strict and not inside and foreign in _MATHS and len(run) < 5:
            continue
        yield from (start + place for place, char in enumerate(foreign) if char in _LIKE)
    if latin and not _NOT_PHONETIC.search(run):  # ɡoogle, but not ɡuːɡəl
        yield from (place for place, char in enumerate(run) if char in _PHONETIC)


def _whole_words(text: str, like: set[str]) -> Iterator[int]:
    """Words of nothing but letters that imitate, of alphabets that the text has no other letter
    of: аррӏе in English, but not ухо in Russian."""
    own = {_alphabet(char) for char in set(text) - like if char.isalpha() and not char.isascii()}
    foreign = {char for char in like if _alphabet(char) not in own and not _read_leftwards(char)}
    if not foreign:
        return
    for run in _RUN.finditer(text):
        places = [place for place in range(*run.span()) if text[place] in foreign]
        if len(places) > 1 and _only(run.group(), foreign):
            yield from places


def _only(run: str, letters: set[str]) -> bool:
    return not any(char.isalpha() and char not in letters for char in run)


def _read_leftwards(char: str) -> bool:
    return unicodedata.bidirectional(char) in _RIGHT_TO_LEFT


# --- Forms and spaces, in what runs


def _forms(text: str, chinese: bool) -> Iterator[int]:
    """Other forms of ASCII: ｒｍ, 𝐫𝐦, ﬁ. Wide ones are usual in a text with Chinese or Japanese
    letters, but for what separates."""
    for found in _FORM.finditer(text):
        char = found.group()
        if "\u2100" <= char <= "\u214f":
            normal = unicodedata.normalize("NFKC", char)
            if not (len(normal) == 1 and normal.isascii()):
                continue
        if not (chinese and "\u2160" <= char <= "\uff5e" and char not in "\uff0d\uff0e\uff0f"):
            yield found.start()


def _spaces(text: str) -> Iterator[int]:
    """Spaces that are not U+0020, but for those of French and of numbers, and wide ones beside
    Chinese or Japanese letters."""
    french = {one.start() for one in _FRENCH.finditer(text)}
    for found in _SPACE.finditer(text):
        place = found.start()
        beside = text[max(0, place - 1) : place + 2]
        if place not in french and not (found.group() == "\u3000" and _CJK.search(beside)):
            yield place
