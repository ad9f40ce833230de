"""The Teams scenarios: the fake, the surface against it, and the whole product behind that."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from botframework.connector.auth import microsoft_app_credentials  # type: ignore[import-untyped]

from adapters.teams.settings import TeamsSettings
from adapters.teams.transport import TeamsSurface
from bot.approvers import Policies, Policy
from bot.clock import Clock
from bot.core import Agent, Core
from bot.embedded import EmbeddedEngine
from bot.scripted import Step
from bot.service import Service
from bot.surface import Entry
from bot.tool import Tool
from storage.database import Database
from tests.fakes.clock import WallClock
from tests.fakes.model import ScriptedModel, script
from tests.fakes.teams import APP, TENANT, Entra, FakeTeams, Shown, buttons_of
from tests.scenario.serving import serving, working


def person(who: str, teams: FakeTeams) -> str:
    return f"teams:{TENANT}/{teams.people[who].user}"


@pytest.fixture
def entra(monkeypatch: pytest.MonkeyPatch) -> type[Entra]:
    """Entra stands where the SDK asks MSAL."""
    Entra.forget()
    monkeypatch.setattr(microsoft_app_credentials, "ConfidentialClientApplication", Entra)
    return Entra


@asynccontextmanager
async def running(
    teams: FakeTeams,
    entry: Entry,
    database: Database,
    clock: Clock | None = None,
    *,
    tenants: frozenset[str] = frozenset({TENANT}),
    insecure: bool = False,
) -> AsyncIterator[TeamsSurface]:
    settings = TeamsSettings(APP, TENANT, "s3cret", tenants, teams.cloud, "/api/messages", insecure)
    surface = TeamsSurface(settings, entry, clock or WallClock(), database)

    def at(address: str) -> None:
        teams.bot_url = f"{address}/api/messages"

    async with serving(surface, at):
        yield surface


@dataclass
class Product:
    """The product on one conversation of the fake."""

    teams: FakeTeams
    model: ScriptedModel
    core: Core
    thread: str = ""

    async def mention(self, text: str = "please") -> None:
        self.thread = await self.teams.mention("ana", text)

    async def card(self, title: str, thread: str = "") -> Shown:
        """The card with this title, once it has buttons."""
        return await self.teams.until(
            lambda: next(
                (
                    one
                    for one in self.teams.in_thread(thread or self.thread)
                    if one.card is not None and title in one.text and buttons_of(one.card)
                ),
                None,
            )
        )

    async def reads(self, text: str, thread: str = "") -> Shown:
        return await self.teams.until(
            lambda: next(
                (one for one in self.teams.in_thread(thread or self.thread) if text in one.text),
                None,
            )
        )

    def count(self, text: str) -> int:
        return sum(text in one.text for one in self.teams.messages)

    def model_read(self) -> str:
        return str(self.model.requests[-1].messages)


@asynccontextmanager
async def product(
    db: Database,
    *steps: Step,
    tools: Sequence[Tool] = (),
    approvers: Sequence[str] = ("ben",),
    teams: FakeTeams | None = None,
    thread: str = "",
) -> AsyncIterator[Product]:
    """One process of the product; `teams` is there before it and after it."""
    async with contextlib.nullcontext(teams) if teams else FakeTeams() as world:
        engine = EmbeddedEngine(db, WallClock(), poll_seconds=0.05)
        model = script(*steps)
        policy = Policy(name="ops", approvers=frozenset(person(one, world) for one in approvers))
        core = Core(
            db=db,
            clock=WallClock(),
            wake=engine.wake,
            policies=Policies([policy]),
            agents={"ops": Agent(name="ops", model=model, tools=tools)},
        )
        async with running(world, Service(core, agent="ops"), db) as surface:
            core.surfaces["teams"] = surface
            async with working(core, engine):
                yield Product(world, model, core, thread)
