"""Carrying everything of one database over to another: from a SQLite file to PostgreSQL.

All rows go, those of adapters' own tables too, in one transaction; a wake is a row like any other,
so that nothing has to be woken anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from storage.database import Database, Tx
from storage.schema import metadata

_VERSION = "alembic_version"
_ROWS = 500  # of one statement


class NotEmpty(Exception):
    """There are chats or rules in the database that is to be filled."""


async def carry_over(source: Database, target: Database) -> dict[str, int]:
    """How many rows of each table were copied. `target` has the tables of this version and nothing
    in them. Raises NotEmpty and DatabaseUnavailable; then nothing was copied."""
    async with source.read() as from_, target.transaction("carry_over") as to:
        tables = await from_.connection.run_sync(_tables)
        await to.connection.run_sync(lambda connection: _made(connection, tables))
        copied = {}
        for table in tables:
            if await _count(to, table):
                raise NotEmpty(table.name)
        for table in tables:
            copied[table.name] = await _copy(from_, to, table)
        for table in metadata.sorted_tables:
            await _go_on_counting(to, table)
        return copied


def _tables(connection: sa.Connection) -> list[sa.Table]:
    """Those of our own as they are defined, then whatever else is there."""
    ours = list(metadata.sorted_tables)
    names = set(sa.inspect(connection).get_table_names()) - {one.name for one in ours} - {_VERSION}
    found = sa.MetaData()
    for name in sorted(names):
        table = sa.Table(name, found, autoload_with=connection)
        for column in table.columns:
            column.type = column.type.as_generic()
        ours.append(table)
    return ours


def _made(connection: sa.Connection, tables: Sequence[sa.Table]) -> None:
    for table in tables:
        table.create(connection, checkfirst=True)


async def _count(tx: Tx, table: sa.Table) -> int:
    return int(await tx.value(sa.select(sa.func.count()).select_from(table)))


async def _copy(from_: Tx, to: Tx, table: sa.Table) -> int:
    key = list(table.primary_key.columns)
    rows = await from_.connection.stream(sa.select(table).order_by(*key))
    copied = 0
    async for some in rows.mappings().partitions(_ROWS):
        values: list[dict[str, Any]] = [dict(row) for row in some]
        await to.connection.execute(sa.insert(table), values)
        copied += len(values)
    assert copied == await _count(from_, table) == await _count(to, table), table.name
    return copied


async def _go_on_counting(to: Tx, table: sa.Table) -> None:
    """The next row of a table that counts its rows has the next number."""
    counted = table.autoincrement_column
    if counted is None:
        return
    last = await to.value(sa.select(sa.func.max(counted)))
    if last is not None:
        sequence = sa.func.pg_get_serial_sequence(table.name, counted.name)
        await to.run(sa.select(sa.func.setval(sequence, last)))
