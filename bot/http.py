"""Our own calls over HTTP to others: few, bounded, never where they redirect to."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

logging.getLogger("httpx").setLevel(logging.WARNING)  # below, 0.28 tells addresses: secrets, some


class HttpError(Exception):
    """No answer came. The text names the kind of fault and no address."""


class TooLarge(Exception):
    """The answer is longer than asked for."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


async def get(url: str, *, most: int, seconds: float) -> Answer:
    """What stands at an address: a body of at most `most` bytes, read only of a 200, within so many
    seconds for each step. Raises HttpError and TooLarge."""
    try:
        async with (
            httpx.AsyncClient(timeout=seconds, follow_redirects=False) as client,
            client.stream("GET", url) as answer,
        ):
            body = bytearray()
            if answer.status_code == httpx.codes.OK:
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > most:
                        raise TooLarge
            return Answer(answer.status_code, answer.headers, bytes(body))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise HttpError(type(error).__name__) from None
