"""People who are written to alone."""

from __future__ import annotations

from adapters.teams.events import SURFACE, is_person
from bot.surface import Place


def place_of(organisation: str, user: str) -> Place | None:
    """The place of a chat with this person; None: this is no id of Entra's."""
    place = Place(SURFACE, organisation, user, "")
    return place if is_person(place) else None
