"""The engine: SQLite for one process, PostgreSQL for replicas, one way to begin a transaction."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

Row = TypeVar("Row")

SQLITE_BUSY_MS = 5_000
_MODE_TRIES, _MODE_SECONDS = 40, 0.05
_TABLES = 7_240_002  # the advisory lock of whoever makes tables
POSTGRES_OPTIONS = (
    # A frozen process must not hold row locks (platforms/jobs.md, section 6).
    "-c idle_in_transaction_session_timeout=10000 -c lock_timeout=10000 -c statement_timeout=30000"
)

POSTGRES_CONNECT = {"options": POSTGRES_OPTIONS, "connect_timeout": 5}


class DatabaseUnavailable(Exception):
    """The database is locked, gone or refusing connections; nothing of the transaction happened
    unless it was the commit itself that got lost. Safe to try again: every change is a
    compare-and-set."""

    def __init__(self) -> None:
        super().__init__("The database is not answering; please try again in a minute.")


class Json(sa.types.TypeDecorator[Any]):
    """JSON kept as canonical text, the same bytes on both databases, so that digests hold."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        return None if value is None else canonical(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return None if value is None else json.loads(value)


def canonical(value: Any) -> str:
    """The one spelling of a JSON value: sorted keys, no spaces, no NaN, every character itself.
    Half a character (a file name that is no UTF-8) is spelled as its escape, so that every value
    can be stored and comes back as it was."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8", "backslashreplace").decode()


class Tx:
    """A running transaction: executes statements and turns rows into the noun's dataclass."""

    def __init__(self, connection: AsyncConnection, name: str) -> None:
        self.connection = connection
        self.name = name
        self.last: list[Callable[[], Awaitable[None]]] = []
        self.very_last: list[Callable[[], Awaitable[None]]] = []
        self.committed: list[Callable[[], None]] = []
        self.woken: dict[tuple[str, str], float] = {}  # kept for the end (bot.jobs)
        self.audited: list[dict[str, Any]] = []  # kept for the end (storage.audit)

    def before_commit(self, call: Callable[[], Awaitable[None]], *, late: bool = False) -> None:
        """Runs `call` at the end of the transaction, for what takes locks that many share; `late`:
        after all that are not, so that everybody takes them in one order."""
        (self.very_last if late else self.last).append(call)

    def after_commit(self, call: Callable[[], None]) -> None:
        """Runs `call` (which must not fail) once the transaction is durable."""
        self.committed.append(call)

    async def lock_tables(self) -> None:
        """Held to the end: of the processes that make tables at once, one does it at a time."""
        if self.connection.dialect.name == "postgresql":  # SQLite has one writer anyway
            await self.run(sa.select(sa.func.pg_advisory_xact_lock(_TABLES)))

    async def run(self, statement: sa.Executable) -> sa.CursorResult[Any]:
        return await self.connection.execute(statement)

    async def change(self, statement: sa.Update | sa.Delete) -> int:
        """The number of rows changed: the answer of every compare-and-set."""
        return (await self.connection.execute(statement)).rowcount

    async def insert_new(self, table: sa.Table, **values: Any) -> bool:
        """Inserts unless a unique key is taken; False when it was. No error, so that the
        transaction goes on (on PostgreSQL a raised one would abort it)."""
        insert = pg_insert if self.connection.dialect.name == "postgresql" else sqlite_insert
        statement = insert(table).values(**values).on_conflict_do_nothing()
        # SQLAlchemy 2.1 reads the row count of an INSERT only when told to; -1 otherwise.
        result = await self.run(statement.execution_options(preserve_rowcount=True))
        return result.rowcount == 1

    async def rows(self, statement: sa.Executable, shape: type[Row]) -> list[Row]:
        names = [f.name for f in dataclasses.fields(shape)]  # type: ignore[arg-type]
        found = (await self.connection.execute(statement)).mappings().all()
        return [shape(**{name: row[name] for name in names}) for row in found]

    async def first(self, statement: sa.Executable, shape: type[Row]) -> Row | None:
        found = await self.rows(statement, shape)
        return found[0] if found else None

    async def value(self, statement: sa.Executable) -> Any:
        return (await self.connection.execute(statement)).scalar()


