"""Several approvals on one card."""

from __future__ import annotations

from adapters.teams import limits
from adapters.teams.elements import Element, adaptive, line, subtle
from adapters.teams.mentions import NOBODY, Names
from adapters.teams.text import whole
from bot.group import GroupCard
from bot.surface import Place


def draw(asked: GroupCard, place: Place, names: Names = NOBODY, notice: str = "") -> Element:
    """The card as it stands in a place. `notice`: a sentence for the one who pressed something."""
    titles = [line((f"• {whole(one.title, 200)}", False)) for one in asked.cards[:20]]
    told = [subtle(whole(notice, limits.NOTE))] if notice else []
    return adaptive([line((whole(asked.title, limits.TITLE), True)), *told, *titles])
