"""A world whose surface asks for more than four calls of a response on shared cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot.approvers import Policy
from bot.card import CardState
from bot.chat import Chat
from bot.group import GroupCard
from bot.surface import (
    Actor,
    GroupDecision,
    Place,
    Response,
    Together,
    Verb,
)
from bot.tool import Tool
from storage import questions
from storage.database import Database
from storage.questions import DecisionRow
from tests.fakes.model import call, script
from tests.fakes.surface import MemorySurface
from tests.world import BEN, CYN, World

BOTH = Policy(name="ops", approvers=frozenset({BEN.key, CYN.key}))
TOGETHER = Together(above=4, size=15)


def asks(count: int, *, name: str = "refund") -> list[Any]:
    return [call(name, order=f"A{number}") for number in range(count)]


def group_world(
    db: Database,
    calls: Sequence[Any],
    tools: Sequence[Tool],
    *,
    policies: Sequence[Policy] = (BOTH,),
    surface: MemorySurface | None = None,
    limit: int = 50,
) -> World:
    surface = surface or MemorySurface()
    surface.together = TOGETHER
    return World(db, tools, script(list(calls), "Done."), policies, surface=surface, calls=limit)


async def decide(
    w: World,
    group: GroupCard,
    verb: Verb = Verb.APPROVE,
    *,
    by: Actor = BEN,
    only: Sequence[int] | None = None,
    place: Place | None = None,
) -> Response:
    """`only`: the places of the selected calls on the card, from 0."""
    nonces = None if only is None else tuple(group.cards[number].nonce for number in only)
    event = GroupDecision(
        nonce=group.nonce, verb=verb, actor=by, via="button", only=nonces, place=place
    )
    return await w.service.decide_together(event)


def states(group: GroupCard) -> list[CardState]:
    return [card.state for card in group.cards]


async def decisions(chat: Chat) -> list[DecisionRow]:
    async with chat.core.db.read() as tx:
        found = []
        for row in await chat.calls():
            for question in await questions.of_call(tx, row.id):
                found += await questions.decisions_on(tx, question.id)
        return found
