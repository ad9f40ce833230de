"""A long text shown in part: its beginning and its end, and how much stands between."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Excerpt:
    head: str
    left_out: int  # characters between
    tail: str


def excerpt(text: str, size: int) -> Excerpt:
    """At most `size` characters of the text; the end counts as much as the beginning (row B46)."""
    if len(text) <= size:
        return Excerpt(text, 0, "")
    end = size // 2
    return Excerpt(text[: size - end], len(text) - size, text[len(text) - end :])
