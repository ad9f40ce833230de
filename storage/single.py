"""One process at a time: the embedded engine's promise, held by a lock that dies with it."""

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
