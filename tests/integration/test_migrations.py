"""The migrations make exactly the tables of storage.schema, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from bot.audit import export, verify
from storage.audit import GENESIS, record
from storage.database import Database
from storage.migrate import is_current, upgrade
from storage.schema import audit, metadata


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server = sa.make_url(request.getfixturevalue("postgres_url"))
    asyncio.run(_on_server(server, "CREATE DATABASE fresh"))
    yield server.set(database="fresh").render_as_string(hide_password=False)
    asyncio.run(_on_server(server, "DROP DATABASE fresh"))


@pytest.fixture
async def empty(empty_url: str) -> AsyncIterator[Database]:
    database = Database(empty_url)
    yield database
    await database.close()


async def _on_server(url: sa.URL, statement: str) -> None:
    database = Database(url.render_as_string(hide_password=False))
    try:
        async with database.engine.connect() as connection:
            plain = await connection.execution_options(isolation_level="AUTOCOMMIT")
            await plain.execute(sa.text(statement))
    finally:
        await database.close()


async def differences(database: Database) -> list[Any]:
    def compare(connection: sa.Connection) -> list[Any]:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return list(compare_metadata(context, metadata))

    async with database.read() as tx:
        return await tx.connection.run_sync(compare)


async def tables(database: Database) -> dict[str, Any]:
    """Every table with its columns, keys and indexes, as the database has them."""

    def inspect(connection: sa.Connection) -> dict[str, Any]:
        seen = sa.inspect(connection)
        return {
            name: (
                [(c["name"], str(c["type"]), c["nullable"]) for c in seen.get_columns(name)],
                seen.get_pk_constraint(name)["constrained_columns"],
                sorted(tuple(one["column_names"]) for one in seen.get_unique_constraints(name)),
                sorted(str(one["column_names"]) for one in seen.get_indexes(name)),
                sorted(
                    (one["constrained_columns"][0], one["referred_table"])
                    for one in seen.get_foreign_keys(name)
                ),
            )
            for name in seen.get_table_names()
            if name != "alembic_version"
        }

    async with database.read() as tx:
        return await tx.connection.run_sync(inspect)


async def test_a_fresh_database_has_the_tables_of_the_schema(empty: Database) -> None:
    assert not await is_current(empty)

    await upgrade(empty)

    assert await differences(empty) == []
    assert await is_current(empty)


async def test_migrated_tables_are_those_that_the_schema_would_create(
    empty: Database, tmp_path: Path
) -> None:
    await upgrade(empty)
    migrated = await tables(empty)

    async with empty.engine.begin() as connection:
        await connection.run_sync(metadata.drop_all)
        await connection.run_sync(metadata.create_all)

    assert migrated == await tables(empty)
    assert set(migrated) == set(metadata.tables)


async def test_a_difference_would_be_found(empty: Database) -> None:
    await upgrade(empty)
    async with empty.transaction("spoil") as tx:
        await tx.run(sa.text("ALTER TABLE chats ADD COLUMN stray INTEGER"))

    assert len(await differences(empty)) == 1


async def test_upgrading_again_changes_nothing(empty: Database) -> None:
    await upgrade(empty)
    before = await tables(empty)

    await upgrade(empty)

    assert await tables(empty) == before
    assert await is_current(empty)


async def test_two_processes_that_upgrade_at_once_both_succeed(empty: Database) -> None:
    other = Database(empty.url.render_as_string(hide_password=False))

    await asyncio.gather(upgrade(empty), upgrade(other))

    assert await is_current(other)
    await other.close()


async def test_an_upgrade_that_fails_leaves_nothing(empty: Database) -> None:
    def fail(point: str) -> None:
        if point == "before migrate":
            raise ZeroDivisionError

    empty.points = fail
    with pytest.raises(ZeroDivisionError):
        await upgrade(empty)
    empty.points = lambda point: None

    assert await tables(empty) == {}
    assert not await is_current(empty)
    await upgrade(empty)
    assert await is_current(empty)


async def test_a_database_of_a_later_version_serves_this_one_and_is_left_as_it_is(
    empty: Database,
) -> None:
    await upgrade(empty)
    async with empty.transaction("later") as tx:
        await tx.run(sa.text("UPDATE alembic_version SET version_num = '9999'"))

    assert await is_current(empty)
    await upgrade(empty)
    async with empty.read() as tx:
        assert await tx.value(sa.text("SELECT version_num FROM alembic_version")) == "9999"


async def test_audit_rows_of_an_earlier_version_become_one_chain(empty: Database) -> None:
    await upgrade(empty, to="0005")
    async with empty.transaction("earlier") as tx:
        for number in range(3):
            row = {"event": "asked", "detail": {"ü": [number, 0.5]}, "created_at": number + 0.25}
            await tx.run(sa.insert(audit).values(row))

    await upgrade(empty)

    async with empty.transaction("later") as tx:
        await record(tx, "asked", now=9.0)
    report = verify([line async for line in export(empty)], after=GENESIS)
    assert (report.rows, report.fault) == (4, None)
