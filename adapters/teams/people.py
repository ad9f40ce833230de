"""Who a person is, asked of the conversation they spoke in and believed for at most a minute."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from adapters.teams import limits
from adapters.teams.connector import Connector
from adapters.teams.events import SURFACE, Person, storable
from bot.clock import Clock
from bot.surface import Actor, DeliveryError, person_of
from storage.conversations import Conversation

log = logging.getLogger(__name__)

_MOST: Final = 5_000
_NAMED: Final = 8  # people whose names are looked up for one card


class Unknown(Exception):
    """Teams did not say who this is: nothing is decided for them (fail closed). `final`: asking
    again is of no use."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody in a conversation, as its roster has them. `id` is how this bot mentions them.
    `email`: the address that the admins of their tenant gave them, None: it is not said."""

    id: str
    user: str
    tenant: str
    name: str
    guest: bool
    email: str | None = None


class People:
    """Looks people up in the rosters of conversations."""

    def __init__(self, connector: Connector, clock: Clock) -> None:
        self._connector = connector
        self._clock = clock
        self._known: dict[tuple[str, str, str], tuple[float, Member | None]] = {}

    async def actor(self, person: Person, conversation: Conversation) -> Actor:
        """The person with name and standing, as the roster of this very conversation has them.
        Raises Unknown."""
        found = await self._look_up(conversation, person.member, limits.PEOPLE_SECONDS)
        if found is None or found.user != person.user:
            raise Unknown("the roster has nobody like this", final=True)
        actor = Actor(
            surface=SURFACE,
            organisation=found.tenant,
            user=found.user,
            name=found.name,
            is_guest=found.guest,
            is_external=found.tenant != conversation.organisation,
        )
        # It is only ever held against somebody (bot.identity): a guest's own tenant chose theirs.
        return actor if actor.by_name_only else replace(actor, email=found.email)

    async def mentioned(self, keys: Iterable[str], conversation: Conversation) -> dict[str, Member]:
        """Those of the people (`Actor.key`) who are in the conversation, by key: for show alone, so
        that whoever is not found at once is left out."""
        wanted = []
        for key in keys:
            person = person_of(key)
            if (
                person is not None
                and person.surface == SURFACE
                and person.organisation == conversation.organisation
            ):
                wanted.append((key, person.user))

        async def find(key: str, user: str) -> tuple[str, Member | None]:
            try:
                return key, await self._look_up(conversation, user, limits.NAMES_SECONDS)
            except Unknown:
                return key, None

        found = await asyncio.gather(*(find(*one) for one in wanted[:_NAMED]))
        return {key: member for key, member in found if member is not None}

    async def member(self, user: str, conversation: Conversation) -> Member | None:
        """Somebody by their Entra object id; None: not there. Raises Unknown."""
        return await self._look_up(conversation, user, limits.NAMES_SECONDS)

    async def _look_up(self, conversation: Conversation, who: str, fresh: float) -> Member | None:
        key = (conversation.organisation, conversation.channel, who)
        known = self._known.get(key)
        if known is not None and self._clock.now() - known[0] < fresh:
            return known[1]
        found = await self._ask(conversation, who)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = (self._clock.now(), found)
        return found

    async def _ask(self, conversation: Conversation, who: str) -> Member | None:
        try:
            async with asyncio.timeout(limits.MEMBER_SECONDS):
                told = await self._connector.member(conversation.address, conversation.channel, who)
        except DeliveryError as error:
            if error.permanent:  # such as 404: nobody of this name is there
                return None
            raise Unknown(str(error)) from None
        except TimeoutError:
            raise Unknown("the roster did not answer in time") from None
        return member_of(told)


def member_of(told: Mapping[str, Any]) -> Member | None:
    """Somebody as a roster tells of them; None: nobody whom Entra knows."""
    user = told.get("aadObjectId") or told.get("objectId")
    tenant, member = told.get("tenantId"), told.get("id")
    if not all(isinstance(one, str) and one for one in (user, tenant, member)):
        return None
    name = told.get("name") or told.get("userPrincipalName")
    return Member(
        id=str(member),
        user=str(user).lower(),
        tenant=str(tenant).lower(),
        name=storable(name)[: limits.NAME] if isinstance(name, str) else "",
        # Only who is said to be a user of the tenant is one.
        guest=told.get("userRole") != "user",
        email=_address(told),
    )


def _address(told: Mapping[str, Any]) -> str | None:
    """Who has no mailbox is known by what they sign in with, which looks the same."""
    found = told.get("email") or told.get("userPrincipalName")
    return found if isinstance(found, str) and found.strip() else None
