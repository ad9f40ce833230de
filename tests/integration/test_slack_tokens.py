"""The tokens of workspaces on both databases: sealed, apart, not in the way of our writers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet, MultiFernet
from slack_bolt.error import BoltError
from slack_sdk.oauth.installation_store import Installation

from adapters.slack.tokens import States, Tokens
from storage.database import Database, DatabaseUnavailable
from storage.seen import first_time

KEY = Fernet(Fernet.generate_key())
KEYS = MultiFernet([KEY])
LONG = "xoxb-" + "x" * 400


def installation(team: str | None, token: str | None = "xoxb-1", **given: Any) -> Installation:
    base: dict[str, Any] = {"app_id": "A1", "user_id": "U1", "bot_id": "B1", "bot_user_id": "U2"}
    return Installation(**(base | {"team_id": team, "bot_token": token} | given))


def org_wide(enterprise: str, token: str) -> Installation:
    return installation(None, token, enterprise_id=enterprise, is_enterprise_install=True)


@pytest.fixture
async def tokens(db: Database) -> AsyncIterator[Tokens]:
    made, states = Tokens(db, "1.2", KEYS), States(db)
    for _ in range(2):  # also when they are there already
        await made.create_tables()
        await states.create_tables()
    yield made
    async with db.transaction("drop") as tx:
        for metadata in (made.metadata, states.metadata):
            await tx.connection.run_sync(metadata.drop_all)


async def token_of(tokens: Tokens, organisation: str) -> str | None:
    bot = await tokens.find(organisation)
    return None if bot is None else bot.bot_token


async def test_what_is_saved_comes_back_and_is_sealed_in_the_row(
    db: Database, tokens: Tokens
) -> None:
    await tokens.async_save(
        installation(
            "T1", LONG, bot_refresh_token="xoxe-1", bot_token_expires_in=60, user_token="xoxp-1"
        )
    )
    bot = await tokens.find("T1")
    assert bot is not None
    assert (bot.bot_token, bot.bot_refresh_token, bot.team_id) == (LONG, "xoxe-1", "T1")
    async with db.read() as tx:
        for table in ("slack_bots", "slack_installations"):
            rows = (await tx.run(sa.text(f"SELECT * FROM {table}"))).fetchall()
            assert len(rows) == 1
            assert "xox" not in str(rows)


async def test_the_newest_installation_counts_and_each_organisation_has_its_own(
    db: Database, tokens: Tokens
) -> None:
    for at, token in ((20.0, "xoxb-new"), (10.0, "xoxb-old")):
        await tokens.async_save(installation("T1", token, installed_at=at))
    await tokens.async_save(installation("T2", "xoxb-2", enterprise_id="E1"))
    whole = {"enterprise_id": "E1", "is_enterprise_install": True}
    await tokens.async_save(installation("T3", "xoxb-e", **whole))  # T3 has no token of its own
    found = {one: await token_of(tokens, one) for one in ("T1", "T2", "E1", "T3", "E2")}
    assert found == {"T1": "xoxb-new", "T2": "xoxb-2", "E1": "xoxb-e", "T3": None, "E2": None}
    assert sorted(one.bot_token for one in await tokens.everything()) == [
        "xoxb-2",
        "xoxb-e",
        "xoxb-new",
    ]
    other = Tokens(db, "another app", KEYS)
    assert (await other.everything(), await other.find("T1")) == ([], None)


@pytest.mark.parametrize("gone", ["T1", "T2", "E1"])
async def test_what_is_removed_is_gone_for_good_and_nothing_else_is(
    tokens: Tokens, gone: str
) -> None:
    for at in (10.0, 20.0):
        await tokens.async_save(installation("T1", installed_at=at))
    await tokens.async_save(installation("T2", enterprise_id="E1"))
    await tokens.async_save(org_wide("E1", "xoxb-e"))
    await tokens.remove(gone)
    left = {one for one in ("T1", "T2", "E1") if await tokens.find(one) is not None}
    assert left == {"T1", "T2", "E1"} - {gone}


async def test_an_installation_without_a_bot_is_refused(tokens: Tokens) -> None:
    for wrong in (installation("T1", None), installation(None), installation("T1", bot_id=None)):
        with pytest.raises(BoltError):
            await tokens.async_save(wrong)
    assert await tokens.everything() == []


async def test_all_is_written_anew_under_the_first_key(db: Database, tokens: Tokens) -> None:
    await tokens.async_save(installation("T1", "xoxb-1", bot_refresh_token="xoxe-1"))
    fresh = Fernet(Fernet.generate_key())
    both = Tokens(db, "1.2", MultiFernet([fresh, KEY]))
    await both.seal_anew()
    assert await token_of(Tokens(db, "1.2", MultiFernet([fresh])), "T1") == "xoxb-1"
    assert await token_of(tokens, "T1") is None
    await tokens.seal_anew()  # what it cannot read it leaves alone
    assert await token_of(both, "T1") == "xoxb-1"


async def test_a_state_passes_once_even_when_it_is_brought_twice_at_once(
    db: Database, tokens: Tokens
) -> None:
    states = States(db)
    for _ in range(5):
        state = await states.async_issue()
        passed = await asyncio.gather(*(states.async_consume(state) for _ in range(8)))
        assert sorted(passed) == [False] * 7 + [True]
    assert not await states.async_consume("never issued")


async def test_a_state_does_not_pass_when_it_is_old_and_is_not_kept(
    db: Database, tokens: Tokens
) -> None:
    states = States(db)
    states.expiration_seconds = -1
    assert not await states.async_consume(await states.async_issue())
    states.expiration_seconds = 600
    await states.async_issue()
    async with db.read() as tx:
        assert await tx.value(sa.text("SELECT count(*) FROM slack_oauth_states")) == 1


async def test_installations_and_our_own_writers_wait_for_each_other(
    db: Database, tokens: Tokens
) -> None:
    states = States(db)

    async def ours(number: int) -> None:
        async with db.transaction("ours") as tx:
            assert await first_time(tx, (f"key-{number}",), 0.0)
            await asyncio.sleep(0.005)

    async def theirs(number: int) -> None:
        await tokens.async_save(installation(f"T{number}"))
        assert await states.async_consume(await states.async_issue())

    await asyncio.gather(*(work(number) for number in range(40) for work in (ours, theirs)))
    assert len(await tokens.everything()) == 40


async def test_installations_stand_in_the_queue_of_our_writers(
    db: Database, tokens: Tokens
) -> None:
    passed: list[str] = []
    db.points = passed.append
    await tokens.async_save(installation("T1"))
    await tokens.remove("T1")
    assert {"after slack install", "after slack uninstall"} <= set(passed)


async def test_a_database_that_is_not_there_is_said_as_everywhere(tmp_path: Path) -> None:
    nowhere = Database(f"sqlite:///{tmp_path}/missing/one.db")
    for work in (Tokens(nowhere, "1.2", KEYS).find("T1"), States(nowhere).async_consume("s")):
        with pytest.raises(DatabaseUnavailable):
            await work
    await nowhere.close()
