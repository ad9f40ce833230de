"""The address of a page question: its host marked, and what is odd about it said."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

# Browsers and Python read anything else (a backslash, a space, a control) in different ways.
_READ_ALIKE: Final = re.compile(r"https?://[^\s\\\x00-\x20\x7f<>\"^`{|}]+", re.IGNORECASE)
_TOGETHER: Final = frozenset({"Latin", "Cjk", "Hiragana", "Katakana", "Hangul", "Bopomofo"})
UNREADABLE: Final = "This is not an address that every program reads alike: do not open it."
UNENCRYPTED: Final = "The connection is not encrypted (http)."


@dataclass(frozen=True, slots=True)
class Address:
    """`before + host + after` is the whole address. Without a host it must not be opened."""

    before: str
    host: str
    after: str
    warnings: tuple[str, ...]


def read(address: str) -> Address:
    """What a person must see of an address before going there (spec: MCP). Never raises."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        host = ""
    if not host or not _READ_ALIKE.fullmatch(address):
        return Address(address, "", "", (UNREADABLE,))
    warnings = []
    start = address.index("//") + 2
    userinfo, _, rest = parts.netloc.rpartition("@")
    if userinfo:
        start += len(userinfo) + 1
        warnings.append("The part before the @ is not where this leads: only the marked host is.")
    marked = address[start : start + len(rest)]
    if (odd := oddity(host)) is not None:
        warnings.append(odd)
    if parts.scheme == "http":
        warnings.append(UNENCRYPTED)
    return Address(address[:start], marked, address[start + len(rest) :], tuple(warnings))


def oddity(host: str) -> str | None:
    """By which letters a host can imitate another, in a sentence; None: it has none of them."""
    labels = host.lower().split(".")
    found = [_alphabets(_decoded(label)) for label in labels]
    mixed = next(
        (f"{' and '.join(sorted(one))} letters in one word" for one in found if _is_mixed(one)), ""
    )
    if not host.isascii():
        has = f"mixes {mixed}" if mixed else "has letters outside a to z"
        return f"The host {has}, which can imitate another name{_in_ascii(host)}."
    if not any(label.startswith("xn--") for label in labels):
        return None
    foreign = sorted(frozenset[str]().union(*found) - {"Latin"})
    letters = f"{' and '.join(foreign)} letters" if foreign else "letters outside a to z"
    return (
        f"The host is written in Punycode (xn--), which stands for {mixed or letters} and can "
        "imitate another name."
    )


def _decoded(label: str) -> str:
    try:
        return label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else label
    except UnicodeError:
        return label


def _alphabets(letters: Iterable[str]) -> frozenset[str]:
    """Of which alphabets letters are, by the names that Unicode gives them."""
    return frozenset(
        unicodedata.name(char, "Unknown").partition(" ")[0].capitalize()
        for char in letters
        if char.isalpha()
    )


def _is_mixed(alphabets: frozenset[str]) -> bool:
    return len(alphabets) > 1 and not alphabets <= _TOGETHER


def _in_ascii(host: str) -> str:
    if host.isascii():
        return ""
    try:
        return f": in Punycode it is {host.encode('idna').decode('ascii')}"
    except UnicodeError:
        return ""
