"""A database that is locked or gone for a while: said in a sentence, and nothing is lost."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.surface import Decision, Message, Place, Verb
from bot.tool import tool
from storage import database as database_module
from storage import seen
from storage.database import Database, DatabaseUnavailable, canonical
from storage.schema import seen as seen_table
from tests.fakes.model import call
from tests.world import ANA, BEN, only_question, world

effects: list[str] = []


@tool
async def refund(order: str) -> str:
    """Refunds."""
    effects.append(order)
    return "refunded"


async def test_what_a_rolled_back_transaction_did_is_not_there(db: Database) -> None:
    async def fails() -> None:
        async with db.transaction("test") as tx:
            await seen.first_time(tx, ("key",), 1.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    async with db.read() as tx:
        assert await tx.value(sa.select(sa.func.count()).select_from(seen_table)) == 0


async def test_of_two_transactions_at_once_one_claims_the_key(db: Database) -> None:
    async def claim() -> bool:
        async with db.transaction("test") as tx:
            return await seen.first_time(tx, ("event", "post"), 1.0)

    assert sorted(await asyncio.gather(*(claim() for _ in range(10)))) == [False] * 9 + [True]


async def test_a_locked_file_is_said_and_the_click_can_be_repeated(
    sqlite_db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "SQLITE_BUSY_MS", 50)
    db = Database(sqlite_db.url.render_as_string())
    effects.clear()
    w = world(db, call("refund", order="A1"), "Done.", tools=[refund])
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)
    click = Decision(nonce=question.nonce, verb=Verb.APPROVE, actor=BEN, via="test")

    other = sqlite3.connect(str(db.url.database), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answer = await w.service.decide(click)
    assert not answer.done
    assert "database is not answering" in answer.sentence
    with pytest.raises(DatabaseUnavailable):
        await w.service.message(
            Message(
                keys=("k",),
                place=Place("slack", "T1", "C1", "9"),
                actor=ANA,
                text="hi",
                starts=True,
            )
        )
    other.execute("ROLLBACK")
    other.close()

    assert (await w.service.decide(click)).done
    await w.settle()
    assert effects == ["A1"]
    await db.close()


async def test_connections_that_were_cut_are_replaced(postgres_url: str, db: Database) -> None:
    if db.sqlite:
        pytest.skip("a file has no connections to cut")
    async with db.read() as tx:
        await tx.run(sa.text("select 1"))
    other = Database(postgres_url)
    async with other.transaction("cut") as tx:
        await tx.run(
            sa.text(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where pid <> pg_backend_pid() and datname = current_database()"
            )
        )
    await other.close()
    async with db.transaction("test") as tx:
        assert await seen.first_time(tx, ("after",), 1.0)


async def test_a_server_that_is_not_there_is_said() -> None:
    db = Database("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(DatabaseUnavailable, match="not answering"):
        async with db.transaction("test"):
            pass
    await db.close()


def test_equal_values_have_one_spelling() -> None:
    assert canonical({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'
    with pytest.raises(ValueError, match="Out of range"):
        canonical(float("nan"))
