"""What `interlock doctor` finds out about Slack, with the tokens alone: nothing is posted, and no
event is taken from a bot that runs (a connection that is opened for a try is never used)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import aiohttp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.events import SURFACE, Identity, Person
from adapters.slack.people import People, Unknown
from adapters.slack.refusal import code_of, retry_after
from adapters.slack.settings import SCOPES, SlackSettings
from adapters.slack.workspaces import granted, identity, web_client
from bot.clock import Clock
from bot.finding import Finding, gathered, ok, problem, warning
from bot.surface import Place

Dispatch = Callable[[AsyncBoltRequest], Awaitable[BoltResponse]]
"""How the running bot takes a request of Slack."""

_TOKEN: Final = "Slack bot token"
_SCOPES: Final = "Slack scopes"
_CLOCK: Final = "Clock"
_APP_TOKEN: Final = "Slack app token"
_SIGNING: Final = "Slack signing secret"
_CHANNELS: Final = "Slack channels"
_APPROVERS: Final = "Slack approvers"
_GROUPS: Final = "Slack user groups"

_CALL_SECONDS: Final = 10.0
_SKEW_WARNING: Final = 60.0
_SKEW_PROBLEM: Final = 240.0  # Slack's signatures are refused beyond 300 (platforms/slack.md 1.2)
_SECRET: Final = re.compile(r"[0-9a-f]{32}")
_FAILURES: Final = (SlackClientError, aiohttp.ClientError, TimeoutError, OSError)
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
}
_ONLY_DOCTOR: Final = frozenset({"channels:read", "groups:read", "usergroups:read"})


@dataclass(frozen=True, slots=True)
class _Met:
    """What Slack said to our token: who we are, or its error code (for what is none of Slack's,
    `unreachable` says so), and its time of day."""

    me: Identity | None
    name: str = ""
    code: str = ""
    unreachable: bool = False
    scopes: frozenset[str] = frozenset()
    date: str = ""


async def examine(
    settings: SlackSettings,
    dispatch: Dispatch,
    clock: Clock,
    places: Sequence[Place],
    people: Sequence[str],
) -> list[Finding]:
    """Everything that was found. Never raises."""
    timeout = aiohttp.ClientTimeout(total=_CALL_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        client = web_client(settings.base_url, settings.bot_token)
        client.session = session
        met = await _meet(client)
        checks = [gathered(_TOKEN, _bot_token(met))]
        if settings.mode == "socket":
            checks.append(gathered(_APP_TOKEN, _app_token(client, settings.app_token)))
        else:
            checks.append(gathered(_SIGNING, _signing_secret(settings.signing_secret, dispatch)))
        checks.append(gathered(_CLOCK, _skew(met, clock, settings.mode)))
        if met.me is not None and met.me.bot:
            checks += [
                gathered(_SCOPES, _scopes(met.scopes)),
                gathered(_CHANNELS, _channels(client, met, places)),
                gathered(_APPROVERS, _approvers(client, clock, met.me.team, people)),
                gathered(_GROUPS, _groups(client, met.me.team)),
            ]
        found = await asyncio.gather(*checks)
    return [one for some in found for one in some]


async def _meet(client: AsyncWebClient) -> _Met:
    try:
        answer = await client.auth_test()
    except SlackApiError as error:
        headers: Any = getattr(error.response, "headers", {})
        return _Met(None, code=code_of(error), date=str(headers.get("Date") or ""))
    except _FAILURES as error:
        return _Met(None, code=type(error).__name__, unreachable=True)
    name, date = str(answer.get("user") or ""), str(answer.headers.get("Date") or "")
    me = identity(answer) if answer.get("bot_id") else Identity(str(answer["team_id"]), "", "")
    return _Met(me, name, scopes=granted(answer), date=date)


async def _bot_token(met: _Met) -> AsyncIterator[Finding]:
    if met.me is not None and met.me.bot:
        yield ok(_TOKEN, f"It is that of @{met.name} in the workspace {met.me.team}.")
    elif met.me is not None:
        yield problem(
            _TOKEN,
            "SLACK_BOT_TOKEN is the token of a person: set it to the Bot User OAuth Token, which "
            "begins with xoxb-.",
        )
    elif met.unreachable:
        yield problem(
            _TOKEN,
            f"Slack cannot be reached ({met.code}): check the network, proxy and certificates of "
            "this machine.",
        )
    elif met.code in ("invalid_auth", "not_authed", "not_allowed_token_type"):
        yield problem(
            _TOKEN,
            f"Slack does not know SLACK_BOT_TOKEN ({met.code}): copy the Bot User OAuth Token "
            "from OAuth & Permissions of your app.",
        )
    elif met.code in _GONE or met.code == "token_expired":
        yield problem(
            _TOKEN,
            f"SLACK_BOT_TOKEN is no longer valid ({met.code}): install the app in the workspace "
            "again and set the new token.",
        )
    else:
        yield problem(
            _TOKEN, f"Slack did not answer for SLACK_BOT_TOKEN ({met.code}): try again in a minute."
        )


async def _scopes(granted: frozenset[str]) -> AsyncIterator[Finding]:
    if not granted:
        yield warning(
            _SCOPES,
            "Slack did not say which scopes the token has: compare OAuth & Permissions of your app "
            "with manifest.yaml.",
        )
        return
    for scope in sorted(SCOPES - granted):
        yield (warning if scope in _ONLY_DOCTOR else problem)(
            _SCOPES,
            f"{scope} is missing, so {LOST[scope]}: add it under OAuth & Permissions, as "
            "manifest.yaml has it, and install the app again.",
        )
    if unused := sorted(granted - SCOPES):
        yield warning(
            _SCOPES,
            f"The bot does not use {', '.join(unused)}: take it out under OAuth & Permissions and "
            "install the app again.",
        )
    if granted >= SCOPES:
        yield ok(_SCOPES, f"The token has all {len(SCOPES)} that the bot uses.")


async def _skew(met: _Met, clock: Clock, mode: str) -> AsyncIterator[Finding]:
    now = clock.now()
    try:
        skew = now - parsedate_to_datetime(met.date).timestamp()
    except ValueError:
        yield warning(_CLOCK, "Slack did not say the time: see that this machine keeps it by NTP.")
        return
    if abs(skew) <= _SKEW_WARNING:
        yield ok(_CLOCK, "This machine's time is that of Slack.")
        return
    told = f"This machine is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} Slack"
    if mode == "http":
        told += ", and beyond 300 s every request of Slack is refused"
    found = problem if abs(skew) > _SKEW_PROBLEM else warning
    yield found(_CLOCK, f"{told}: set its clock by NTP.")


async def _app_token(client: AsyncWebClient, token: str) -> AsyncIterator[Finding]:
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
        yield problem(_APP_TOKEN, told)
    except _FAILURES as error:
        yield problem(_APP_TOKEN, f"Slack cannot be reached ({type(error).__name__}): try again.")
    else:
        yield ok(_APP_TOKEN, "Slack opens a connection with it.")


async def _signing_secret(secret: str, dispatch: Dispatch) -> AsyncIterator[Finding]:
    if not _SECRET.fullmatch(secret):
        yield problem(
            _SIGNING,
            "SLACK_SIGNING_SECRET has not the shape of one, 32 digits and letters a to f: copy it "
            "from Basic Information of your app.",
        )
    right, wrong = [await _status(dispatch, key) for key in (secret, f"not {secret}")]
    if (right, wrong) == (200, 401):
        yield ok(
            _SIGNING,
            "What is signed with it is taken and anything else refused; only a delivery of Slack "
            "proves that it is your app's: save the request URL under Event Subscriptions.",
        )
    else:
        yield problem(
            _SIGNING,
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


async def _channels(
    client: AsyncWebClient, met: _Met, places: Sequence[Place]
) -> AsyncIterator[Finding]:
    """Whether the bot is where its chats live. A direct message has no members to leave it."""
    assert met.me is not None
    team = met.me.team
    channels = [
        place.channel
        for place in places
        if place.organisation == team and place.channel.startswith(("C", "G"))
    ]
    seen = 0
    for channel in channels:
        try:
            answer = await client.conversations_info(channel=channel)
        except SlackApiError as error:
            code = code_of(error)
            if code == "missing_scope":
                if {"channels:read", "groups:read"} <= met.scopes:
                    seen += 1  # a group message, which nobody leaves either
                    continue
                told = f"{channel} could not be looked at: channels:read or groups:read is missing."
                yield warning(_CHANNELS, told)
            elif code == "channel_not_found":
                yield warning(
                    _CHANNELS,
                    f"The bot has chats in {channel}, which it cannot see: if the channel is "
                    f"private, type /invite @{met.name} there; else it was deleted.",
                )
            else:
                yield _again(_CHANNELS, error)
                return
            continue
        about = answer.get("channel") or {}
        name = f"#{about.get('name') or channel} ({channel})"
        if about.get("is_archived"):
            told = (
                f"{name} is archived, so that its chats stand still: unarchive it if they matter."
            )
            yield warning(_CHANNELS, told)
        elif not (about.get("is_member") or about.get("is_mpim")):
            told = f"The bot has chats in {name} but is no member: type /invite @{met.name} there."
            yield warning(_CHANNELS, told)
        else:
            seen += 1
    if not channels:
        told = f"It has no chats in channels yet: type /invite @{met.name} where it shall work."
        yield ok(_CHANNELS, told)
    elif seen == len(channels):
        yield ok(_CHANNELS, f"The bot is in all {seen} where its newest chats are.")


async def _approvers(
    client: AsyncWebClient, clock: Clock, team: str, people: Sequence[str]
) -> AsyncIterator[Finding]:
    """Whether those whom policies name can decide: as the bot itself sees them at a click."""
    directory = People(client, clock, team)
    here = [key for key in people if key.startswith(f"{SURFACE}:{team}/")]
    for key in [key for key in people if key not in here]:
        yield warning(
            _APPROVERS,
            f"{key} is of another workspace than {team}: unless that is meant (somebody of another "
            "organisation in a shared channel), correct the policy.",
        )
    able = 0
    for key in here:
        try:
            actor = await directory.actor(Person(key.partition("/")[2]))
        except Unknown as unknown:
            match unknown.reason:
                case "user_not_found" | "user_not_visible":
                    told = f"Slack knows no {key}, so nobody decides as that: correct the policy."
                    yield problem(_APPROVERS, told)
                case "no such person any more":
                    told = f"{key} is deactivated and cannot decide: name somebody else."
                    yield problem(_APPROVERS, told)
                case reason:
                    yield warning(
                        _APPROVERS, f"{key} could not be looked up ({reason}): try again."
                    )
            continue
        if actor.is_bot:
            told = f"{key} ({actor.label}) is a bot, and a bot decides nothing: name a person."
            yield problem(_APPROVERS, told)
        elif actor.key != key:
            told = f"{key} ({actor.label}) belongs to another workspace: name them {actor.key}."
            yield problem(_APPROVERS, told)
        elif actor.is_guest:
            told = f"{key} ({actor.label}) is a guest, and may decide: see that this is meant."
            yield warning(_APPROVERS, told)
        else:
            able += 1
    if not here:
        yield warning(
            _APPROVERS,
            f"No policy names anybody of the workspace {team}, so nothing can be approved in "
            f"Slack: write approvers as {SURFACE}:{team}/USER.",
        )
    elif able == len(here):
        yield ok(_APPROVERS, f"All {able} whom policies name can decide.")


async def _groups(client: AsyncWebClient, team: str) -> AsyncIterator[Finding]:
    try:
        answer = await client.usergroups_list(team_id=team)
    except SlackApiError as error:
        match code_of(error):
            case "plan_upgrade_required" | "paid_teams_only":
                told = "The plan of this workspace has no user groups: name people as approvers."
                yield warning(_GROUPS, told)
            case "missing_scope":
                told = "They cannot be read without usergroups:read: add it and install again."
                yield warning(_GROUPS, told)
            case _:
                yield _again(_GROUPS, error)
    else:
        yield ok(_GROUPS, f"They can be read; there are {len(answer.get('usergroups') or ())}.")


def _again(what: str, error: SlackApiError) -> Finding:
    pause = retry_after(error)
    if pause is not None:
        return warning(what, f"Slack asks to wait {pause:.0f} s: run doctor again then.")
    return warning(what, f"Slack did not answer ({code_of(error)}): run doctor again in a minute.")
