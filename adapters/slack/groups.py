"""Who is in a user group or a channel, asked of Slack and believed for at most a minute."""

from __future__ import annotations

from typing import Final

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import limits
from adapters.slack.refusal import code_of
from bot.clock import Clock
from bot.surface import DeliveryError

_PAGE: Final = 1_000
_PAGES: Final = 20  # a larger channel decides nothing


class Groups:
    """Looks groups up as policies name them: `@S...` or `#C...`, and `@T.../S...` for the user
    group of a workspace of an Enterprise Grid that installed us as a whole: its token gets none
    without the workspace."""

    def __init__(self, client: AsyncWebClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, tuple[float, frozenset[str]]] = {}

    async def members(self, group: str) -> frozenset[str]:
        """The ids of its members. Raises DeliveryError."""
        found = self._known.get(group)
        if found is not None and self._clock.now() - found[0] < limits.PEOPLE_SECONDS:
            return found[1]
        asked = self._clock.now()
        try:
            match group[:1]:
                case "@":
                    members = await self._users(group[1:])
                case "#":
                    members = await self._channel(group[1:])
                case _:
                    raise DeliveryError(f"{group}: Slack has no such groups")
        except SlackApiError as error:
            raise DeliveryError(f"{group}: {code_of(error)}") from None
        except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise DeliveryError(f"{group}: {type(error).__name__}") from None
        self._known[group] = (asked, members)
        return members

    async def _users(self, group: str) -> frozenset[str]:
        team, _, of_team = group.rpartition("/")
        answer = await self._client.usergroups_users_list(usergroup=of_team, team_id=team or None)
        return frozenset(map(str, answer.get("users") or ()))

    async def _channel(self, channel: str) -> frozenset[str]:
        members: set[str] = set()
        cursor = ""
        for _ in range(_PAGES):
            answer = await self._client.conversations_members(
                channel=channel, limit=_PAGE, cursor=cursor or None
            )
            members |= set(map(str, answer.get("members") or ()))
            cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return frozenset(members)
        raise DeliveryError(f"{channel} has too many members")
