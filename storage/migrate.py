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
    """Runs what is missing, all in one transaction; two processes at once are serialised."""

    def run(connection: sa.Connection) -> None:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, to)

    async with database.transaction("migrate") as tx:
        await tx.lock_tables()
        await tx.connection.run_sync(run)


async def is_current(database: Database) -> bool:
    """Whether the tables are exactly those of this version."""

    def version(connection: sa.Connection) -> str | None:
        return MigrationContext.configure(connection).get_current_revision()

    head = ScriptDirectory.from_config(_config()).get_current_head()
    async with database.read() as tx:
        return await tx.connection.run_sync(version) == head
