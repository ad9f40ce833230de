"""What a surface must know of a conversation to speak there later: an adapter's own table.

It is made by the adapter that uses it, as the tables of slack_sdk's stores are."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import sqlalchemy as sa

from storage.database import Database

_metadata = sa.MetaData()
_table = sa.Table(
    "conversations",
    _metadata,
    sa.Column("surface", sa.String(20), primary_key=True),
    sa.Column("organisation", sa.String(80), primary_key=True),
    sa.Column("channel", sa.String(200), primary_key=True),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("address", sa.String(500), nullable=False),
    sa.Column("bot", sa.String(200), nullable=False),
    sa.Column("seen_at", sa.Double, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """`address` is where the platform is called about it; `bot` who we are there; `kind` is the
    platform's own word."""

    surface: str
    organisation: str
    channel: str
    kind: str
    address: str
    bot: str


class Conversations:
    """The conversations of one surface. Every method raises DatabaseUnavailable."""

    def __init__(self, database: Database, surface: str) -> None:
        self._database = database
        self._surface = surface

    async def create_table(self) -> None:
        """Unless it is there; replicas may do so at once."""
        async with self._database.transaction("create_conversations") as tx:
            await tx.lock_tables()
            await tx.connection.run_sync(_metadata.create_all)

    async def note(self, conversation: Conversation, now: float) -> bool:
        """Keeps it as it is now. Returns whether it was not there before."""
        values = asdict(conversation) | {"seen_at": now}
        async with self._database.transaction("note_conversation") as tx:
            if await tx.insert_new(_table, **values):
                return True
            same = self._in(conversation.organisation, conversation.channel)
            await tx.change(sa.update(_table).where(same).values(values))
            return False

    async def find(self, organisation: str, channel: str) -> Conversation | None:
        async with self._database.read() as tx:
            found = sa.select(_table).where(self._in(organisation, channel))
            return await tx.first(found, Conversation)

    async def newest(self, organisation: str) -> Conversation | None:
        """The one that was heard of last, whose address is good for a new one."""
        c = _table.c
        mine = sa.select(_table).where(c.surface == self._surface, c.organisation == organisation)
        async with self._database.read() as tx:
            return await tx.first(mine.order_by(c.seen_at.desc()).limit(1), Conversation)

    async def forget(self, organisation: str, channel: str) -> None:
        async with self._database.transaction("forget_conversation") as tx:
            await tx.change(sa.delete(_table).where(self._in(organisation, channel)))

    def _in(self, organisation: str, channel: str) -> sa.ColumnElement[bool]:
        c = _table.c
        return sa.and_(
            c.surface == self._surface, c.organisation == organisation, c.channel == channel
        )
