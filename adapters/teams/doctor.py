"""What `interlock doctor` finds out about Teams without speaking in any conversation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Final

import aiohttp

from adapters.teams.botbuilder import NoToken, SafeAdapter
from adapters.teams.events import SURFACE
from adapters.teams.package import manifest
from adapters.teams.settings import GUID, PASSWORD, TeamsSettings
from bot.approvers import is_group
from bot.finding import Finding, gathered, ok, problem, warning
from bot.secrets import ConfigError
from bot.surface import person_of

_KEYS: Final = "Teams signing keys"
_TOKEN: Final = "Teams token"
_SERVICE: Final = "Teams service"
_TENANTS: Final = "Teams tenants"
_APPROVERS: Final = "Teams approvers"
_PACKAGE: Final = "Teams app package"

_CALL: Final = aiohttp.ClientTimeout(total=10.0)


async def examine(
    adapter: SafeAdapter, settings: TeamsSettings, people: Sequence[str]
) -> list[Finding]:
    """Everything that was found. `people`: the approvers of Teams. Never raises."""
    found = await asyncio.gather(
        gathered(_KEYS, _keys(adapter, settings)),
        gathered(_TOKEN, _token(adapter)),
        gathered(_SERVICE, _service(settings)),
        gathered(_TENANTS, _tenants(settings)),
        gathered(_APPROVERS, _approvers(settings, people)),
        gathered(_PACKAGE, _package(settings)),
    )
    return [one for some in found for one in some]


async def _keys(adapter: SafeAdapter, settings: TeamsSettings) -> AsyncIterator[Finding]:
    await adapter.keys.refresh()
    if adapter.keys.good:
        yield ok(_KEYS, "They can be fetched.")
    else:
        where = settings.cloud.metadata_url
        yield problem(_KEYS, f"{where} does not answer: let the bot reach it, or nobody is heard.")


async def _token(adapter: SafeAdapter) -> AsyncIterator[Finding]:
    await adapter.start()
    try:
        await adapter.token()
    except NoToken as error:
        yield problem(
            _TOKEN,
            f"Microsoft gives none ({error}): check surfaces.teams.app_id and tenant, and "
            f"{PASSWORD} or the managed identity.",
        )
    else:
        yield ok(_TOKEN, "Microsoft gives the bot one.")
    finally:
        adapter.stop()


async def _service(settings: TeamsSettings) -> AsyncIterator[Finding]:
    """Any answer will do: what the bot posts to is told by Teams with each message."""
    async with aiohttp.ClientSession(timeout=_CALL, trust_env=True) as session:
        for service in sorted(settings.cloud.services):
            try:
                async with session.get(f"{service}/", allow_redirects=False):
                    pass
            except (aiohttp.ClientError, TimeoutError, OSError):
                told = f"{service} does not answer: let the bot reach it, or it can say nothing."
                yield problem(_SERVICE, told)
            else:
                yield ok(_SERVICE, f"{service} answers.")


async def _tenants(settings: TeamsSettings) -> AsyncIterator[Finding]:
    if settings.tenants:
        yield ok(_TENANTS, f"Conversations of {', '.join(sorted(settings.tenants))} are served.")
    else:
        yield problem(_TENANTS, "None is served, so nobody is heard: set surfaces.teams.tenant.")


async def _approvers(settings: TeamsSettings, people: Sequence[str]) -> AsyncIterator[Finding]:
    """Whether those whom policies name can be anybody in Teams: who they are is only known to the
    conversations that they speak in."""
    able = 0
    for key in people:
        if is_group(key):
            if "/#" in key:
                able += 1  # a conversation's members, whom only its roster knows
                continue
            told = (
                f"{key} lets nobody decide, as Teams has no such groups: name people or a #channel."
            )
            yield problem(_APPROVERS, told)
            continue
        person = person_of(key)
        ids = () if person is None else (person.organisation, person.user)
        if person is None or not all(re.fullmatch(GUID, one) for one in ids):
            told = f"{key} is nobody: write {SURFACE}:TENANT/OBJECT, two ids in lower case."
            yield problem(_APPROVERS, told)
        elif person.organisation not in settings.tenants:
            yield warning(
                _APPROVERS,
                f"{key} is of a tenant that is not served: unless that is meant (somebody of "
                "another organisation in a shared channel), correct the policy.",
            )
        else:
            able += 1
    if not people:
        yield warning(
            _APPROVERS,
            "No policy names anybody of Teams, so what takes a named approver cannot be approved "
            f"there: write approvers as {SURFACE}:TENANT/OBJECT.",
        )
    elif able == len(people):
        yield ok(_APPROVERS, f"All {able} whom policies name are of tenants that are served.")


async def _package(settings: TeamsSettings) -> AsyncIterator[Finding]:
    try:
        version = manifest(settings.app_id, settings.package)["version"]
    except ConfigError as error:
        yield warning(_PACKAGE, f"None can be built: {error}")
    else:
        yield ok(
            _PACKAGE,
            f"It is {version}: where Teams shows a lower version, build it with `interlock teams "
            "package` and upload it.",
        )
