"""The session of the agent in a thread, as Slack shows it: what the agent is doing (with a stop
button while it works), and what a person may say with one click. Both only help: where Slack does
not offer them, nothing else is missing (platforms/slack.md 3.1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.refusal import FAILURES, NOT_OFFERED, code_of, retry_after, unsure
from adapters.slack.settings import Prompt
from bot.surface import DeliveryError, Place, Status

log = logging.getLogger(__name__)

_SECONDS: Final = 5.0  # a card of the same channel may be waiting behind it
_MOST: Final = 5_000


class Sessions:
    """The sessions of one workspace."""

    def __init__(self, client: AsyncWebClient, prompts: Sequence[Prompt]) -> None:
        self._client = client
        self._prompts = [prompt.model_dump() for prompt in prompts]
        self._shown: dict[Place, Status] = {}
        self._offered = True
        self._told: set[str] = set()  # refusals that were logged

    def shown(self, place: Place) -> Status | None:
        """What was shown last, as far as this process knows."""
        return self._shown.get(place)

    def forget(self, place: Place) -> None:
        """What is shown is no longer known: the next is shown even if it is the same."""
        self._shown.pop(place, None)

    async def show(self, place: Place, status: Status) -> None:
        """Raises DeliveryError when it may succeed a moment later; a refusal is only logged."""
        if not self._offered or self._shown.get(place) is status:
            return
        self.forget(place)  # a call without an answer may have changed it
        try:
            async with asyncio.timeout(_SECONDS):
                await self._client.agents_sessions_setStatus(
                    channel_id=place.channel, thread_ts=place.root, status=status.value
                )
        except SlackApiError as error:
            wait = retry_after(error)
            if wait is not None or unsure(error):
                raise DeliveryError(f"Slack status: {code_of(error)}", retry_after=wait) from None
            self._offered = code_of(error) not in NOT_OFFERED
            self._refused("what the agent is doing", error)
            return
        except FAILURES as error:
            raise DeliveryError(f"Slack status: {type(error).__name__}") from None
        if len(self._shown) >= _MOST:
            self._shown.clear()
        self._shown[place] = status

    async def suggest(self, channel: str) -> None:
        """Offers the prompts in a person's direct messages. Never raises."""
        try:
            await self._client.assistant_threads_setSuggestedPrompts(
                channel_id=channel, prompts=self._prompts
            )
        except SlackApiError as error:
            self._refused("suggested prompts", error)
        except FAILURES as error:
            log.warning("Slack was not reached for suggested prompts: %s", type(error).__name__)

    def _refused(self, what: str, error: SlackApiError) -> None:
        line = f"Slack does not show {what}: {code_of(error)}"
        if line not in self._told:
            self._told.add(line)
            log.warning(line)
