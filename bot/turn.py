"""One turn of the model: what it is sent, what it shows while it answers, and what becomes of the
calls it proposes, all recorded in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from bot.core import Agent, Core, new_id
from bot.gate import AskFirst, Deny, Run, digest, gate
from bot.identity import same_people
from bot.lease import LEASE_SECONDS, Held, LeaseLost
from bot.model import ModelFailed, Settings, ToolSpec, TryLater, Turn
from bot.notify import tell_impossible
from bot.opening import open_approvals
from bot.reply import LiveReply, close_turn, parts_of, reply_subject, say, unsay
from bot.rule_use import tell_rule_use
from bot.tool import BadArguments, Tool
from bot.transcript import (
    READING,
    SUMMARISING,
    ProposedCall,
    StoredMessage,
    Summary,
    needs_summary,
    summary_request,
    window,
)
from storage import audit, calls, chats, messages, rules
from storage.calls import CallRow, CallState
from storage.database import Tx
from storage.messages import MessageRow
from storage.rules import RuleRow

log = structlog.get_logger(__name__)

NAME_LENGTH = 200  # of a tool that the model names; ours are shorter
REPEATS = 3  # the same call in this many responses in a row is stopped


class WaitForModel(Exception):
    """The provider wants to be left alone until `at`: let the chat go till then."""

    def __init__(self, at: float) -> None:
        super().__init__(f"the model is to be tried again at {at}")
        self.at = at


@dataclass(frozen=True, slots=True)
class _Proposal:
    """A proposed call: valid, or with the reason why it is not."""

    call: ProposedCall
    tool: Tool | None
    args: dict[str, Any]
    fault: str | None

    @property
    def digest(self) -> str:
        server, schema = ("", "") if self.tool is None else (self.tool.server, self.schema)
        return digest(server, self.call.name, schema, self.args)

    @property
    def schema(self) -> str:
        return "" if self.tool is None else self.tool.schema_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """By whom a call is asked for. `alike`: who may be one of them."""

    askers: list[str]
    alike: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """What the calls of one response have in common. `again`: who asked for the calls that are
    made once more, which `expired`; `asked`: for all others."""

    agent: Agent
    message_id: int
    in_force: list[RuleRow]
    repeated: set[str]
    declined: set[str]
    expired: set[str]
    again: _Asked
    asked: _Asked

    def of(self, proposal: _Proposal) -> _Asked:
        return self.again if proposal.digest in self.expired else self.asked


class TurnRunner:
    """Asks the model of a held chat."""

    def __init__(self, core: Core, held: Held) -> None:
        self.core = core
        self.held = held

    async def turn(self, last: MessageRow) -> None:
        """Makes the turn that is owed after `last`. Raises WaitForModel."""
        position = (last.position or 0) + 1
        agent = self.core.agents.get(self.held.chat.agent)
        if agent is None:
            await self._close(
                position,
                f"The agent {self.held.chat.agent} is not configured here; "
                "an admin can add it to interlock.toml or you can start a new thread.",
            )
            return
        if self.held.chat.rounds >= agent.rounds:
            await self._close(
                position,
                f"I stopped after {agent.rounds} rounds without an answer. "
                "Write something to go on.",
            )
            return
        live = LiveReply(
            self.core, self.held.chat, reply_subject(self.held.chat, position), LEASE_SECONDS
        )
        try:
            tools = await agent.offered()
            turn = await self._unless_cancelled(self._ask(agent, tools, live))
        except TryLater as later:
            raise WaitForModel(later.at) from later
        except ModelFailed as failed:
            log.warning("model failed", chat=self.held.chat.id, detail=failed.detail)
            await self._close(position, str(failed))
            return
        if turn is not None:
            await self._record(agent, tools, position, turn)

    async def _unless_cancelled(self, asking: Any) -> Turn | None:
        """The turn, or None when somebody stopped the chat meanwhile (row L3)."""
        task: asyncio.Task[Turn] = asyncio.ensure_future(asking)
        stops = [
            asyncio.create_task(event.wait()) for event in (self.held.cancelled, self.held.lost)
        ]
        try:
            await asyncio.wait([task, *stops], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if self.held.lost.is_set():
                raise LeaseLost
            return None
        finally:
            for waiter in (task, *stops):
                if not waiter.done():
                    waiter.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await waiter

    async def _ask(self, agent: Agent, tools: list[Tool], live: LiveReply) -> Turn:
        stored, summary = await self._history(agent)
        settings = Settings(
            instructions=f"{agent.instructions}\n\n{READING}".strip(),
            max_tokens=agent.max_tokens,
            temperature=agent.temperature,
            first_tool=agent.first_tool,
        )
        specs = [ToolSpec(one.name, one.description, one.parameters) for one in tools]
        sent = window(stored, context_tokens=agent.model.context_tokens, summary=summary)
        turn: Turn = await agent.model.turn(sent, specs, settings, live.show)
        return turn

    async def _history(self, agent: Agent) -> tuple[list[StoredMessage], Summary | None]:
        """The rows to send, after a summary of what no longer fits was written if one is due."""
        async with self.core.db.read() as tx:
            found = await messages.latest_summary(tx, self.held.chat.id)
            after = 0 if found is None else found.through
            rows = await messages.history(tx, self.held.chat.id, after=after)
        stored = [StoredMessage(row.position or 0, row.body) for row in rows]
        summary = None if found is None else Summary(found.through, found.text)
        span = needs_summary(stored, context_tokens=agent.model.context_tokens, summary=summary)
        if span is None:
            return stored, summary
        part = [one for one in stored if span.first <= one.position <= span.last]

        async def unseen(_text: str) -> None: ...

        turn: Turn = await agent.model.turn(
            [summary_request(part, summary)], [], Settings(instructions=SUMMARISING), unseen
        )
        async with self.core.db.transaction("record_summary") as tx:
            await self.held.fence(tx)
            await messages.summarise(
                tx, self.held.chat.id, through=span.last, text=turn.text, now=self.core.now()
            )
            await self._record_usage(tx, None, turn)
        return stored, Summary(span.last, turn.text)

    async def _close(self, position: int, text: str) -> None:
        async with self.core.db.transaction("close_turn") as tx:
            await self.held.fence(tx)
            await close_turn(self.core, tx, self.held.chat, position, text)

    # Recording: the response, its calls, their gates and questions, the cards on their way.

    async def _record(self, agent: Agent, tools: list[Tool], position: int, turn: Turn) -> None:
        proposals = self._proposals(agent, tools, turn)
        chat = self.held.chat
        parts = await parts_of(self.core, chat, turn.text)
        async with self.core.db.transaction("record_turn") as tx:
            await self.held.fence(tx)
            message_id = await messages.append(
                tx,
                chat.id,
                position=position,
                kind="response",
                body=turn.response,
                now=self.core.now(),
            )
            await self._record_usage(tx, message_id, turn)
            await chats.count_round(tx, chat.id, chat.rounds + 1)
            if turn.text.strip():
                await say(self.core, tx, chat, reply_subject(chat, position), parts)
            else:  # an attempt that failed may have shown some
                await unsay(self.core, tx, chat, reply_subject(chat, position))
            if proposals:
                await self._open_all(tx, agent, message_id, position, proposals)

    async def _open_all(
        self, tx: Tx, agent: Agent, message_id: int, position: int, proposals: list[_Proposal]
    ) -> None:
        chat = self.held.chat
        again, asked = await self._asked(tx, position)
        round_ = _Round(
            agent=agent,
            message_id=message_id,
            in_force=await rules.in_force(tx, chat, self.core.now()),
            repeated=await self._repeated(tx, message_id),
            declined=await calls.digests_declined(tx, chat.id),
            expired=set()
            if again is asked
            else await calls.digests_expired(tx, chat.id, again.askers),
            again=again,
            asked=asked,
        )
        rows = [
            await self._open(tx, round_, number, proposal)
            for number, proposal in enumerate(proposals)
        ]
        waiting = [row for row in rows if row.state == CallState.WAITING]
        await open_approvals(self.core, tx, chat, waiting)

    async def _asked(self, tx: Tx, position: int) -> tuple[_Asked, _Asked]:
        """Who asked for what is made once more, and for anything else: of that, whoever had it
        made once more by a button is one too, or they could approve what they talked the agent
        into meanwhile."""
        chat, policies = self.held.chat, self.core.policies
        askers = await messages.askers(tx, chat.id, position) or [chat.requester]
        again = _Asked(askers=askers, alike=await same_people(tx, policies, askers))
        everybody = sorted({*askers, *await messages.pressers(tx, chat.id, position)})
        if everybody == sorted(askers):
            return again, again
        alike = await same_people(tx, policies, everybody)
        return again, _Asked(askers=everybody, alike=alike)

    def _proposals(self, agent: Agent, tools: list[Tool], turn: Turn) -> list[_Proposal]:
        return [
            self._propose(
                agent,
                tools,
                call,
                over=number >= agent.calls,
                cut=turn.cut and number == len(turn.calls) - 1,
            )
            for number, call in enumerate(turn.calls)
        ]

    def _propose(
        self, agent: Agent, tools: list[Tool], call: ProposedCall, *, over: bool, cut: bool
    ) -> _Proposal:
        tool = next((one for one in tools if one.name == call.name), None)
        if over:
            fault = (
                f"Not run: only {agent.calls} calls of one response are handled. "
                "Ask for the rest in the next one."
            )
            return _Proposal(call, tool, {}, fault)
        if cut:
            return _Proposal(
                call, tool, {}, "Not run: the response was cut off in this call. Call it again."
            )
        if tool is None:
            names = ", ".join(one.name for one in tools) or "none"
            fault = f"There is no tool named {call.name[:NAME_LENGTH]}. The tools are: {names}."
            return _Proposal(call, None, {}, fault)
        try:
            return _Proposal(call, tool, tool.validate(call.args), None)
        except BadArguments as error:
            return _Proposal(call, tool, {}, str(error))

    async def _repeated(self, tx: Tx, message_id: int) -> set[str]:
        """Digests that the responses just before all asked for: once more is once too often."""
        if self.held.chat.rounds < REPEATS - 1:
            return set()
        rounds = await calls.digests_before(
            tx, self.held.chat.id, message_id, responses=REPEATS - 1
        )
        return set.intersection(*rounds) if len(rounds) == REPEATS - 1 else set()

    async def _open(
        self,
        tx: Tx,
        round_: _Round,
        number: int,
        proposal: _Proposal,
    ) -> CallRow:
        now = self.core.now()
        chat = self.held.chat
        state, result, rule = self._judge(round_, proposal)
        while rule is not None and not await rules.count_use(tx, rule.id, now):
            round_.in_force.remove(rule)  # its last use was taken just now
            state, result, rule = self._judge(round_, proposal)
        allowed = rule is not None and state is CallState.READY
        row = CallRow(
            id=new_id("call"),
            chat_id=chat.id,
            message_id=round_.message_id,
            position=number,
            provider_id=proposal.call.provider_id,
            server="" if proposal.tool is None else proposal.tool.server,
            name=proposal.call.name[:NAME_LENGTH],
            askers=round_.of(proposal).askers,
            args=proposal.args,
            digest=proposal.digest,
            schema_digest=proposal.schema,
            state=state,
            allowed_by=f"rule:{rule.id}" if rule is not None and allowed else None,
            outcome=None if result is None else "refused",
            result=result,
            created_at=now,
            settled_at=None if result is None else now,
        )
        await calls.add(tx, row)
        if rule is not None:
            await tell_rule_use(self.core, tx, chat, row, rule)
        if result is not None:
            await audit.record(tx, "not_run", now=now, chat_id=chat.id, call_id=row.id, why=result)
            await tell_impossible(self.core, tx, chat, row, result)
        return row

    def _judge(
        self, round_: _Round, proposal: _Proposal
    ) -> tuple[CallState, str | None, RuleRow | None]:
        """(state, why it does not run, the standing rule that decided so)."""
        if proposal.fault is not None or proposal.tool is None:
            return CallState.FAILED, proposal.fault or "", None
        if proposal.digest in round_.repeated:
            why = (
                f"Not run: {proposal.call.name} was called with these same arguments "
                f"{REPEATS} times in a row. Tell the person what you found instead."
            )
            return CallState.FAILED, why, None
        if proposal.digest in round_.declined:
            why = (
                f"Not run: a person declined this very call of {proposal.call.name}. Do not call "
                "it again unless a person asks for it anew."
            )
            return CallState.DECLINED, why, None
        verdict = gate(
            proposal.tool,
            proposal.args,
            policy=self.core.policies.of(
                round_.agent.name, proposal.tool.name, proposal.tool.server, proposal.args
            ),
            askers=round_.of(proposal).askers,
            alike=round_.of(proposal).alike,
            rules=round_.in_force,
            who=self.core.policies.who,
        )
        match verdict:
            case Run(rule):
                return CallState.READY, None, rule
            case Deny(reason, rule):
                return CallState.DECLINED, reason, rule
            case AskFirst(rule):
                return CallState.WAITING, None, rule
            case unreachable:
                assert_never(unreachable)

    async def _record_usage(self, tx: Tx, message_id: int | None, turn: Turn) -> None:
        await messages.record_turn(
            tx,
            self.held.chat.id,
            message_id,
            model=turn.model,
            input_tokens=turn.usage.input,
            output_tokens=turn.usage.output,
            cache_read_tokens=turn.usage.cache_read,
            cache_write_tokens=turn.usage.cache_write,
            cost=turn.cost,
            seconds=turn.seconds,
            now=self.core.now(),
        )
