"""The console: one thread in a terminal, for a person who sits at it."""

from __future__ import annotations

import getpass
import io
import sys
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console

from adapters.console.surface import ConsoleSurface
from bot.clock import Clock
from bot.secrets import ConfigError
from bot.surface import Entry
from storage.database import Database


class _Options(BaseModel):
    """`[surfaces.console]` of the configuration."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    user: str | None = Field(None, min_length=1)
    thread: str = Field("main", min_length=1)


def open_surface(
    settings: Mapping[str, object], entry: Entry, clock: Clock, database: Database
) -> ConsoleSurface:
    """Opens the terminal this process runs in. `user` is who sits there (default: the login
    name), `thread` the conversation they join. Raises ConfigError."""
    try:
        options = _Options.model_validate(dict(settings))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(["surfaces.console", *map(str, first["loc"])])
        raise ConfigError(f"{where} is wrong: {first['msg']}.") from None
    if isinstance(sys.stdout, io.TextIOWrapper):  # what a terminal cannot encode is no crash
        sys.stdout.reconfigure(errors="backslashreplace")
    console = Console(markup=False, emoji=False, highlight=False)
    return ConsoleSurface(
        entry, user=options.user or _login_name(), thread=options.thread, console=console
    )


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # a container whose user has no name
        raise ConfigError(
            "surfaces.console.user is missing and this login has no name: set it."
        ) from error
