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
    """The kinds of work an engine wakes. Keys: a chat's id, a channel's key, a call's id."""

    CHAT = "chat"
    DELIVER = "deliver"
    TASK = "task"


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

    async def tools(self) -> Sequence[Tool]:
        """What is offered now. Raises ToolsUnavailable when that was never known."""

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
    to it."""

    name: str
    model: ChatModel
    instructions: str = ""
    tools: Sequence[Tool] = ()
    sources: Sequence[ToolSource] = ()
    calls: int = 50
    rounds: int = 25
    sees_images: bool = False
    max_tokens: int | None = None
    temperature: float | None = None

    def tool(self, name: str) -> Tool | None:
        """A tool by the name the model calls it, as far as it is known now."""
        found = next((one for one in self.tools if one.name == name), None)
        for source in self.sources:
            found = found or source.known(name)
        return found

    async def find(self, name: str) -> Tool | None:
        """As `tool`, after a server that was not asked yet in this process is asked.

        Raises ToolsUnavailable when the server it should come from does not answer."""
        found = self.tool(name)
        for source in self.sources:
            if found is None and name.startswith(f"{source.name}__"):
                found = next((one for one in await source.tools() if one.name == name), None)
        return found

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

    def now(self) -> float:
        return self.clock.now()


def new_id(kind: str) -> str:
    """An id of ours: its kind and 100 random bits, without letters that look alike."""
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    return f"{kind}_" + "".join(secrets.choice(alphabet) for _ in range(20))
