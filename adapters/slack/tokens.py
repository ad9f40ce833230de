"""The tokens of the workspaces that installed us, as slack_sdk's stores keep them in our own
database: encrypted, and with every statement in the queue of our writers."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

from cryptography.fernet import MultiFernet
from slack_bolt.error import BoltError
from slack_sdk.oauth.installation_store import Bot, Installation
from slack_sdk.oauth.installation_store.sqlalchemy import (
    AsyncSQLAlchemyInstallationStore,
    SQLAlchemyInstallationStore,
)
from slack_sdk.oauth.sqlalchemy_utils import normalize_datetime_for_db
from slack_sdk.oauth.state_store.sqlalchemy import AsyncSQLAlchemyOAuthStateStore

from adapters.slack.log import quiet
from storage.database import Database
from storage.sealed import Sealed

log = logging.getLogger(__name__)

STATE_SECONDS: Final = 600
_SECRETS: Final = (
    "bot_token",
    "bot_refresh_token",
    "user_token",
    "user_refresh_token",
    "incoming_webhook_url",
)


class Tokens(AsyncSQLAlchemyInstallationStore):
    """One installation per organisation: a workspace by its id, or all of an Enterprise Grid that
    installed us as a whole, by the enterprise's id.

    slack_sdk 3.48 keeps tokens in clear text and cuts them at 200 characters; here their columns
    are `Sealed`. Every method raises DatabaseUnavailable."""

    def __init__(self, database: Database, client_id: str, keys: MultiFernet) -> None:
        super().__init__(client_id, _engine(database), logger=quiet("slack_sdk"))
        self._database = database
        self._unreadable: set[str] = set()
        for table in (self.bots, self.installations):
            for column in table.columns:
                if column.name in _SECRETS:
                    column.type = Sealed(keys)

    async def create_tables(self) -> None:
        """Unless they are there; replicas may do so at once."""
        async with self._database.read() as tx:
            await tx.lock_tables()
            await super().create_tables()  # type: ignore[no-untyped-call]

    async def async_save(self, installation: Installation) -> None:
        """Raises BoltError when Slack gave no token of a bot."""
        if not (installation.bot_token and installation.bot_id and organisation_of(installation)):
            raise BoltError("the installation has no bot")
        await super().async_save(installation)

    async def find(self, organisation: str) -> Bot | None:
        """The newest installation of an organisation, if it can be read."""
        return next(iter(await self._found(self._of(self.bots, organisation))), None)

    async def everything(self) -> list[Bot]:
        """The newest installation of every organisation."""
        return await self._found(self.bots.c.client_id == self.client_id)

    async def remove(self, organisation: str) -> None:
        async with self._database.transaction("slack uninstall") as tx:
            for table in (self.bots, self.installations):
                await tx.change(table.delete().where(self._of(table, organisation)))

    async def seal_anew(self) -> None:
        """Writes every secret under the first key, so that the others can be dropped."""
        async with self._database.transaction("slack keys") as tx:
            for table in (self.bots, self.installations):
                for row in (await tx.run(table.select().with_for_update())).mappings().all():
                    secrets = {name: row[name] for name in _SECRETS if row.get(name) is not None}
                    if secrets:
                        await tx.run(table.update().where(table.c.id == row["id"]).values(secrets))

    def _of(self, table: Any, organisation: str) -> Any:
        """A team's id is Slack's own, whatever enterprise the team has come to since."""
        c = table.c
        whole = c.is_enterprise_install & (c.enterprise_id == organisation)
        one = ~c.is_enterprise_install & (c.team_id == organisation)
        return (c.client_id == self.client_id) & (whole | one)

    async def _found(self, condition: Any) -> list[Bot]:
        c = self.bots.c
        newest = self.bots.select().where(condition).order_by(c.installed_at.desc(), c.id.desc())
        async with self._database.read() as tx:
            rows = (await tx.run(newest)).mappings().all()
        found: dict[str, Bot | None] = {}
        for row in rows:
            whole = row["is_enterprise_install"]
            organisation = row["enterprise_id" if whole else "team_id"]
            if organisation not in found:
                readable = row["bot_token"] is not None
                bot = SQLAlchemyInstallationStore.build_bot_entity(row) if readable else None
                found[organisation] = bot
                if bot is None and organisation not in self._unreadable:
                    self._unreadable.add(organisation)
                    log.error(
                        "The token of %s cannot be read with SLACK_TOKEN_KEY, so that it counts as "
                        "not installed: add the key it was saved with, or install the app again.",
                        organisation,
                    )
        return [bot for bot in found.values() if bot is not None]


class States(AsyncSQLAlchemyOAuthStateStore):
    """One-time states of installations that have begun."""

    def __init__(self, database: Database) -> None:
        super().__init__(STATE_SECONDS, _engine(database), logger=quiet("slack_sdk"))
        self._database = database

    async def create_tables(self) -> None:
        """Unless they are there; replicas may do so at once."""
        async with self._database.read() as tx:
            await tx.lock_tables()
            await super().create_tables()  # type: ignore[no-untyped-call]

    async def async_issue(self, *args: Any, **kwargs: Any) -> str:
        async with self.engine.begin() as connection:
            await connection.execute(
                self.oauth_states.delete().where(self.oauth_states.c.expire_at <= _now())
            )
        return await super().async_issue(*args, **kwargs)

    async def async_consume(self, state: str) -> bool:
        """One statement: slack_sdk 3.48 looks and then deletes, which on PostgreSQL lets the same
        state pass twice at once."""
        c = self.oauth_states.c
        spent = self.oauth_states.delete().where((c.state == state) & (c.expire_at > _now()))
        async with self.engine.begin() as connection:
            return (await connection.execute(spent)).rowcount == 1


def organisation_of(installed: Bot | Installation) -> str:
    """What installed us: the enterprise as a whole, or one workspace."""
    whole = installed.is_enterprise_install
    return (installed.enterprise_id if whole else installed.team_id) or ""


def _now() -> Any:
    return normalize_datetime_for_db(datetime.fromtimestamp(time.time(), tz=UTC))


class _Queued:
    """The database as the stores of slack_sdk use an engine."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextlib.asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        async with self._database.transaction("slack install") as tx:
            yield tx.connection

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        async with self._database.read() as tx:
            yield tx.connection


def _engine(database: Database) -> Any:
    return _Queued(database)
