"""The connector of Teams, by what we ask of it, with every failure as a DeliveryError.

What may be repeated is repeated once: reading and editing. A post that was perhaps taken is never
sent again from here (platforms/teams.md 2.4): the outbox is told that it may be there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote

from adapters.teams import limits
from adapters.teams.botbuilder import Answer, NoAnswer, NoToken
from adapters.teams.gate import Gate
from bot.surface import DeliveryError

_REPEATABLE: Final = frozenset({412, 502, 503, 504})
_LEFT: Final = "the bot is not in this conversation any more: add its app to it again"
_BLOCKED: Final = "the bot may not write there: ask an admin of Teams to allow its app"
_UNREACHABLE: Final = {
    "BotNotInConversationRoster": _LEFT,
    "ConversationNotFound": _LEFT,
    "BotDisabledByAdmin": _BLOCKED,
    "MessageWritesBlocked": _BLOCKED,
    "ConversationBlockedByUser": "you have blocked the bot in Teams: unblock it",
}


class Sender(Protocol):
    """Makes one request with our token (adapters.teams.botbuilder)."""

    async def call(
        self,
        verb: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer: ...


class Connector:
    """`service` is the address that Teams named for the conversation; `thread` its whole id."""

    def __init__(self, sender: Sender, gate: Gate) -> None:
        self._sender = sender
        self._gate = gate

    async def post(self, service: str, thread: str, activity: Mapping[str, Any]) -> str:
        """Returns the id of the message, by which it is edited."""
        body = await self._once("post", service, _activities(thread), activity)
        return str(body.get("id") or "")

    async def edit(
        self, service: str, thread: str, message: str, activity: Mapping[str, Any]
    ) -> None:
        path = f"{_activities(thread)}/{quote(message, safe='')}"
        await self._repeatable("put", "edit", service, path, dict(activity) | {"id": message})

    async def whisper(self, service: str, thread: str, activity: Mapping[str, Any]) -> None:
        """A message that only its `recipient` sees."""
        query = {"isTargetedActivity": "true"}
        await self._once("whisper", service, _activities(thread), activity, query)

    async def typing(self, service: str, thread: str, bot: str) -> None:
        await self._once(
            "typing", service, _activities(thread), {"type": "typing", "from": {"id": bot}}
        )

    async def open(self, service: str, parameters: Mapping[str, Any]) -> tuple[str, str]:
        """A chat with a person, which is always the same, or a new thread of a channel: its id and
        the id of its first message, if one was given."""
        body = await self._once("open", service, "/v3/conversations", parameters)
        return str(body.get("id") or ""), str(body.get("activityId") or "")

    async def member(self, service: str, channel: str, user: str) -> Mapping[str, Any]:
        """What Teams knows of a person in a conversation."""
        path = f"/v3/conversations/{quote(channel, safe='')}/members/{quote(user, safe='')}"
        return await self._repeatable("get", "member", service, path)

    async def members(
        self, service: str, channel: str, after: str
    ) -> tuple[list[Mapping[str, Any]], str]:
        """A page of those in a conversation, and what the next page is asked for with; empty: it
        was the last."""
        path = f"/v3/conversations/{quote(channel, safe='')}/pagedmembers"
        query = {"pageSize": str(limits.ROSTER_PAGE)} | (
            {"continuationToken": after} if after else {}
        )
        told = await self._repeatable("get", "members", service, path, query=query)
        found, token = told.get("members"), told.get("continuationToken")
        page = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
        return page, token if isinstance(token, str) else ""

    async def _once(
        self,
        what: str,
        service: str,
        path: str,
        body: Mapping[str, Any],
        query: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        try:
            answer = await self._sender.call("post", self._url(service, path), body, query)
        except NoToken as error:
            raise _no_token(what, error) from None
        except NoAnswer as error:
            raise DeliveryError(f"Teams {what}: {error}", maybe_sent=error.sent) from None
        return _told(what, answer, unsure=True)

    async def _repeatable(
        self,
        verb: str,
        what: str,
        service: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        url = self._url(service, path)
        for last in (False, True):
            try:
                answer = await self._sender.call(verb, url, body, query)
            except NoToken as error:
                raise _no_token(what, error) from None
            except NoAnswer as error:
                if last:
                    raise DeliveryError(f"Teams {what}: {error}") from None
            else:
                if last or answer.status not in _REPEATABLE:
                    return _told(what, answer, unsure=False)
            await asyncio.sleep(limits.REPEAT_SECONDS * random.uniform(0.5, 1.0))
        raise AssertionError("the last try returns or raises")

    def _url(self, service: str, path: str) -> str:
        if not self._gate.trusts(service):  # what is stored is not believed either
            raise DeliveryError("Teams: the service URL is none of Teams'", permanent=True)
        return service.rstrip("/") + path


def _activities(thread: str) -> str:
    return f"/v3/conversations/{quote(thread, safe='')}/activities"


def _told(what: str, answer: Answer, *, unsure: bool) -> Mapping[str, Any]:
    """The body of a good answer. Raises DeliveryError; `unsure`: doing it twice would show."""
    status = answer.status
    if 200 <= status < 300:
        return answer.body
    error = answer.body.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    code = code if isinstance(code, str) and code.isalnum() and len(code) < 60 else ""
    text = f"Teams {what}: {status} {code}".rstrip()
    if status == 429:
        raise DeliveryError(text, retry_after=_wait(answer.headers))
    if status in (408, 412) or status >= 500:
        raise DeliveryError(text, maybe_sent=unsure)
    lost = _UNREACHABLE.get(code, "")
    if not lost and status in (403, 404) and what in ("post", "typing"):
        lost = _BLOCKED if status == 403 else _LEFT
    # A token that is refused may be a matter of minutes; the rest is no better when repeated.
    raise DeliveryError(text, permanent=status != 401, unreachable=lost)


def _wait(headers: Mapping[str, str]) -> float:
    """The seconds that Teams asks to wait, a little more for everybody at another moment."""
    told = headers.get("Retry-After", "")
    seconds = float(told) if told.isascii() and told.isdigit() else limits.QUIET_SECONDS
    return min(seconds, 600.0) + random.uniform(0.0, 0.5)


def _no_token(what: str, error: NoToken) -> DeliveryError:
    return DeliveryError(f"Teams {what}: no token ({error})")
