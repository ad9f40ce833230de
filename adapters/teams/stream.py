"""A reply that grows in a personal chat, by the streams of Teams (platforms/teams.md 2.4): pieces
that each hold all of the text so far, ended by a message.

Teams takes a text only if it begins with the one before it, so that a stream is plain text, and its
message is edited to what the reply looks like once it is whole. What a stream cannot show (another
text, more than its time, a person who stopped it, a process that is gone) that edit shows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from adapters.teams import limits
from adapters.teams.connector import Connector
from adapters.teams.events import thread_of
from adapters.teams.text import whole
from bot.clock import Clock
from bot.surface import DeliveryError, Place
from storage.conversations import Conversation

log = logging.getLogger(__name__)

_MOST: Final = 1_000


@dataclass(slots=True)
class _Stream:
    id: str
    begun_at: float
    text: str
    sequence: int = 1
    stopped: bool = False


class Streams:
    """The streams of this process, one in a chat at a time. Their methods raise DeliveryError."""

    def __init__(self, connector: Connector, clock: Clock) -> None:
        self._connector = connector
        self._clock = clock
        self._running: dict[Place, _Stream] = {}

    async def begin(self, conversation: Conversation, place: Place, text: str) -> str | None:
        """Begins to show a text; the id of the message that comes of it. None: there is no stream
        here now."""
        running = self._running.get(place)
        if running is not None and self._in_time(running):
            return None
        shown = whole(text)
        if len(shown) > limits.STREAM:
            return None
        try:
            id_ = await self._connector.post(
                conversation.address, thread_of(place), _piece(shown, 1, None)
            )
        except DeliveryError as error:
            if error.maybe_sent or error.retry_after is not None:
                raise
            log.warning("Teams: a reply is not streamed: %s", error)
            return None
        if not id_:
            return None
        if len(self._running) >= _MOST:
            self._running.clear()
        self._running[place] = _Stream(id_, self._clock.now(), shown)
        return id_

    def runs(self, place: Place, id_: str) -> bool:
        """Whether the message is a stream of ours that has not ended."""
        running = self._running.get(place)
        return running is not None and running.id == id_

    async def go_on(self, conversation: Conversation, place: Place, text: str) -> None:
        """Shows more of the text, if it is more of it. What fails is shown at the end."""
        stream, shown = self._running[place], whole(text)
        more = shown.startswith(stream.text) and len(shown) <= limits.STREAM
        if stream.stopped or not more or not self._in_time(stream):
            return
        piece = _piece(shown, stream.sequence + 1, stream.id)
        try:
            await self._connector.post(conversation.address, thread_of(place), piece)
        except DeliveryError as error:
            stream.stopped = not error.retry_after  # by the person, or for good
            log.warning("Teams: a stream stands still: %s", error)
            return
        stream.sequence += 1
        stream.text = shown

    async def end(self, conversation: Conversation, place: Place, text: str) -> None:
        """Makes a message of it, with as much of the text as a stream may end with; whoever ends it
        edits that message to all of it."""
        stream = self._running.pop(place)
        if stream.stopped or not self._in_time(stream):
            return
        shown = whole(text)
        more = shown.startswith(stream.text) and len(shown) <= limits.STREAM
        last = {
            "type": "message",
            "textFormat": "plain",
            "text": shown if more else stream.text,
            "entities": [{"type": "streaminfo", "streamId": stream.id, "streamType": "final"}],
        }
        try:
            await self._connector.post(conversation.address, thread_of(place), last)
        except DeliveryError as error:
            log.warning("Teams: a stream did not end: %s", error)

    def _in_time(self, stream: _Stream) -> bool:
        return self._clock.now() - stream.begun_at < limits.STREAM_SECONDS


def _piece(text: str, sequence: int, stream: str | None) -> Mapping[str, Any]:
    about: dict[str, Any] = {
        "type": "streaminfo",
        "streamType": "streaming",
        "streamSequence": sequence,
    }
    if stream is not None:
        about["streamId"] = stream
    return {"type": "typing", "textFormat": "plain", "text": text, "entities": [about]}
