"""Calls whose process dies in them, and tools that a test holds up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from bot.chat import Chat
from bot.question import Question
from bot.tool import Tool, tool
from storage import chats
from storage.chats import ChatRow
from storage.database import Database
from tests.fakes.model import call
from tests.world import (
    World,
    only_question,
    until,
    world,
)


@dataclass
class Slow:
    """A tool whose first runs stay in their effect until they are let go: a process that dies
    there leaves it so for ever."""

    effects: list[str] = field(default_factory=list)
    stays: int = 1
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def tool(self, *, idempotent: bool = False) -> Tool:
        @tool(name="refund", approval="never", idempotent=idempotent)
        async def refund(order: str = "A1") -> str:
            self.effects.append(f"refund {order}")
            number = len(self.effects)
            if number <= self.stays:
                await self.go.wait()
            return f"refund {order} done in run {number}"

        return refund


async def chat_row(chat: Chat) -> ChatRow:
    async with chat.core.db.read() as tx:
        row = await chats.get(tx, chat.id)
    assert row is not None
    return row


@dataclass
class Lost:
    """A call whose process died in it; `old` is the dead process's runner."""

    world: World
    chat: Chat
    slow: Slow
    old: asyncio.Task[float | None]

    @property
    async def question(self) -> Question:
        return await only_question(self.chat)


async def lost_run(db: Database, order: str = "A1") -> Lost:
    slow = Slow()
    w = world(db, call("refund", order=order), "Done.", tools=[slow.tool()])
    chat = await w.chat()
    old = asyncio.create_task(chat.complete())
    await until(lambda: bool(slow.effects))
    w = await w.restart()
    await w.settle()
    return Lost(w, w.here(chat), slow, old)
