"""The workspaces that installed us: who we are in each, and what speaks with its token."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from aiohttp import web
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adapters.slack.clicks import Clicks
from adapters.slack.commands import Commands
from adapters.slack.delivery import Delivery
from adapters.slack.events import Identity
from adapters.slack.groups import Groups
from adapters.slack.homes import Homes
from adapters.slack.log import quiet
from adapters.slack.people import People
from adapters.slack.reach import WRONG_TOKEN
from adapters.slack.refusal import code_of
from adapters.slack.sessions import Sessions
from adapters.slack.settings import PROMPTS, SCOPES, Prompt, SlackSettings
from adapters.slack.stream import Streams
from bot.background import Background
from bot.clock import Clock
from bot.secrets import ConfigError
from bot.surface import DeliveryError, Entry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workspace:
    """One workspace, and everything that speaks to it."""

    me: Identity
    client: AsyncWebClient
    people: People
    delivery: Delivery
    clicks: Clicks
    commands: Commands
    sessions: Sessions
    homes: Homes
    groups: Groups

    @classmethod
    def of(
        cls,
        me: Identity,
        client: AsyncWebClient,
        entry: Entry,
        clock: Clock,
        background: Background,
        prompts: Sequence[Prompt] = PROMPTS,
    ) -> Workspace:
        people = People(client, clock, me.team)
        sessions = Sessions(client, prompts)
        delivery = Delivery(client, me, Streams(client, sessions.shown))
        homes = Homes(entry, delivery, people, clock, background, me.team)
        return cls(
            me=me,
            client=client,
            people=people,
            delivery=delivery,
            clicks=Clicks(entry, client, delivery, people, background, homes, me.team),
            commands=Commands(entry, client, people, background, me.team),
            sessions=sessions,
            homes=homes,
            groups=Groups(client, clock),
        )


class Workspaces(Protocol):
    """Finds the workspace of an organisation (a team id, or the id of an Enterprise Grid that
    installed us as a whole), or of what Slack sent."""

    def routes(self) -> list[web.RouteDef]:
        """What the web server serves for those who install us."""

    async def start(self, session: aiohttp.ClientSession) -> None:
        """Asks Slack who we are, until it answers. Raises ConfigError for a refused token."""

    def stop(self) -> None:
        """The session is about to be closed."""

    def known(self, organisation: str) -> Workspace | None:
        """The workspace, if it can be told without asking."""

    async def find(self, organisation: str) -> Workspace:
        """The workspace for a delivery. Raises DeliveryError."""

    async def sent_to(
        self, enterprise: str | None, team: str | None, whole: bool
    ) -> Workspace | None:
        """The workspace that a signed request is for; None: it did not install us (any more).
        `whole`: Slack says that the enterprise installed us, and not one of its workspaces."""

    async def revoked(self, enterprise: str | None, team: str | None) -> None:
        """Slack says that a token is no good any more, or that we were removed."""

    async def tokens(self) -> dict[str, str]:
        """Every token by the organisation that gave it; the one of the environment under no
        name."""


class OneWorkspace:
    """The workspace of the one token in the environment."""

    def __init__(
        self, settings: SlackSettings, entry: Entry, clock: Clock, background: Background
    ) -> None:
        self._entry = entry
        self._clock = clock
        self._background = background
        self._prompts = settings.prompts
        self._token = settings.bot_token
        self._client = web_client(settings.base_url, settings.bot_token)
        self._workspace: Workspace | None = None
        self._removed = False

    def routes(self) -> list[web.RouteDef]:
        return []

    async def start(self, session: aiohttp.ClientSession) -> None:
        self._client.session = session
        me = await self._identify()
        self._workspace = Workspace.of(
            me, self._client, self._entry, self._clock, self._background, self._prompts
        )

    def stop(self) -> None:
        self._workspace = None
        self._client.session = None

    async def tokens(self) -> dict[str, str]:
        return {"": self._token}

    def known(self, organisation: str) -> Workspace | None:
        return self._workspace

    async def find(self, organisation: str) -> Workspace:
        if self._workspace is None:
            raise DeliveryError("Slack is not connected yet.")
        return self._workspace

    async def sent_to(
        self, enterprise: str | None, team: str | None, whole: bool
    ) -> Workspace | None:
        return self._workspace

    async def revoked(self, enterprise: str | None, team: str | None) -> None:
        if not self._removed and not await works(self._client):
            self._removed = True  # Slack says it twice: of the token, and of the app
            log.error(
                "The app was removed from the Slack workspace: install it again, set "
                "SLACK_BOT_TOKEN to its new token and start Interlock anew."
            )

    async def _identify(self) -> Identity:
        pause = 1.0
        while True:
            try:
                answer = await self._client.auth_test()
                break
            except SlackApiError as error:
                if code_of(error) in WRONG_TOKEN:
                    raise ConfigError(
                        f"SLACK_BOT_TOKEN is refused by Slack ({code_of(error)}): install the app "
                        "in your workspace and set its bot token."
                    ) from None
                log.warning("Slack does not say who we are yet: %s", code_of(error))
            except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
                log.warning("Slack is not reachable: %s", type(error).__name__)
            await self._clock.sleep(pause)
            pause = min(pause * 2, 60.0)
        if not answer.get("bot_id"):
            raise ConfigError("SLACK_BOT_TOKEN is no bot token: set it to the one with xoxb-.")
        for scope in sorted(SCOPES - granted(answer)) if granted(answer) else ():
            log.warning("The Slack app lacks the scope %s: add it and install it again.", scope)
        return identity(answer)


def web_client(base_url: str, token: str | None = None) -> AsyncWebClient:
    """A client that repeats nothing by itself: slack_sdk 3.48 would post twice what was taken
    before its connection dropped (its default handler)."""
    return AsyncWebClient(
        token=token, base_url=base_url, retry_handlers=[], logger=quiet("slack_sdk")
    )


async def works(client: AsyncWebClient) -> bool:
    """Whether Slack still takes the client's token. Raises what slack_sdk raises when it does not
    say; news of a token that was revoked can come late, when a new one is there already."""
    try:
        await client.auth_test()
    except SlackApiError as error:
        if code_of(error) in WRONG_TOKEN:
            return False
        raise
    return True


def identity(answer: AsyncSlackResponse) -> Identity:
    """Who we are, as auth.test says it."""
    whole = bool(answer.get("is_enterprise_install"))
    return Identity(
        team=str(answer["enterprise_id" if whole else "team_id"]),
        user=str(answer["user_id"]),
        bot=str(answer["bot_id"]),
        url=str(answer.get("url") or ""),
        whole=whole,
    )


def granted(answer: AsyncSlackResponse) -> frozenset[str]:
    """The scopes of the token that asked; empty where Slack does not say them."""
    return frozenset(filter(None, str(answer.headers.get("x-oauth-scopes") or "").split(",")))
