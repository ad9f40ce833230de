"""What came of something that a person pressed, as their client is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from adapters.teams.events import Pressed
from bot.card import Card
from bot.group import GroupCard
from bot.surface import Actor, Entry, Response

VIA: Final = "teams card"
BROKEN: Final = "Something went wrong here. If the card still has its buttons, please try again."
RECORDED: Final = "It is recorded."
NO_ANSWER: Final = {"interlock: none": None}  # no question takes it; who tried is on record


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a person is shown instead of the card that they pressed: a `view` drawn for them alone,
    or the card as it stands now for everybody; else they are told the sentence. `refused`: nothing
    changed."""

    sentence: str = ""
    card: Card | GroupCard | None = None
    view: Mapping[str, Any] | None = None
    refused: bool = False


Handler = Callable[[Entry, Pressed, Actor], Awaitable[Outcome]]
"""Does what one verb says. Raises forms.NotOurs and whatever else may fail."""


def told(answer: Response) -> Outcome:
    """What the product answered to a decision. A card of one question is shown once it is settled;
    until then what the person wrote on it stays."""
    card = answer.card
    sentence = answer.sentence or " ".join(answer.errors.values())
    if isinstance(card, GroupCard) or (card is not None and not card.open):
        return Outcome(sentence, card=card, refused=not answer.done)
    return Outcome(sentence or RECORDED) if answer.done else refused(sentence)


def refused(sentence: str) -> Outcome:
    return Outcome(sentence or BROKEN, refused=True)
