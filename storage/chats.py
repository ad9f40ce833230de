"""Chats: one per thread, one runner at a time.

The lease (owner, lease_until) excludes; the epoch fences a runner that lost it; stirs tell a
runner that is about to let go that something came in meanwhile (design: complete(), rules 2, 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from storage.database import Tx
from storage.place import Place
from storage.schema import chats


@dataclass(frozen=True, slots=True)
class ChatRow:
    id: str
    surface: str
    organisation: str
    channel: str
    root: str
    agent: str
    requester: str
    owner: str | None
    lease_until: float
    epoch: int
    stirs: int
    wake_at: float | None
    cancelled_by: str | None
    rounds: int
    created_at: float

    @property
    def place(self) -> Place:
        return Place(self.surface, self.organisation, self.channel, self.root)


def _at(place: Place) -> sa.ColumnElement[bool]:
    return sa.and_(
        chats.c.surface == place.surface,
        chats.c.organisation == place.organisation,
        chats.c.channel == place.channel,
        chats.c.root == place.root,
    )


async def get(tx: Tx, chat_id: str) -> ChatRow | None:
    return await tx.first(sa.select(chats).where(chats.c.id == chat_id), ChatRow)


async def at_place(tx: Tx, place: Place) -> ChatRow | None:
    return await tx.first(sa.select(chats).where(_at(place)), ChatRow)


async def open_at(
    tx: Tx, place: Place, *, chat_id: str, agent: str, requester: str, now: float
) -> ChatRow:
    """The chat of this thread, made if there is none: two events at once make one."""
    await tx.insert_new(
        chats,
        id=chat_id,
        agent=agent,
        requester=requester,
        created_at=now,
        **place.columns(),
    )
    found = await at_place(tx, place)
    assert found is not None
    return found


async def lock(tx: Tx, chat_id: str) -> ChatRow | None:
    """First in the lock order chat, call, question, outbox. Rows that refer to the chat can be
    added beside it (PostgreSQL's check of a foreign key takes a lock that this one allows)."""
    found = sa.select(chats).where(chats.c.id == chat_id).with_for_update(key_share=True)
    return await tx.first(found, ChatRow)


async def lease(tx: Tx, chat_id: str, *, owner: str, now: float, until: float) -> ChatRow | None:
    """Takes the chat for one runner and begins a new epoch; None while another holds it."""
    changed = await tx.change(
        sa.update(chats)
        .where(
            chats.c.id == chat_id,
            sa.or_(chats.c.owner.is_(None), chats.c.lease_until <= now),
        )
        .values(owner=owner, lease_until=until, epoch=chats.c.epoch + 1, wake_at=None)
    )
    return await get(tx, chat_id) if changed else None


async def fence(tx: Tx, chat_id: str, epoch: int, *, until: float) -> bool:
    """Holds the chat's row for this transaction if the epoch is still ours, and renews the lease.
    False: the lease is lost, stop."""
    return (
        await tx.change(
            sa.update(chats)
            .where(chats.c.id == chat_id, chats.c.epoch == epoch, chats.c.owner.is_not(None))
            .values(lease_until=until)
        )
        == 1
    )


async def stir(tx: Tx, chat_id: str) -> None:
    """Something came in: a runner about to let go must look again."""
    await tx.change(sa.update(chats).where(chats.c.id == chat_id).values(stirs=chats.c.stirs + 1))


async def release(
    tx: Tx, chat_id: str, epoch: int, *, stirs: int | None, wake_at: float | None
) -> bool:
    """Lets go, only if nothing stirred since `stirs` was read (None: let go regardless)."""
    mine = [chats.c.id == chat_id, chats.c.epoch == epoch]
    if stirs is not None:
        mine.append(chats.c.stirs == stirs)
    return (
        await tx.change(
            sa.update(chats).where(*mine).values(owner=None, lease_until=0.0, wake_at=wake_at)
        )
        == 1
    )


async def release_all(tx: Tx) -> int:
    """At the start of an embedded process, whose file lock proves that no other runs."""
    return await tx.change(
        sa.update(chats).where(chats.c.owner.is_not(None)).values(owner=None, lease_until=0.0)
    )


async def release_from(tx: Tx, chat_id: str) -> None:
    """Takes the chat from a runner that is dead; should it live, its epoch is over."""
    await tx.change(
        sa.update(chats).where(chats.c.id == chat_id).values(owner=None, lease_until=0.0)
    )


async def cancel(tx: Tx, chat_id: str, by: str) -> None:
    await tx.change(
        sa.update(chats)
        .where(chats.c.id == chat_id)
        .values(cancelled_by=by, stirs=chats.c.stirs + 1)
    )


async def uncancel(tx: Tx, chat_id: str) -> None:
    await tx.change(sa.update(chats).where(chats.c.id == chat_id).values(cancelled_by=None))


async def count_round(tx: Tx, chat_id: str, rounds: int) -> None:
    await tx.change(sa.update(chats).where(chats.c.id == chat_id).values(rounds=rounds))


async def orphaned(tx: Tx, now: float) -> list[str]:
    """Chats that a runner held when it died, or that wanted to be woken by now."""
    found = await tx.run(
        sa.select(chats.c.id).where(
            sa.or_(
                sa.and_(chats.c.owner.is_not(None), chats.c.lease_until <= now),
                chats.c.wake_at <= now,
            )
        )
    )
    return [row.id for row in found]


async def recent(tx: Tx, limit: int) -> list[ChatRow]:
    return await tx.rows(sa.select(chats).order_by(chats.c.created_at.desc()).limit(limit), ChatRow)


async def channels(tx: Tx, surface: str, limit: int) -> list[Place]:
    """The channels of a surface where chats live, that of the newest chat first."""
    where = (chats.c.organisation, chats.c.channel)
    found = await tx.run(
        sa.select(*where)
        .where(chats.c.surface == surface)
        .group_by(*where)
        .order_by(sa.func.max(chats.c.created_at).desc(), *where)
        .limit(limit)
    )
    return [Place(surface, row.organisation, row.channel, "") for row in found]
