"""Options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path, typer.Option("--config", "-c", help="The configuration file.", envvar="INTERLOCK_CONFIG")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
