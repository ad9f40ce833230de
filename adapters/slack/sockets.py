"""Socket Mode: one connection that is replaced when it went deaf."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.refusal import code_of
from bot.clock import Clock
from bot.secrets import ConfigError

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 10.0
DEAF_CHECKS: Final = 6  # the client itself reconnects within 40 s; after 60 it will not
PING_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 60.0

_WRONG_TOKEN: Final = frozenset(
    {"invalid_auth", "not_authed", "missing_scope", "not_allowed_token_type", "token_revoked"}
)


class Socket:
    """Hears people while `listen` runs."""

    def __init__(self, app: AsyncApp, client: AsyncWebClient, token: str, clock: Clock) -> None:
        self._app = app
        self._client = client
        self._token = token
        self._clock = clock
        self._connected: Any = None  # slack_sdk's client, once it was connected

    async def ready(self) -> bool:
        """Whether what Slack sends now would be heard."""
        return self._connected is not None and await _hears(self._connected)

    async def listen(self, started: asyncio.Event) -> None:
        """Hears people until cancelled. Raises ConfigError for an app token that Slack refuses.

        slack_sdk 3.48 can stay connected and deaf for hours (its receiving task ends and its
        monitor looks only at the socket): then the whole handler is made anew, not only its
        connection."""
        await _check(self._client, self._token)
        while True:
            handler = AsyncSocketModeHandler(
                self._app,
                self._token,
                logger=self._app.logger,
                web_client=self._client,
                ping_interval=PING_SECONDS,
            )
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await handler.connect_async()  # type: ignore[no-untyped-call]
                self._connected = handler.client
                started.set()
                await _until_deaf(handler.client, self._clock)
                log.warning("Slack's socket went deaf and is made anew.")
            except TimeoutError:
                log.warning("Slack's socket could not be opened and is tried anew.")
            finally:
                self._connected = None
                await _closed(handler)


async def _check(client: AsyncWebClient, token: str) -> None:
    try:
        await client.apps_connections_open(app_token=token)
    except SlackApiError as error:
        if code_of(error) in _WRONG_TOKEN:
            raise ConfigError(
                f"SLACK_APP_TOKEN is refused by Slack ({code_of(error)}): create an app-level "
                "token with the scope connections:write."
            ) from None
    except Exception as error:  # Slack is not there: connecting goes on trying
        log.warning("Slack is not reachable: %s", type(error).__name__)


async def _until_deaf(client: Any, clock: Clock) -> None:
    silent = 0
    while silent < DEAF_CHECKS:
        await clock.sleep(WATCH_SECONDS)
        if client.message_processor.done():
            return
        silent = 0 if await _hears(client) else silent + 1


async def _hears(client: Any) -> bool:
    working = (client.message_receiver, client.message_processor)
    if any(task is None or task.done() for task in working):
        return False
    return bool(await client.is_connected())


async def _closed(handler: AsyncSocketModeHandler) -> None:
    client: Any = handler.client
    tasks = [client.message_processor, client.message_receiver, client.current_session_monitor]
    try:
        await handler.close_async()  # type: ignore[no-untyped-call]
    except Exception as error:
        log.warning("Slack's socket did not close cleanly: %s", type(error).__name__)
    left = [task for task in tasks if task is not None]
    for task in left:  # slack_sdk 3.48 cancels them but does not wait
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
