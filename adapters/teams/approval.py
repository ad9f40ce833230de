"""The buttons under an approval, the same on its card, on its pages and on a list."""

from __future__ import annotations

from typing import Final

from adapters.teams import actions, standing
from adapters.teams.elements import Element, execute
from bot.card import Card

STANDING: Final = "Approve for this thread"
EVERYTHING: Final = "Show everything"


def approve(card: Card, *, home: bool = False) -> list[Element]:
    """Approve and its kin, where all that would run can be read."""
    if not (card.open and card.complete):
        return []
    offered = [execute(card.nonce, actions.APPROVE, "Approve", style="positive", home=home)]
    if card.remember is not None:
        offered.append(execute(card.nonce, actions.REMEMBER, STANDING, home=home))
    offered += standing.choose(card, home=home)
    if card.editable:
        offered.append(execute(card.nonce, actions.EDIT, "Edit and approve", home=home))
    return offered


def decline(card: Card, *, home: bool = False) -> Element:
    return execute(card.nonce, actions.DECLINE, "Decline", style="destructive", home=home)


def everything(card: Card, *, home: bool = False) -> Element:
    """Leads to the pages of all that the card says."""
    return execute(card.nonce, actions.SHOW, EVERYTHING, page=1, home=home)
