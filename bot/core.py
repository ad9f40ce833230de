"""What every decision needs: the database, the clock, who may decide, and how work is woken."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from bot.approvers import Policies
from bot.clock import Clock
from bot.surface import Surface
from bot.tool import Tool
from storage.database import Database, Tx


class Job(StrEnum):
    """The kinds of work an engine wakes. Keys: a chat's id, a channel's key, a call's id, a
    question's id."""

    CHAT = "chat"
    DELIVER = "deliver"
    TASK = "task"
    DUE = "due"


class Wake(Protocol):
    """Makes work due, inside the transaction that made it (design: the engine port)."""

    def __call__(
        self, tx: Tx, job: Job, key: str, *, at: float | None = None
    ) -> Awaitable[None]: ...


class ChatModel(Protocol):
    """One turn of a language model (`bot.model.Model`, `bot.scripted.Script`)."""

    name: str
    context_tokens: int

    async def turn(self, history: Any, tools: Any, settings: Any, on_text: Any) -> Any: ...


class ToolsUnavailable(Exception):
    """A server's tools cannot be listed: one sentence."""


class ToolSource(Protocol):
    """Where tools come from that are not known before the start (bot.mcp.tools)."""

    name: str

    async def tools(self, *, fresh: bool = False) -> Sequence[Tool]:
        """What is offered; `fresh`: as of now, if the server answers. Raises ToolsUnavailable
        when it was never known."""

    def known(self, name: str) -> Tool | None:
        """A tool of the last list, by the name the model calls it."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def health(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Agent:
    """One agent: what it is told, its model and its tools, in an order that does not change.

    `calls`: how many calls of one response are handled. `rounds`: how many times the model is
    asked before it must have answered a person. `sees_images`: images that tools return are shown
    to it. `first_tool`: must be called first when a person has spoken (row L5)."""

    name: str
    model: ChatModel
    instructions: str = ""
    tools: Sequence[Tool] = ()
    sources: Sequence[ToolSource] = ()
    calls: int = 50
    rounds: int = 25
    sees_images: bool = False
    first_tool: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None

    def tool(self, name: str) -> Tool | None:
        """A tool by the name the model calls it, as far as it is known now."""
        found = next((one for one in self.tools if one.name == name), None)
        for source in self.sources:
            found = found or source.known(name)
        return found

    async def find(self, name: str, *, fresh: bool = False) -> Tool | None:
        """As `tool`, but a server's tool as its list has it now; `fresh`: a list of this moment.

        Raises ToolsUnavailable when the server was never reached."""
        for source in self.sources:
            if name.startswith(f"{source.name}__"):
                offered = await source.tools(fresh=fresh)
                return next((one for one in offered if one.name == name), None)
        return self.tool(name)

    async def offered(self) -> list[Tool]:
        """All tools for one turn, in an order that does not change. A server that was never
        reached offers none."""
        offered = list(self.tools)
        for source in self.sources:
            with contextlib.suppress(ToolsUnavailable):
                offered += await source.tools()
        return offered


@dataclass(kw_only=True)
class Core:
    """`agents` may be empty in a process that only lists and decides (row Q23)."""

    db: Database
    clock: Clock
    wake: Wake
    policies: Policies = field(default_factory=Policies)
    agents: Mapping[str, Agent] = field(default_factory=dict)
    surfaces: dict[str, Surface] = field(default_factory=dict)

    def tool(self, agent: str, name: str) -> Tool | None:
        """A tool of an agent, as far as both are known in this process now."""
        found = self.agents.get(agent)
        return None if found is None else found.tool(name)

    async def find_tool(self, agent: str, name: str, *, fresh: bool = False) -> Tool | None:
        """As Agent.find; None when the agent is not configured here. Raises ToolsUnavailable."""
        found = self.agents.get(agent)
        return None if found is None else await found.find(name, fresh=fresh)

    def now(self) -> float:
        return self.clock.now()


def new_id(kind: str) -> str:
    """An id of ours: its kind and 100 random bits, without letters that look alike."""
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    return f"{kind}_" + "".join(secrets.choice(alphabet) for _ in range(20))
