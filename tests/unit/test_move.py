"""The next move of a chat, as a table over its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from bot.move import (
    HOLD_SECONDS,
    AskModel,
    Fetch,
    Idle,
    Move,
    Pause,
    RunCalls,
    Send,
    Snapshot,
    Stop,
    next_move,
)
from storage.calls import CallRow, CallState
from storage.chats import ChatRow
from storage.messages import MessageRow

NOW = 1_000.0


def chat(cancelled_by: str | None = None) -> ChatRow:
    return ChatRow(
        id="chat",
        surface="slack",
        organisation="T1",
        channel="C1",
        root="1.0",
        agent="agent",
        requester="slack:T1/ANA",
        owner="runner",
        lease_until=NOW + 30,
        epoch=1,
        stirs=0,
        wake_at=None,
        cancelled_by=cancelled_by,
        rounds=0,
        created_at=0.0,
    )


def call(name: str, state: CallState, **values: Any) -> CallRow:
    return CallRow(
        id=name,
        chat_id="chat",
        message_id=1,
        position=0,
        provider_id=name,
        server="",
        name=name,
        args={},
        digest="",
        schema_digest="",
        state=state,
        created_at=0.0,
        **values,
    )


def message(kind: str, position: int | None = 1) -> MessageRow:
    return MessageRow(1, "chat", position, kind, "", None, None, 0.0)


def move(
    *calls: CallRow,
    last: str | None = "response",
    queued: int = 0,
    running: Collection[str] = (),
    held: Mapping[str, float] | None = None,
    cancelled: bool = False,
    fetching: bool = False,
) -> Move:
    waiting: Sequence[MessageRow] = [message("request", None)] * queued
    snapshot = Snapshot(
        chat=chat("slack:T1/ANA" if cancelled else None),
        last=None if last is None else message(last),
        calls=calls,
        queued=waiting,
        held=held or {},
        fetching=fetching,
    )
    return next_move(snapshot, running=set(running), time=NOW)


READY = call("ready", CallState.READY)
OTHER = call("other", CallState.READY)
RUNNING = call("running", CallState.RUNNING)
WAITING = call("waiting", CallState.WAITING)
TASK = call("task", CallState.WAITING, wake_at=NOW + 7)
UNKNOWN = call("unknown", CallState.UNKNOWN)
DONE = call("done", CallState.DONE)
FAILED = call("failed", CallState.FAILED)
DECLINED = call("declined", CallState.DECLINED)


def test_a_chat_without_history_is_idle_until_something_is_said() -> None:
    assert move(last=None) == Idle()
    assert move(last=None, queued=1) == Send()


def test_after_a_request_the_model_owes_an_answer() -> None:
    assert move(last="request") == AskModel()
    assert move(last="request", queued=2) == AskModel()


def test_after_an_answer_without_calls_nothing_is_owed_unless_something_was_said() -> None:
    assert move() == Idle()
    assert move(queued=1) == Send()


@pytest.mark.parametrize("state", [DONE, FAILED, DECLINED])
def test_a_round_whose_calls_are_all_settled_is_sent(state: CallRow) -> None:
    assert move(state, DONE) == Send()


@pytest.mark.parametrize("others", [(), (WAITING,), (UNKNOWN,), (DONE,), (TASK,)])
def test_ready_calls_run_whatever_the_others_wait_for(others: tuple[CallRow, ...]) -> None:
    assert move(READY, OTHER, *others) == RunCalls((READY, OTHER))
    assert move(READY, *others, queued=3) == RunCalls((READY,))


def test_a_call_that_this_runner_runs_is_not_started_again() -> None:
    assert move(READY, OTHER, running=["ready"]) == RunCalls((OTHER,))
    assert move(READY, running=["ready"]) == Pause(None)
    assert move(RUNNING, running=["running"]) == Pause(None)


@pytest.mark.row("Q26")
@pytest.mark.parametrize("state", [WAITING, UNKNOWN])
def test_a_round_that_waits_for_people_pauses_for_ever(state: CallRow) -> None:
    assert move(state) == Pause(None)
    assert move(state, DONE, queued=1) == Pause(None)


def test_a_round_that_waits_for_tasks_pauses_until_their_own_job_stirs_it() -> None:
    assert move(TASK, WAITING) == Pause(None)


@pytest.mark.row("B39")
def test_a_call_whose_card_is_being_redrawn_is_held_for_a_while() -> None:
    assert move(READY, held={"ready": NOW}) == Pause(NOW + HOLD_SECONDS)
    assert move(READY, held={"ready": NOW - HOLD_SECONDS + 1}) == Pause(NOW + 1)
    assert move(READY, held={"ready": NOW - HOLD_SECONDS}) == RunCalls((READY,))


def test_a_held_call_does_not_hold_the_others() -> None:
    assert move(READY, OTHER, held={"ready": NOW}) == RunCalls((OTHER,))
    assert move(READY, TASK, held={"ready": NOW}) == Pause(NOW + HOLD_SECONDS)


@pytest.mark.parametrize("state", [READY, WAITING, UNKNOWN, DONE, TASK])
def test_a_stopped_chat_stops_whatever_it_was_at(state: CallRow) -> None:
    assert move(state, cancelled=True) == Stop()
    assert move(state, RUNNING, running=["running"], cancelled=True) == (
        Pause(None) if state is DONE else Stop()
    )


def test_a_stopped_chat_stops_between_rounds_too() -> None:
    assert move(last=None, cancelled=True) == Stop()
    assert move(last="request", cancelled=True) == Stop()
    assert move(queued=1, cancelled=True) == Stop()


def test_a_stopped_chat_lets_what_runs_finish() -> None:
    assert move(RUNNING, DONE, running=["running"], cancelled=True) == Pause(None)
    assert move(DONE, cancelled=True) == Stop()


def test_a_file_is_fetched_before_its_message_becomes_history() -> None:
    assert move(last=None, queued=1, fetching=True) == Fetch()
    assert move(DONE, queued=1, fetching=True) == Fetch()


def test_a_file_is_fetched_while_people_are_waited_for_but_holds_nothing_up() -> None:
    assert move(WAITING, queued=1, fetching=True) == Fetch()
    assert move(READY, queued=1, fetching=True) == RunCalls((READY,))
    assert move(RUNNING, running=["running"], queued=1, fetching=True) == Pause(None)
    assert move(last="request", queued=1, fetching=True) == AskModel()
    assert move(WAITING, queued=1, fetching=True, cancelled=True) == Stop()
