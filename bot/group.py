"""Several approvals of one response on one card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.card import Card
from storage.questions import QuestionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCard:
    """What a person sees of the approvals that share a card: `cards` has them in the order of
    their calls, settled ones too, and never gets another one. `nonce` names the card to its
    buttons; each of `cards` has one of its own."""

    nonce: str
    version: int
    title: str
    agent: str
    cards: tuple[Card, ...]

    @property
    def waiting(self) -> tuple[Card, ...]:
        """Those that are still to be decided."""
        return tuple(card for card in self.cards if card.open)

    @property
    def open(self) -> bool:
        return bool(self.waiting)

    @property
    def again(self) -> bool:
        """Whether some of them expired and can be asked again, all at once."""
        return any(card.again for card in self.cards)

    @property
    def deciders(self) -> tuple[str, ...]:
        """Those who may decide at least one of them, as on a Card."""
        return tuple(sorted({one for card in self.cards for one in card.deciders}))


def draw_group(asked: Sequence[QuestionRow], cards: Sequence[Card], agent: str) -> GroupCard:
    """The card of these questions as their rows stand now, each with its own card."""
    return GroupCard(
        nonce=asked[0].nonce,
        version=sum(question.version for question in asked),
        title=f"{agent} wants to run {len(asked)} calls",
        agent=agent,
        cards=tuple(cards),
    )
