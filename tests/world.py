"""A whole product in memory around a real database: what tests of the loop stand on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from bot.approvers import Policies, Policy
from bot.chat import Chat
from bot.core import Agent, Core, Job
from bot.deliver import Deliverer
from bot.jobs import EmbeddedEngine, Handler
from bot.loop import Loop
from bot.question import Question
from bot.service import Service
from bot.surface import Actor, Place
from bot.tool import Tool
from storage.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.model import ScriptedModel, Step, script
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
    clock: FakeClock = field(default_factory=FakeClock)
    surface: MemorySurface = field(default_factory=MemorySurface)
    rounds: int = 25
    calls: int = 50

    def __post_init__(self) -> None:
        self.engine = EmbeddedEngine(self.db, self.clock)
        agent = Agent(
            name="agent",
            model=self.model,
            instructions="Help.",
            tools=self.tools,
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

    @property
    def handlers(self) -> dict[Job, Handler]:
        return {
            Job.CHAT: Loop(self.core, "process").complete,
            Job.DELIVER: Deliverer(self.core).deliver,
        }

    async def settle(self) -> None:
        """Everything that is due happens: chats run, cards are delivered."""
        await self.engine.settle(self.handlers)

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

    def here(self, chat: Chat) -> Chat:
        """The same chat, seen by this process."""
        return Chat(chat.id, self.core)


async def only_question(chat: Chat) -> Question:
    (question,) = await chat.pending_questions()
    return question


def world(
    db: Database, *steps: Step, tools: Sequence[Tool] = (), policies: Sequence[Policy] | None = None
) -> World:
    return World(db, tools, script(*steps), (BEN_APPROVES,) if policies is None else policies)
