"""`python -m bot.demo DIRECTORY [PORT]`: the bot's process of the story."""

import asyncio
import sys
from pathlib import Path

from bot import log
from bot.demo.process import run

log.configure(level=50)
asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None))
