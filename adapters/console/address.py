"""The address of a page question: which part of it is the host, and what is odd about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

# Browsers and Python read anything else (a backslash, a space, a control) in different ways.
_READ_ALIKE: Final = re.compile(r"https?://[^\s\\\x00-\x20\x7f<>\"^`{|}]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """`before + host + after` is the whole address; the host is empty when it cannot be told."""

    before: str
    host: str
    after: str
    warnings: tuple[str, ...] = ()


def read(address: str) -> Address:
    """What a person must see of an address before going there (spec: MCP). Never raises."""
    try:
        parts = urlsplit(address)
        readable = bool(parts.hostname) and _READ_ALIKE.fullmatch(address) is not None
        _ = parts.port  # raises when it is no number
    except ValueError:
        readable = False
    if not readable:
        odd = "This is not an http or https address that every program reads alike: do not open it."
        return Address(address, "", "", (odd,))
    userinfo, at, host = parts.netloc.rpartition("@")
    start = address.index("//") + 2 + len(userinfo) + len(at)
    warnings = []
    if at:
        warnings.append("The part before the @ is not where this leads: only the host is.")
    if not host.isascii():
        warnings.append("The host has letters outside a to z, which can imitate another name.")
    if any(label.startswith("xn--") for label in host.lower().split(".")):
        warnings.append("The host is in Punycode (xn--), which can imitate another name.")
    if parts.scheme == "http":
        warnings.append("The connection is not encrypted (http).")
    end = start + len(host)
    return Address(address[:start], address[start:end], address[end:], tuple(warnings))
