"""Several processes on one database: what each does, and that none of the other kind is there."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.app import App, Role
from bot.approvers import Policies, Policy
from bot.core import Agent
from bot.distributed import prepare
from bot.jobs import EngineKind
from bot.secrets import ConfigError
from bot.surface import Decision, Message, Place, Verb
from bot.tool import tool
from storage.database import Database
from tests.fakes.model import call, script
from tests.fakes.surface import MemorySurface
from tests.world import ANA, BEN, until

HERE = Place("slack", "T1", "C1", "1.0")


def replica(url: str, jobs: EngineKind = EngineKind.DISTRIBUTED, role: Role = Role.ALL) -> App:
    agent = Agent(name="ops", model=script("hi"))
    return App(database=url, agents={"ops": agent}, policies=Policies(), jobs=jobs, role=role)


def test_one_process_has_one_role_and_several_need_postgres(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'bot.db'}"
    with pytest.raises(ConfigError, match="one process does everything"):
        replica(url, EngineKind.EMBEDDED, Role.WEB)
    with pytest.raises(ConfigError, match="needs PostgreSQL"):
        replica(url)


async def test_replicas_share_a_database_and_no_process_of_the_other_kind_is_among_them(
    postgres_db: Database, postgres_url: str
) -> None:
    await prepare(postgres_db)
    async with replica(postgres_url).started(), replica(postgres_url).started():
        with pytest.raises(ConfigError, match="Another Interlock process"):
            async with replica(postgres_url, EngineKind.EMBEDDED).started():
                pass
    async with replica(postgres_url, EngineKind.EMBEDDED).started():
        with pytest.raises(ConfigError, match="embedded"):
            async with replica(postgres_url).started():
                pass


async def test_without_the_tables_of_the_engine_none_starts(
    postgres_db: Database, postgres_url: str
) -> None:
    await prepare(postgres_db)
    async with postgres_db.transaction("drop") as tx:
        await tx.run(sa.text("ALTER TABLE procrastinate_jobs RENAME TO elsewhere"))
    try:
        with pytest.raises(ConfigError, match="interlock db upgrade"):
            async with replica(postgres_url).started():
                pass
    finally:
        async with postgres_db.transaction("back") as tx:
            await tx.run(sa.text("ALTER TABLE elsewhere RENAME TO procrastinate_jobs"))


async def test_what_one_replica_hears_and_another_decides_a_third_runs(
    postgres_db: Database, postgres_url: str
) -> None:
    """Asked at one, posted by the worker, clicked at the other."""
    await prepare(postgres_db)
    effects: list[str] = []

    @tool
    async def refund(order: str) -> str:
        """Refunds an order."""
        effects.append(order)
        return "ok"

    steps = call("refund", order="A1"), "Done."
    agent = Agent(name="ops", model=script(*steps), tools=[refund])
    policies = Policies([Policy(name="ops", approvers=frozenset({BEN.key}))])
    surface = MemorySurface()

    def app(role: Role) -> App:
        made = App(
            database=postgres_url,
            agents={"ops": agent},
            policies=policies,
            jobs=EngineKind.DISTRIBUTED,
            role=role,
        )
        made.core.surfaces["slack"] = surface
        return made

    first, second, worker = app(Role.WEB), app(Role.WEB), app(Role.WORKER)
    async with first.started(), second.started(), worker.started():
        running = [asyncio.create_task(one.run()) for one in (first, second, worker)]
        try:
            hello = Message(keys=("e1",), place=HERE, actor=ANA, text="hello", starts=True)
            assert await first.service().message(hello)
            await until(lambda: bool(surface.cards()))
            (card,) = surface.cards()
            decision = Decision(
                nonce=card.nonce, verb=Verb.APPROVE, actor=BEN, via="button", place=HERE
            )
            answers = await asyncio.gather(
                *(one.service().decide(decision) for one in (first, second) * 25)
            )
            assert sum(answer.done for answer in answers) >= 1
            await until(lambda: "Done." in surface.replies())
        finally:
            for task in running:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*running, return_exceptions=True)
    assert effects == ["A1"]
    async with postgres_db.read() as tx:
        assert await tx.value(sa.text("SELECT count(*) FROM decisions")) == 1
