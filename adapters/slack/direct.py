"""Direct messages: which channel is a person's, and which thread a card there is about.

A place without a root is a person (`bot.surface.Surface.direct`): Slack has a channel of its own
for each, and what is posted there is its own root, as a click on it reports it."""

from __future__ import annotations

import re
from typing import Any, Final

from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.events import SURFACE, Identity, permalink
from adapters.slack.text import escape, mrkdwn, shorten
from bot.card import Card
from bot.group import GroupCard
from bot.surface import Content, Place
from bot.text import visible

_PERSON: Final = re.compile(r"[UW][A-Z0-9_]{1,30}")
_MOST: Final = 5_000
_NAME: Final = 80
_NAMES: Final = 3


def place_of(organisation: str, user: str) -> Place | None:
    """The place of a direct message to this person; None: this is no id of Slack's."""
    return Place(SURFACE, organisation, user, "") if _PERSON.fullmatch(user) else None


def is_person(place: Place) -> bool:
    return not place.root and _PERSON.fullmatch(place.channel) is not None


class Direct:
    """The channels of direct messages, as far as they were asked for."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._known: dict[str, str] = {}

    async def channel(self, place: Place) -> str:
        """The channel of a place. Raises what slack_sdk raises."""
        if not is_person(place):
            return place.channel
        if place.channel not in self._known:
            answer = await self._client.conversations_open(users=place.channel)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[place.channel] = str(answer["channel"]["id"])
        return self._known[place.channel]


def placed(shown: dict[str, Any], content: Content, place: Place, me: Identity) -> dict[str, Any]:
    """The message; where a card stands outside of its thread, with who asked and a link to it."""
    match content:
        case Card():
            cards: tuple[Card, ...] = (content,)
        case GroupCard():
            cards = content.cards
        case _:
            return shown
    thread = cards[0].thread
    if thread is None or thread == place:
        return shown
    askers = dict.fromkeys(asker for card in cards for asker in card.askers)
    about, blocks = _about(list(askers), thread, me), shown["blocks"]
    under = 1 if blocks[0]["type"] == "header" else 0
    return shown | {"blocks": [*blocks[:under], about, *blocks[under:]]}


def _about(askers: list[str], thread: Place, me: Identity) -> dict[str, Any]:
    names = [_name(asker, me.team) for asker in askers[:_NAMES]]
    if len(askers) > _NAMES:
        names.append(f"{len(askers) - _NAMES} more")
    asked = f"Requested by {', '.join(names)}" if names else "Requested"
    if thread.surface != SURFACE:
        return {"type": "context", "elements": [mrkdwn(f"{asked} in another conversation")]}
    link = permalink(me, thread)
    if thread.channel.startswith("D"):  # nobody else can open it
        where = " in a direct message"
    else:
        where = f" in <#{thread.channel}> · <{link}|Open the thread>" if link else ""
    return {"type": "context", "elements": [mrkdwn(asked + where)]}


def _name(key: str, team: str) -> str:
    """A person of this workspace by a mention, whoever else by their key."""
    user = key.removeprefix(f"{SURFACE}:{team}/")
    return f"<@{user}>" if _PERSON.fullmatch(user) else escape(shorten(visible(key), _NAME))
