"""Which groups a person is in, asked of the surface when it matters and never kept in rows.

Asked outside the transaction of a decision. Whoever cannot be looked up in time is in no group."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import structlog

from bot.core import Core
from bot.surface import Actor, DeliveryError

log = structlog.get_logger(__name__)

SECONDS: Final = 1.0  # of those that a surface waits for an answer to a click


async def with_groups(core: Core, actor: Actor) -> Actor:
    """The person with the groups they are in now, of those that policies name. A bot, a guest or
    somebody of another organisation decides by name only, and is not looked up."""
    if actor.by_name_only:
        return replace(actor, roles=frozenset())
    ours = f"{actor.surface}:{actor.organisation}/"
    named = sorted(one for one in core.policies.groups if one.startswith(ours))
    found = await asyncio.gather(*(_holds(core, actor, one.removeprefix(ours)) for one in named))
    return replace(
        actor, roles=frozenset(one for one, holds in zip(named, found, strict=True) if holds)
    )


async def _holds(core: Core, actor: Actor, group: str) -> bool:
    surface = core.surfaces.get(actor.surface)
    if surface is None:
        return False
    try:
        async with asyncio.timeout(SECONDS):
            return actor.user in await surface.members(actor.organisation, group)
    except (DeliveryError, TimeoutError) as error:
        log.warning("the members of a group are not known", group=group, why=str(error))
        return False
