"""Posting, editing, finding and whispering, with every failure as a DeliveryError."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Final

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import blocks, limits
from adapters.slack.events import Identity
from adapters.slack.refusal import code_of, pointers_of, retry_after, status_of
from adapters.slack.text import escape, shorten
from bot.surface import Content, DeliveryError, File, Place, Posted

log = logging.getLogger(__name__)

METADATA: Final = "interlock"
_PAGE: Final = 200

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
        "channel_not_found",
        "not_in_channel",
        "is_archived",
        "thread_not_found",
        "cannot_reply_to_message",
        "message_not_found",
        "cant_update_message",
        "edit_window_closed",
        "messages_tab_disabled",
        "restricted_action",
        "restricted_action_read_only_channel",
        "restricted_action_thread_only_channel",
        "restricted_action_thread_locked",
        "user_not_in_channel",
        "user_not_found",
        "missing_scope",
        "token_revoked",
        "token_expired",
        "account_inactive",
        "invalid_auth",
        "not_authed",
        "no_permission",
        "team_access_not_granted",
        "access_denied",
        *_REFUSED_CONTENT,
    }
)
_UNSURE: Final = frozenset({"internal_error", "fatal_error", "request_timeout"})


class Delivery:
    """Speaks to Slack for the outbox. The client must not retry by itself: a post that was taken
    before its connection dropped would be posted twice (slack_sdk 3.48, its default handler)."""

    def __init__(self, client: AsyncWebClient, me: Identity) -> None:
        self._client = client
        self._me = me

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        async def send(shown: dict[str, Any]) -> Posted:
            answer = await self._client.chat_postMessage(
                channel=place.channel,
                thread_ts=place.root,
                unfurl_links=False,
                unfurl_media=False,
                metadata={"event_type": METADATA, "event_payload": {"nonce": nonce}},
                **shown,
            )
            return Posted(place, str(answer["ts"]))

        if isinstance(content, File):
            return await self._upload(place, content, nonce)
        with _typed("post", unsure=True):
            try:
                return await send(blocks.message(content, self._me.team))
            except SlackApiError as error:
                _or_raise(error)
                return await send(blocks.minimal(content))

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
            await self._client.chat_update(channel=place.channel, ts=message_id, **shown)

        with _typed("edit"):
            try:
                await send(blocks.message(content, self._me.team))
            except SlackApiError as error:
                _or_raise(error)
                await send(blocks.minimal(content))

    async def find(self, place: Place, nonce: str) -> Posted | None:
        cursor = ""
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
                cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
                if not cursor:
                    return None

    async def whisper(self, place: Place, user: str, text: str) -> None:
        with _typed("whisper"):
            await self._client.chat_postEphemeral(
                channel=place.channel,
                thread_ts=place.root,
                user=user,
                text=escape(shorten(text, limits.FALLBACK_TEXT // 5)),
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


def _carries(message: dict[str, Any], me: Identity, nonce: str) -> bool:
    ours = message.get("bot_id") == me.bot or message.get("user") == me.user
    metadata = message.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    named = any(str(one.get("name", "")).startswith(nonce) for one in message.get("files") or ())
    marked = metadata.get("event_type") == METADATA and payload.get("nonce") == nonce
    return ours and (marked or named)


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
        code, status = code_of(error), status_of(error)
        raise DeliveryError(
            f"Slack {what}: {code}",
            retry_after=retry_after(error),
            permanent=code in _PERMANENT,
            maybe_sent=unsure and (status >= 500 or code in _UNSURE),
        ) from None
    except aiohttp.ClientConnectorError as error:
        raise DeliveryError(f"Slack {what}: {type(error).__name__}") from None
    except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
        raise DeliveryError(f"Slack {what}: {type(error).__name__}", maybe_sent=unsure) from None
