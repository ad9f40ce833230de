"""Who may be one person under several keys: by configuration, or by an address that the surfaces
have verified.

An equal address only ever refuses something (a second voice of a quorum, an approval of what one
asked for oneself) and never allows anything: whoever runs another workspace can give its people any
address. Addresses are kept as digests, and nothing else of them goes further than this module."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from bot.approvers import Policies, Who
from bot.core import Core
from bot.groups import with_groups
from bot.surface import Actor
from storage import people
from storage.database import Tx


async def learn(tx: Tx, actor: Actor, now: float) -> None:
    """Keeps by which address the person is known now, if their surface says."""
    if actor.email is not None:
        address = actor.email.strip().casefold()
        digest = hashlib.sha256(address.encode()).hexdigest() if address else ""
        await people.learn(tx, actor.key, digest, now)


async def same_people(tx: Tx, policies: Policies, keys: Iterable[str]) -> frozenset[str]:
    """These keys and all others that may be theirs, over as many links as there are."""
    known = set(keys)
    while True:
        names = {policies.who(key) for key in known}
        found = known | {key for key, name in policies.people.items() if name in names}
        found = await people.same(tx, found)
        if found == known:
            return frozenset(known)
        known = found


async def linked(tx: Tx, policies: Policies, actor: Actor) -> Actor:
    """The person with all keys that may be theirs too, and without their address."""
    also = await same_people(tx, policies, (actor.key,)) - {actor.key}
    return replace(actor, also=also, email=None)


async def known(core: Core, actor: Actor) -> Actor:
    """The person with their groups and their other keys, for what only shows what they may do: a
    decision looks again. Raises DatabaseUnavailable."""
    actor = await with_groups(core, actor)
    async with core.db.read() as tx:
        return await linked(tx, core.policies, actor)


def different(people: Iterable[Actor], who: Who) -> int:
    """How many people these are, with all who may be one counted once."""
    count = 0
    seen: set[str] = set()
    for one in people:
        names = {who(key) for key in one.keys}
        count += names.isdisjoint(seen)
        seen |= names
    return count
