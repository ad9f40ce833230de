"""What `interlock doctor` finds out about Teams without speaking in any conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from adapters.teams.botbuilder import NoToken, SafeAdapter
from adapters.teams.settings import PASSWORD, TeamsSettings
from bot.finding import Finding, gathered, ok, problem

_KEYS: Final = "Teams signing keys"
_TOKEN: Final = "Teams token"


async def examine(adapter: SafeAdapter, settings: TeamsSettings) -> list[Finding]:
    return [
        *await gathered(_KEYS, _keys(adapter, settings)),
        *await gathered(_TOKEN, _token(adapter)),
    ]


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
