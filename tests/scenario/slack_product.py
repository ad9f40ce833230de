"""The whole product on a thread of the fake workspace, in one process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bot.approvers import Policies, Policy
from bot.core import Agent, Core, ToolSource
from bot.embedded import EmbeddedEngine
from bot.scripted import Step
from bot.service import Service
from bot.tool import Tool
from storage.database import Database
from tests.fakes.clock import WallClock
from tests.fakes.model import ScriptedModel, script
from tests.fakes.slack import FakeSlack, View, buttons_of, text_of
from tests.scenario.serving import working
from tests.scenario.slack_world import Mode, running

ANA, BEN, CYN, OPS = "U_ANA", "U_BEN", "U_CYN", "C_OPS"
POLICY = Policy(name="ops", approvers=frozenset({f"slack:T1/{BEN}"}))


@dataclass
class Product:
    """The product on one thread of the fake workspace."""

    slack: FakeSlack
    model: ScriptedModel
    db: Database
    core: Core
    effects: list[Any] = field(default_factory=list)
    root: str = ""

    async def mention(self, text: str = "please") -> None:
        self.root = await self.slack.mention(ANA, OPS, text)

    def thread(self) -> list[dict[str, Any]]:
        return self.slack.thread(OPS, self.root)

    def count(self, text: str) -> int:
        return sum(text in text_of(one) for one in self.thread())

    async def reads(self, text: str) -> None:
        await self.slack.until(lambda: self.count(text), seconds=10)

    async def card(self, title: str) -> dict[str, Any]:
        return await self.slack.until(
            lambda: next(
                (one for one in self.thread() if title in text_of(one) and buttons_of(one)), None
            ),
            seconds=10,
        )

    def direct(self, who: str) -> list[dict[str, Any]]:
        """What stands in this person's direct messages with the bot."""
        channel = self.slack.direct_channel(who)
        return list(self.slack.world.channels[channel].messages.values())

    async def direct_card(self, who: str, title: str) -> dict[str, Any]:
        return await self.slack.until(
            lambda: next(
                (one for one in self.direct(who) if title in text_of(one) and buttons_of(one)), None
            ),
            seconds=10,
        )

    async def click_direct(self, who: str, title: str, button: str) -> dict[str, Any]:
        card = await self.direct_card(who, title)
        await self.slack.click(who, self.slack.direct_channel(who), card["ts"], button)
        return card

    async def click(self, who: str, title: str, button: str) -> dict[str, Any]:
        card = await self.card(title)
        await self.slack.click(who, OPS, card["ts"], button)
        return card

    async def modal(self, who: str) -> View:
        return await self.slack.until(
            lambda: next((one for one in self.slack.open_views(who) if "submit" in one.body), None)
        )

    async def told(self, who: str, text: str) -> None:
        await self.slack.until(
            lambda: any(text in text_of(one) for one in self.slack.ephemerals(who)), seconds=5
        )

    def model_read(self) -> str:
        return str(self.model.requests[-1].messages)


@asynccontextmanager
async def product(
    db: Database,
    *steps: Step,
    tools: Sequence[Tool] = (),
    sources: Sequence[ToolSource] = (),
    policies: Sequence[Policy] = (POLICY,),
    workspace: FakeSlack | None = None,
    root: str = "",
    mode: Mode = "http",
    sees_images: bool = False,
) -> AsyncIterator[Product]:
    """One process of the product; `workspace` is there before it and after it."""
    own = contextlib.nullcontext(workspace) if workspace else FakeSlack(WallClock())
    async with own as slack:
        engine = EmbeddedEngine(db, WallClock(), poll_seconds=0.05)
        model = script(*steps)
        core = Core(
            db=db,
            clock=WallClock(),
            wake=engine.wake,
            policies=Policies(policies),
            agents={
                "ops": Agent(
                    name="ops",
                    model=model,
                    tools=tools,
                    sources=sources,
                    sees_images=sees_images,
                )
            },
        )
        async with running(slack, Service(core, agent="ops"), mode, db) as surface:
            core.surfaces["slack"] = surface
            async with working(core, engine):
                yield Product(slack, model, db, core, root=root)
