"""The tables that adapters make as they start, on replicas that start at once."""

from __future__ import annotations

import asyncio

import sqlalchemy as sa
from cryptography.fernet import Fernet, MultiFernet

from adapters.slack.tokens import States, Tokens
from storage.conversations import Conversations
from storage.database import Database

_MADE = ("conversations", "slack_bots", "slack_installations", "slack_oauth_states")


async def test_replicas_that_start_at_once_make_the_tables_of_adapters_once(db: Database) -> None:
    replicas = [Database(db.url.render_as_string(hide_password=False)) for _ in range(4)]
    keys = MultiFernet([Fernet(Fernet.generate_key())])
    try:
        for _ in range(5):
            async with db.transaction("drop") as tx:
                for table in _MADE:
                    await tx.run(sa.text(f"DROP TABLE IF EXISTS {table}"))
            await asyncio.gather(*(Conversations(one, "teams").create_table() for one in replicas))
            await asyncio.gather(*(Tokens(one, "id", keys).create_tables() for one in replicas))
            await asyncio.gather(*(States(one).create_tables() for one in replicas))
    finally:
        for one in replicas:
            await one.close()
