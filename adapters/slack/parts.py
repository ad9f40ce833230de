"""A long text of the model in parts that each fit one message of Slack."""

from __future__ import annotations

from typing import Final

from adapters.slack import limits
from adapters.slack.text import parse, sections
from bot.parts import Splitter


def _drawn_size(markdown: str) -> int:
    return sum(len(section) + 2 for section in sections(markdown))


split: Final = Splitter(parse, _drawn_size, limits.MESSAGE_TEXT).split
