"""The commands people type, one implementation for every surface."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from bot import difference, listing, rule_commands
from bot.approvers import may_speak, may_stop
from bot.chat import Chat
from bot.core import Core
from bot.markdown import age, code, moment
from bot.surface import Actor, Command, Listing
from bot.task import Tasks, expires_at
from storage import audit, chats, messages, questions, scope
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.database import Tx, canonical
from storage.questions import QuestionRow, QuestionState
from storage.redact import mask_all
from storage.scope import Scope

HELP: Final = """\
- `status [PAGE]`: the chats, questions and running calls of this channel, yours first, and what \
the agent is doing in this thread
- `pending [PAGE]`: the questions that wait for somebody in this channel
- `task ID`: one call in detail
- `cancel ID`: asks the server of a background call to stop; with the id of a chat, stops the chat
- `stop`: stops the agent in this thread
- `rules [PAGE]`: the standing rules: what runs without asking here, is asked about or refused
- `rules add TOOL allow|ask|deny [when ARGUMENT=VALUE and …] \
[in thread|channel|workspace|everywhere] [for 2h|7d] [3 times] [only for me]`: shows what such a \
rule would do, and with `yes` at its end saves it
- `rules revoke ID`: ends a rule
- `usage`: tokens and cost of this thread and of this channel
- `help`: this list

