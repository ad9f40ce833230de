"""`interlock teams`: what an admin of Microsoft Teams needs, which is for the adapter to make."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from bot.app import ADAPTERS
from bot.cli_options import ConfigOption
from bot.config import DEFAULT_PATH, load
from bot.markdown import inert
from bot.secrets import ConfigError

teams_cli = typer.Typer(no_args_is_help=True, help="Microsoft Teams.")


@teams_cli.callback()
def _teams() -> None:
    """Microsoft Teams."""


@teams_cli.command()
def package(
    config: ConfigOption = DEFAULT_PATH,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("interlock-teams.zip"),
) -> None:
    """Writes the app package, which an admin uploads to Teams."""
    section = load(config).surfaces.get("teams")
    if section is None:
        raise ConfigError("surfaces.teams is missing: write [surfaces.teams] first.")
    found = next(iter(entry_points(group=ADAPTERS, name="teams")), None)
    if found is None:
        raise ConfigError("surfaces.teams: no adapter of this name is installed.")
    own = {name: value for name, value in section.items() if name != "agent"}
    built: bytes = importlib.import_module(found.module).app_package(own)
    try:
        out.write_bytes(built)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written ({error.strerror}).") from error
    print(inert(f"Wrote {out}. Upload it in Teams under Apps, Manage your apps, Upload an app."))
