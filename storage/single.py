"""One process at a time: the embedded engine's promise, held by a lock that dies with it. Replicas
share the lock, so that no process of the other kind is among them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import sqlalchemy as sa

from storage.database import Database, unavailable

_ADVISORY_KEY = 7_240_003


class SecondProcess(Exception):
    """Another process runs the embedded engine on this database."""

    def __init__(self) -> None:
        super().__init__(
            "Another Interlock process uses this database: stop it first, "
            "or give this one a database of its own."
        )


class OtherEngine(Exception):
    """A process with the embedded engine runs on a database that replicas are to share."""

    def __init__(self) -> None:
        super().__init__(
            'An Interlock process with `jobs = "embedded"` uses this database: stop it first.'
        )


@contextlib.asynccontextmanager
async def one_of_many(database: Database) -> AsyncIterator[None]:
    """Holds the database together with other replicas (PostgreSQL). Raises OtherEngine and
    DatabaseUnavailable."""
    with unavailable():
        connection = await database.engine.connect()
    try:
        shared = sa.select(sa.func.pg_try_advisory_lock_shared(_ADVISORY_KEY))
        if not await connection.scalar(shared):
            raise OtherEngine
        await connection.commit()
        yield
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def only_process(database: Database) -> AsyncIterator[None]:
    """Holds the database for this process. Raises SecondProcess and DatabaseUnavailable."""
    if not database.sqlite:
        with unavailable():
            connection = await database.engine.connect()
        try:
            alone = await connection.scalar(sa.select(sa.func.pg_try_advisory_lock(_ADVISORY_KEY)))
            await connection.commit()
            if not alone:
                raise SecondProcess
            yield
        finally:
            await connection.close()
        return
    name = database.url.database
    if not name or name == ":memory:":
        yield
        return
    import fcntl

    with open(f"{name}.lock", "w") as lock:  # noqa: ASYNC230 - opened once, at the start
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SecondProcess from error
        yield