class Database:
    """One database. `points` is told every transaction's name just before and just after its
    commit ("before decide", "after decide"): the crash tests kill the process there."""

    def __init__(self, url: str) -> None:
        self.url = sa.make_url(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self.engine: AsyncEngine = self._engine()
        # SQLite takes one writer at a time. Queueing here is fair and quick; queueing in its busy
        # handler is neither (platforms/jobs.md f: p99 610 ms against 261 ms).
        self._writer = asyncio.Lock()
        self.points: Callable[[str], None] = lambda name: None

    def _engine(self) -> AsyncEngine:
        if not self.sqlite:
            url = self.url.set(drivername="postgresql+psycopg")
            return create_async_engine(
                url,
                pool_size=10,
                max_overflow=10,
                pool_pre_ping=True,
                hide_parameters=True,  # what people wrote has no place in an error
                connect_args=POSTGRES_CONNECT,
            )
        url = self.url.set(drivername="sqlite+aiosqlite")
        engine = create_async_engine(
            url, hide_parameters=True, connect_args={"timeout": SQLITE_BUSY_MS / 1000}
        )

        @sa.event.listens_for(engine.sync_engine, "connect")
        def settings(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
            connection.isolation_level = None  # we begin transactions ourselves, below
            cursor = connection.cursor()
            _write_ahead(cursor)
            cursor.execute("PRAGMA synchronous=FULL")  # a decision survives a power cut
            cursor.execute("PRAGMA foreign_keys=ON")
            cursor.execute(f"PRAGMA busy_timeout={SQLITE_BUSY_MS}")
            cursor.close()

        @sa.event.listens_for(engine.sync_engine, "begin")
        def begin(connection: sa.Connection) -> None:
            writes = connection.get_execution_options().get("writes", True)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

        return engine

    def libpq(self) -> tuple[str, dict[str, Any]]:
        """How others than SQLAlchemy connect to the same PostgreSQL: its address, with the
        password, and the options of every connection."""
        address = self.url.set(drivername="postgresql").render_as_string(hide_password=False)
        return address, POSTGRES_CONNECT

    @contextlib.asynccontextmanager
    async def transaction(self, name: str) -> AsyncIterator[Tx]:
        """A writing transaction, named for the decision it makes.

        Raises DatabaseUnavailable when the database is locked or gone."""
        with unavailable():
            async with self._writer if self.sqlite else contextlib.nullcontext():
                async with self.engine.begin() as connection:
                    tx = Tx(connection, name)
                    yield tx
                    for call in (*tx.last, *tx.very_last):
                        await call()
                    self.points(f"before {name}")
                self.points(f"after {name}")
            for told in tx.committed:
                told()

    @contextlib.asynccontextmanager
    async def read(self) -> AsyncIterator[Tx]:
        """A consistent look that takes no write lock. Raises DatabaseUnavailable."""
        with unavailable():
            async with self.engine.connect() as plain:
                connection = await plain.execution_options(writes=False)
                async with connection.begin():
                    yield Tx(connection, "read")

    async def close(self) -> None:
        await self.engine.dispose()


def _write_ahead(cursor: DBAPICursor) -> None:
    """SQLite waits for nobody when the mode of a file changes, which two processes may do that make
    it at once."""
    for _ in range(_MODE_TRIES):
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            time.sleep(_MODE_SECONDS)
        else:
            return
    cursor.execute("PRAGMA journal_mode=WAL")


@contextlib.contextmanager
def unavailable() -> Iterator[None]:
    """Turns what drivers raise for a database that is locked or gone into DatabaseUnavailable."""
    try:
        yield
    except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError) as error:
        raise DatabaseUnavailable from error
    except sa.exc.DBAPIError as error:
        if not error.connection_invalidated:  # such as a transaction that idled for too long
            raise
        raise DatabaseUnavailable from error


def wrong_url(url: str) -> str | None:
    """Why no database can be meant by this, as the end of a sentence; None: it can."""
    try:
        backend = sa.make_url(url).get_backend_name()
    except (sa.exc.ArgumentError, ValueError):
        return "must be sqlite:///FILE or postgresql://USER@HOST/NAME"
    if backend not in ("sqlite", "postgresql"):
        return f"names {backend}, but only sqlite and postgresql are supported"
    return None
