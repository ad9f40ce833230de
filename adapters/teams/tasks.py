"""A background call as a card with its progress."""

from __future__ import annotations

from adapters.teams.elements import MARKS, Element, adaptive, heading, line
from adapters.teams.text import shorten
from bot.card import TaskCard, revealed_task


def draw(task: TaskCard) -> Element:
    task = revealed_task(task)
    said = task.message or ("Nothing is known of it yet." if task.open else "")
    mark = "⏳" if task.open else MARKS.get(task.state, "")
    told = f"{mark} {shorten(said, 1_000)} ({task.status})".strip()
    return adaptive([heading(task.title), line((told, False))])
