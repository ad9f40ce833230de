"""Addresses inside other texts whose hosts are not what they seem, told in sentences for a card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from bot import address

MOST: Final = 3  # sentences of one card
_NAME: Final = 60
_HOST: Final = 120
_LONGEST: Final = 2_000  # characters of an address that are looked at
_ADDRESS: Final = re.compile(
    rf"(?i:https?)://[^\s<>\"'`{{}}|]{{1,{_LONGEST}}}"
    r"|(?<![\w.-])(?:[\w-]{1,63}\.){0,8}(?i:xn--)[\w-]{1,59}(?:\.[\w-]{1,63}){0,8}"
)
# What storage.redact puts for a password: the address around it is to be read all the same.
_MASKED: Final = re.compile(r"(?<=://)\[[\w ]+ hidden: [\d,]+ characters, #[0-9a-f]{8}\](?=@)")


def odd(text: str) -> Iterator[tuple[str, str]]:
    """Each address in a text that is odd: its host, and what is odd about it, in sentences."""
    if "://" not in text and "xn--" not in text.lower():
        return
    for found in _ADDRESS.finditer(_MASKED.sub("hidden", text)):
        named = found.group()
        if "\\@" not in named:  # which is read in two ways; else an escape of JSON ends it
            named = named.partition("\\")[0].rstrip(".,;:!?)]*_~")
        read = address.read(named if "://" in named else f"https://{named}")
        told = [one for one in read.warnings if one != address.UNENCRYPTED]
        if told and (read.host or "\\@" in named):
            yield read.host or named, " ".join(told)


def warnings(texts: Iterable[tuple[str, str]]) -> list[str]:
    """What is to be said of the addresses in texts, each under the name that people know it by."""
    told: dict[str, None] = {}
    for name, text in texts:
        for host, why in odd(text):
            told[f"⚠️ {_cut(name, _NAME)} leads to {_cut(host, _HOST)}: {why[:300]}"] = None
    first = list(told)[:MOST]
    left = len(told) - len(first)
    return [*first, f"⚠️ {left:,} more addresses in it are odd: read each host."] if left else first


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"
