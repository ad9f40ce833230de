"""The ways into the product on Teams, as something a person does to a question that waits, over the
wire that Teams speaks. A button that they do not have is sent as if they had it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from adapters.teams import actions
from adapters.teams.events import NONCE, VERB
from tests.fakes.teams import FakeTeams, Shown, Stated, text_of
from tests.fakes.teams.cards import elements
from tests.scenario.authority_floor import Asked, Way
from tests.scenario.authority_ways import RULE


@dataclass(frozen=True)
class Try:
    """Somebody who goes at a question. `has`: they have before them what they press."""

    teams: FakeTeams
    who: str
    asked: Asked
    has: bool
    bot: bool

    def card(self) -> Shown:
        return next(one for one in self.teams.messages if one.id == self.asked.card)

    async def send(self, activity: dict[str, Any]) -> str:
        """Gives what they are answered: a sentence, or all of a card."""
        if self.bot:
            activity["from"] = activity["from"] | {"role": "bot"}
        return answered(self.teams, await self.teams.deliver(activity))


def answered(teams: FakeTeams, stated: Stated) -> str:
    assert stated.status < 500 or stated.status == 503, stated
    value = stated.body["value"] if stated.body else ""
    if not isinstance(value, dict):
        return str(value)
    if value.get("type") != "AdaptiveCard":
        return str(value["message"])
    teams._judge(value)
    return f"{text_of(value)}\n{value}" if actions.BACK in str(value) else text_of(value)


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
    action = {"type": "Action.Execute", "verb": verb, "data": data}
    pressed = one.teams.activity(
        one.who,
        thread,
        type="invoke",
        name="adaptiveCard/action",
        replyToId=shown.id if shown else "1",
        value={"action": action, "trigger": "manual"},
    )
    return await one.send(pressed)


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


async def direct_text(one: Try) -> str:
    return await one.send(one.teams.said(one.who, one.teams.personal(one.who), "approve"))


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
}
