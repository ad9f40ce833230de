"""Buttons of views in Teams, whatever stands behind them."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any, cast

import pytest

from adapters.teams import actions, group, limits, standing
from adapters.teams.clicks import Clicks
from adapters.teams.events import Person, Pressed
from bot.background import Background
from bot.card import Argument, Card, CardState, Kind
from bot.group import GroupCard
from bot.surface import Actor, Entry, Home, Place, Response
from storage.conversations import Conversation


def pressed(verb: str, nonce: str, **given: Any) -> Pressed:
    return Pressed(
        verb=verb,
        nonce=nonce,
        inputs={},
        conversation=Conversation("teams", "t", "c", "personal", "https://x", "28:b"),
        place=Place("teams", "t", "c", "chat"),
        person=cast(Any, None),
        message="",
        invoked=True,
        **given,
    )


async def test_back_from_the_end_of_a_rule_leads_to_the_list() -> None:
    click = pressed(actions.REVOKE, "rule_1", home=True)
    outcome = await standing.HANDLERS[actions.REVOKE](cast(Entry, None), click, cast(Actor, None))
    assert outcome.view is not None
    sure, back = outcome.view["body"][-1]["actions"]
    assert sure["data"] == {"interlock": "rule_1", "do": "revoke_sure", "home": True}
    assert back["data"] == {"interlock": "rule_1", "do": "home", "home": True}


class People:
    async def actor(self, *_: object) -> None:
        return None


class Delivery:
    def __init__(self) -> None:
        self.told: list[str] = []

    async def whisper(self, _: Place, __: str, sentence: str) -> None:
        self.told.append(sentence)


class Decided:
    """Every decision counts."""

    def __init__(self, *, slow: bool = False) -> None:
        self.slow = slow

    async def decide(self, _: object) -> Response:
        return Response(done=True, sentence="Approved by ben.")

    async def home(self, *_: object, **__: object) -> Home:
        if self.slow:
            await asyncio.Event().wait()
        return Home()


async def test_an_old_client_is_told_what_came_of_a_button_on_a_list() -> None:
    delivery, background = Delivery(), Background()
    clicks = Clicks(*cast(Any, (Decided(), delivery, People(), background)))
    click = pressed(actions.APPROVE, "n", home=True)
    click = replace(click, invoked=False, person=Person("ben", "29:b", "t"))
    assert await clicks.press(click) is None
    await background.finish(1)
    assert delivery.told == ["Approved by ben."]


async def test_who_waits_too_long_for_a_view_is_told_to_press_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "INVOKE_SECONDS", 0.01)
    background = Background()
    clicks = Clicks(*cast(Any, (Decided(slow=True), Delivery(), People(), background)))
    answer = await clicks.press(pressed(actions.HOME, "home", home=True))
    await background.finish(0)
    assert answer is not None
    assert "press it again" in answer["value"]


async def test_what_all_calls_of_a_group_are_is_drawn_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = GroupCard(nonce="n", version=1, title="2 calls", agent="ops", cards=(_card("n"),))
    threads: list[int] = []
    drawn = group.sure

    def noting(*given: Any) -> Any:
        threads.append(threading.get_ident())
        return drawn(*given)

    class Standing:
        async def shown(self, *_: object, **__: object) -> GroupCard:
            return asked

    monkeypatch.setattr(group, "sure", noting)
    ask = group.HANDLERS[actions.APPROVE_ALL]
    click = pressed(actions.APPROVE_ALL, "n")
    outcome = await ask(cast(Entry, Standing()), click, cast(Actor, None))
    assert outcome.view is not None
    assert threads
    assert threading.get_ident() not in threads


def _card(nonce: str) -> Card:
    return Card(
        nonce=nonce,
        version=1,
        kind=Kind.APPROVAL,
        state=CardState.OPEN,
        title="ops wants to run refund",
        agent="ops",
        tool="refund",
        arguments=(Argument("order", "A1"),),
    )
