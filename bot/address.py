"""The address of a page question: its host marked, and what is odd about it said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

# Browsers and Python read anything else (a backslash, a space, a control) in different ways.
_READ_ALIKE: Final = re.compile(r"https?://[^\s\\\x00-\x20\x7f<>\"^`{|}]+", re.IGNORECASE)


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
        odd = "This is not an address that every program reads alike: do not open it."
        return Address(address, "", "", (odd,))
    warnings = []
    start = address.index("//") + 2
    userinfo, _, rest = parts.netloc.rpartition("@")
    if userinfo:
        start += len(userinfo) + 1
        warnings.append("The part before the @ is not where this leads: only the marked host is.")
    marked = address[start : start + len(rest)]
    if not marked.isascii():
        warnings.append(
            f"The host has letters outside a to z, which can imitate another name{_in_ascii(host)}."
        )
    elif any(label.startswith("xn--") for label in host.split(".")):
        warnings.append(
            "The host is written in Punycode (xn--), which stands for letters outside a to z and "
            "can imitate another name."
        )
    if parts.scheme == "http":
        warnings.append("The connection is not encrypted (http).")
    return Address(address[:start], marked, address[start + len(rest) :], tuple(warnings))


def _in_ascii(host: str) -> str:
    try:
        return f": in Punycode it is {host.encode('idna').decode('ascii')}"
    except UnicodeError:
        return ""
