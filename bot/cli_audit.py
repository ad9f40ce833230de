"""`interlock audit`: the log carried away, checked offline, and sealed in segments."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bot import audit
from bot.cli_options import ConfigOption, ready
from bot.config import DEFAULT_PATH, load
from bot.markdown import inert
from bot.secrets import ConfigError
from storage.database import Database

audit_cli = typer.Typer(no_args_is_help=True, help="The audit log.")


@audit_cli.command()
def export(config: ConfigOption = DEFAULT_PATH) -> None:
    """Prints the log as JSON Lines; how many rows, and the last hash, go to standard error."""
    asyncio.run(_export(Database(load(config).database)))


async def _export(db: Database) -> None:
    await ready(db)
    rows, last = 0, ""
    try:
        async for last in audit.export(db):
            rows += 1
            print(last)
    finally:
        await db.close()
    head = audit.verify([last]).head if last else ""
    print(f"{rows} rows. Keep the last hash apart from the file: {head or 'none'}", file=sys.stderr)


@audit_cli.command()
def verify(
    files: Annotated[list[Path], typer.Argument(help="What was exported or sealed, oldest first.")],
    head: Annotated[str | None, typer.Option(help="The last hash, as the export said it.")] = None,
) -> None:
    """Checks files offline: finds a row that was changed, removed, added or moved."""
    after: str | None = None
    rows = 0
    for file in files:
        try:
            with file.open() as lines:
                report = audit.verify(lines, after=after)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} cannot be read: {error}.") from error
        if report.fault is not None:
            _broken(inert(f"{file}: {report.fault}"))
        rows, after = rows + report.rows, report.head
    if head is not None and after != head:
        _broken("The end was cut off or added to: the last hash is another one.")
    print(f"{rows} rows are as they were written; the last hash is {after}.")


@audit_cli.command()
def seal(
    file: Annotated[Path, typer.Argument(help="The new file that takes the rows.")],
    before: Annotated[datetime, typer.Option(help="Rows older than this day, in UTC.")],
    config: ConfigOption = DEFAULT_PATH,
) -> None:
    """Moves old rows into a file; the log goes on from their last hash."""
    asyncio.run(_seal(Database(load(config).database), file, before.replace(tzinfo=UTC)))


async def _seal(db: Database, file: Path, before: datetime) -> None:
    await ready(db)
    try:
        report = await audit.seal(db, file, before=before.timestamp(), now=time.time())
    except FileExistsError:
        raise ConfigError(f"{file} exists already: name another.") from None
    except ValueError as error:
        _broken(f"Nothing was removed: {error}")
    finally:
        await db.close()
    print(f"{report.rows} rows are in {file}; the last hash is {report.head}.")


def _broken(sentence: str) -> None:
    print(sentence, file=sys.stderr)
    raise typer.Exit(1)
