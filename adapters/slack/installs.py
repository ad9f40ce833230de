"""Many workspaces: each installs us itself, and each is spoken to with its own token."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from aiohttp import web
from slack_sdk.errors import SlackApiError, SlackTokenRotationError
from slack_sdk.oauth.installation_store import Bot, Installation
from slack_sdk.oauth.token_rotation.async_rotator import AsyncTokenRotator
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.events import Identity
from adapters.slack.install_pages import INSTALL, InstallPages
from adapters.slack.reach import WRONG_TOKEN
from adapters.slack.refusal import FAILURES, code_of, retry_after
from adapters.slack.settings import SCOPES, OAuth, SlackSettings
from adapters.slack.tokens import States, Tokens, organisation_of
from adapters.slack.workspaces import Workspace, granted, web_client, works
from bot.background import Background
from bot.clock import Clock
from bot.surface import DeliveryError, Entry
from storage.database import Database, DatabaseUnavailable

log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 60.0  # how long an installation is believed without reading it again
_ASK_SECONDS: Final = 2.0
_AT_ONCE: Final = 8
_ROTATE_MINUTES: Final = 120


@dataclass(slots=True)
class _Kept:
    """An installation as it was read; without a workspace where Slack refuses its token. `teams`
    are those of an enterprise that installed us as a whole, once they were asked for."""

    token: str = field(repr=False)
    workspace: Workspace | None
    read_at: float
    teams: frozenset[str] = frozenset()
    teams_at: float = -math.inf


class InstalledWorkspaces:
    """Implements `adapters.slack.workspaces.Workspaces`. An organisation never gets the token of
    another: a request is for the one that Slack names in it, a delivery for the one of its place.
    """

    def __init__(
        self,
        oauth: OAuth,
        settings: SlackSettings,
        entry: Entry,
        clock: Clock,
        background: Background,
        database: Database,
    ) -> None:
        self._base_url = settings.base_url
        self._prompts = settings.prompts
        self._entry = entry
        self._clock = clock
        self._background = background
        self._tokens = Tokens(database, oauth.client_id, oauth.keys)
        self._states = States(database)
        self._anybody = web_client(settings.base_url)
        self._rotator = AsyncTokenRotator(
            client_id=oauth.client_id, client_secret=oauth.client_secret, client=self._anybody
        )
        self._pages = InstallPages(
            oauth, self._anybody, self._tokens, self._states, self._installed
        )
        self._kept: dict[str, _Kept] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def routes(self) -> list[web.RouteDef]:
        return self._pages.routes()

    async def start(self, session: aiohttp.ClientSession) -> None:
        await self._tokens.create_tables()
        await self._states.create_tables()
        await self._tokens.seal_anew()
        self._anybody.session = session
        organisations = [organisation_of(bot) for bot in await self._tokens.everything()]
        gate = asyncio.Semaphore(_AT_ONCE)

        async def load(organisation: str) -> None:
            async with gate:
                await self._of(organisation)

        await asyncio.gather(*map(load, organisations))
        if not organisations:
            log.warning("Slack: no workspace has installed the app yet; it is done at %s.", INSTALL)
        self._pages.open = True

    async def tokens(self) -> dict[str, str]:
        await self._tokens.create_tables()
        everything = await self._tokens.everything()
        return {organisation_of(bot): bot.bot_token for bot in everything}

    def stop(self) -> None:
        self._pages.open = False
        self._kept.clear()
        self._anybody.session = None

    def known(self, organisation: str) -> Workspace | None:
        kept = self._kept.get(organisation)
        return None if kept is None else kept.workspace

    async def sent_to(
        self, enterprise: str | None, team: str | None, whole: bool
    ) -> Workspace | None:
        """Raises DatabaseUnavailable."""
        organisation = enterprise if whole else team
        return await self._of(organisation) if organisation else None

    async def find(self, organisation: str) -> Workspace:
        if self._anybody.session is None:
            raise DeliveryError("Slack is not connected yet.")
        try:
            found = await self._of(organisation) or await self._of_the_whole(organisation)
        except DatabaseUnavailable:
            raise DeliveryError("The database does not say which token is right.") from None
        if found is None:
            raise DeliveryError("Slack: the app is not installed there any more.", locked_out=True)
        return found

    async def revoked(self, enterprise: str | None, team: str | None) -> None:
        """Raises DatabaseUnavailable, and what slack_sdk raises when Slack does not say whether the
        token still works: it delivers the event again."""
        for organisation in filter(None, (enterprise, team)):
            async with self._locks[organisation]:
                bot = await self._tokens.find(organisation)
                if bot is None or await works(self._client(bot.bot_token)):
                    continue
                await self._tokens.remove(organisation)
                self._kept.pop(organisation, None)
            log.warning("Slack: %s removed the app; its token is deleted.", organisation)

    async def _installed(self, installation: Installation) -> None:
        organisation = organisation_of(installation)
        self._kept.pop(organisation, None)
        await self._of(organisation)
        log.warning("Slack: %s installed the app.", organisation)

    # What is kept

    async def _of(self, organisation: str) -> Workspace | None:
        """The workspace of an installation. Raises DatabaseUnavailable."""
        kept = self._kept.get(organisation)
        if kept is not None and self._fresh(kept.read_at):
            return kept.workspace
        async with self._locks[organisation]:
            kept = self._kept.get(organisation)
            if kept is not None and self._fresh(kept.read_at):
                return kept.workspace
            try:
                bot = await self._tokens.find(organisation)
            except DatabaseUnavailable:
                if kept is None:
                    raise
                return kept.workspace  # whoever clicked is told by what comes next
            if bot is None:
                self._kept.pop(organisation, None)
                return None
            bot = await self._rotated(bot)
            if kept is None or kept.token != bot.bot_token or not _complete(kept.workspace):
                kept = _Kept(bot.bot_token, await self._opened(bot), self._clock.now())
            kept.read_at = self._clock.now()
            self._kept[organisation] = kept
            return kept.workspace

    async def _of_the_whole(self, team: str) -> Workspace | None:
        """The workspace of the enterprise that installed us as a whole and has this team in it: a
        team's own id names places from before, and people. Raises DeliveryError."""
        for bot in await self._tokens.everything():
            if not bot.is_enterprise_install:
                continue
            organisation = organisation_of(bot)
            workspace = await self._of(organisation)
            kept = self._kept.get(organisation)
            if workspace is None or kept is None:
                continue
            if not self._fresh(kept.teams_at):
                kept.teams, kept.teams_at = await _teams(workspace), self._clock.now()
            if team in kept.teams:
                return workspace
        return None

    def _fresh(self, since: float) -> bool:
        return self._clock.now() - since < FRESH_SECONDS

    async def _opened(self, bot: Bot) -> Workspace | None:
        """The workspace, also when Slack is not there to say its address; None when it refuses the
        token."""
        organisation, url = organisation_of(bot), ""
        client = self._client(bot.bot_token)
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                answer = await client.auth_test()
            url = str(answer.get("url") or "")
            for scope in sorted(SCOPES - granted(answer)) if granted(answer) else ():
                log.warning("Slack: %s lacks the scope %s: install again.", organisation, scope)
        except SlackApiError as error:
            if code_of(error) in WRONG_TOKEN:
                log.error(
                    "Slack refuses the token of %s (%s): install the app there again.",
                    organisation,
                    code_of(error),
                )
                return None
            log.warning("Slack does not say the address of %s: %s", organisation, code_of(error))
        except FAILURES as error:
            log.warning("Slack is not reachable for %s: %s", organisation, type(error).__name__)
        whole = bot.is_enterprise_install
        me = Identity(organisation, bot.bot_user_id, bot.bot_id, url, whole=whole)
        return Workspace.of(me, client, self._entry, self._clock, self._background, self._prompts)

    def _client(self, token: str) -> AsyncWebClient:
        client = web_client(self._base_url, token)
        client.session = self._anybody.session
        return client

    async def _rotated(self, bot: Bot) -> Bot:
        """The installation with a token that is good for a while, where tokens run out. A refusal
        leaves the old one, which is good until then."""
        if bot.bot_refresh_token is None:
            return bot
        try:
            # Not cut short: a refresh token is good once, and its answer has the next one.
            fresh = await self._rotator.perform_bot_token_rotation(
                bot=bot, minutes_before_expiration=_ROTATE_MINUTES
            )
        except (SlackTokenRotationError, *FAILURES) as error:
            log.error(
                "Slack gives no new token for %s: %s", organisation_of(bot), type(error).__name__
            )
            return bot
        if fresh is None:
            return bot
        await self._tokens.async_save_bot(fresh)
        return fresh


def _complete(workspace: Workspace | None) -> bool:
    """Whether nothing is missing of it that Slack would say now."""
    return workspace is None or bool(workspace.me.url)


async def _teams(workspace: Workspace) -> frozenset[str]:
    teams: set[str] = set()
    cursor = ""
    try:
        while True:
            page = await workspace.client.auth_teams_list(limit=200, cursor=cursor or None)
            teams.update(str(team["id"]) for team in page.get("teams") or ())
            cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return frozenset(teams)
    except SlackApiError as error:
        raise DeliveryError(
            f"Slack auth.teams.list: {code_of(error)}", retry_after=retry_after(error)
        ) from None
    except FAILURES as error:
        raise DeliveryError(f"Slack auth.teams.list: {type(error).__name__}") from None
