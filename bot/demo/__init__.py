"""`interlock demo`: the main job on the embedded default, with or without a terminal."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bot import log
from bot.demo.alone import run_alone
from bot.demo.story import run_story


def run_demo(*, interactive: bool) -> int:
    """Runs in a directory of its own, which is removed afterwards. Returns the exit code."""
    log.configure(level=50)
    with tempfile.TemporaryDirectory(prefix="interlock-demo-") as directory:
        if interactive:
            return asyncio.run(run_alone(Path(directory)))
        return asyncio.run(run_story(Path(directory)))
