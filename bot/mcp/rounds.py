"""The rounds of one call to an MCP server: it may ask before it answers, several times, with days
and restarts in between (spec: MCP; platforms/mcp.md 2a).

What is kept between two rounds is a `Resume`. It is consumed by the claim of the run that uses it,
so that a state is never sent twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import mcp.types as t

from bot.field import AnswerError
from bot.mcp.elicitation import Answer, Kinds, Refused, asked, result_of, settled_by
from bot.question import Asked
from bot.tool import Answered

ROUNDS: Final = 10  # how often a call may ask (row M12)

InputCallback = Callable[[Asked], Awaitable[Answer | None]]
"""Sees every question before any chat does; an answer settles it, None leaves it to people."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a parked call goes on: the server's state (echoed byte for byte), how many rounds
    there were, the ordinal of the round's first question, and what was settled without people."""

    state: str | None
    rounds: int
    first: int
    settled: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "rounds": self.rounds,
            "first": self.first,
            "settled": dict(self.settled),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Resume:
        return cls(kept["state"], kept["rounds"], kept["first"], kept["settled"])

    def answers(self, answered: Iterable[Answered]) -> dict[str, t.ElicitResult]:
        """What the server gets: what people said in this round, and what needed no people."""
        found = {key: t.ElicitResult.model_validate(one) for key, one in self.settled.items()}
        for one in answered:
            if one.ordinal >= self.first:
                found[one.key] = result_of(one, one.fields)
        return found


class Record:
    """Answers of this call from before, for a call that has to be made anew: an identical
    question takes the next identical answer, once (spec: a lapsed state)."""

    def __init__(self, answered: Sequence[Answered]) -> None:
        self._left = list(answered)
        self.used = 0

    def take(self, question: Asked) -> t.ElicitResult | None:
        for one in self._left:
            if one.fingerprint == question.fingerprint:
                self._left.remove(one)
                self.used += 1
                return result_of(one, one.fields)
        return None


@dataclass(frozen=True, slots=True)
class Judged:
    """One round of questions: those that are settled, and those for people, in order."""

    settled: dict[str, t.ElicitResult]
    open: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """What is done with a server's question before people see it."""

    server: str
    kinds: Kinds
    callbacks: Sequence[InputCallback]
    refused: Callable[[str], None]  # told why, for the log

    async def round(self, questions: Sequence[tuple[str, Any]], record: Record | None) -> Judged:
        settled: dict[str, t.ElicitResult] = {}
        left: list[Asked] = []
        for key, params in questions:
            judged = await self.judge(key, params, record)
            if isinstance(judged, Asked):
                left.append(judged)
            else:
                settled[key] = judged
        return Judged(settled, tuple(left))

    def read(self, key: str, params: Any) -> Asked | Refused:
        return asked(params, server=self.server, key=key, kinds=self.kinds)

    async def judge(self, key: str, params: Any, record: Record | None) -> Asked | t.ElicitResult:
        """What the server is told at once, or the question that is left for people."""
        question = self.read(key, params)
        if isinstance(question, Refused):
            self.refused(question.reason)
            return question.result
        return await self._early(question, record) or question

    async def _early(self, question: Asked, record: Record | None) -> t.ElicitResult | None:
        """The answer of a callback or of the record, if there is one."""
        for callback in self.callbacks:
            answer = await callback(question)
            if answer is not None:
                try:
                    return settled_by(answer, question)
                except AnswerError as error:
                    self.refused(f"a callback's answer does not fit: {error}")
        return None if record is None else record.take(question)
