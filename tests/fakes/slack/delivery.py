"""Slack calling the bot: signed HTTP requests or Socket Mode envelopes, with retries of events."""

import asyncio
import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp

from tests.fakes.slack.sockets import Sockets
from tests.fakes.slack.workspace import (
    APP,
    BOT_USER,
    SIGNING_SECRET,
    Json,
    Workspace,
)

ACK_SECONDS = 3.0
RETRY_AFTER = (0.0, 60.0, 300.0)
"""Seconds before the first, second and third retry of an event."""

EVENT_SCOPES: dict[str, str] = {
    "app_mention": "app_mentions:read",
    "message.channel": "channels:history",
    "message.group": "groups:history",
    "message.im": "im:history",
    "message.mpim": "mpim:history",
    "member_joined_channel": "channels:read",
    "subteam_members_changed": "usergroups:read",
    "reaction_added": "reactions:read",
}
"""What an app may only receive with a scope. Events that are not listed need none."""


@dataclass(frozen=True)
class Delivery:
    """What came of one delivery."""

    acked: bool
    status: int | None = None
    """The HTTP status; None over Socket Mode or when nobody answered."""
    body: Any = None
    """What the bot answered: JSON, or text, or None for an empty answer."""
    elapsed: float = 0.0
    """Seconds until the answer; wall clock or the injected one, whichever moved more."""
    reason: str = ""
    """Why it failed, in the words of x-slack-retry-reason."""
    retry: bool = True
    """False when the bot said x-slack-no-retry."""


@dataclass
class Event:
    """One event on its way, kept until it was acknowledged or given up."""

    body: Json
    attempt: int = 0
    due: float = 0.0
    reason: str = ""
    envelope: str = ""


