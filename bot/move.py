"""The next move of a chat: a pure function of its rows (design: complete())."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.messages import MessageRow

HOLD_SECONDS = 15.0  # how long a call waits for its cards to lose their buttons, at most (B39)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A chat as one look at the database shows it. `calls`: the round of the last response.
    `held`: since when a ready call waits for its cards to be redrawn. `fetching`: files of queued
    messages are still to be fetched."""

    chat: ChatRow
    last: MessageRow | None
    calls: Sequence[CallRow] = ()
    queued: Sequence[MessageRow] = ()
    held: Mapping[str, float] = field(default_factory=dict)
    fetching: bool = False


@dataclass(frozen=True, slots=True)
class RunCalls:
    calls: tuple[CallRow, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """People or tasks are waited for; look again at `until`, if it is set, or when stirred."""

    until: float | None


@dataclass(frozen=True, slots=True)
class Fetch:
    """A file that a person sent is fetched."""


@dataclass(frozen=True, slots=True)
class Send:
    """The round's results and what people said meanwhile go into the history."""


@dataclass(frozen=True, slots=True)
class AskModel:
    """The history ends with a request: the model owes an answer."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Somebody stopped the chat: what has not run does not run."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is owed."""


Move = RunCalls | Pause | Fetch | Send | AskModel | Stop | Idle


def next_move(now: Snapshot, *, running: Collection[str], time: float) -> Move:
    """`running`: calls that this runner is running."""
    unsettled = [call for call in now.calls if not call.settled]
    at_work = [call for call in unsettled if call.id in running]
    if now.chat.cancelled_by is not None:
        return Pause(None) if at_work and len(at_work) == len(unsettled) else Stop()
    ready = [call for call in unsettled if call.state == CallState.READY and call.id not in running]
    holds = {call.id: now.held[call.id] + HOLD_SECONDS for call in ready if call.id in now.held}
    free = tuple(call for call in ready if holds.get(call.id, 0.0) <= time)
    if free:
        return RunCalls(free)
    if unsettled:
        if now.fetching and not at_work:  # while there is time; what waits for days may be gone
            return Fetch()
        return Pause(min(holds.values(), default=None))  # tasks are looked at by their own job
    if now.last is not None and now.last.kind == "request":
        return AskModel()
    if now.fetching:
        return Fetch()
    if now.calls or now.queued:
        return Send()
    return Idle()
