"""Files that people attach in Teams, through the whole product."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web
from aiohttp.test_utils import TestServer

from adapters.teams import files
from bot.scripted import say
from storage.attachments import AttachmentRow
from storage.database import Database
from storage.schema import attachments
from tests.fakes.teams import Entra
from tests.scenario.teams_world import entra, product

__all__ = ["entra"]

KIND = "application/vnd.microsoft.teams.file.download.info"
TOLD = "Teams gives a bot only files that are attached, not pasted, in its chat with one person."


def attached(url: str) -> list[dict[str, Any]]:
    return [{"contentType": KIND, "name": "log.txt", "content": {"downloadUrl": url}}]


async def test_a_file_of_a_personal_chat_is_read_and_its_address_forgotten(
    sqlite_db: Database, entra: type[Entra], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def give(request: web.Request) -> web.StreamResponse:
        return web.Response(text="disk full on db-7" if request.query["s"] == "s3cret" else "")

    app = web.Application()
    app.router.add_get("/f", give)
    monkeypatch.setattr(files, "is_file_host", lambda url, cloud: True)
    async with TestServer(app) as server, product(sqlite_db, say("I have read it.")) as one:
        alone = one.teams.personal("ana")
        sent = one.teams.said("ana", alone, "what is wrong?")
        sent["attachments"] = attached(str(server.make_url("/f?s=s3cret")))
        assert (await one.teams.deliver(sent)).status == 200
        await one.reads("I have read it.", alone)
        assert "disk full on db-7" in one.model_read()
        async with sqlite_db.read() as tx:
            rows = await tx.rows(sa.select(attachments), AttachmentRow)
        assert [one.name for one in rows] == ["log.txt"]
        assert "s3cret" not in str(rows)


async def test_a_file_of_a_channel_is_said_not_to_be_read(
    sqlite_db: Database, entra: type[Entra]
) -> None:
    async with product(sqlite_db, say("Which file?")) as one:
        thread = f"{one.teams.channel};messageid=7001"
        sent = one.teams.said("ana", thread, "what is wrong?", id="7001")
        sent["attachments"] = attached("https://contoso.sharepoint.com/f?s=s3cret")
        assert (await one.teams.deliver(sent)).status == 200
        (told,) = await one.teams.until(lambda: one.teams.whispers)
        assert told.text == f"log.txt could not be read: {TOLD}"
        assert told.seen_by == one.teams.people["ana"].member
        await one.reads("Which file?", thread)
