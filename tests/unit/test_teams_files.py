"""Files of Teams: what a message says of them, and where they are fetched."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from adapters.teams import files
from adapters.teams.clouds import CLOUDS
from bot.surface import DeliveryError
from tests.unit.test_teams_events import heard

KIND = "application/vnd.microsoft.teams.file.download.info"
ALONE = {"id": "a:ana", "conversationType": "personal"}
AT = "https://contoso.sharepoint.com/x/download.aspx?tempauth=s3cret"
PUBLIC = CLOUDS["public"]


def attached(url: Any, kind: str = KIND) -> list[dict[str, Any]]:
    return [{"contentType": kind, "name": "log.txt", "content": {"downloadUrl": url}}]


def test_a_file_of_a_personal_chat_has_an_address() -> None:
    [one] = heard(conversation=ALONE, attachments=attached(AT)).files
    assert (one.name, one.reference) == ("log.txt", {"url": AT})


@pytest.mark.parametrize("url", [None, 7, "", "https://ö.test", "x" * 9_000])
def test_an_address_that_is_none_is_left_out(url: Any) -> None:
    [one] = heard(conversation=ALONE, attachments=attached(url)).files
    assert one.reference == {}


def test_a_file_of_a_channel_and_a_pasted_image_have_none() -> None:
    [one] = heard(attachments=attached(AT)).files
    [image] = heard(conversation=ALONE, attachments=attached(AT, "image/png")).files
    assert one.reference == image.reference == {}


@pytest.mark.parametrize(
    ("url", "cloud", "trusted"),
    [
        (AT, "public", True),
        (AT, "gcc", True),
        ("https://x.sharepoint.us/f", "gcc-high", True),
        ("https://x.sharepoint-mil.us/f", "dod", True),
        (AT, "dod", False),
        ("http://contoso.sharepoint.com/f", "public", False),
        ("http://contoso.sharepoint.com:443/f", "public", False),
        ("https://contoso.sharepoint.com:8443/f", "public", False),
        ("https://a@contoso.sharepoint.com/f", "public", False),
        ("https://sharepoint.com/f", "public", False),
        ("https://evilsharepoint.com/f", "public", False),
        ("https://x.sharepoint.com.evil.test/f", "public", False),
        ("https://evil.test/x.sharepoint.com", "public", False),
        ("https://169.254.169.254/f", "public", False),
    ],
)
def test_files_are_fetched_at_sharepoint_alone(url: str, cloud: str, trusted: bool) -> None:
    assert files.is_file_host(URL(url, encoded=True), CLOUDS[cloud]) is trusted


@pytest.mark.parametrize("url", ["https://evil.test/s3cret", "https://[s3cret", "s3cret", ""])
async def test_another_address_is_not_asked_and_not_told(url: str) -> None:
    with pytest.raises(DeliveryError) as refused:
        await files.fetch(PUBLIC, {"url": url}, 10)
    assert refused.value.permanent
    assert "s3cret" not in str(refused.value)


async def served(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> bytes:
    """What is fetched, of at most ten bytes, from a server that is taken for SharePoint."""
    app = web.Application()
    app.router.add_get("/f", answer)
    async with TestServer(app) as server:
        monkeypatch.setattr(files, "is_file_host", lambda url, cloud: True)
        return await files.fetch(PUBLIC, {"url": str(server.make_url("/f?s=s3cret"))}, 10)


async def test_a_file_is_fetched_without_a_token(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"0123456789" if "Authorization" not in request.headers else b"")

    caplog.set_level(logging.INFO)
    assert await served(monkeypatch, answer) == b"0123456789"
    ours = [one for one in caplog.records if one.name != "aiohttp.access"]  # the other side's
    assert "s3cret" not in str([one.getMessage() for one in ours])


@pytest.mark.parametrize(
    ("status", "permanent"), [(302, True), (403, True), (404, True), (429, False), (503, False)]
)
async def test_what_sharepoint_does_not_give(
    monkeypatch: pytest.MonkeyPatch, status: int, permanent: bool
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        # Whoever follows the redirection comes here again, with what is given.
        if "again" in request.query:
            return web.Response(body=b"followed")
        return web.Response(status=status, headers={"Location": "/f?again=1", "Retry-After": "7"})

    with pytest.raises(DeliveryError) as refused:
        await served(monkeypatch, answer)
    assert refused.value.permanent is permanent
    assert refused.value.retry_after == (7.0 if status == 429 else None)
    assert "s3cret" not in str(refused.value)


async def test_a_file_that_is_larger_than_said_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"01234567890")

    with pytest.raises(DeliveryError, match="larger"):
        await served(monkeypatch, answer)