Only you see the answers."""

_PAGED: Final = ("status", "pending", "rules")
_NAMING: Final = ("task", "cancel")
_ALONE: Final = ("stop", "usage", "help")
_PAGE: Final = re.compile(r"[0-9]{1,4}")
# As `bot.core.new_id` makes them: no i, l, o, u.
_ID: Final = re.compile(r"((?:call|chat)_)?([0-9a-hjkmnp-tv-z]{4,20})")
_TYPED_ID: Final = 6  # in a mention, where "cancel that" is for the agent

_ARGUMENTS: Final = 1_500  # characters of a call's arguments that an answer shows

NO_THREAD: Final = (
    "Nothing says which thread is meant here. Mention me in the thread with `stop`, or use "
    "`cancel ID`; `status` lists the ids."
)
OUTSIDER: Final = "Commands are for people of this organisation."


def read(text: str) -> tuple[str, str] | None:
    """The name and argument of a text that is exactly a command; None: it is for the agent."""
    first, _, rest = text.strip().partition(" ")
    if first.casefold() == "rules" and rule_commands.read(rest):
        return "rules", rest.strip()
    name, _, argument = text.strip().casefold().partition(" ")
    argument = argument.strip()
    if name in _ALONE:
        return None if argument else (name, "")
    if name in _PAGED:
        return (name, argument) if not argument or _PAGE.fullmatch(argument) else None
    found = _ID.fullmatch(argument.strip("`"))
    if name in _NAMING and found is not None and len(found[2]) >= _TYPED_ID:
        return name, argument
    return None


async def run(core: Core, event: Command) -> str:
    """The answer to a command, in Markdown, for the one who typed it."""
    if not may_speak(event.actor):
        return OUTSIDER
    match event.name.casefold():
        case "status":
            return await _paged(core, event, _status)
        case "pending":
            return await _paged(core, event, _pending)
        case "rules" if rule_commands.meant(event.argument):
            return await rule_commands.run(core, event)
        case "rules":
            return await _paged(core, event, _rules)
        case "task":
            return await _task(core, event)
        case "cancel":
            return await _cancel(core, event)
        case "stop":
            return await _stop(core, event)
        case "usage":
            return await _usage(core, event)
        case "help" | "":
            return HELP
        case _:
            return f"There is no command {code(event.name, 40)}. The commands are:\n{HELP}"


async def inbox(core: Core, actor: Actor, organisation: str, page: int) -> Listing:
    """What this person may decide, in all channels of an organisation."""
    if not may_speak(actor):
        return Listing(OUTSIDER)
    async with core.db.read() as tx:
        where = Scope.of_organisation(actor.surface, organisation)
        return await listing.inbox(core, tx, where, actor, page)


# Lists

_List = Callable[[Core, Tx, Command, int], Awaitable[str]]


async def _paged(core: Core, event: Command, listed: _List) -> str:
    argument = event.argument.strip()
    if argument and not _PAGE.fullmatch(argument):
        return f"`{event.name.casefold()}` takes the number of a page and nothing else."
    async with core.db.read() as tx:
        return await listed(core, tx, event, max(1, int(argument or 1)))


async def _status(core: Core, tx: Tx, event: Command, page: int) -> str:
    where = Scope.of_channel(event.place)
    everything = (await listing.status(core, tx, where, event.actor, page)).text
    if not event.place.root or page > 1:
        return everything
    chat = await chats.at_place(tx, event.place)
    here = ["No chat lives in this thread."] if chat is None else await listing.describe(tx, chat)
    return "\n".join([*here, "\nIn this channel:\n", everything])


async def _pending(core: Core, tx: Tx, event: Command, page: int) -> str:
    where = Scope.of_channel(event.place)
    return (await listing.pending(core, tx, where, event.actor, page)).text


async def _rules(core: Core, tx: Tx, event: Command, page: int) -> str:
    return (await listing.rules(core, tx, Scope.of_channel(event.place), page)).text


async def _usage(core: Core, event: Command) -> str:
    async with core.db.read() as tx:
        chat = await chats.at_place(tx, event.place) if event.place.root else None
        here = None if chat is None else await messages.usage(tx, chat.id)
        everywhere = await scope.usage(tx, Scope.of_channel(event.place))
    lines = [] if here is None else [f"- This thread: {listing.spent(here)}"]
    return "\n".join([*lines, f"- This channel: {listing.spent(everywhere)}"])


# One call or chat


async def find(tx: Tx, where: Scope, word: str) -> CallRow | ChatRow | str:
    """The call or chat of an id or its beginning, or why there is none, in a sentence."""
    typed = word.strip().strip("`").casefold()
    if not typed:
        return "Which one? Give its id, as `status` lists it."
    found = _ID.fullmatch(typed)
    kind, bare = ("", "") if found is None else (found[1] or "", found[2])
    rows: list[CallRow | ChatRow] = []
    if bare and kind in ("", "call_"):
        rows += await scope.calls_named(tx, where, f"call_{bare}", limit=2)
    if bare and kind in ("", "chat_"):
        rows += await scope.chats_named(tx, where, f"chat_{bare}", limit=2)
    match rows:
        case []:
            return f"{code(word, 40)} is not found here; `status` lists the ids of this channel."
        case [only]:
            return only
        case _:
            return f"Several ids begin with {code(word, 40)}: give more of it."


async def _task(core: Core, event: Command) -> str:
    async with core.db.read() as tx:
        found = await find(tx, Scope.of_channel(event.place), event.argument)
        return await detail(core, tx, found)


async def detail(core: Core, tx: Tx, found: CallRow | ChatRow | str) -> str:
    """What was found, in full as far as an answer goes."""
    match found:
        case str():
            return found
        case ChatRow():
            return "\n".join(await listing.describe(tx, found))
        case CallRow():
            return "\n".join(await _call_lines(core, tx, found))


async def _call_lines(core: Core, tx: Tx, call: CallRow) -> list[str]:
    args = canonical(mask_all(call.args))
    cut = len(args) - _ARGUMENTS
    shown = code(args, _ARGUMENTS) + (f" (cut: {cut:,} more characters)" if cut > 0 else "")
    since = call.settled_at or call.claimed_at or call.created_at
    lines = [
        f"{code(call.name)} (call `{call.id}`)",
        f"- {_state(call)} since {moment(since)} ({age(core.now() - since)})",
        f"- asked for on {moment(call.created_at)}",
        f"- arguments: {shown}",
    ]
    if call.edited is not None:
        told = difference.listed(difference.difference(call.edited["from"], call.args))
        lines.append(f"- changed by {code(call.edited['by'])} before approving:")
        lines += [f"  {line}" for line in told.splitlines()]
    if call.task is not None:
        server = code(call.server) if call.server else "its server"
        lines.append(
            f"- {server} says: {code(str(call.task.get('status', '')), 40)} "
            f"{code(str(call.task.get('message') or ''), 500)}"
        )
        until = expires_at(call.task)
        lines += [] if until is None else [f"- the server keeps it until {moment(until)}"]
    lines += [_decided(one) for one in await questions.of_call(tx, call.id)]
    if call.allowed_by is not None and call.allowed_by.startswith("rule:"):
        lines.append("- runs without asking by a standing rule; `rules` lists them")
    return lines


def _state(call: CallRow) -> str:
    match CallState(call.state):
        case CallState.WAITING if call.task is not None:
            return "running in the background"
        case CallState.WAITING:
            return "waiting for people"
        case CallState.UNKNOWN:
            return "interrupted: nobody knows yet whether it had an effect,"
        case state:
            return str(state)


def _decided(question: QuestionRow) -> str:
    what = f"- {question.purpose}: {question.state}"
    if question.state == QuestionState.OPEN:
        return f"{what} since {moment(question.opened_at)}"
    by = f" by {code(question.settled_name)}" if question.settled_name else ""
    when = f" on {moment(question.settled_at)}" if question.settled_at is not None else ""
    return f"{what}{by}{when}"


# Stopping


async def _cancel(core: Core, event: Command) -> str:
    async with core.db.read() as tx:
        found = await find(tx, Scope.of_channel(event.place), event.argument)
    match found:
        case str():
            return found
        case ChatRow():
            return await _stopped(core, event, found)
        case CallRow() if found.task is None or found.settled:
            return not_cancelled(found)
        case CallRow():
            return (await Tasks(core).cancel_by(found.id, event.actor, _via(event))).sentence


def not_cancelled(call: CallRow) -> str:
    """Why a call that has ended, or that no server goes on with, is not cancelled by itself."""
    if call.settled:
        return f"{code(call.name)} has ended already."
    return (
        f"{code(call.name)} does not run in the background: if it waits, decide it on its card; "
        f"`cancel {call.chat_id}` stops its whole chat."
    )


async def _stop(core: Core, event: Command) -> str:
    if not event.place.root:
        return NO_THREAD
    async with core.db.read() as tx:
        chat = await chats.at_place(tx, event.place)
    if chat is None:
        return "No chat lives in this thread, so there is nothing to stop."
    return await _stopped(core, event, chat)


async def _stopped(core: Core, event: Command, chat: ChatRow) -> str:
    actor = event.actor
    if may_stop(actor, agent=chat.agent, requester=chat.requester, policies=core.policies):
        return await stop(core, chat, actor, via=_via(event))
    async with core.db.transaction("refuse_stop") as tx:
        await audit.record(
            tx, "refused", now=core.now(), chat_id=chat.id, actor=actor.key, via=_via(event)
        )
    return "Only the person who asked the agent, or an approver, can stop it."


async def stop(core: Core, chat: ChatRow, actor: Actor, *, via: str) -> str:
    """Stops a chat for somebody who may."""
    async with core.db.transaction("record_stop") as tx:
        await audit.record(
            tx, "stop_chat", now=core.now(), chat_id=chat.id, actor=actor.key, via=via
        )
    await Chat(chat.id, core).cancel(by=actor)
    return "Stopping: what has not run will not run."


def _via(event: Command) -> str:
    return f"{event.place.surface} command"
