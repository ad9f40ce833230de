"""What came of something that a person pressed or sent, as they are told it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from bot.surface import Response

NO_ANSWER: Final = {"interlock: none": None}  # no question takes it; who tried is on record
BROKEN: Final = "Something went wrong here. If the card still has its buttons, please try again."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a person is told: nothing when it counts (the card shows it), else a sentence, or
    sentences at the inputs of their form. `final`: sending the form again is of no use. `done`:
    what came of it when it counts, for who does not see the card. `view`: the modal that comes on
    top of the one that was sent. `over`: the modals beneath it are done with as well."""

    sentence: str = ""
    done: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    final: bool = False
    view: dict[str, Any] | None = None
    over: bool = False


def told(answer: Response) -> Outcome:
    """What the product answered."""
    if answer.done:
        return Outcome(done=answer.sentence)
    sentence = answer.sentence or " ".join(answer.errors.values()) or BROKEN
    return Outcome(sentence, final=answer.card is not None)
