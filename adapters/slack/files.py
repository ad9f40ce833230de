"""Fetching what people attach, with our token, which goes nowhere but to Slack.

Slack answers a download that it does not grant with its login page, as 200 or after a redirection
(row B86); it gives the size of every file beforehand, which tells a page from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from yarl import URL

from adapters.slack.refusal import FAILURES, code_of, retry_after
from bot.surface import DeliveryError

SECONDS: Final = 60.0  # for one file
_HOPS: Final = 3  # redirections within Slack
_CHUNK: Final = 64 * 1024

_LOGIN: Final = "Slack answered with a login page; an admin has to add files:read"
_GONE: Final = "it is not in Slack any more"
_CODES: Final = {
    "missing_scope": "the app may not read files; an admin has to add files:read",
    "file_not_found": _GONE,
    "file_deleted": _GONE,
}


async def fetch(client: AsyncWebClient, reference: Mapping[str, Any], most: int) -> bytes:
    """The content of a file (`reference` as of events.heard), of at most `most` bytes. Raises
    DeliveryError, with the end of a sentence for people."""
    url = str(reference.get("url") or "") or await _address(client, str(reference.get("id") or ""))
    try:
        data, mime_type = await _download(client, URL(url, encoded=True), most)
    except ValueError:
        raise DeliveryError("Slack gave no address for it", permanent=True) from None
    except FAILURES as error:
        raise DeliveryError(f"Slack did not give it ({type(error).__name__})") from None
    page = mime_type == "text/html" or _is_page(data)
    if page and len(data) != reference.get("size"):
        raise DeliveryError(_LOGIN, permanent=True)
    return data


async def _address(client: AsyncWebClient, file_id: str) -> str:
    """Where a file is that was shared by another organisation: its event does not say."""
    if not file_id:
        raise DeliveryError("Slack did not say which file it is", permanent=True)
    try:
        found = (await client.files_info(file=file_id)).get("file") or {}
    except SlackApiError as error:
        code = code_of(error)
        wait = retry_after(error)
        sentence = _CODES.get(code, f"Slack answered {code}")
        raise DeliveryError(sentence, retry_after=wait, permanent=code in _CODES) from None
    except FAILURES as error:
        raise DeliveryError(f"Slack did not give it ({type(error).__name__})") from None
    return str(found.get("url_private_download") or found.get("url_private") or "")


async def _download(client: AsyncWebClient, url: URL, most: int) -> tuple[bytes, str]:
    """The content, and its type as Slack says it. Raises ValueError for what is no address."""
    if not url.host:
        raise ValueError("no address")
    session, api = client.session, URL(client.base_url)
    if session is None:
        raise DeliveryError("Slack is not connected yet")
    headers = {"Authorization": f"Bearer {client.token}"}
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    for _ in range(_HOPS):
        if not _ours(url, api):
            raise DeliveryError("it is kept outside of Slack", permanent=True)
        async with session.get(
            url, headers=headers, allow_redirects=False, timeout=timeout
        ) as answer:
            if answer.status == 200:
                return await _read(answer, most), answer.content_type
            if not 300 <= answer.status < 400:
                raise _refused(answer)
            url = answer.url.join(URL(answer.headers.get("Location", ""), encoded=True))
            if not _ours(url, api) and (url.host or "").endswith(f".{api.host}"):
                raise DeliveryError(_LOGIN, permanent=True)  # the team's own site, for people
    raise DeliveryError(_LOGIN, permanent=True)


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    data = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK):
        data += chunk
        if len(data) > most:
            raise DeliveryError(f"it is larger than {most // 1_000_000} MB", permanent=True)
    return bytes(data)


def _refused(answer: aiohttp.ClientResponse) -> DeliveryError:
    match answer.status:
        case 404 | 410:
            return DeliveryError(_GONE, permanent=True)
        case 401 | 403:
            return DeliveryError(_CODES["missing_scope"], permanent=True)
        case 429:
            wait = answer.headers.get("Retry-After", "")
            seconds = float(wait) if wait.isascii() and wait.isdigit() else 30.0
            return DeliveryError("Slack asked to wait", retry_after=seconds)
        case status:
            return DeliveryError(f"Slack did not give it (status {status})", permanent=status < 500)


def _ours(url: URL, api: URL) -> bool:
    """Whether our token may go there: to the host of the Web API, and where it keeps files."""
    there = (url.scheme, url.port) == (api.scheme, api.port)
    return there and url.host in (api.host, f"files.{api.host}")


def _is_page(data: bytes) -> bool:
    start = data[:1_000].lstrip().lower()
    return start.startswith((b"<!doctype html", b"<html"))
