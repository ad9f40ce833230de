"""A chat as a program uses it: say something, carry it on, see what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.core import Core, Job, new_id
from bot.desk import Desk
from bot.identity import learn
from bot.loop import Loop
from bot.question import Question
from bot.surface import Actor, Place
from bot.task import Task, Tasks
from bot.timers import Timers
from bot.transcript import dump, load, text_of, user_message
from storage import calls, chats, messages
from storage.calls import CallRow, CallState
from storage.database import Tx
from storage.messages import MessageRow, UsageRow


class ChatWaiting(Exception):
    """Something new was said while the chat waits for people; it was not stored (rows A17, A18).
    `tools` are the names of the calls that are unsettled."""

    def __init__(self, tools: tuple[str, ...]) -> None:
        super().__init__(
            f"This chat waits for {', '.join(tools)}: settle that first, or queue the message."
        )
        self.tools = tools


@dataclass(frozen=True, slots=True)
class Chat:
    """The durable conversation of one thread. Any process may hold one; the rows are the truth."""

    id: str
    core: Core

    @classmethod
    async def open(cls, core: Core, place: Place, *, agent: str, requester: Actor) -> Chat:
        """The chat of this thread; begun if there is none."""
        async with core.db.transaction("open_chat") as tx:
            row = await chats.open_at(
                tx,
                place,
                chat_id=new_id("chat"),
                agent=agent,
                requester=requester.key,
                now=core.now(),
            )
        return cls(row.id, core)

    async def say(self, text: str, *, by: Actor) -> int:
        """Tells the agent something; its answer comes with `complete`.

        Raises ChatWaiting while a call is unsettled."""
        async with self.core.db.transaction("say") as tx:
            await chats.lock(tx, self.id)
            open_calls = await self._unsettled(tx)
            if not open_calls:
                return await queue(self.core, tx, self.id, text, by=by)
        raise ChatWaiting(
            tuple(
                call.name if call.task is None else f"{call.name} (a background task)"
                for call in open_calls
            )
        )

    async def queue(self, text: str, *, by: Actor) -> int:
        """As `say`, but while the chat waits the message is kept and delivered after the round
        (row Q27). The id withdraws it."""
        async with self.core.db.transaction("queue_message") as tx:
            return await queue(self.core, tx, self.id, text, by=by)

    async def withdraw(self, message_id: int) -> bool:
        """Takes a queued message back; False once it was taken up or withdrawn (row Q28)."""
        async with self.core.db.transaction("withdraw_message") as tx:
            return await messages.withdraw(tx, self.id, message_id)

    async def complete(self) -> float | None:
        """Carries the chat on until it waits or owes nothing; see bot.loop.Loop.complete. Each
        background task, and each question whose time has come, is looked at once, and never waited
        for (row T2)."""
        for question in await self.pending_questions():
            await Timers(self.core).due(question.id)
        for task in await self.pending_tasks():
            await task.refresh()
        return await Loop(self.core, owner=new_id("runner")).complete(self.id)

    async def step(self) -> float | None:
        """Makes one move."""
        return await Loop(self.core, owner=new_id("runner")).step(self.id)

    async def cancel(self, *, by: Actor) -> None:
        """Stops it: open questions are closed, what has not run does not run, a streaming answer
        ends; a call that runs is let finish. The chat is usable afterwards."""
        async with self.core.db.transaction("cancel_chat") as tx:
            await chats.cancel(tx, self.id, by.key)
            await self.core.wake(tx, Job.CHAT, self.id)

    async def pending_questions(self) -> list[Question]:
        """What it waits for, oldest first; from rows alone (row Q23)."""
        return await Desk(self.core).pending(self.id)

    async def pending_tasks(self) -> list[Task]:
        """The background calls that have not ended; from rows alone."""
        return await Tasks(self.core).pending(self.id)

    async def question(self, question_id: str) -> Question | None:
        """A question of this chat by its id, open or not."""
        found = await Desk(self.core).question(question_id)
        return found if found is not None and await self._owns(found) else None

    async def waiting(self) -> bool:
        """Whether a call of it is unsettled."""
        async with self.core.db.read() as tx:
            return bool(await self._unsettled(tx))

    async def calls(self) -> list[CallRow]:
        """The journal: every call, in the order the model asked for them."""
        async with self.core.db.read() as tx:
            return await calls.in_state(tx, self.id, list(CallState))

    async def transcript(self) -> list[MessageRow]:
        async with self.core.db.read() as tx:
            return await messages.history(tx, self.id)

    async def last_reply(self) -> str:
        """What the agent said last; empty if nothing."""
        for row in reversed(await self.transcript()):
            if row.kind == "response" and (text := text_of(load(row.body))):
                return text
        return ""

    async def usage(self) -> UsageRow:
        async with self.core.db.read() as tx:
            return await messages.usage(tx, self.id)

    async def _owns(self, question: Question) -> bool:
        async with self.core.db.read() as tx:
            row = await calls.get(tx, question.id.partition("/")[0])
        return row is not None and row.chat_id == self.id

    async def _unsettled(self, tx: Tx) -> list[CallRow]:
        states = [CallState.WAITING, CallState.READY, CallState.RUNNING, CallState.UNKNOWN]
        return await calls.in_state(tx, self.id, states)


async def queue(
    core: Core,
    tx: Tx,
    chat_id: str,
    text: str,
    *,
    by: Actor,
    source: str | None = None,
    on_behalf: Sequence[str] | None = None,
) -> int:
    """Stores what a person said and stirs the chat; `on_behalf` as of messages.queue."""
    message_id = await messages.queue(
        tx,
        chat_id,
        dump(user_message(text, name=by.label)),
        author=by.key,
        source=source,
        now=core.now(),
        on_behalf=on_behalf,
    )
    await chats.stir(tx, chat_id)
    await learn(tx, by, core.now())
    await core.wake(tx, Job.CHAT, chat_id)
    return message_id
