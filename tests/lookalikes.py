"""Makes bot/lookalikes.py of Unicode's confusables.txt (UTS #39):

    python -m tests.lookalikes confusables.txt > bot/lookalikes.py

Only what a word could be written with instead of ASCII: letters and digits, each for one letter or
digit. Left out are scripts that stand among Latin letters as a matter of course (Han, kana), what
is a compatibility form (bot.confusable knows those by their normal form), and Latin letters that
languages are written in (ı, ơ, Ɓ): those are no foreign letters in a word."""

from __future__ import annotations

import sys
import unicodedata
from collections import defaultdict
from pathlib import Path

_MIXING = ("CJK", "IDEOGRAPHIC", "KATAKANA", "HIRAGANA", "KANGXI", "HANGUL", "BOPOMOFO", "VERTICAL")
# Of the Latin ones only letters of phonetic writing, and one that no language has any more.
_PHONETIC = (
    range(0x1BD, 0x1BE),
    range(0x1C0, 0x1C1),
    range(0x250, 0x262),
    range(0x1D00, 0x1DC0),
    range(0xA730, 0xA732),
    range(0xAB30, 0xAB70),
)
_WIDTH = 94

_HEAD = '''"""Letters and digits that look like ASCII ones, made by tests/lookalikes.py: not edited.

Derived from confusables.txt, version {version}, Copyright (c) 1991-2020 Unicode, Inc., under the
Unicode Licence (https://www.unicode.org/license.txt), which asks for this notice."""

from __future__ import annotations

from typing import Final

LOOKALIKES: Final = {{'''


def main(source: str) -> None:
    lines = Path(source).read_text("utf-8-sig").splitlines()
    version = next(line.split()[-1] for line in lines if line.startswith("# Version:"))
    told = defaultdict(set)
    for line in lines:
        fields = [field.strip() for field in line.split("#")[0].split(";")]
        if len(fields) == 3:
            char, like = chr(int(fields[0], 16)), "".join(map(_char, fields[1].split()))
            if _wanted(char) and len(like) == 1 and like.isascii() and like.isalnum():
                told[like].add(char)
    for like, chars in told.items():  # accents make no other letter of it: ό, ё, ї
        told[like] = chars | {one for one in _accented() if _base(one) in chars}
    print(_HEAD.format(version=version))
    for like in sorted(told):
        escaped = [_escape(char) for char in sorted(told[like])]
        rows = [""]
        for one in escaped:
            if len(rows[-1]) + len(one) > _WIDTH - 12:
                rows.append("")
            rows[-1] += one
        if len(rows) == 1:
            print(f'    "{like}": "{rows[0]}",')
        else:
            print(f'    "{like}": (')
            print("\n".join(f'        "{row}"' for row in rows))
            print("    ),")
    print("}")


def _char(code: str) -> str:
    return chr(int(code, 16))


def _base(char: str) -> str:
    return unicodedata.normalize("NFD", char)[0]


def _accented() -> list[str]:
    return [
        char
        for char in map(chr, [*range(0x370, 0x530), *range(0x1F00, 0x2000)])
        if _base(char) != char and unicodedata.category(char)[0] == "L"
    ]


def _wanted(char: str) -> bool:
    name = unicodedata.name(char, "")
    if char.isascii() or not name or unicodedata.category(char)[0] not in "LN":
        return False
    normal = unicodedata.normalize("NFKC", char)
    if name.startswith((*_MIXING, "MATH")) or normal.isascii():
        return False
    return not name.startswith("LATIN") or any(ord(char) in part for part in _PHONETIC)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


if __name__ == "__main__":
    main(sys.argv[1])
