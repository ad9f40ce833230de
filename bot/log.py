"""Logs: one JSON object a line on standard error, with secrets masked."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from storage.redact import mask_all


def _mask_event(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for key, value in event.items():
        event[key] = mask_all(value)
    return event


class _Bridge(logging.Handler):
    """What libraries log by the standard module goes the same way."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger(record.name)
        logger.log(record.levelno, record.getMessage(), exc_info=record.exc_info or None)


def configure(*, level: int = logging.INFO) -> None:
    """Bodies and headers of requests are logged by the SDKs at INFO and below: theirs starts at
    WARNING (platforms/slack.md 1.2)."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _mask_event,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Bridge()]
    root.setLevel(max(level, logging.WARNING))
