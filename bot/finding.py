"""What `interlock doctor` says of one thing that it looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum

CHECK_SECONDS = 20.0


class Health(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, but not all of it or not for long
    PROBLEM = "problem"  # does not work


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` was looked at; `sentence`: what was found and, unless all is well, what to do.
    Neither holds a secret."""

    what: str
    health: Health
    sentence: str


def ok(what: str, sentence: str) -> Finding:
    return Finding(what, Health.OK, sentence)


def warning(what: str, sentence: str) -> Finding:
    return Finding(what, Health.WARNING, sentence)


def problem(what: str, sentence: str) -> Finding:
    return Finding(what, Health.PROBLEM, sentence)


async def gathered(
    what: str, findings: AsyncIterator[Finding], seconds: float | None = None
) -> list[Finding]:
    """What one check finds within its time. It never raises: a check that fails or hangs is a
    finding itself, beside what it found before, so that none hides the others."""
    found = []
    try:
        async with asyncio.timeout(CHECK_SECONDS if seconds is None else seconds):
            async for one in findings:
                found.append(one)
    except TimeoutError:
        found.append(problem(what, "This took too long and was given up: try again in a minute."))
    except Exception as error:
        kind = type(error).__name__  # its text may hold what nobody should read
        told = f"This could not be looked at ({kind}): try again, and report it if it stays."
        found.append(problem(what, told))
    return found
