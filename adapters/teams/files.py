"""Fetching what people attach in their chat with the bot, where Teams gives it without Graph.

Teams names an address that opens the file for whoever has it, for minutes: it is a secret, goes
into no error and no log, and is gone from the database once the file is settled. It is asked
without a token, at SharePoint alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from yarl import URL

from adapters.teams.clouds import Cloud
from bot import http
from bot.surface import DeliveryError

SECONDS: Final = 60.0  # for one file
NOT_GIVEN: Final = (
    "Teams gives a bot only files that are attached, not pasted, in its chat with one person"
)


async def fetch(cloud: Cloud, reference: Mapping[str, Any], most: int) -> bytes:
    """The content of a file (`reference` as of events.read), of at most `most` bytes. Raises
    DeliveryError, with the end of a sentence for people."""
    told = reference.get("url")
    if not isinstance(told, str) or not told:
        raise DeliveryError(NOT_GIVEN, permanent=True)
    try:
        url = URL(told, encoded=True)
        trusted = is_file_host(url, cloud)
    except ValueError:
        trusted = False
    if not trusted:
        raise DeliveryError("it is kept outside of SharePoint", permanent=True)
    try:
        async with asyncio.timeout(SECONDS):
            answer = await http.get(told, most=most, seconds=SECONDS)
    except (http.HttpError, TimeoutError) as error:
        raise DeliveryError(f"SharePoint did not give it ({error})") from None
    except http.TooLarge:
        raise DeliveryError(f"it is larger than {most // 1_000_000} MB", permanent=True) from None
    if answer.status != 200:
        raise _refused(answer)
    return answer.body


def is_file_host(url: URL, cloud: Cloud) -> bool:
    """Whether an address is one where Teams keeps files in this cloud."""
    plain = url.scheme == "https" and url.port == 443 and not url.user and not url.password
    return plain and (url.host or "").endswith(f".{cloud.files}")


def _refused(answer: http.Answer) -> DeliveryError:
    match answer.status:
        case 401 | 403 | 404 | 410:
            return DeliveryError("it is not there any more; attach it again", permanent=True)
        case 429:
            wait = answer.headers.get("retry-after", "")
            seconds = float(wait) if wait.isascii() and wait.isdigit() else 30.0
            return DeliveryError("SharePoint asked to wait", retry_after=seconds)
        case status:
            return DeliveryError(
                f"SharePoint did not give it (status {status})", permanent=status < 500
            )
