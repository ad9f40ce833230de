"""What stood in a thread before the agent was called, as quoted lines that the model reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bot.markdown import moment
from bot.surface import Earlier, Quoted
from bot.transcript import Piece, quote, shown_name

ROOM: Final = 20_000  # characters of all earlier messages together
ONE: Final = 4_000  # characters of one of them


def lines(thread: Earlier, *, room: int = ROOM) -> list[Piece]:
    """The thread, its first message (what it is about) and then as many of the last as there is
    room for. What is left out is said, and so is a cut."""
    shown = [_line(message) for message in thread.messages]
    if not shown:
        return [_note(_missing(thread.missing))] if thread.missing else []
    room -= len(shown[0])
    first = len(shown)
    while first > 1 and len(shown[first - 1]) <= room:
        first -= 1
        room -= len(shown[first])
    left_out = thread.left_out + first - 1
    found = [Piece(shown[0])]
    if left_out:
        found.append(_note(f"{left_out} more messages stood here; they are not shown to you."))
    found += map(Piece, shown[first:])
    if thread.missing:
        found.append(_note(f"What followed could not be read: {thread.missing}."))
    return found


def unreadable(reason: str) -> list[Piece]:
    """What stands in place of a thread that could not be read."""
    return [_note(_missing(reason))]


def _missing(reason: str) -> str:
    return f"What stood in this thread before could not be read: {reason}."


def _note(text: str) -> Piece:
    return Piece(quote({"note": text}))


def _line(message: Quoted) -> str:
    text = message.text
    if len(text) > ONE:
        text = f"{text[:ONE]}… (cut: {len(text) - ONE} more characters)"
    told: Mapping[str, str] = {
        "earlier in the thread": text,
        "by a program" if message.bot else "by": shown_name(message.name),
        "at": _at(message.at),
    }
    if message.files:
        told = {**told, "files, not shown": ", ".join(map(shown_name, message.files[:20]))}
    return quote(told)


def _at(at: float) -> str:
    try:
        return moment(at)
    except (ValueError, OverflowError, OSError):  # no time that a calendar has
        return ""
