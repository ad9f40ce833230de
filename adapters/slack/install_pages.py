"""The pages on which a workspace installs us: slack_bolt's OAuth flow, with our own sentences."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.oauth.async_callback_options import (
    AsyncCallbackOptions,
    AsyncFailureArgs,
    AsyncSuccessArgs,
)
from slack_bolt.oauth.async_oauth_flow import AsyncOAuthFlow
from slack_bolt.oauth.async_oauth_settings import AsyncOAuthSettings
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.oauth.installation_store import Installation
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.environment import without_traps
from adapters.slack.log import quiet
from adapters.slack.settings import SCOPES, OAuth
from adapters.slack.tokens import STATE_SECONDS, States, Tokens

log = logging.getLogger(__name__)

INSTALL: Final = "/slack/install"
REDIRECT: Final = "/slack/oauth_redirect"

_ID: Final = re.compile(r"[A-Z][A-Z0-9_]{1,40}")
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address of the page has a code in it
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_AGAIN: Final = "nothing was installed; please begin again."
_SENTENCES: Final = {
    "access_denied": "You did not allow it, so nothing was installed.",
    "invalid_browser": f"This was not begun in this browser (or not over https), so {_AGAIN}",
    "invalid_state": f"This took longer than ten minutes or was done already, so {_AGAIN}",
    "missing_code": f"Slack sent no code, so {_AGAIN}",
    "invalid_code": f"Slack refused the code, so {_AGAIN}",
    "storage_error": f"Slack gave no token of a bot, so {_AGAIN}",
}
_TROUBLE: Final = f"Slack or the database is not answering, so {_AGAIN}"


class InstallPages:
    """Serves both addresses once `open`; `installed` is told of every installation that is saved.

    A state is good once, for ten minutes, in the browser that it was given to."""

    def __init__(
        self,
        oauth: OAuth,
        client: AsyncWebClient,
        tokens: Tokens,
        states: States,
        installed: Callable[[Installation], Awaitable[None]],
    ) -> None:
        self.open = False
        self._installed = installed
        silent = quiet("slack_oauth")
        silent.setLevel(logging.CRITICAL)  # slack_bolt 1.30 logs the code that Slack refused
        with without_traps():
            settings = AsyncOAuthSettings(
                client_id=oauth.client_id,
                client_secret=oauth.client_secret,
                scopes=sorted(SCOPES),
                user_scopes=[],
                install_path=INSTALL,
                redirect_uri_path=REDIRECT,
                callback_options=AsyncCallbackOptions(self._succeeded, self._failed),
                installation_store=tokens,
                state_store=states,
                state_expiration_seconds=STATE_SECONDS,
                logger=silent,
            )
            self._flow = AsyncOAuthFlow(client=client, logger=silent, settings=settings)

    def routes(self) -> list[web.RouteDef]:
        return [web.get(INSTALL, self._begin), web.get(REDIRECT, self._end)]

    async def _begin(self, request: web.Request) -> web.Response:
        # Without the query: slack_bolt 1.30 copies its `team` into Slack's address as it is.
        return await self._served(self._flow.handle_installation, request, "")

    async def _end(self, request: web.Request) -> web.Response:
        return await self._served(self._flow.handle_callback, request, request.query_string)

    async def _served(
        self,
        handle: Callable[[AsyncBoltRequest], Awaitable[BoltResponse]],
        request: web.Request,
        query: str,
    ) -> web.Response:
        try:
            if not self.open:
                answer = _page(503, _TROUBLE)
            else:
                headers: Any = request.headers
                answer = await handle(AsyncBoltRequest(body="", query=query, headers=headers))
        except Exception as error:  # its text may hold the code
            log.error("An installation failed: %s", type(error).__name__)
            answer = _page(503, _TROUBLE)
        response = await to_aiohttp_response(answer)
        response.headers.update(_HEADERS)
        return response

    async def _succeeded(self, args: AsyncSuccessArgs) -> BoltResponse:
        await self._installed(args.installation)
        one = args.installation
        if not one.is_enterprise_install:
            say = "Interlock is installed: invite it to a channel and mention it."
            return self._spent(_page(200, say))
        say = "Interlock is installed in your organisation: add it to workspaces now."
        manage = f"https://app.slack.com/manage/{one.enterprise_id}/integrations/profile/"
        known = all(_ID.fullmatch(str(part)) for part in (one.enterprise_id, one.app_id))
        link = f"{manage}{one.app_id}/workspaces/add" if known else ""
        return self._spent(_page(200, say, link, "Add to workspaces"))

    async def _failed(self, args: AsyncFailureArgs) -> BoltResponse:
        """What Slack or the browser gave as the reason is looked up, never shown."""
        say = _SENTENCES.get(args.reason, f"Slack did not install the app, so {_AGAIN}")
        known = args.reason if args.reason in _SENTENCES else "another reason"
        log.warning("An installation failed: %s", known)
        return self._spent(_page(args.suggested_status_code, say, INSTALL, "Begin again"))

    def _spent(self, answer: BoltResponse) -> BoltResponse:
        """The same, with the state taken from the browser."""
        answer.headers["set-cookie"] = [
            self._flow.settings.state_utils.build_set_cookie_for_deletion()
        ]
        return answer


def _page(status: int, sentence: str, link: str = "", label: str = "") -> BoltResponse:
    more = f'<p><a href="{html.escape(link)}">{html.escape(label)}</a></p>' if link else ""
    body = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Interlock</title></head>'
        f"<body><p>{html.escape(sentence)}</p>{more}</body></html>"
    )
    headers: dict[str, Any] = {"Content-Type": "text/html; charset=utf-8"}
    return BoltResponse(status=status, body=body, headers=headers)