@dataclass
class Deliveries:
    """Where deliveries go, what is still to be retried, and what was lost."""

    world: Workspace
    sockets: Sockets
    http: aiohttp.ClientSession | None = None
    events_url: str | None = None
    """The bot's address. None means that the app is in Socket Mode."""
    sent: list[tuple[Json, Delivery]] = field(default_factory=list)
    """Every event body and interaction payload with what came of it."""
    pending: list[Event] = field(default_factory=list)
    """Events that wait for their next retry."""
    lost: list[Event] = field(default_factory=list)
    last: Event | None = None

    async def event(self, event: Json, **outer: Any) -> Delivery:
        """Deliver an event with a new event id, and retry at once if it was not acknowledged."""
        world = self.world
        authorization = {
            "enterprise_id": world.enterprise or None,
            "team_id": None if world.whole else world.team,
            "user_id": BOT_USER,
            "is_bot": True,
            "is_enterprise_install": world.whole,
        }
        body = {
            "token": "verification-token",
            "team_id": world.team,
            "context_team_id": world.team,
            "context_enterprise_id": world.enterprise or None,
            "api_app_id": APP,
            "event": event,
            "type": "event_callback",
            "event_id": world.number("Ev"),
            "event_time": int(world.clock.now()),
            "authorizations": [authorization],
            "is_ext_shared_channel": False,
            **outer,
        }
        sending = Event(body, envelope=self.sockets.new_envelope())
        delivery = await self._attempt(sending)
        if sending.attempt == 1 and sending in self.pending:
            self.pending.remove(sending)
            delivery = await self._attempt(sending)
        return delivery

    async def _attempt(self, event: Event) -> Delivery:
        self.last = event
        delivery = await self._send_event(event)
        if delivery.acked:
            return delivery
        event.attempt += 1
        event.reason = delivery.reason
        if event.attempt > len(RETRY_AFTER) or not delivery.retry:
            self.lost.append(event)
        else:
            event.due = self.world.clock.now() + RETRY_AFTER[event.attempt - 1]
            self.pending.append(event)
        return delivery

    async def _send_event(self, event: Event) -> Delivery:
        if self.events_url is None:
            delivery = await self._over_socket(
                "events_api", event.body, event.envelope, event.attempt, event.reason
            )
        else:
            text = json.dumps(event.body)
            delivery = await self.deliver_http(text, retry=event.attempt, reason=event.reason)
        self.sent.append((event.body, delivery))
        return delivery

    async def redeliver(self) -> int:
        """Retry every event whose time has come by the clock; returns how many that were."""
        due = [event for event in self.pending if event.due <= self.world.clock.now()]
        for event in due:
            self.pending.remove(event)
            await self._attempt(event)
        return len(due)

    async def redeliver_last(self) -> Delivery:
        """Deliver the last event again, same event id, as when an acknowledgement got lost."""
        assert self.last is not None, "nothing was delivered yet"
        again = Event(
            self.last.body, self.last.attempt + 1, 0.0, "http_timeout", self.last.envelope
        )
        return await self._send_event(again)

    async def interaction(self, payload: Json, kind: str = "interactive") -> Delivery:
        """Deliver a click, a submission, a shortcut or a command. Slack never retries these."""
        if self.events_url is None:
            delivery = await self._over_socket(kind, payload, self.sockets.new_envelope())
        else:
            form = payload if kind == "slash_commands" else {"payload": json.dumps(payload)}
            delivery = await self.deliver_http(urlencode(form))
        self.sent.append((payload, delivery))
        return delivery

    async def _over_socket(
        self, kind: str, payload: Json, envelope_id: str, attempt: int = 0, reason: str = ""
    ) -> Delivery:
        envelope: Json = {
            "envelope_id": envelope_id,
            "type": kind,
            "payload": payload,
            "accepts_response_payload": kind != "events_api",
        }
        if kind == "events_api":
            envelope |= {"retry_attempt": attempt, "retry_reason": reason}
        started, clock_started = time.monotonic(), self.world.clock.now()
        try:
            answer = await self.sockets.send(envelope, ACK_SECONDS)
        except TimeoutError:
            return Delivery(False, elapsed=ACK_SECONDS, reason="http_timeout")
        except ConnectionError:
            return Delivery(False, reason="connection_failed")
        elapsed = self._elapsed(started, clock_started)
        if elapsed > ACK_SECONDS:
            return Delivery(False, elapsed=elapsed, reason="http_timeout")
        body = answer.get("payload") if envelope["accepts_response_payload"] else None
        return Delivery(True, body=body or None, elapsed=elapsed)

    def _elapsed(self, started: float, clock_started: float) -> float:
        return max(time.monotonic() - started, self.world.clock.now() - clock_started)

    async def deliver_http(
        self,
        body: str,
        *,
        secret: str | None = None,
        timestamp: int | str | None = None,
        retry: int = 0,
        reason: str = "",
        signed: bool = True,
    ) -> Delivery:
        """POST a raw body to the bot: JSON when it begins with a brace, a form otherwise.

        Without `secret` and `timestamp` it is signed rightly. The time of a signature is always the
        wall clock, because bolt checks it against the wall clock.
        """
        assert self.events_url is not None, "set events_url first"
        assert self.http is not None, "the fake is not running"
        is_json = body.startswith("{")
        kind = "application/json" if is_json else "application/x-www-form-urlencoded"
        headers = {"Content-Type": kind, "User-Agent": "Slackbot 1.0"}
        if signed:
            stamp = str(int(time.time()) if timestamp is None else timestamp)
            headers["X-Slack-Request-Timestamp"] = stamp
            headers["X-Slack-Signature"] = signature(body, stamp, secret or SIGNING_SECRET)
        if retry:
            headers |= {"x-slack-retry-num": str(retry), "x-slack-retry-reason": reason}
        started, clock_started = time.monotonic(), self.world.clock.now()
        try:
            async with (
                asyncio.timeout(ACK_SECONDS),
                self.http.post(self.events_url, data=body.encode(), headers=headers) as response,
            ):
                text = await response.text()
        except TimeoutError:
            return Delivery(False, elapsed=ACK_SECONDS, reason="http_timeout")
        except aiohttp.ClientError:
            return Delivery(False, reason="connection_failed")
        elapsed = self._elapsed(started, clock_started)
        answered = json.loads(text) if response.content_type == "application/json" else text
        acked = 200 <= response.status < 300 and elapsed <= ACK_SECONDS
        late = "http_timeout" if elapsed > ACK_SECONDS else "http_error"
        return Delivery(
            acked,
            response.status,
            answered or None,
            elapsed,
            "" if acked else late,
            response.headers.get("x-slack-no-retry") != "1",
        )


def signature(body: str, timestamp: str, secret: str) -> str:
    """Slack's signature of a request body."""
    base = f"v0:{timestamp}:{body}".encode()
    return "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()
