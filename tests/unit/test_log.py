"""Secrets never reach a log line."""

from __future__ import annotations

import logging

import pytest
import structlog

from bot import log

SECRETS = [
    "xoxb-123-456-abc",
    "xapp-1-A1-2-abcdef",
    "xoxe.xoxb-1-abcdef",
    "sk-abcdefghijklmnop1234",
    "Bearer abc.def-ghi=",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_token_is_masked_wherever_it_stands(
    secret: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log.configure()
    structlog.get_logger("x").warning("event", text=f"a {secret} b", inner={"list": [secret]})
    logging.getLogger("some.sdk").error("failed with %s", secret)
    try:
        raise ValueError(secret)
    except ValueError:
        structlog.get_logger("x").exception("raised")
    written = capsys.readouterr().err
    assert secret not in written
    assert written.count(" hidden: ") >= 4
    structlog.reset_defaults()
    logging.getLogger().handlers.clear()
