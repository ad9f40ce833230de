"""Bringing a database to this version's tables, with Alembic."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from storage.database import Database

MIGRATIONS = Path(__file__).parent / "migrations"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config


async def upgrade(database: Database, *, to: str = "head") -> None:
    """Runs what is missing, all in one transaction; two processes at once are serialised. Leaves a
    database of a later version as it is."""

    def run(connection: sa.Connection) -> None:
        if to == "head" and _revision(connection) > _head():
            return
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, to)

    async with database.transaction("migrate") as tx:
        await tx.lock_tables()
        await tx.connection.run_sync(run)


async def is_current(database: Database) -> bool:
    """Whether the tables are those of this version, or of a later one: a migration takes nothing
    away that the version before it uses, so that replicas of both run side by side."""
    async with database.read() as tx:
        return await tx.connection.run_sync(_revision) >= _head()


def _revision(connection: sa.Connection) -> str:
    """Of the database: revisions are numbers of four digits; empty: it has no tables."""
    return MigrationContext.configure(connection).get_current_revision() or ""


def _head() -> str:
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head
