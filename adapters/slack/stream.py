"""Replies that grow in direct messages, shown by Slack's own streams (platforms/slack.md 3.2).

A stream shows only what is not whole yet: Slack ends one after about five minutes, a person may
stop it, its process may die. So nothing is appended to a stream whose text this process does not
know for certain, and every stream ends as an edit that puts the whole text in, as in a channel."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.refusal import NOT_OFFERED, code_of, retry_after, unsure
from adapters.slack.text import inert_markdown
from bot.confusable import settled
from bot.surface import DeliveryError, Place, Status

log = logging.getLogger(__name__)

METADATA: Final = "interlock"
_MOST: Final = 1_000
_PIECE: Final = re.compile(r"(?:&[lg]t;|.){1,3000}", re.DOTALL)  # 12,000 characters at most
_OPEN: Final = "streaming_state_conflict"
_ENDED: Final = frozenset({"message_not_in_streaming_state", "stopped_by_user"})
_END_SECONDS: Final = 30.0  # when one that cannot be ended is looked at again


def direct(place: Place) -> bool:
    """Whether it is a direct message: in a channel only one person would see a stream grow."""
    return place.channel.startswith("D") and bool(place.root)


@dataclass(slots=True)
class _Stream:
    """A stream until its message was edited. `shown`: what Slack shows of it; none: not known for
    certain."""

    nonce: str
    shown: str | None
    ended: bool = False


class Streams:
    """The streams of one workspace. `status`: what its agent's session in a thread is shown as."""

    def __init__(self, client: AsyncWebClient, status: Callable[[Place], Status | None]) -> None:
        self._client = client
        self._status = status
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._offered = True

    async def start(self, place: Place, text: str, nonce: str) -> str | None:
        """The id of a message that streams the text; None: it has to be posted. Raises
        SlackApiError when it may be there nevertheless."""
        if not self._offered or not direct(place) or not text:
            return None
        beginning = inert_markdown(settled(text))
        if not beginning:
            return None
        first = _PIECE.findall(beginning)[0]
        try:
            answer = await self._client.chat_startStream(
                channel=place.channel, thread_ts=place.root, markdown_text=first
            )
        except SlackApiError as error:
            if unsure(error):
                raise
            self._offered = code_of(error) not in NOT_OFFERED
            log.warning("Slack does not stream a reply, so it is edited: %s", code_of(error))
            return None
        ts = str(answer["ts"])
        self._remember(place, ts, _Stream(nonce, first))
        return ts

    async def append(self, place: Place, ts: str, text: str) -> bool:
        """Whether the stream shows the text now; False: it has to be edited. Raises SlackApiError
        when Slack asks to wait."""
        stream = self._streams.get((place.channel, ts))
        if stream is None or stream.shown is None or stream.ended:
            return False
        whole = inert_markdown(settled(text))
        if not whole.startswith(stream.shown):
            return False
        for piece in _PIECE.findall(whole[len(stream.shown) :]):
            # Until Slack has answered nobody knows whether it took the piece.
            shown, stream.shown = stream.shown, None
            try:
                await self._client.chat_appendStream(
                    channel=place.channel, ts=ts, markdown_text=piece
                )
            except SlackApiError as error:
                if retry_after(error) is not None:
                    stream.shown = shown
                    raise
                log.info("A stream goes on as edits: %s", code_of(error))
                return False
            stream.shown = shown + piece
        return True

    async def update(self, place: Place, ts: str, shown: dict[str, Any]) -> None:
        """chat.update of a message that may be a stream, of this process or of a dead one; one
        that was a stream gets the metadata that every other message is posted with."""
        stream = self._streams.get((place.channel, ts))
        if stream is not None and not stream.ended:
            await self._stop(place, ts, self._status(place))
            stream.ended = True
        try:
            await self._edit(place, ts, shown, stream)
        except SlackApiError as error:
            if code_of(error) != _OPEN:
                raise
            await self._stop(place, ts, None)
            await self._insist(place, ts, shown, stream or _Stream("", None))
        self._streams.pop((place.channel, ts), None)

    async def _insist(self, place: Place, ts: str, shown: dict[str, Any], stream: _Stream) -> None:
        try:
            await self._edit(place, ts, shown, stream)
        except SlackApiError as error:
            if code_of(error) != _OPEN:
                raise
            why = "Slack edit: the stream cannot be ended; it ends by itself"
            raise DeliveryError(why, retry_after=_END_SECONDS) from None

    async def _edit(
        self, place: Place, ts: str, shown: dict[str, Any], stream: _Stream | None
    ) -> None:
        if stream is not None:
            payload = {"nonce": stream.nonce} if stream.nonce else {}
            shown = shown | {"metadata": {"event_type": METADATA, "event_payload": payload}}
        await self._client.chat_update(channel=place.channel, ts=ts, **shown)

    async def _stop(self, place: Place, ts: str, status: Status | None) -> None:
        """Ends the stream, if it is one still. That moves its agent's session too: `status` leaves
        it as it was. Raises SlackApiError when it is to be tried again."""
        try:
            await self._client.chat_stopStream(
                channel=place.channel, ts=ts, session_status=status.value if status else None
            )
        except SlackApiError as error:
            if unsure(error) or retry_after(error) is not None:
                raise
            if code_of(error) not in _ENDED:
                log.warning("A stream could not be ended: %s", code_of(error))

    def _remember(self, place: Place, ts: str, stream: _Stream) -> None:
        if len(self._streams) >= _MOST:  # what is forgotten is edited, not appended to
            self._streams.clear()
        self._streams[place.channel, ts] = stream
