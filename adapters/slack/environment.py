"""What slack_bolt reads from the environment by itself, hidden from it: our settings say it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

_TRAPS: Final = (  # slack_bolt 1.30: OAuth, another token, another check, another address
    "SLACK_CLIENT_ID",
    "SLACK_CLIENT_SECRET",
    "SLACK_BOT_TOKEN",
    "SLACK_VERIFICATION_TOKEN",
    "SLACK_REDIRECT_URI",
)


@contextlib.contextmanager
def without_traps() -> Iterator[None]:
    hidden = {name: os.environ.pop(name) for name in _TRAPS if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
