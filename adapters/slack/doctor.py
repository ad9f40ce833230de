"""What `interlock doctor` finds out about Slack, with the tokens alone: nothing is posted, and no
event is taken from a bot that runs (a connection that is opened for a try is never used)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any, Final

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import credentials
from adapters.slack.credentials import Dispatch, Met
from adapters.slack.events import SURFACE, Person
from adapters.slack.groups import Groups
from adapters.slack.install_pages import INSTALL
from adapters.slack.people import People, Unknown
from adapters.slack.refusal import code_of, retry_after
from adapters.slack.settings import SlackSettings
from adapters.slack.workspaces import web_client
from bot.approvers import is_group
from bot.clock import Clock
from bot.finding import Finding, gathered, ok, problem, warning
from bot.surface import DeliveryError, Place

_CHANNELS: Final = "Slack channels"
_APPROVERS: Final = "Slack approvers"
_GROUPS: Final = "Slack user groups"
_MEMBERS: Final = "Slack groups of approvers"

_CALL_SECONDS: Final = 10.0


async def examine(
    settings: SlackSettings,
    tokens: Mapping[str, str],
    dispatch: Dispatch,
    clock: Clock,
    places: Sequence[Place],
    people: Sequence[str],
) -> list[Finding]:
    """Everything that was found. `tokens`: by the organisation that installed us, or the one of the
    environment under no name. Never raises."""
    timeout = aiohttp.ClientTimeout(total=_CALL_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        anybody = web_client(settings.base_url)
        anybody.session = session
        clients = {name: web_client(settings.base_url, token) for name, token in tokens.items()}
        for client in clients.values():
            client.session = session
        met = {name: await credentials.meet(client) for name, client in clients.items()}
        checks = [gathered(credentials.TOKEN, _tokens(met))]
        if settings.mode == "socket":
            opened = credentials.app_token(anybody, settings.app_token)
            checks.append(gathered(credentials.APP_TOKEN, opened))
        else:
            signed = credentials.signing_secret(settings.signing_secret, dispatch)
            checks.append(gathered(credentials.SIGNING, signed))
        for one in list(met.values())[:1]:
            timed = credentials.time_of_day(one, clock, settings.mode)
            checks.append(gathered(credentials.CLOCK, timed))
        for name, client in clients.items():
            theirs = [
                key
                for key in people
                if not name or key.startswith(f"{SURFACE}:{name}/") or _organisation(key) not in met
            ]
            checks += _of_workspace(client, met[name], clock, places, theirs)
        found = await asyncio.gather(*checks)
    return [one for some in found for one in some]


async def _tokens(met: Mapping[str, Met]) -> AsyncIterator[Finding]:
    if not met:
        told = f"No workspace has installed the app yet: open {INSTALL} of this server."
        yield warning(credentials.TOKEN, told)
    for name, one in met.items():
        found = credentials.installed_token(name, one) if name else credentials.bot_token(one)
        async for finding in found:
            yield finding


def _of_workspace(
    client: AsyncWebClient, met: Met, clock: Clock, places: Sequence[Place], people: Sequence[str]
) -> list[Coroutine[Any, Any, list[Finding]]]:
    if met.me is None or not met.me.bot:
        return []
    found = [
        gathered(credentials.SCOPE, credentials.scopes(met.scopes)),
        gathered(_CHANNELS, _channels(client, met, places)),
        gathered(_APPROVERS, _approvers(client, clock, met.me.team, people)),
        gathered(_MEMBERS, _members(client, clock, met.me.team, people)),
    ]
    if not met.me.whole:  # of which workspace, would have to be said: see the groups themselves
        found.insert(-1, gathered(_GROUPS, _groups(client, met.me.team)))
    return found


def _organisation(key: str) -> str:
    return key.partition(":")[2].partition("/")[0]


async def _channels(
    client: AsyncWebClient, met: Met, places: Sequence[Place]
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
    named = [key for key in people if not is_group(key)]
    here = [key for key in named if key.startswith(f"{SURFACE}:{team}/")]
    for key in [key for key in named if key not in here]:
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
    if not here and len(named) == len(people):
        yield warning(
            _APPROVERS,
            f"No policy names anybody of the workspace {team}, so nothing can be approved in "
            f"Slack: write approvers as {SURFACE}:{team}/USER.",
        )
    elif here and able == len(here):
        yield ok(_APPROVERS, f"All {able} whom policies name can decide.")


async def _members(
    client: AsyncWebClient, clock: Clock, team: str, people: Sequence[str]
) -> AsyncIterator[Finding]:
    """Whether the groups that policies name have anybody in them."""
    directory = Groups(client, clock)
    for key in [key for key in people if is_group(key)]:
        workspace, _, group = key.removeprefix(f"{SURFACE}:").partition("/")
        if workspace != team:
            told = f"{key} is of another workspace than {team} and lets nobody decide"
            yield problem(_MEMBERS, f"{told}: correct the policy.")
            continue
        try:
            members = await directory.members(group)
        except DeliveryError as error:
            told = f"{key} cannot be looked up ({error}), so nobody in it can decide: see that it"
            yield problem(_MEMBERS, f"{told} exists and that the bot may see it.")
            continue
        if members:
            yield ok(_MEMBERS, f"{key} has {len(members)} members.")
        else:
            yield warning(_MEMBERS, f"{key} has no members, so it lets nobody decide.")


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
