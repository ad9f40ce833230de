"""What a person does with the forms beside an approval and of standing rules, on Slack."""

from __future__ import annotations

import json
from typing import Any, Final

from adapters.slack import actions, blocks, edits, standing
from tests.scenario.authority_hands import (
    Try,
    button,
    fill,
    press_home,
    press_shown,
    sent,
    submit_forged,
)

_EDITED: Final = {"order": "E1"}
_CHOSEN: Final = {"what": "exact", "where": "chat", "until": "1 day"}
_MADE: Final = {"tool": "refund", "effect": "deny", "when": "order=none", "where": "organisation"}

edit = sent(edits.EDIT, blocks.EDIT, _EDITED, {})


async def edit_at_home(one: Try) -> None:
    await press_home(one, blocks.EDIT, one.asked.nonces[0])
    if one.has:
        await fill(one, _EDITED)


async def edit_shown(one: Try) -> None:
    await press_shown(one, blocks.EDIT)
    if one.has:
        await fill(one, _EDITED)


async def choose(one: Try) -> str:
    if one.has:
        return await _chosen(one, {})
    return await _carried(one, standing.REMEMBER, one.asked.nonces[0], _CHOSEN)


async def choose_widely(one: Try) -> str:
    """Who may choose less than that has the form all the same."""
    if one.has:
        return await _chosen(one, {"Where": "this channel"})
    carried = [one.asked.nonces[0], {**_CHOSEN, "where": "channel"}]
    return await submit_forged(one, standing.REMEMBER.save, json.dumps(carried))


async def _chosen(one: Try, entered: dict[str, Any]) -> str:
    await button(actions.CHOOSE)(one)
    return await _both(one, entered)


async def _both(one: Try, entered: dict[str, Any]) -> str:
    """The form, and what comes on top of it."""
    await fill(one, entered)
    assert len(one.slack.open_views(one.user)) == 2
    return await fill(one, {})


async def _carried(one: Try, steps: standing.Steps, key: str, answer: dict[str, str]) -> str:
    """Both views as if they had them."""
    answered = await submit_forged(one, steps.form, key)
    return answered + await submit_forged(one, steps.save, json.dumps([key, answer]))


async def new_rule(one: Try) -> None:
    await press_home(one, actions.NEW_RULE, "")


async def make_rule(one: Try) -> str:
    if not one.has:
        return await _carried(one, standing.NEW, standing.RULE, _MADE)
    await new_rule(one)
    made = {"Tool": "refund", "What becomes of its calls": "It is refused"}
    return await _both(one, made | {"Only when": "who=made\norder=none"})


async def revoke(one: Try) -> None:
    await press_home(one, actions.REVOKE, one.asked.nonces[0])
