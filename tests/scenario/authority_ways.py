"""The ways into the product on Slack, as something a person does to a question that waits.

What a person does not have before them (somebody else's direct message, the modal that was refused
to them) is sent as if they had: Slack would not, and nothing of ours may rely on that."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from adapters.slack import actions, blocks, modals
from adapters.slack.commands import COMMAND, PENDING, STATUS
from bot.field import Field
from bot.scripted import Step
from bot.tool import Call, Tool, tool
from tests.fakes.background import BackgroundTool, background
from tests.fakes.model import call
from tests.fakes.slack import FakeSlack, View
from tests.fakes.slack.modals import make_view
from tests.fakes.slack.workspace import APP, BOT_USER, TEAM
from tests.scenario.slack_product import OPS
from tests.scenario.slack_world import COLOURS

LONG: Final = "All of this is what would run. " * 400  # more than a card shows
MANY: Final = 5  # calls of one response, enough for a shared card


@dataclass(frozen=True)
class Asked:
    """A question (or several on one card) that waits in a thread. `card`: the message's ts."""

    root: str
    card: str
    chat: str
    calls: tuple[str, ...]
    nonces: tuple[str, ...]


@dataclass(frozen=True)
class Try:
    """Somebody who goes at a question. `has`: they have before them what they press."""

    slack: FakeSlack
    user: str
    asked: Asked
    has: bool


@dataclass(frozen=True)
class Way:
    """`act` is what a person does, and gives what they are answered in so doing. `asks`: what waits
    (`steps`). `becomes`: what the questions then are that it decides, none where it only opens or
    shows something; `decides`: how many of those on the card. `recorded`: the audit log has a row
    of who was refused. `lacks`: the kinds of people who may, and do not have it before them."""

    act: Callable[[Try], Awaitable[str | None]]
    asks: str = "refund"
    becomes: str = ""
    decides: int = 1
    recorded: bool = True
    lacks: frozenset[str] = frozenset()
    policy: str = ""  # of what waits, where it is nothing to who may


# What the agent does, on the word of the requester: "run WHAT POLICY"


def steps() -> list[Step]:
    return [_asked_for, "Done."]


def _asked_for(history: Sequence[ModelMessage]) -> Step:
    texts = [
        str(part.content)
        for message in history
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]
    found = re.search(r"run (\w+) (\w+) (\w+)", texts[0])
    if found is None:
        return "I see."
    what, who, order = found.groups()
    match what:
        case "many":
            return [call("refund", who=who, order=f"{order}.{n}") for n in range(MANY)]
        case "long":
            return call("refund", who=who, order=order, text=LONG)
        case "rollout":
            return call("rollout", what=order)
        case _:
            return call(what, who=who, order=order)


def tools(effects: list[str]) -> tuple[list[Tool], BackgroundTool]:
    @tool
    async def refund(who: str, order: str, text: str = "") -> str:
        """Has an effect."""
        effects.append(order)
        return f"refunded {order}"

    @tool(approval="never")
    async def pick(ctx: Call, who: str, order: str) -> str:
        """Wants to know something that is one of two."""
        if await ctx.ask("Which refund?", Field("colour", choices=COLOURS)):
            effects.append(order)
        return "fine"

    @tool(approval="never")
    async def fill(ctx: Call, who: str, order: str) -> str:
        """Wants to know something."""
        if await ctx.ask("Why a refund?", Field("why", title="Why")):
            effects.append(order)
        return "fine"

    going_on = background()
    return [refund, pick, fill, going_on], going_on


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


async def _forged(one: Try, action: str, **where: Any) -> None:
    """A button that they do not have."""
    pressed = {
        "type": "button",
        "action_id": blocks.ACTION + action,
        "block_id": "b",
        "value": one.asked.nonces[0],
        "action_ts": one.slack.world.new_ts(),
    }
    payload = {"type": "block_actions", **who(one.slack, one.user), "actions": [pressed], **where}
    assert (await one.slack.deliveries.interaction(payload)).acked


