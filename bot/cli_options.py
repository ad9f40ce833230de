"""What several commands take and look at first."""

from pathlib import Path
from typing import Annotated

import typer

from bot.secrets import ConfigError
from storage.database import Database
from storage.migrate import is_current

ConfigOption = Annotated[
    Path, typer.Option("--config", "-c", help="The configuration file.", envvar="INTERLOCK_CONFIG")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


async def ready(db: Database) -> None:
    """Raises ConfigError where the database has not the tables of this version; it is closed."""
    if not await is_current(db):
        await db.close()
        raise ConfigError(
            "The database has not the tables of this version: run `interlock serve`, "
            "or `interlock db upgrade`."
        )
