"""What a person does to a question that waits, as Slack sends it: the parts that the ways of
authority_ways.py are made of.

What a person does not have before them (somebody else's direct message, the modal that was refused
to them) is sent as if they had: Slack would not, and nothing of ours may rely on that."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from adapters.slack import blocks, modals
from tests.fakes.slack import FakeSlack, View
from tests.fakes.slack.modals import make_view
from tests.fakes.slack.workspace import APP, TEAM
from tests.scenario.authority_floor import Asked
from tests.scenario.slack_product import OPS


@dataclass(frozen=True)
class Try:
    """Somebody who goes at a question. `has`: they have before them what they press."""

    slack: FakeSlack
    user: str
    asked: Asked
    has: bool


# Payloads of Slack


def who(slack: FakeSlack, user: str) -> dict[str, Any]:
    person = slack.world.users[user]
    return {
        "user": {"id": user, "username": person.name, "team_id": person.team},
        "api_app_id": APP,
        "token": "verification-token",
        "team": {"id": TEAM, "domain": "t1"},
        "enterprise": None,
        "is_enterprise_install": False,
        "trigger_id": slack.world.new_trigger(user).id,
    }


async def forged(one: Try, action: str, value: str = "", **where: Any) -> None:
    """A button that they do not have."""
    pressed = {
        "type": "button",
        "action_id": blocks.ACTION + action,
        "block_id": "b",
        "value": value or one.asked.nonces[0],
        "action_ts": one.slack.world.new_ts(),
    }
    payload = {"type": "block_actions", **who(one.slack, one.user), "actions": [pressed], **where}
    assert (await one.slack.deliveries.interaction(payload)).acked


def in_message(channel: str, ts: str, thread: str) -> dict[str, Any]:
    container = {"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": False}
    container |= {"thread_ts": thread} if thread else {}
    return {"container": container, "channel": {"id": channel, "name": "ops"}}


def button(action: str) -> Callable[[Try], Awaitable[None]]:
    """A button of the card in the thread."""

    async def press(one: Try) -> None:
        name = blocks.ACTION + action
        if one.has or f'"{name}"' in json.dumps(one.slack.message(OPS, one.asked.card)):
            assert (await one.slack.click(one.user, OPS, one.asked.card, name)).acked
        else:
            await forged(one, action, **in_message(OPS, one.asked.card, one.asked.root))

    return press


def sent(
    callback: str, opens: str, entered: dict[str, Any], values: dict[str, Any]
) -> Callable[[Try], Awaitable[str]]:
    """A modal that is sent; `values`: what Slack makes of it."""

    async def send(one: Try) -> str:
        if one.has:
            await button(opens)(one)
            return await fill(one, entered)
        return await submit_forged(one, callback, one.asked.nonces[0], values)

    return send


async def fill(one: Try, entered: dict[str, Any]) -> str:
    """Sends the modal that they have before them."""
    view = await one.slack.until(lambda: form_of(one.slack, one.user))
    submitted = await one.slack.submit(one.user, view, entered)
    assert (submitted.acked, submitted.trouble, submitted.errors) == (True, "", {})
    return ""


async def submit_forged(
    one: Try, callback: str, metadata: str, values: dict[str, Any] | None = None
) -> str:
    """A modal that they do not have; gives what Slack is answered."""
    about = {"callback_id": callback, "private_metadata": metadata}
    view = {"id": "V0", "type": "modal", "state": {"values": values or {}}, **about}
    payload = {"type": "view_submission", **who(one.slack, one.user), "view": view}
    delivery = await one.slack.deliveries.interaction(payload)
    assert delivery.acked
    answered = delivery.body if isinstance(delivery.body, dict) else {}
    assert answered.get("response_action") != "push"
    return json.dumps(answered, ensure_ascii=False)


def form_of(slack: FakeSlack, user: str) -> View | None:
    """The modal on top, if it can be sent."""
    return next((view for view in slack.open_views(user)[-1:] if "submit" in view.body), None)


def shown_to(slack: FakeSlack, user: str) -> View | None:
    """The modal with all of a call, and Approve."""
    approve = blocks.ACTION + blocks.APPROVE
    return next((view for view in slack.open_views(user) if approve in str(view.body)), None)


async def press_shown(one: Try, action: str) -> None:
    """A button of the modal that shows all of the call."""
    if one.has:
        await button(blocks.SHOW)(one)
        view = await one.slack.until(lambda: shown_to(one.slack, one.user))
        await one.slack.click_view(one.user, view, blocks.ACTION + action)
    else:
        view = make_view(one.slack.world, one.user, modals.saying("Everything"), None)
        pressed = {"id": view.id, "type": "modal", "private_metadata": one.asked.nonces[0]}
        await forged(one, action, view=pressed, container={"type": "view"})


async def press_home(one: Try, action: str, value: str) -> None:
    """A button of their home page, with this value if it has one."""
    if one.has:
        await one.slack.open_home(one.user)
        name = blocks.ACTION + action

        def waiting() -> View | None:
            view = one.slack.home(one.user)
            there = view is not None and value in str(view.body) and name in str(view.body)
            return view if there else None

        view = await one.slack.until(waiting, seconds=5)
        await one.slack.click_view(one.user, view, name, value or None)
    else:
        pressed = {"id": "V0", "type": "home", "private_metadata": "1"}
        await forged(one, action, value, view=pressed, container={"type": "view"})
