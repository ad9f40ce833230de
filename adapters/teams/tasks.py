"""A background call as a card with its progress and a way to stop it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from adapters.teams import actions
from adapters.teams.elements import MARKS, Element, adaptive, buttons, execute, heading, line
from adapters.teams.events import Pressed
from adapters.teams.outcome import VIA, Handler, Outcome, refused
from adapters.teams.text import shorten
from bot.card import TaskCard, revealed_task
from bot.surface import Actor, Entry


def draw(task: TaskCard) -> Element:
    task = revealed_task(task)
    said = task.message or ("Nothing is known of it yet." if task.open else "")
    mark = "⏳" if task.open else MARKS.get(task.state, "")
    status = f" ({shorten(task.status, 100)})" if task.open and task.status else ""
    told = f"{mark} {shorten(said, 1_000)}{status}".strip()
    stop = [buttons([cancel(task)])] if task.open else []
    return adaptive([heading(task.title), line((told, False)), *stop])


def cancel(task: TaskCard, *, home: bool = False) -> Element:
    """The button that stops it; `home` as of elements.execute."""
    return execute(task.nonce, actions.CANCEL, "Cancel", style="destructive", home=home)


async def _cancelled(entry: Entry, pressed: Pressed, actor: Actor) -> Outcome:
    answer = await entry.cancel_task(pressed.nonce, actor, via=VIA, place=pressed.within)
    return Outcome(answer.sentence) if answer.done else refused(answer.sentence)


HANDLERS: Final[Mapping[str, Handler]] = {actions.CANCEL: _cancelled}
