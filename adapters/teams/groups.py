"""Who is in a channel or group chat, asked of its roster and believed for at most a minute."""

from __future__ import annotations

from typing import Final

from adapters.teams import limits
from adapters.teams.connector import Connector
from adapters.teams.people import member_of
from bot.clock import Clock
from bot.surface import DeliveryError, Place
from storage.conversations import Conversation

_PAGES: Final = 20  # a larger team decides nothing


class Groups:
    """Looks groups up as policies name them: `#` and the id of a conversation that the bot is in,
    whose members are those of its team. Guests and people of other tenants are left out."""

    def __init__(self, connector: Connector, clock: Clock) -> None:
        self._connector = connector
        self._clock = clock
        self._known: dict[Conversation, tuple[float, frozenset[str]]] = {}

    async def members(self, conversation: Conversation) -> frozenset[str]:
        """The Entra object ids of its members. Raises DeliveryError."""
        found = self._known.get(conversation)
        if found is not None and self._clock.now() - found[0] < limits.PEOPLE_SECONDS:
            return found[1]
        asked = self._clock.now()
        members = await self._all(conversation)
        self._known[conversation] = (asked, members)
        return members

    async def _all(self, conversation: Conversation) -> frozenset[str]:
        users: set[str] = set()
        after = ""
        for _ in range(_PAGES):
            page, after = await self._connector.members(
                conversation.address, conversation.channel, after
            )
            members = [one for one in map(member_of, page) if one is not None]
            users |= {
                one.user
                for one in members
                if not one.guest and one.tenant == conversation.organisation
            }
            if not after:
                return frozenset(users)
        raise DeliveryError(f"{conversation.channel} has too many members")


def place_of_group(organisation: str, group: str) -> Place:
    """The conversation that a policy names. Raises DeliveryError."""
    if not group.startswith("#"):
        raise DeliveryError(f"{group}: Teams has no such groups", permanent=True)
    return Place("teams", organisation, group[1:], "")
