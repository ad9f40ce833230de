"""Markdown of ours around texts of others: what is untrusted is code, and can be nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from bot.text import visible
from storage.redact import mask

_TICK: Final = "ˋ"  # stands for a backtick, with which a text could close its code


def code(text: str, size: int = 120) -> str:
    """The text as a code span on one line: no mention, link, style or line break comes out of it,
    what cannot be seen is written as ⟨U+202E⟩, and a cut shows."""
    return literal(" ".join(text.split()), size)


def literal(text: str, size: int = 120) -> str:
    """As `code`, with every space as it is."""
    shown = visible(mask(text), keep="").replace("`", _TICK)
    if len(shown) > size:
        shown = f"{shown[: size - 1]}…"
    return f"`{shown or '—'}`"


def inert(text: str) -> str:
    """Lines for a terminal, in which nothing moves a cursor, hides or is a secret."""
    return visible(mask(text))


def link(label: str, address: str | None) -> str:
    """A link of ours, ready to follow a text; empty without an address."""
    return f" · [{label}]({address})" if address else ""


def age(seconds: float) -> str:
    """How long something lasts, in its largest unit."""
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            many = int(seconds // length)
            return f"{many} {unit}{'s' if many > 1 else ''}"
    return "less than a minute"


def moment(at: float) -> str:
    """A time (unix seconds) as people read it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d at %H:%M} UTC"


def short_ids(ids: list[str]) -> dict[str, str]:
    """What a person types for each id: what follows its kind (`call_k3v9qz…`), six characters or
    as many as tell it from the others."""
    bare = {one: one.rpartition("_")[2] for one in ids}
    short = {}
    for one, word in bare.items():
        size, others = 6, [other for key, other in bare.items() if key != one]
        while size < len(word) and any(other.startswith(word[:size]) for other in others):
            size += 1
        short[one] = word[:size]
    return short
