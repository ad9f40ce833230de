"""By which address people are known, as a digest: who has the same may be one person."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import people


async def learn(tx: Tx, key: str, digest: str, now: float) -> None:
    """The address of this person by now, as 64 hexadecimal digits; empty: there is none any more.
    Writes nothing where nothing changed."""
    mine = people.c.key == key
    known = await tx.value(sa.select(people.c.email_digest).where(mine))
    if digest == (known or ""):
        return
    if not digest:
        await tx.change(sa.delete(people).where(mine))
    elif known is None:
        await tx.insert_new(people, key=key, email_digest=digest, seen_at=now)
    else:
        await tx.change(sa.update(people).where(mine).values(email_digest=digest, seen_at=now))


async def same(tx: Tx, keys: Collection[str]) -> set[str]:
    """These keys, and those with the address of one of them."""
    theirs = sa.select(people.c.email_digest).where(people.c.key.in_(sorted(keys)))
    found = await tx.run(sa.select(people.c.key).where(people.c.email_digest.in_(theirs)))
    return {*keys, *(str(key) for key in found.scalars())}
