"""What Slack says to our tokens, and what can be said of the signing secret and the clock."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.events import Identity
from adapters.slack.refusal import FAILURES, code_of
from adapters.slack.settings import SCOPES
from adapters.slack.workspaces import granted, identity
from bot.clock import Clock
from bot.finding import Finding, ok, problem, warning

Dispatch = Callable[[AsyncBoltRequest], Awaitable[BoltResponse]]
"""How the running bot takes a request of Slack."""

TOKEN: Final = "Slack bot token"
APP_TOKEN: Final = "Slack app token"
SIGNING: Final = "Slack signing secret"
CLOCK: Final = "Clock"
SCOPE: Final = "Slack scopes"

_SKEW_WARNING: Final = 60.0
_SKEW_PROBLEM: Final = 240.0  # Slack's signatures are refused beyond 300 (platforms/slack.md 1.2)
_SECRET: Final = re.compile(r"[0-9a-f]{32}")
_GONE: Final = frozenset({"account_inactive", "token_revoked", "user_removed_from_team"})

LOST: Final[Mapping[str, str]] = {  # what stops working without a scope
    "app_mentions:read": "the bot does not hear when it is mentioned",
    "assistant:write": "the bot cannot suggest prompts in its direct messages",
    "channels:history": "the bot does not hear replies in public channels",
    "channels:read": "doctor cannot see whether the bot is in a public channel",
    "chat:write": "the bot can neither answer nor ask for approval",
    "commands": "the slash command and the shortcuts are missing",
    "files:read": "the agent does not get the files that people send",
    "files:write": "files that tools return are not posted",
    "groups:history": "the bot does not hear replies in private channels",
    "groups:read": "doctor cannot see whether the bot is in a private channel",
    "im:history": "the bot does not hear direct messages",
    "im:write": "the bot cannot write to a person first",
    "mpim:history": "the bot does not hear group messages",
    "usergroups:read": "user groups cannot be approvers",
    "users:read": "nobody can decide, because the bot cannot look up who clicked",
    "users:read.email": "accounts of one person are one only where [people] says so",
}
_SPARED: Final = frozenset({"channels:read", "groups:read", "usergroups:read", "users:read.email"})


@dataclass(frozen=True, slots=True)
class Met:
    """What Slack said to our token: who we are, or its error code (for what is none of Slack's,
    `unreachable` says so), and its time of day."""

    me: Identity | None
    name: str = ""
    code: str = ""
    unreachable: bool = False
    scopes: frozenset[str] = frozenset()
    date: str = ""


async def meet(client: AsyncWebClient) -> Met:
    """Asks Slack who we are. Never raises."""
    try:
        answer = await client.auth_test()
    except SlackApiError as error:
        headers: Any = getattr(error.response, "headers", {})
        return Met(None, code=code_of(error), date=str(headers.get("Date") or ""))
    except Exception as error:  # the network, or something in between that is not Slack
        return Met(None, code=type(error).__name__, unreachable=True)
    name = str(answer.get("user") or "")
    team = str(answer.get("team_id") or answer.get("enterprise_id") or "")
    if not team:
        return Met(None, code="something else answers", unreachable=True)
    me = identity(answer) if answer.get("bot_id") else Identity(team, "", "")
    date = str(answer.headers.get("Date") or "")
    return Met(me, name, scopes=granted(answer), date=date)


async def bot_token(met: Met) -> AsyncIterator[Finding]:
    """Whether the token is known, and a bot's."""
    if met.me is not None and met.me.bot:
        yield ok(TOKEN, f"It is that of @{met.name} in the workspace {met.me.team}.")
    elif met.me is not None:
        yield problem(
            TOKEN,
            "SLACK_BOT_TOKEN is the token of a person: set it to the Bot User OAuth Token, which "
            "begins with xoxb-.",
        )
    elif met.unreachable:
        yield problem(
            TOKEN,
            f"Slack cannot be reached ({met.code}): check the network, proxy and certificates of "
            "this machine.",
        )
    elif met.code in ("invalid_auth", "not_authed", "not_allowed_token_type"):
        yield problem(
            TOKEN,
            f"Slack does not know SLACK_BOT_TOKEN ({met.code}): copy the Bot User OAuth Token "
            "from OAuth & Permissions of your app.",
        )
    elif met.code in _GONE or met.code == "token_expired":
        yield problem(
            TOKEN,
            f"SLACK_BOT_TOKEN is no longer valid ({met.code}): install the app in the workspace "
            "again and set the new token.",
        )
    else:
        yield problem(
            TOKEN, f"Slack did not answer for SLACK_BOT_TOKEN ({met.code}): try again in a minute."
        )


