"""Posting, editing, finding and whispering, with every failure as a DeliveryError."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Final

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import blocks, limits, refusal, stream
from adapters.slack.direct import Direct, is_person, placed
from adapters.slack.events import Identity
from adapters.slack.reach import UNREACHABLE, WRONG_TOKEN
from adapters.slack.refusal import code_of, pointers_of, retry_after
from adapters.slack.stream import METADATA, Streams
from adapters.slack.text import escape, shorten
from bot.surface import Content, DeliveryError, File, Place, Posted, Reply
from bot.text import visible

log = logging.getLogger(__name__)

_PAGE: Final = 200
_DIRECT_PAGES: Final = 5

_REFUSED_CONTENT: Final = frozenset(
    {
        "invalid_blocks",
        "invalid_blocks_format",
        "invalid_arguments",
        "msg_blocks_too_long",
        "msg_blocks_too_many",
        "msg_too_long",
        "block_mismatch",
        "no_text",
        "view_too_large",
    }
)
_NO_HOME: Final = frozenset({"hash_conflict", "user_not_found", "not_enabled"})
_PERMANENT: Final = frozenset(
    {
        "message_not_found",
        "cant_update_message",
        "edit_window_closed",
        "messages_tab_disabled",
        "restricted_action_thread_only_channel",
        "user_not_in_channel",
        "user_not_found",
        "user_not_visible",
        "user_disabled",
        "cannot_dm_bot",
        "invalid_user_combination",
        "missing_scope",
        "no_permission",
        "access_denied",
        *_REFUSED_CONTENT,
    }
)


class Delivery:
    """Speaks to Slack for the outbox. The client must not retry by itself: a post that was taken
    before its connection dropped would be posted twice (slack_sdk 3.48, its default handler)."""

    def __init__(self, client: AsyncWebClient, me: Identity, streams: Streams) -> None:
        self._client = client
        self._me = me
        self._direct = Direct(client)
        self._streams = streams

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        async def send(shown: dict[str, Any]) -> Posted:
            channel = await self._direct.channel(place)
            answer = await self._client.chat_postMessage(
                channel=channel,
                thread_ts=place.root or None,
                unfurl_links=False,
                unfurl_media=False,
                metadata={"event_type": METADATA, "event_payload": {"nonce": nonce}},
                **shown,
            )
            return _posted(place, channel, str(answer["ts"]))

        about = (content, place, self._me)
        if isinstance(content, File):
            return await self._upload(place, content, nonce)
        with _typed("post", unsure=True):
            if isinstance(content, Reply) and content.live:
                streamed = await self._streams.start(place, content.text, nonce)
                if streamed is not None:
                    return Posted(place, streamed)
            try:
                return await send(placed(blocks.message(content, self._me.team), *about))
            except SlackApiError as error:
                _or_raise(error)
                return await send(placed(blocks.minimal(content), *about))

    async def _upload(self, place: Place, file: File, nonce: str) -> Posted:
        """Returns the file's id. The nonce is in its name, by which it is found again."""
        with _typed("upload", unsure=True):
            answer = await self._client.files_upload_v2(
                channel=place.channel,
                thread_ts=place.root,
                filename=f"{nonce}-{file.name}",
                title=file.name,
                content=file.data,
            )
            return Posted(place, str(answer["file"]["id"]))

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        async def send(shown: dict[str, Any]) -> None:
            await self._streams.update(place, message_id, shown)

        about = (content, place, self._me)
        with _typed("edit"):
            if (
                isinstance(content, Reply)
                and content.live
                and await self._streams.append(place, message_id, content.text)
            ):
                return
            try:
                await send(placed(blocks.message(content, self._me.team), *about))
            except SlackApiError as error:
                _or_raise(error)
                await send(placed(blocks.minimal(content), *about))

    async def find(self, place: Place, nonce: str, *, live: bool = False) -> Posted | None:
        """A stream carries no metadata, and everything else of ours does: of a reply that may have
        been begun as one, the last message of ours without any is what a dead process left."""
        if is_person(place):
            return await self._find_direct(place, nonce)
        cursor, stray = "", ""
        begun = live and stream.direct(place)
        with _typed("find"):
            while True:
                page = await self._client.conversations_replies(
                    channel=place.channel,
                    ts=place.root,
                    include_all_metadata=True,
                    limit=_PAGE,
                    cursor=cursor or None,
                )
                for message in page.get("messages") or ():
                    if _carries(message, self._me, nonce):
                        return Posted(place, str(message["ts"]))
                    if begun and _unmarked(message, self._me):
                        stray = str(message["ts"])
                cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
                if not cursor:
                    break
        return Posted(place, stray) if stray else None

    async def _find_direct(self, place: Place, nonce: str) -> Posted | None:
        """Among the latest messages with a person: what was lost was posted a moment ago."""
        cursor = ""
        with _typed("find"):
            channel = await self._direct.channel(place)
            for _ in range(_DIRECT_PAGES):
                page = await self._client.conversations_history(
                    channel=channel, include_all_metadata=True, limit=_PAGE, cursor=cursor or None
                )
                for message in page.get("messages") or ():
                    if _carries(message, self._me, nonce):
                        return _posted(place, channel, str(message["ts"]))
                cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
                if not cursor:
                    return None
        return None

    async def whisper(self, place: Place, user: str, text: str) -> None:
        with _typed("whisper"):
            await self._client.chat_postEphemeral(
                channel=place.channel,
                thread_ts=place.root or None,
                user=user,
                text=escape(shorten(visible(text), limits.FALLBACK_TEXT // 5)),
            )

    async def publish(self, user: str, view: dict[str, Any], instead: dict[str, Any]) -> None:
        """Shows a person their home page; `instead` where Slack refuses its content. A person who
        is gone, or an app without the Home tab, has none: that is logged and nothing else."""
        with _typed("home"):
            try:
                await self._client.views_publish(user_id=user, view=view)
            except SlackApiError as error:
                if code_of(error) in _NO_HOME:
                    log.warning("A home page was not shown: %s", code_of(error))
                    return
                _or_raise(error)
                await self._client.views_publish(user_id=user, view=instead)


def _posted(place: Place, channel: str, ts: str) -> Posted:
    """Where a message came to stand: what is posted to a person is its own root."""
    if is_person(place):
        return Posted(Place(place.surface, place.organisation, channel, ts), ts)
    return Posted(place, ts)


def _ours(message: dict[str, Any], me: Identity) -> bool:
    return bool(message.get("bot_id") == me.bot or message.get("user") == me.user)


def _unmarked(message: dict[str, Any], me: Identity) -> bool:
    marks = ("metadata", "files", "subtype")
    return _ours(message, me) and not any(message.get(mark) for mark in marks)


def _carries(message: dict[str, Any], me: Identity, nonce: str) -> bool:
    metadata = message.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    named = any(str(one.get("name", "")).startswith(nonce) for one in message.get("files") or ())
    marked = metadata.get("event_type") == METADATA and payload.get("nonce") == nonce
    return _ours(message, me) and (marked or named)


def _or_raise(error: SlackApiError) -> None:
    """Goes on, with a log line, when it is the content that Slack refused."""
    if code_of(error) not in _REFUSED_CONTENT:
        raise error
    where = "; ".join(pointers_of(error))[:500]
    log.error("Slack refused a message (%s); a plain one goes out: %s", code_of(error), where)


@contextlib.contextmanager
def _typed(what: str, *, unsure: bool = False) -> Iterator[None]:
    """Every failure as a DeliveryError; `unsure`: doing it twice would show."""
    try:
        yield
    except SlackApiError as error:
        code = code_of(error)
        raise DeliveryError(
            f"Slack {what}: {code}",
            retry_after=retry_after(error),
            permanent=code in _PERMANENT,
            unreachable=UNREACHABLE.get(code, ""),
            locked_out=code in WRONG_TOKEN,
            maybe_sent=unsure and refusal.unsure(error),
        ) from None
    except aiohttp.ClientConnectorError as error:
        raise DeliveryError(f"Slack {what}: {type(error).__name__}") from None
    except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
        raise DeliveryError(f"Slack {what}: {type(error).__name__}", maybe_sent=unsure) from None