def _in_message(channel: str, ts: str, thread: str) -> dict[str, Any]:
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
            await _forged(one, action, **_in_message(OPS, one.asked.card, one.asked.root))

    return press


async def selected(one: Try) -> None:
    menu = blocks.ACTION + actions.SELECT
    shown = one.slack.message(OPS, one.asked.card)["blocks"]
    [options] = [block["accessory"]["options"] for block in shown if block["block_id"] == menu]
    label = options[1]["text"]["text"]
    await one.slack.click(one.user, OPS, one.asked.card, menu, [label])
    await button(actions.APPROVE_SELECTED)(one)


def sent(
    callback: str, opens: str, entered: dict[str, Any], values: dict[str, Any]
) -> Callable[[Try], Awaitable[str]]:
    """A modal that is sent; `values`: what Slack makes of it."""

    async def send(one: Try) -> str:
        if one.has:
            await button(opens)(one)
            view = await one.slack.until(lambda: form_of(one.slack, one.user))
            submitted = await one.slack.submit(one.user, view, entered)
            assert (submitted.acked, submitted.trouble, submitted.errors) == (True, "", {})
            return ""
        about = {"callback_id": callback, "private_metadata": one.asked.nonces[0]}
        view_ = {"id": "V0", "type": "modal", "state": {"values": values}, **about}
        payload = {"type": "view_submission", **who(one.slack, one.user), "view": view_}
        delivery = await one.slack.deliveries.interaction(payload)
        assert delivery.acked
        return json.dumps(delivery.body, ensure_ascii=False)

    return send


def form_of(slack: FakeSlack, user: str) -> View | None:
    """The modal that they can send."""
    return next((view for view in slack.open_views(user) if "submit" in view.body), None)


def shown_to(slack: FakeSlack, user: str) -> View | None:
    """The modal with all of a call, and Approve."""
    approve = blocks.ACTION + blocks.APPROVE
    return next((view for view in slack.open_views(user) if approve in str(view.body)), None)


async def approve_shown(one: Try) -> None:
    """Approve in the modal that shows all of the call."""
    if one.has:
        await button(blocks.SHOW)(one)
        view = await one.slack.until(lambda: shown_to(one.slack, one.user))
        await one.slack.click_view(one.user, view, "Approve")
    else:
        view = make_view(one.slack.world, one.user, modals.saying("Everything"), None)
        pressed = {"id": view.id, "type": "modal", "private_metadata": one.asked.nonces[0]}
        await _forged(one, blocks.APPROVE, view=pressed, container={"type": "view"})


async def direct_copy(one: Try) -> None:
    channel, mark = one.slack.direct_channel(one.user), one.asked.nonces[0]
    cards = one.slack.world.channels[channel].messages.values()
    card = next((card for card in cards if mark in str(card)), None)
    if card is not None:
        await one.slack.click(one.user, channel, card["ts"], "Approve")
        return
    assert not one.has
    where = _in_message(channel, one.slack.world.new_ts(), "")
    url = one.slack.world.new_response_url(channel, one.user, None)
    await _forged(one, blocks.APPROVE, response_url=url, **where)


async def home(one: Try) -> None:
    if one.has:
        await one.slack.open_home(one.user)

        def waiting() -> View | None:
            view = one.slack.home(one.user)
            return view if view is not None and one.asked.nonces[0] in str(view.body) else None

        view = await one.slack.until(waiting, seconds=5)
        approve = blocks.ACTION + blocks.APPROVE
        await one.slack.click_view(one.user, view, approve, one.asked.nonces[0])
    else:
        pressed = {"id": "V0", "type": "home", "private_metadata": "1"}
        await _forged(one, blocks.APPROVE, view=pressed, container={"type": "view"})


async def slash_cancel(one: Try) -> None:
    typed = await one.slack.slash(one.user, OPS, COMMAND, f"cancel {one.asked.chat}")
    assert typed.acked


