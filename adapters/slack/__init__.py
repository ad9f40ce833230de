"""Slack as a surface: found by the entry point `interlock.adapters`, name `slack`."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.slack import settings as slack_settings
from adapters.slack.transport import SlackSurface
from bot.clock import Clock
from bot.surface import Adapter, Entry
from storage.database import Database

__all__ = ["open_surface"]


def open_surface(
    settings: Mapping[str, object], entry: Entry, clock: Clock, database: Database
) -> Adapter:
    """Slack by the settings of `[surfaces.slack]` and the secrets of the environment.

    Raises ConfigError."""
    return SlackSurface(slack_settings.read(settings), entry, clock, database)
