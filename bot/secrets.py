"""Secrets come from the environment (NAME) or from a file that it names (NAME_FILE), never from
the configuration file."""

from __future__ import annotations

import os
from pathlib import Path


class ConfigError(Exception):
    """A setting is missing or wrong: one sentence that names it and says what to do."""


def secret(name: str) -> str | None:
    """The secret of this name, without outer white space; none when it is not set.

    Raises ConfigError when NAME_FILE names a file that cannot be read."""
    value = os.environ.get(name, "").strip()
    if value:
        return value
    path = os.environ.get(f"{name}_FILE", "").strip()
    if not path:
        return None
    try:
        return Path(path).read_text().strip() or None
    except OSError as error:
        raise ConfigError(
            f"{name}_FILE names {path}, which cannot be read ({error.strerror}): "
            "correct the path or its permissions."
        ) from error
