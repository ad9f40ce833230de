"""What `interlock doctor` finds out about Teams without speaking in any conversation."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Final

from adapters.teams.botbuilder import NoToken, SafeAdapter
from adapters.teams.settings import GUID, PASSWORD, TeamsSettings
from bot.approvers import is_group
from bot.finding import Finding, gathered, ok, problem

_APPROVERS: Final = "Teams approvers"
_PERSON: Final = re.compile(rf"teams:{GUID}/{GUID}")
_KEYS: Final = "Teams signing keys"
_TOKEN: Final = "Teams token"


async def examine(
    adapter: SafeAdapter, settings: TeamsSettings, people: Sequence[str]
) -> list[Finding]:
    """`people`: the approvers that policies name for Teams."""
    return [
        *await gathered(_APPROVERS, _approvers(people)),
        *await gathered(_KEYS, _keys(adapter, settings)),
        *await gathered(_TOKEN, _token(adapter)),
    ]


async def _approvers(people: Sequence[str]) -> AsyncIterator[Finding]:
    for key in people:
        if is_group(key):
            yield problem(
                _APPROVERS, f"{key}: groups of Teams cannot be asked for yet: name people."
            )
        elif not _PERSON.fullmatch(key):
            yield problem(
                _APPROVERS,
                f"{key} is nobody: write teams:TENANT/OBJECT, the ids of the tenant and of the "
                "account in Entra, in lower case.",
            )


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