def says(text: str, *, named: bool = True) -> Callable[[Try], Awaitable[None]]:
    """A message in the thread. `named`: it mentions the bot."""

    async def say(one: Try) -> None:
        written = text.format(chat=one.asked.chat, nonce=one.asked.nonces[0])
        written = f"<@{BOT_USER}> {written}" if named else written
        if one.slack.world.users[one.user].bot:
            await one.slack.bot_message(OPS, written, one.asked.root, one.user)
        else:
            await one.slack.say(one.user, OPS, written, one.asked.root)

    return say


async def direct_text(one: Try) -> None:
    if not one.slack.world.users[one.user].bot:
        await one.slack.direct(one.user, "approve")


async def stop_button(one: Try) -> None:
    event = {"type": "agent_session_stopped", "channel": OPS, "thread_ts": one.asked.root}
    event |= {"user": one.user, "event_ts": one.slack.world.new_ts()}
    assert (await one.slack.send_event(event)).acked


async def message_shortcut(one: Try) -> None:
    assert (await one.slack.shortcut(one.user, STATUS, OPS, one.asked.card)).acked


async def global_shortcut(one: Try) -> None:
    assert (await one.slack.shortcut(one.user, PENDING)).acked


NOTE = sent(
    modals.NOTE,
    blocks.NOTE,
    {"Your note to the agent": "not now"},
    {"note": {"i": {"type": "plain_text_input", "value": "not now"}}},
)
FILLED = sent(
    modals.FORM,
    blocks.ANSWER,
    {"Why": "because"},
    {"f0": {"i": {"type": "plain_text_input", "value": "because"}}},
)

WAYS: Final[dict[str, Way]] = {
    "approve button": Way(button(blocks.APPROVE), becomes="approved"),
    "decline button": Way(button(blocks.DECLINE), becomes="declined"),
    "thread button": Way(button(blocks.REMEMBER), becomes="approved"),
    "note modal": Way(button(blocks.NOTE), recorded=False),
    "note sent": Way(NOTE, becomes="declined"),
    "quick choice": Way(button(blocks.PICK + "0"), asks="pick", becomes="answered"),
    "form modal": Way(button(blocks.ANSWER), asks="fill", recorded=False),
    "form sent": Way(FILLED, asks="fill", becomes="answered"),
    "show everything": Way(button(blocks.SHOW), asks="long", recorded=False),
    "approve in modal": Way(approve_shown, asks="long", becomes="approved"),
    "approve all": Way(button(actions.APPROVE_ALL), asks="many", becomes="approved", decides=MANY),
    "approve selected": Way(selected, asks="many", becomes="approved"),
    "direct copy": Way(direct_copy, becomes="approved"),
    "home": Way(home, becomes="approved", lacks=frozenset({"en"})),
    "cancel button": Way(button(blocks.CANCEL), asks="rollout", becomes="asked to stop"),
    "slash cancel": Way(slash_cancel, becomes="cancelled", policy="anyone"),
    "mention stop": Way(says("stop"), becomes="cancelled", policy="anyone"),
    "mention cancel": Way(says("cancel {chat}"), becomes="cancelled", policy="anyone"),
    "stop button": Way(stop_button, becomes="cancelled", policy="anyone"),
    "message shortcut": Way(message_shortcut),
    "global shortcut": Way(global_shortcut),
    "thread text": Way(says("approve", named=False)),
    "thread mention": Way(says("yes, approve {nonce}")),
    "direct text": Way(direct_text),
}

GROUPS: Final = {  # of ways, each for a workspace of its own
    "cards": [*list(WAYS)[: list(WAYS).index("quick choice")], "direct copy", "home"],
    "modals": list(WAYS)[list(WAYS).index("quick choice") : list(WAYS).index("direct copy")],
    "commands": list(WAYS)[list(WAYS).index("cancel button") :],
}
