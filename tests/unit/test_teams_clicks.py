"""Buttons of views in Teams, whatever stands behind them."""

from __future__ import annotations

from typing import Any, cast

from adapters.teams import actions, standing
from adapters.teams.events import Pressed
from bot.surface import Actor, Entry, Place
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
