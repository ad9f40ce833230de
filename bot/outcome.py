"""The question about a call whose runner was lost between its effect and its record.

Nothing runs again by itself (spec: unknown outcome is a state): a person who may approve the tool
says that it ran, has it run again, or gives it up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.field import Choice, Field
from bot.question import Asked
from storage.database import canonical

RAN = "ran"
AGAIN = "again"
GIVE_UP = "give_up"


def outcome_question(tool: str) -> Asked:
    return Asked(
        message=(
            f"{tool} was interrupted while it ran, and there is no record of how it ended. "
            "Please check, then say what happened."
        ),
        fields=(
            Field(
                "outcome",
                title="What happened",
                choices=(
                    Choice(RAN, "It ran", "The effect is there; do not run it again."),
                    Choice(AGAIN, "Run it again", "It had no effect; run the same call again."),
                    Choice(GIVE_UP, "Give it up", "Do not run it; tell the agent."),
                ),
            ),
            Field("note", title="Note to the agent", required=False, multiline=True),
        ),
    )


def outcome_choice(answer: Mapping[str, Any]) -> tuple[str, str | None]:
    return str(answer["outcome"]), answer.get("note")


def interrupted(tool: str, name: str, *, ran: bool, note: Any) -> str:
    """The result the model reads when the call is not run again."""
    said = "it did run" if ran else "to give it up"
    text = f"{tool} was interrupted and its result is lost; {name} says {said}."
    if note is None:
        return text
    return f"{text} {note if isinstance(note, str) else canonical(note)}"


def unfinished(tool: str) -> str:
    """The result the model reads when people moved on instead (row L2)."""
    return f"{tool} did not finish: it was interrupted, and nobody knows whether it had an effect."