async def installed_token(organisation: str, met: Met) -> AsyncIterator[Finding]:
    """Whether the token that an organisation gave us is good."""
    if met.me is not None and met.me.bot:
        yield ok(TOKEN, f"{organisation} knows @{met.name} by its token.")
    elif met.unreachable:
        yield problem(
            TOKEN,
            f"Slack cannot be reached ({met.code}): check the network, proxy and certificates of "
            "this machine.",
        )
    else:
        yield problem(
            TOKEN,
            f"The token of {organisation} is not good any more ({met.code or 'not a bot'}): an "
            "admin there has to install the app again.",
        )


async def scopes(held: frozenset[str]) -> AsyncIterator[Finding]:
    """What the token may do against what the bot does."""
    if not held:
        yield warning(
            SCOPE,
            "Slack did not say which scopes the token has: compare OAuth & Permissions of your app "
            "with manifest.yaml.",
        )
        return
    for scope in sorted(SCOPES - held):
        yield (warning if scope in _SPARED else problem)(
            SCOPE,
            f"{scope} is missing, so {LOST[scope]}: add it under OAuth & Permissions, as "
            "manifest.yaml has it, and install the app again.",
        )
    if unused := sorted(held - SCOPES):
        yield warning(
            SCOPE,
            f"The bot does not use {', '.join(unused)}: take it out under OAuth & Permissions and "
            "install the app again.",
        )
    if held >= SCOPES:
        yield ok(SCOPE, f"The token has all {len(SCOPES)} that the bot uses.")


async def time_of_day(met: Met, clock: Clock, mode: str) -> AsyncIterator[Finding]:
    """Our clock against the time of Slack's answer."""
    now = clock.now()
    try:
        skew = now - parsedate_to_datetime(met.date).timestamp()
    except ValueError:
        yield warning(CLOCK, "Slack did not say the time: see that this machine keeps it by NTP.")
        return
    if abs(skew) <= _SKEW_WARNING:
        yield ok(CLOCK, "This machine's time is that of Slack.")
        return
    told = f"This machine is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} Slack"
    if mode == "http":
        told += ", and beyond 300 s every request of Slack is refused"
    found = problem if abs(skew) > _SKEW_PROBLEM else warning
    yield found(CLOCK, f"{told}: set its clock by NTP.")


async def app_token(client: AsyncWebClient, token: str) -> AsyncIterator[Finding]:
    """Whether Slack would open a socket; none is opened."""
    try:
        await client.apps_connections_open(app_token=token)
    except SlackApiError as error:
        match code_of(error):
            case "missing_scope":
                told = (
                    "SLACK_APP_TOKEN has not the scope connections:write: make an app-level token "
                    "with it under Basic Information."
                )
            case "not_allowed_token_type":
                told = (
                    "SLACK_APP_TOKEN is no app-level token: make one with the scope "
                    "connections:write under Basic Information; it begins with xapp-."
                )
            case "invalid_auth" | "not_authed" as code:
                told = (
                    f"Slack does not know SLACK_APP_TOKEN ({code}): copy the app-level token from "
                    "Basic Information of your app."
                )
            case code if code in _GONE or code == "token_expired":
                told = (
                    f"SLACK_APP_TOKEN is no longer valid ({code}): make an app-level token with "
                    "the scope connections:write under Basic Information."
                )
            case code:
                told = (
                    f"Slack opens no connection with SLACK_APP_TOKEN ({code}): see that Socket "
                    "Mode is on in your app, and try again in a minute."
                )
        yield problem(APP_TOKEN, told)
    except FAILURES as error:
        yield problem(APP_TOKEN, f"Slack cannot be reached ({type(error).__name__}): try again.")
    else:
        yield ok(APP_TOKEN, "Slack opens a connection with it.")


async def signing_secret(secret: str, dispatch: Dispatch) -> AsyncIterator[Finding]:
    """Whether it looks like one, and the bot takes what it signs and nothing else."""
    if not _SECRET.fullmatch(secret):
        yield problem(
            SIGNING,
            "SLACK_SIGNING_SECRET has not the shape of one, 32 digits and letters a to f: copy it "
            "from Basic Information of your app.",
        )
    right, wrong = [await _status(dispatch, key) for key in (secret, f"not {secret}")]
    if (right, wrong) == (200, 401):
        yield ok(
            SIGNING,
            "What is signed with it is taken and anything else refused; only a delivery of Slack "
            "proves that it is your app's: save the request URL under Event Subscriptions.",
        )
    else:
        yield problem(
            SIGNING,
            f"What is signed with it is answered with {right} and anything else with {wrong}, "
            "instead of 200 and 401: this is a mistake of ours, please report it.",
        )


async def _status(dispatch: Dispatch, secret: str) -> int:
    """How the bot answers the question that Slack asks of a new address, signed like this."""
    body = json.dumps({"type": "url_verification", "challenge": "doctor", "token": ""})
    stamp = str(int(time.time()))
    signature = SignatureVerifier(secret).generate_signature(timestamp=stamp, body=body)
    headers: dict[str, str | Sequence[str]] = {
        "content-type": "application/json",
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": signature or "",
    }
    return (await dispatch(AsyncBoltRequest(body=body, headers=headers))).status
