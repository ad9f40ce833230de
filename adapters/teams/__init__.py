"""Microsoft Teams as a surface: found by the entry point `interlock.adapters`, name `teams`."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.teams import package
from adapters.teams import settings as teams_settings
from adapters.teams.transport import TeamsSurface
from bot.clock import Clock
from bot.surface import Adapter, Entry
from storage.database import Database

__all__ = ["app_package", "open_surface"]


def open_surface(
    settings: Mapping[str, object], entry: Entry, clock: Clock, database: Database
) -> Adapter:
    """Teams by the settings of `[surfaces.teams]` and the secret of the environment.

    Raises ConfigError."""
    return TeamsSurface(teams_settings.read(settings), entry, clock, database)


def app_package(settings: Mapping[str, object]) -> bytes:
    """The app that an admin uploads, a zip, by the settings of `[surfaces.teams]`: found beside the
    entry point by `interlock teams package`. Raises ConfigError."""
    return package.archive(*teams_settings.read_package(settings))
