"""The loggers that the SDKs write to: nothing below WARNING, and no secret."""

from __future__ import annotations

import logging
import re


class Redacted(logging.Filter):
    """Takes tokens and socket tickets out of what the SDKs log; tracebacks could hold them too."""

    _SECRET = re.compile(r"\b(?:xox[a-z]|xapp|xoxe)[-.][\w.-]+|ticket=[^&'\"\s]+")

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = self._SECRET.sub("(redacted)", record.getMessage())
        record.args, record.exc_info, record.exc_text = (), None, None
        return True


def quiet(sdk: str) -> logging.Logger:
    """A logger for an SDK. Below WARNING, slack_bolt 1.30 logs whole bodies and signatures."""
    logger = logging.getLogger(f"{__name__}.{sdk}")
    logger.setLevel(logging.WARNING)
    if not logger.filters:
        logger.addFilter(Redacted())
    return logger
