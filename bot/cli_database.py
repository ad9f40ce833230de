"""The commands of `interlock db`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from bot.cli_options import ConfigOption, ready
from bot.config import DEFAULT_PATH, Config, load
from bot.jobs import EngineKind
from bot.secrets import ConfigError
from storage.carry import NotEmpty, carry_over
from storage.database import Database, wrong_url
from storage.migrate import upgrade
from storage.single import SecondProcess, only_process

database_cli = typer.Typer(no_args_is_help=True, help="The database.")
out = Console(highlight=False)


@database_cli.command("upgrade")
def db_upgrade(config: ConfigOption = DEFAULT_PATH) -> None:
    """Brings the database to the tables of this version."""
    asyncio.run(_upgrade(load(config)))
    out.print(Text("The database has the tables of this version."))


async def _upgrade(settings: Config) -> None:
    database = Database(settings.database)
    try:
        await upgrade(database)
        if settings.jobs is EngineKind.DISTRIBUTED and not database.sqlite:
            from bot.distributed import prepare  # an extra

            await prepare(database)
    finally:
        await database.close()


@database_cli.command("copy")
def db_copy(
    to: Annotated[str, typer.Option(help="The database to fill: postgresql://USER@HOST/NAME.")],
    config: ConfigOption = DEFAULT_PATH,
) -> None:
    """Copies everything to an empty PostgreSQL, while the bot is stopped."""
    if (why := wrong_url(to)) is not None:
        raise ConfigError(f"--to {why}.")
    copied = asyncio.run(_copy(load(config), to))
    told = ", ".join(f"{count:,} of {name}" for name, count in copied.items() if count)
    out.print(Text(f"Copied all rows: {told or 'there were none'}."))
    out.print(Text("Set `database` to it now; the old one is as it was, and is used no more."))


async def _copy(settings: Config, to: str) -> dict[str, int]:
    source, target = Database(settings.database), Database(to)
    try:
        if not source.sqlite or target.sqlite:
            raise ConfigError("Only from SQLite to PostgreSQL: see `database` and --to.")
        await ready(source)
        async with only_process(source):
            await upgrade(target)
            return await carry_over(source, target)
    except SecondProcess as error:
        raise ConfigError(str(error)) from error
    except NotEmpty as error:
        raise ConfigError(
            f"The database to fill has rows in {error} already: give it an empty one."
        ) from error
    finally:
        await source.close()
        await target.close()
