"""A SQLite file carried over to PostgreSQL: no row is lost, and what waits goes on there."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from bot import audit
from bot.cli import cli
from storage.carry import NotEmpty, carry_over
from storage.conversations import Conversation, Conversations
from storage.database import Database
from storage.schema import metadata
from tests.fakes.model import call
from tests.world import BEN, World, effect, only_question, returned, world


async def rows(db: Database) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table of ours, as values."""
    found = {}
    async with db.read() as tx:
        for table in metadata.sorted_tables:
            result = await tx.run(sa.select(table).order_by(*table.primary_key.columns))
            found[table.name] = [tuple(row) for row in result]
    return found


async def test_what_waits_in_one_database_is_decided_in_the_other(
    sqlite_db: Database, postgres_db: Database
) -> None:
    effects: list[str] = []
    before = world(sqlite_db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await before.chat("ü\x01 please")
    await before.settle()
    async with sqlite_db.transaction("timer") as tx:
        await before.core.wake(tx, next(iter(before.handlers)), "later", at=before.clock.now() + 60)
    conversations = Conversations(sqlite_db, "teams")
    await conversations.create_table()
    there = Conversation("teams", "t1", "19:x", "channel", "https://smba.test/", "28:b")
    await conversations.note(there, 12.25)

    copied = await carry_over(sqlite_db, postgres_db)

    assert await rows(postgres_db) == await rows(sqlite_db)
    assert copied["conversations"] == 1
    assert copied["wakes"] == 1
    assert await Conversations(postgres_db, "teams").find("t1", "19:x") == there
    assert audit.verify([line async for line in audit.export(postgres_db)]).fault is None

    after = world(postgres_db, "Done.", tools=[effect(effects)])
    after = World(
        postgres_db, after.tools, after.model, after.policies, before.clock, before.surface
    )
    await (await only_question(after.here_id(chat.id))).approve(by=BEN)
    await after.settle()
    assert await returned(after.here_id(chat.id)) == ["refund A1 done"]
    assert len(effects) == 1


async def test_a_database_with_rows_in_it_is_not_filled(
    sqlite_db: Database, postgres_db: Database
) -> None:
    await world(sqlite_db, "Hello.").chat()
    await world(postgres_db, "Hello.").chat()
    before = await rows(postgres_db)
    with pytest.raises(NotEmpty):
        await carry_over(sqlite_db, postgres_db)
    assert await rows(postgres_db) == before


def test_only_a_file_goes_to_a_server(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(cli, ["db", "copy", "--to", "mysql://x/y"])
    assert "--to names mysql" in str(result.exception)
