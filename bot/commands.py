"""The commands people type, one implementation for every surface."""

from __future__ import annotations

from bot.approvers import may_stop
from bot.card import draw
from bot.chat import Chat
from bot.core import Core
from bot.surface import Command
from storage import calls, chats, messages, outbox, questions
from storage.calls import CallState
from storage.chats import ChatRow
from storage.database import Tx

HELP = """\
- `status`: what the agent is doing in this thread
- `pending`: the questions that wait for somebody in this channel
- `stop`: stops the agent in this thread
- `help`: this list"""


async def run(core: Core, event: Command) -> str:
    """The answer to a command, in Markdown, for the one who typed it."""
    match event.name:
        case "status":
            return await _status(core, event)
        case "pending":
            return await _pending(core, event)
        case "stop":
            return await _stop(core, event)
        case "help" | "":
            return HELP
        case _:
            return f"There is no command {event.name!r}. The commands are:\n{HELP}"


async def _status(core: Core, event: Command) -> str:
    async with core.db.read() as tx:
        chat = await chats.at_place(tx, event.place)
        if chat is None:
            return "No chat lives in this thread."
        return "\n".join(await describe(core, tx, chat))


async def describe(core: Core, tx: Tx, chat: ChatRow) -> list[str]:
    """What a chat is at, a line each."""
    waiting = await calls.in_state(tx, chat.id, [CallState.WAITING, CallState.UNKNOWN])
    active = await calls.in_state(tx, chat.id, [CallState.READY, CallState.RUNNING])
    queued = await messages.queued(tx, chat.id)
    usage = await messages.usage(tx, chat.id)
    failed = await outbox.failures(tx, chat.id)
    if chat.owner is not None:
        state = "at work"
    elif waiting:
        state = "waiting for people"
    else:
        state = "idle"
    cost = "unknown cost" if usage.cost is None else f"{usage.cost:.4f} US dollars"
    lines = [f"**{chat.agent}** is {state} (chat `{chat.id}`)."]
    lines += [f"- `{call.name}` waits for a decision" for call in waiting]
    lines += [f"- `{call.name}` is {call.state}" for call in active]
    lines += [f"- {len(queued)} message(s) queued"] if queued else []
    lines += [f"- could not be delivered: {row.subject} ({row.error})" for row in failed]
    tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
    lines.append(f"- {usage.turns} model turns, {tokens}, {cost}")
    return lines


async def _pending(core: Core, event: Command) -> str:
    lines = []
    async with core.db.read() as tx:
        for row in await questions.open_in_channel(tx, event.place):
            call = None if row.call_id is None else await calls.get(tx, row.call_id)
            chat = None if row.chat_id is None else await chats.get(tx, row.chat_id)
            if call is not None and chat is not None:
                card = draw(row, call, chat.agent)
                mine = event.actor.key in card.deciders
                lines.append((not mine, f"- {card.title}" + (" **(yours)**" if mine else "")))
    if not lines:
        return "Nothing waits for anybody in this channel."
    return "\n".join(line for _, line in sorted(lines, key=lambda one: one[0]))


async def _stop(core: Core, event: Command) -> str:
    async with core.db.read() as tx:
        chat = await chats.at_place(tx, event.place)
    if chat is None:
        return "No chat lives in this thread, so there is nothing to stop."
    if not may_stop(
        event.actor, agent=chat.agent, requester=chat.requester, policies=core.policies
    ):
        return "Only the person who asked the agent, or an approver, can stop it."
    await Chat(chat.id, core).cancel(by=event.actor)
    return "Stopping: what has not run will not run."
