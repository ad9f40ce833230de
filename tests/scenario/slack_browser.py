"""Workspaces that install the app: a person's browser on the way through its pages."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from html import unescape
from http.cookies import SimpleCookie
from typing import Any

import aiohttp
import pytest

from bot.surface import Place
from storage.database import Database
from tests.fakes.slack import CLIENT_ID, CLIENT_SECRET, Elsewhere, FakeSlack
from tests.scenario.slack_world import Mode, StubEntry, running

OLD_KEY, KEY = (base64.urlsafe_b64encode(one * 32).decode() for one in (b"o", b"n"))


def for_many_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets of an app that workspaces install by OAuth."""
    monkeypatch.delenv("SLACK_BOT_TOKEN", raising=False)
    monkeypatch.setenv("SLACK_CLIENT_ID", CLIENT_ID)
    monkeypatch.setenv("SLACK_CLIENT_SECRET", CLIENT_SECRET)
    monkeypatch.setenv("SLACK_TOKEN_KEY", KEY)


@dataclass(frozen=True)
class Page:
    status: int
    text: str
    headers: dict[str, str]

    @property
    def sentence(self) -> str:
        [said] = re.findall(r"<p>([^<]*)</p>", self.text)
        return unescape(said)


@dataclass
class Browser:
    """Keeps cookies, also those that are for https only."""

    slack: FakeSlack
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **query: str) -> Page:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Cookie": cookies} if cookies else {}
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
            http.get(self.slack.bot_address + path, params=query, headers=headers) as response,
        ):
            for header in response.headers.getall("Set-Cookie", []):
                for name, one in SimpleCookie(header).items():
                    assert one["secure"]
                    assert one["httponly"]
                    self.cookies[name] = one.value
            return Page(response.status, await response.text(), dict(response.headers))

    async def begin(self) -> str:
        """The address at Slack that the first page leads to."""
        page = await self.get("/slack/install")
        assert page.status == 200, page.text
        [address] = re.findall(r'href="(https://slack\.com/[^"]*)"', page.text)
        return unescape(address)

    async def install(self, where: Elsewhere) -> Page:
        """All the way, and back."""
        address = await self.begin()
        return await self.back(code=where.allow(address), state=state_of(address))

    async def back(self, **query: str) -> Page:
        return await self.get("/slack/oauth_redirect", **query)


def state_of(address: str) -> str:
    [state] = re.findall(r"[?&]state=([^&]+)", address)
    return str(state)


@contextlib.asynccontextmanager
async def installed(
    slack: FakeSlack, database: Database, *workspaces: Elsewhere, mode: Mode = "http"
) -> AsyncIterator[tuple[Any, StubEntry]]:
    """The surface, once these workspaces have installed it; and what it hands on."""
    entry = StubEntry()
    async with running(slack, entry, mode, database) as surface:
        for one in workspaces:
            assert (await Browser(slack).install(one)).status == 200
        yield surface, entry


async def said(where: Elsewhere, text: str = "deploy") -> Place:
    """Somebody mentions the bot; the place of its thread."""
    return Place("slack", where.world.team, "C_OPS", await where.mention("U_ANA", "C_OPS", text))
