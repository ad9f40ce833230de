"""Questions that wait for a deadline, and what tests of them ask."""

from __future__ import annotations

from typing import Any

from bot.approvers import Policy
from bot.chat import Chat
from bot.question import Question, Verb
from bot.surface import Actor, Decision, Place, Response
from bot.tool import Tool
from storage.calls import CallRow
from storage.database import Database
from storage.questions import QuestionState
from tests.fakes.model import call
from tests.world import (
    BEN,
    CYN,
    World,
    effect,
    world,
)

HOUR = 3_600.0
OPS = Policy(name="ops", approvers=frozenset({BEN.key, CYN.key}), expires_after=HOUR)
STRANGER = Actor("slack", "T1", "DAN", "dan")
NOT_A_NO = "refund did not run: nobody decided in time."


async def waiting(
    db: Database, *steps: Any, policy: Policy = OPS, tools: list[Tool] | None = None
) -> tuple[World, Chat, list[str]]:
    effects: list[str] = []
    steps = steps or (call("refund"), "Nobody decided.", call("refund"), "Done.")
    w = world(db, *steps, tools=tools or [effect(effects)], policies=[policy])
    chat = await w.chat()
    await w.settle()
    return w, chat, effects


async def later(w: World, seconds: float) -> None:
    w.clock.advance(seconds)
    await w.settle()


async def only_call(chat: Chat) -> CallRow:
    (row,) = await chat.calls()
    return row


async def state_of(chat: Chat, question: Question) -> QuestionState:
    found = await chat.question(question.id)
    assert found is not None
    return found.state


async def again(w: World, nonce: str, by: Actor, place: Place | None = None) -> Response:
    told = await w.service.ask_again(nonce, by, via="button", place=place)
    await w.settle()
    return told


async def decided(w: World, question: Question, verb: Verb, by: Actor = BEN) -> Response:
    event = Decision(nonce=question.nonce, verb=verb, actor=by, via="button")
    return await w.service.decide(event)
