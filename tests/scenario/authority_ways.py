"""The ways into the product on Slack, as something a person does to a question that waits."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from adapters.slack import actions, blocks, modals
from adapters.slack.commands import COMMAND, PENDING, STATUS
from bot.field import Field
from bot.scripted import Step
from bot.tool import Call, Tool, tool
from tests.fakes.background import BackgroundTool, background
from tests.fakes.model import call
from tests.fakes.slack.workspace import BOT_USER
from tests.scenario import authority_forms
from tests.scenario.authority_floor import Way
from tests.scenario.authority_hands import (
    Try,
    button,
    forged,
    in_message,
    press_home,
    press_shown,
    sent,
)
from tests.scenario.slack_product import OPS
from tests.scenario.slack_world import COLOURS

LONG: Final = "All of this is what would run. " * 400  # more than a card shows
MANY: Final = 5  # calls of one response, enough for a shared card


# What the agent does, on the word of the requester: "run WHAT POLICY"


def steps() -> list[Step]:
    return [_asked_for, "Done.", "Once more."]


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


# What people do


def selected(action: str) -> Callable[[Try], Awaitable[None]]:
    """One call of a shared card is chosen, then the button is pressed."""

    async def press(one: Try) -> None:
        menu = blocks.ACTION + actions.SELECT
        shown = one.slack.message(OPS, one.asked.card)["blocks"]
        [options] = [block["accessory"]["options"] for block in shown if block["block_id"] == menu]
        label = options[1]["text"]["text"]
        await one.slack.click(one.user, OPS, one.asked.card, menu, [label])
        await button(action)(one)

    return press


async def approve_shown(one: Try) -> None:
    await press_shown(one, blocks.APPROVE)


async def direct_copy(one: Try) -> None:
    channel, mark = one.slack.direct_channel(one.user), one.asked.nonces[0]
    cards = one.slack.world.channels[channel].messages.values()
    card = next((card for card in cards if mark in str(card)), None)
    if card is not None:
        await one.slack.click(one.user, channel, card["ts"], "Approve")
        return
    assert not one.has
    where = in_message(channel, one.slack.world.new_ts(), "")
    url = one.slack.world.new_response_url(channel, one.user, None)
    await forged(one, blocks.APPROVE, response_url=url, **where)


async def home(one: Try) -> None:
    await press_home(one, blocks.APPROVE, one.asked.nonces[0])


def types(text: str) -> Callable[[Try], Awaitable[None]]:
    """A slash command in the channel."""

    async def typed(one: Try) -> None:
        written = text.format(chat=one.asked.chat, nonce=one.asked.nonces[0])
        assert (await one.slack.slash(one.user, OPS, COMMAND, written)).acked

    return typed


def says(text: str, *, named: bool = True) -> Callable[[Try], Awaitable[None]]:
    """A message in the thread. `named`: it mentions the bot."""

    async def say(one: Try) -> None:
        written = text.format(chat=one.asked.chat, nonce=one.asked.nonces[0])
        written = f"<@{BOT_USER}> {written}" if named else written
        if one.slack.world.users[one.user].bot:
            await one.slack.bot_message(OPS, written, one.asked.root or None, one.user)
        else:
            await one.slack.say(one.user, OPS, written, one.asked.root or None)

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

RULE: Final = "rules add refund allow when who=made and order=none in channel yes"
_ANYONE: Final[dict[str, Any]] = {"policy": "anyone", "becomes": "cancelled"}
_MADE: Final[dict[str, Any]] = {"policy": "anyone", "becomes": "made", "rule": "channel"}
_ENDED: Final[dict[str, Any]] = {"asks": "rule", "policy": "made", "becomes": "revoked"}

CARDS: Final[dict[str, Way[Try]]] = {
    "approve button": Way(button(blocks.APPROVE), becomes="approved"),
    "decline button": Way(button(blocks.DECLINE), becomes="declined"),
    "thread button": Way(button(blocks.REMEMBER), becomes="approved", rule="chat"),
    "note modal": Way(button(blocks.NOTE), recorded=False),
    "note sent": Way(NOTE, becomes="declined"),
    "edit modal": Way(button(blocks.EDIT), recorded=False),
    "edit sent": Way(authority_forms.edit, becomes="approved"),
    "again": Way(button(actions.AGAIN), policy="brief", becomes="asked again"),
    "direct copy": Way(direct_copy, becomes="approved"),
    "home": Way(home, becomes="approved", at_home=True),
    "edit at home": Way(
        authority_forms.edit_at_home, becomes="approved", at_home=True, recorded=False
    ),
}
MODALS: Final[dict[str, Way[Try]]] = {
    "quick choice": Way(button(blocks.PICK + "0"), asks="pick", becomes="answered"),
    "form modal": Way(button(blocks.ANSWER), asks="fill", recorded=False),
    "form sent": Way(FILLED, asks="fill", becomes="answered"),
    "show everything": Way(button(blocks.SHOW), asks="long", recorded=False),
    "approve in modal": Way(approve_shown, asks="long", becomes="approved"),
    "edit in modal": Way(
        authority_forms.edit_shown, asks="long", becomes="approved", recorded=False
    ),
    "approve all": Way(button(actions.APPROVE_ALL), asks="many", becomes="approved", decides=MANY),
    "approve selected": Way(selected(actions.APPROVE_SELECTED), asks="many", becomes="approved"),
    "decline all": Way(button(actions.DECLINE_ALL), asks="many", becomes="declined", decides=MANY),
    "decline selected": Way(selected(actions.DECLINE_SELECTED), asks="many", becomes="declined"),
}
RULES: Final[dict[str, Way[Try]]] = {
    "revoke button": Way(authority_forms.revoke, at_home=True, **_ENDED),
    "slash revoke": Way(types("rules revoke {nonce}"), **_ENDED),
    "mention revoke": Way(says("rules revoke {nonce}"), **_ENDED),
    "choose modal": Way(button(actions.CHOOSE), recorded=False),
    "chosen sent": Way(authority_forms.choose, becomes="approved", rule="chat"),
    "chosen widely": Way(authority_forms.choose_widely, becomes="approved", rule="channel"),
    "slash rule": Way(types(RULE), **_MADE),
    "mention rule": Way(says(RULE), **_MADE),
    "rule modal": Way(authority_forms.new_rule, policy="anyone", at_home=True, recorded=False),
    "rule sent": Way(
        authority_forms.make_rule,
        policy="anyone",
        at_home=True,
        becomes="made",
        rule="organisation",
    ),
}
COMMANDS: Final[dict[str, Way[Try]]] = {
    "cancel button": Way(button(blocks.CANCEL), asks="rollout", becomes="asked to stop"),
    "slash cancel": Way(types("cancel {chat}"), **_ANYONE),
    "mention stop": Way(says("stop"), **_ANYONE),
    "mention cancel": Way(says("cancel {chat}"), **_ANYONE),
    "stop button": Way(stop_button, **_ANYONE),
    "message shortcut": Way(message_shortcut),
    "global shortcut": Way(global_shortcut),
    "thread text": Way(says("approve", named=False)),
    "thread mention": Way(says("yes, approve {nonce}"), recorded=False),
    "direct text": Way(direct_text, recorded=False),
}
WAYS: Final[dict[str, Way[Try]]] = {**CARDS, **MODALS, **RULES, **COMMANDS}
GROUPS: Final = {"cards": CARDS, "modals": MODALS, "rules": RULES, "commands": COMMANDS}
