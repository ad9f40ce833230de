"""The ways into the product on Teams, as something a person does to a question that waits, over the
wire that Teams speaks. A button that they do not have is sent as if they had it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from adapters.teams import actions, standing
from adapters.teams.events import NONCE, VERB
from tests.fakes.teams import FakeTeams, Shown, Stated, text_of
from tests.fakes.teams.cards import elements
from tests.scenario.authority_floor import Asked, Way
from tests.scenario.authority_ways import MANY, RULE


@dataclass(frozen=True)
class Try:
    """Somebody who goes at a question. `has`: they have before them what they press."""

    teams: FakeTeams
    who: str
    asked: Asked
    has: bool
    bot: bool
    views: list[dict[str, Any]] = field(default_factory=list)  # that they were shown

    def card(self) -> Shown:
        return next(one for one in self.teams.messages if one.id == self.asked.card)

    async def send(self, activity: dict[str, Any]) -> str:
        """Gives what they are answered: a sentence, or all of a card."""
        if self.bot:
            activity["from"] = activity["from"] | {"role": "bot"}
        stated = await self.teams.deliver(activity)
        if stated.body and isinstance(stated.body["value"], dict):
            self.views.append(stated.body["value"])
        return answered(self.teams, stated)


def answered(teams: FakeTeams, stated: Stated) -> str:
    assert stated.status < 500 or stated.status == 503, stated
    value = stated.body["value"] if stated.body else ""
    if not isinstance(value, dict):
        return str(value)
    if value.get("type") != "AdaptiveCard":
        return str(value["message"])
    teams._judge(value)
    view = actions.BACK in str(value) or actions.HOME in str(value)
    return f"{text_of(value)}\n{value}" if view else text_of(value)


def data_of(shown: Shown | None, verb: str, nonce: str) -> dict[str, Any] | None:
    card = None if shown is None else shown.card
    found = (one.get("data", {}) for one in elements(card or {}))
    return next((one for one in found if one.get(VERB) == verb and nonce in str(one)), None)


def button(verb: str, **inputs: str) -> Callable[[Try], Awaitable[str]]:
    """A button of the card in the thread, with what stands in its inputs."""

    async def press(one: Try) -> str:
        return await _press(one, one.card(), one.asked.root, verb, inputs)

    return press


async def direct_copy(one: Try) -> str:
    """The card in their own chat."""
    place, nonce = one.teams.personal(one.who), one.asked.nonces[0]
    found = (card for card in one.teams.in_thread(place) if nonce in str(card.card))
    return await _press(one, next(found, None), place, actions.APPROVE, {})


async def _press(
    one: Try, shown: Shown | None, thread: str, verb: str, inputs: dict[str, str]
) -> str:
    nonce = one.asked.nonces[0]
    data = data_of(shown, verb, nonce)
    assert data or not one.has, f"nothing offers {verb}"
    data = (data or {NONCE: nonce, VERB: verb}) | inputs
    return await _invoke(one, thread, verb, data, shown.id if shown else "1")


async def _invoke(one: Try, thread: str, verb: str, data: dict[str, Any], card: str) -> str:
    action = {"type": "Action.Execute", "verb": verb, "data": data}
    pressed = one.teams.activity(
        one.who,
        thread,
        type="invoke",
        name="adaptiveCard/action",
        replyToId=card,
        value={"action": action, "trigger": "manual"},
    )
    return await one.send(pressed)


def sends(verb: str, *, nonce: str = "", **data: Any) -> Callable[[Try], Awaitable[str]]:
    """A button of a view or of a list, which only somebody else may have before them."""

    async def press(one: Try) -> str:
        sent = {NONCE: nonce or one.asked.nonces[0], VERB: verb, **data}
        thread = one.asked.root or one.teams.channel
        return await _invoke(one, thread, verb, sent, one.asked.card)

    return press


async def selected(one: Try, verb: str) -> str:
    return await button(verb, select=one.asked.nonces[1])(one)


async def edited(one: Try) -> str:
    """The form as it was opened, with another order; or one that was never opened."""
    inputs = {"f1": "E1"}
    if one.has:
        await button(actions.EDIT)(one)
        view = one.views[-1]
        found = [one for one in elements(view) if str(one.get("type")).startswith("Input.")]
        inputs = {one["id"]: str(one.get("value", "")) for one in found}
        inputs |= {one["id"]: "E1" for one in found if one["label"] == "order"}
    return await sends(actions.EDITED, **inputs)(one)


def submit(verb: str) -> Callable[[Try], Awaitable[str]]:
    """The same by a client that knows no Execute: what they are told comes by a whisper."""

    async def press(one: Try) -> str:
        data = {NONCE: one.asked.nonces[0], VERB: verb}
        sent = one.teams.activity(
            one.who, one.asked.root, text=None, value=data, replyToId=one.asked.card
        )
        return await one.send(sent)

    return press


def says(text: str) -> Callable[[Try], Awaitable[str]]:
    """A message in the thread that mentions the bot."""

    async def say(one: Try) -> str:
        written = text.format(chat=one.asked.chat, nonce=one.asked.nonces[0])
        return await one.send(one.teams.said(one.who, one.asked.root or one.teams.channel, written))

    return say


def slash(text: str) -> Callable[[Try], Awaitable[str]]:
    """A slash command in the thread."""

    async def give(one: Try) -> str:
        written = text.format(chat=one.asked.chat)
        sent = one.teams.activity(one.who, one.asked.root, text=written, textFormat="plain")
        sent["recipient"] = sent["recipient"] | {"isTargeted": True}
        return await one.send(sent)

    return give


async def direct_text(one: Try) -> str:
    return await one.send(one.teams.said(one.who, one.teams.personal(one.who), "approve"))


_CHOSEN: Final = {"what": "exact", "where": "chat", "until": "1 day"}
_MADE: Final = {
    "tool": "refund",
    "effect": "deny",
    "when": "who=made\norder=none",
    "where": "organisation",
}
_ANYONE: Final[dict[str, Any]] = {"policy": "anyone", "becomes": "cancelled"}

TEAMS: Final[dict[str, Way[Try]]] = {
    "teams approve": Way(button(actions.APPROVE), becomes="approved"),
    "teams thread": Way(button(actions.REMEMBER), becomes="approved", rule="chat"),
    "teams decline button": Way(button(actions.DECLINE), becomes="declined"),
    "teams note sent": Way(button(actions.NOTE, note="not now"), becomes="declined"),
    "teams form sent": Way(button(actions.ANSWER, f0="because"), asks="fill", becomes="answered"),
    "teams direct copy": Way(direct_copy, becomes="approved"),
    "teams submit": Way(submit(actions.APPROVE), becomes="approved"),
    "teams mention stop": Way(says("stop"), **_ANYONE),
    "teams mention cancel": Way(says("cancel {chat}"), **_ANYONE),
    "teams mention rule": Way(says(RULE), policy="anyone", becomes="made", rule="channel"),
    "teams mention revoke": Way(
        says("rules revoke {nonce}"), asks="rule", policy="made", becomes="revoked"
    ),
    "teams mention status": Way(says("status")),
    "teams mention pending": Way(says("pending")),
    "teams thread mention": Way(says("yes, approve {nonce}"), recorded=False),
    "teams direct text": Way(direct_text, recorded=False),
    "teams slash cancel": Way(slash("cancel {chat}"), **_ANYONE),
    "teams edit form": Way(button(actions.EDIT), recorded=False),
    "teams edit sent": Way(edited, becomes="approved"),
    "teams show": Way(button(actions.SHOW), asks="long", recorded=False),
    "teams all approved": Way(
        sends(actions.APPROVE_ALL_SURE), asks="many", becomes="approved", decides=MANY
    ),
    "teams all declined": Way(
        sends(actions.DECLINE_ALL_SURE), asks="many", becomes="declined", decides=MANY
    ),
    "teams some approved": Way(
        lambda one: selected(one, actions.APPROVE_SELECTED), asks="many", becomes="approved"
    ),
    "teams some declined": Way(
        lambda one: selected(one, actions.DECLINE_SELECTED), asks="many", becomes="declined"
    ),
    "teams again": Way(button(actions.AGAIN), policy="brief", becomes="asked again"),
    "teams cancel task": Way(button(actions.CANCEL), asks="rollout", becomes="asked to stop"),
    "teams list approve": Way(sends(actions.APPROVE, home=True), becomes="approved"),
    "teams list open": Way(sends(actions.OPEN, home=True), asks="long", recorded=False),
    "teams choose form": Way(button(actions.CHOOSE), recorded=False),
    "teams chosen sent": Way(
        sends(actions.CHOOSE_SAVE, answer=_CHOSEN), becomes="approved", rule="chat"
    ),
    "teams rule form": Way(
        sends(actions.NEW_RULE, nonce=standing.RULE, home=True), policy="anyone", recorded=False
    ),
    "teams rule sent": Way(
        sends(actions.RULE_SAVE, nonce=standing.RULE, home=True, answer=_MADE),
        policy="anyone",
        becomes="made",
        rule="organisation",
    ),
    "teams revoke": Way(
        sends(actions.REVOKE_SURE, home=True), asks="rule", policy="made", becomes="revoked"
    ),
}
