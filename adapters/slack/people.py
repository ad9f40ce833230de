"""Who a person is, asked of Slack and believed for at most a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import limits
from adapters.slack.events import SURFACE, Person
from adapters.slack.refusal import code_of
from bot.clock import Clock
from bot.surface import Actor

_SECONDS: Final = 1.5
_MOST: Final = 5_000


class Unknown(Exception):
    """Slack did not say who this is: nothing is decided for them (fail closed). `gone`: because
    there is no such person any more."""

    def __init__(self, reason: str, *, gone: bool = False) -> None:
        super().__init__(f"users.info: {reason}")
        self.reason = reason
        self.gone = gone


class People:
    """Looks people up by id. `team` is the workspace that installed us."""

    def __init__(self, client: AsyncWebClient, clock: Clock, team: str) -> None:
        self._client = client
        self._clock = clock
        self._team = team
        self._known: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def knows(self, person: Person) -> bool:
        """Whether `actor` will answer without asking Slack."""
        found = self._known.get(person.user)
        return found is not None and self._clock.now() - found[0] < limits.PEOPLE_SECONDS

    async def actor(self, person: Person) -> Actor:
        """The person with name and standing. Raises Unknown."""
        if not self.knows(person):
            profile = await self._ask(person.user)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[person.user] = (self._clock.now(), profile)
        profile = self._known[person.user][1]
        home = self._home(person, profile)
        shown = profile.get("profile") or {}
        names = (shown.get("display_name"), profile.get("real_name"), profile.get("name"))
        actor = Actor(
            surface=SURFACE,
            organisation=home,
            user=person.user,
            name=next((str(name) for name in names if name), ""),
            is_bot=bool(profile.get("is_bot") or profile.get("is_workflow_bot")),
            is_guest=bool(profile.get("is_restricted") or profile.get("is_ultra_restricted")),
            is_external=home != self._team or bool(profile.get("is_stranger")),
        )
        if actor.by_name_only:
            return actor
        return replace(actor, email=_address(profile))

    def _home(self, person: Person, profile: Mapping[str, Any]) -> str:
        """The workspace the person belongs to: ours, also as one of several in a Grid or as the
        Grid itself."""
        grid = profile.get("enterprise_user") or {}
        if self._team in (grid.get("teams") or ()) or self._team == grid.get("enterprise_id"):
            return self._team
        teams = [str(team) for team in (profile.get("team_id"), person.team) if team]
        return next((team for team in teams if team != self._team), teams[0])

    async def _ask(self, user: str) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(_SECONDS):
                answer = await self._client.users_info(user=user)
        except SlackApiError as error:
            raise Unknown(code_of(error), gone=code_of(error) == "user_not_found") from None
        except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unknown(type(error).__name__) from None
        profile = answer.get("user")
        if not isinstance(profile, Mapping) or profile.get("deleted") or not profile.get("team_id"):
            raise Unknown("no such person any more", gone=True)
        return profile


def _address(profile: Mapping[str, Any]) -> str | None:
    """The address that Slack has confirmed: empty where it has not, None where it does not say, as
    without the scope users:read.email."""
    address = (profile.get("profile") or {}).get("email")
    if profile.get("is_email_confirmed") is False:
        return ""
    if profile.get("is_email_confirmed") is not True or not isinstance(address, str):
        return None
    return address or None
