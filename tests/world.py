"""A whole product in memory around a real database: what tests of the loop stand on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

from pydantic_ai.messages import ToolReturnPart, UserPromptPart

from bot.app import handlers_of
from bot.approvers import Policies, Policy
from bot.chat import Chat
from bot.core import Agent, Core, Job, ToolSource
from bot.embedded import EmbeddedEngine
from bot.jobs import Handler
from bot.question import Question
from bot.scripted import Step
from bot.service import Service
from bot.surface import Actor, Place
from bot.tool import Approval, Tool, tool
from bot.transcript import load
from storage import audit, outbox
from storage.audit import AuditRow
from storage.database import Database
from storage.outbox import PostingRow
from tests.fakes.clock import FakeClock
from tests.fakes.model import ScriptedModel, script
from tests.fakes.surface import MemorySurface

ANA = Actor("slack", "T1", "ANA", "ana")  # asks the agent
BEN = Actor("slack", "T1", "BEN", "ben")  # approves
CYN = Actor("slack", "T1", "CYN", "cyn")  # nobody in particular

BEN_APPROVES = Policy(name="ops", approvers=frozenset({BEN.key}))

_roots = count(1)


@dataclass
class World:
    """One process of the product. `restart` is what a new process on the same rows is."""

    db: Database
    tools: Sequence[Tool]
    model: ScriptedModel
    policies: Sequence[Policy] = (BEN_APPROVES,)
    clock: Any = field(default_factory=FakeClock)
    surface: MemorySurface = field(default_factory=MemorySurface)
    rounds: int = 25
    calls: int = 50
    sources: Sequence[ToolSource] = ()
    sees_images: bool = False

    def __post_init__(self) -> None:
        self.engine = EmbeddedEngine(self.db, self.clock)
        agent = Agent(
            name="agent",
            model=self.model,
            instructions="Help.",
            tools=self.tools,
            sources=self.sources,
            sees_images=self.sees_images,
            rounds=self.rounds,
            calls=self.calls,
        )
        self.core = Core(
            db=self.db,
            clock=self.clock,
            wake=self.engine.wake,
            policies=Policies(self.policies),
            agents={"agent": agent},
            surfaces={self.surface.name: self.surface},
        )
        self.service = Service(self.core, agent="agent")

    @cached_property
    def handlers(self) -> dict[Job, Handler]:
        return handlers_of(self.core, owner="process")

    async def settle(self) -> None:
        """Everything that is due happens: chats run, cards are delivered."""
        await self.engine.settle(self.handlers)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """The process runs beside the test, which ends every call it holds up."""
        process = asyncio.create_task(self.engine.run(self.handlers))
        try:
            yield
        finally:
            process.cancel()
            await asyncio.gather(process, return_exceptions=True)

    async def restart(
        self, *, tools: Sequence[Tool] | None = None, policies: Sequence[Policy] | None = None
    ) -> World:
        """A new process after a kill: same rows, same surface, same people."""
        world = World(
            self.db,
            self.tools if tools is None else tools,
            self.model,
            self.policies if policies is None else policies,
            self.clock,
            self.surface,
        )
        await world.engine.recover()
        return world

    async def chat(self, text: str | None = "please", *, by: Actor = ANA) -> Chat:
        """A chat in a thread of its own, with something said."""
        place = Place("slack", "T1", "C1", f"{next(_roots)}.0")
        chat = await Chat.open(self.core, place, agent="agent", requester=by)
        if text is not None:
            await chat.say(text, by=by)
        return chat

    def here_id(self, chat_id: str) -> Chat:
        return Chat(chat_id, self.core)

    def here(self, chat: Chat) -> Chat:
        """The same chat, seen by this process."""
        return Chat(chat.id, self.core)


async def only_question(chat: Chat) -> Question:
    (question,) = await chat.pending_questions()
    return question


def world(
    db: Database,
    *steps: Step,
    tools: Sequence[Tool] = (),
    policies: Sequence[Policy] | None = None,
    **options: Any,
) -> World:
    clock = FakeClock()
    model = script(*steps, now=clock.now, sleep=clock.sleep)
    policies = (BEN_APPROVES,) if policies is None else policies
    return World(db, tools, model, policies, clock, **options)


def effect(
    effects: list[str],
    name: str = "refund",
    *,
    approval: Approval = "always",
    idempotent: bool = False,
) -> Tool:
    """A tool whose every run leaves `<name> <order>` in `effects`."""

    @tool(name=name, approval=approval, idempotent=idempotent)
    async def run(order: str = "A1") -> str:
        """Has an effect on an order."""
        effects.append(f"{name} {order}")
        return f"{name} {order} done"

    return run


async def returned(chat: Chat) -> list[str]:
    """What the model reads of the calls of the chat, in order."""
    return [
        str(part.content)
        for row in await chat.transcript()
        for part in load(row.body).parts
        if isinstance(part, ToolReturnPart)
    ]


async def said(chat: Chat) -> list[str]:
    """What people said, as the model reads it."""
    return [
        str(part.content)
        for row in await chat.transcript()
        for part in load(row.body).parts
        if isinstance(part, UserPromptPart)
    ]


async def audited(chat: Chat, event: str = "") -> list[AuditRow]:
    """The audit rows of the chat, of one event or of all."""
    async with chat.core.db.read() as tx:
        rows = await audit.of_chat(tx, chat.id)
    return [row for row in rows if event in ("", row.event)]


async def copies(chat: Chat, question: Question) -> list[PostingRow]:
    """The recorded copies of a question's card."""
    async with chat.core.db.read() as tx:
        return await outbox.postings_of(tx, outbox.question_subject(question.id))


async def until(check: Callable[[], bool | Awaitable[bool]]) -> None:
    """Waits for what other tasks do meanwhile."""
    async with asyncio.timeout(10):
        while True:
            found = check()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.005)
