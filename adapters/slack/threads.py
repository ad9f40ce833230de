"""Reading a thread that the bot is called into: Slack tells the bot only the message that calls."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.events import Identity, Person, readable
from adapters.slack.people import People, Unknown
from adapters.slack.refusal import FAILURES, code_of
from bot.surface import Actor, DeliveryError, Earlier, Place, Quoted

log = logging.getLogger(__name__)

LAST: Final = 50  # messages that are passed on; the first of the thread is one of them
_PAGE: Final = 999  # of one call; Slack gives the oldest first, and many apps 15 of them
_PAGES: Final = 3
_NAMES: Final = 20  # authors who are looked up, the latest first; others go by their id
_TS: Final = re.compile(r"[0-9]{1,12}\.[0-9]{6}")
_UNSAID: Final = ("channel_join", "channel_leave", "group_join", "group_leave", "tombstone")


async def earlier(
    client: AsyncWebClient, people: People, me: Identity, place: Place, before: str
) -> Earlier:
    """What stands in the thread before the message with the time stamp `before`. Raises
    DeliveryError when nothing of it can be read."""
    messages, missing = await _read(client, place, before)
    kept = messages[:1] + messages[1:][1 - LAST :]
    authors = await _authors(people, kept)
    return Earlier(
        messages=tuple(_quoted(one, authors, me) for one in kept),
        left_out=len(messages) - len(kept),
        missing=missing,
    )


async def _read(
    client: AsyncWebClient, place: Place, before: str
) -> tuple[list[Mapping[str, Any]], str]:
    """The messages, and why those that follow could not be read."""
    found: dict[str, Mapping[str, Any]] = {}
    cursor, missing = "", ""
    for _ in range(_PAGES):
        try:
            page = await client.conversations_replies(
                channel=place.channel,
                ts=place.root,
                latest=before,
                limit=_PAGE,
                cursor=cursor or None,
            )
        except (SlackApiError, *FAILURES) as error:
            missing = _why(error)
            if not found:
                raise DeliveryError(missing) from None
            break
        for message in page.get("messages") or ():
            ts = message.get("ts")
            if isinstance(ts, str) and _TS.fullmatch(ts):
                found[ts] = message
        cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
        if not cursor:
            break
    else:
        missing = "the thread is too long"
    said = [one for one in found.values() if one.get("subtype") not in _UNSAID]
    return sorted(said, key=lambda one: float(one["ts"])), missing


def _why(error: Exception) -> str:
    if isinstance(error, SlackApiError):
        return f"Slack answered {code_of(error)}"
    return f"Slack did not answer ({type(error).__name__})"


async def _authors(people: People, messages: Sequence[Mapping[str, Any]]) -> dict[str, Actor]:
    """Who wrote them, by their ids, as far as Slack says it."""

    async def look_up(user: str) -> Actor | None:
        try:
            return await people.actor(Person(user))
        except Unknown as unknown:
            log.warning("The author of an earlier message is not known: %s", unknown)
            return None

    users = dict.fromkeys(
        one["user"] for one in reversed(messages) if isinstance(one.get("user"), str)
    )
    found = await asyncio.gather(*map(look_up, itertools.islice(users, _NAMES)))
    return {actor.user: actor for actor in found if actor is not None}


def _quoted(message: Mapping[str, Any], authors: Mapping[str, Actor], me: Identity) -> Quoted:
    user = message.get("user")
    author = authors.get(user) if isinstance(user, str) else None
    profile = message.get("bot_profile")
    own = profile.get("name") if isinstance(profile, Mapping) else message.get("username")
    name = own or (author.label if author else user) or message.get("bot_id") or "somebody"
    program = own or any(message.get(key) for key in ("bot_id", "app_id"))
    files = message.get("files")
    return Quoted(
        name=str(name),
        text=readable("\n".join(_words(message)), me.user),
        at=float(message["ts"]),
        bot=bool(program) or (author is not None and author.is_bot),
        files=tuple(
            str(one.get("name") or one.get("title") or "a file")
            for one in (files if isinstance(files, list) else ())
            if isinstance(one, Mapping)
        ),
    )


def _words(message: Mapping[str, Any]) -> Iterator[str]:
    """What can be read in a message: alerts have little in their text and the rest beside it."""
    text = message.get("text")
    if isinstance(text, str) and text.strip():
        yield text
    else:
        yield from _texts(message.get("blocks"))
    attached = message.get("attachments")
    for one in attached if isinstance(attached, list) else ():
        if not isinstance(one, Mapping):
            continue
        own = [one.get(key) for key in ("pretext", "title", "text")]
        shown = [part for part in own if isinstance(part, str) and part.strip()]
        yield from shown or list(_texts(one.get("blocks"))) or [str(one.get("fallback") or "")]
        fields = one.get("fields")
        for field in fields if isinstance(fields, list) else ():
            if isinstance(field, Mapping):
                yield f"{field.get('title') or ''}: {field.get('value') or ''}"


def _texts(value: object) -> Iterator[str]:
    """Every text in some blocks, in their order."""
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, Mapping):
        text = value.get("text")
        if isinstance(text, str):
            yield text
        for key in ("text", "fields", "elements"):
            if not isinstance(value.get(key), str):
                yield from _texts(value.get(key))
