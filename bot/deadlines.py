"""The times of an open question, and which of them has come: pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from bot.approvers import Policy
from bot.hours import later
from bot.question import Purpose
from storage.questions import QuestionRow, QuestionState

LATE_SECONDS: Final = 600.0  # of a reminder; a later one waits for working hours


@dataclass(frozen=True, slots=True)
class Times:
    """When a question opens, and what comes of it by itself. Unix seconds; None: never."""

    opened_at: float
    remind_at: float | None
    escalate_at: float | None
    expires_at: float | None


class Step(Enum):
    """What happens to a question that nobody decided, the strongest first."""

    EXPIRE = auto()
    ESCALATE = auto()
    REMIND = auto()


def times_of(policy: Policy, purpose: Purpose, now: float) -> Times:
    """The times of a question that opens now. What came of a lost run is asked until a person says
    so: no time settles it."""
    return Times(
        opened_at=now,
        remind_at=_after(policy, now, policy.remind_after),
        escalate_at=_after(policy, now, policy.escalate_after),
        expires_at=None
        if purpose is Purpose.OUTCOME
        else _after(policy, now, policy.expires_after),
    )


def overdue(question: QuestionRow, now: float) -> bool:
    """Whether its deadline has passed, so that nobody decides it any more."""
    is_open = question.state == QuestionState.OPEN
    return is_open and question.expires_at is not None and question.expires_at <= now


def step_of(question: QuestionRow, now: float) -> Step | None:
    """What is due now; of several that were missed, only the strongest."""
    if question.state != QuestionState.OPEN:
        return None
    if overdue(question, now):
        return Step.EXPIRE
    if question.escalated_at is None and _is_past(question.escalate_at, now):
        return Step.ESCALATE
    return Step.REMIND if _is_past(question.remind_at, now) else None


def next_time(question: QuestionRow) -> float | None:
    """When something may be due next; None: nothing will be."""
    if question.state != QuestionState.OPEN:
        return None
    escalate_at = question.escalate_at if question.escalated_at is None else None
    times = (question.remind_at, escalate_at, question.expires_at)
    return min((one for one in times if one is not None), default=None)


def escalates_at(policy: Policy, question: QuestionRow) -> float | None:
    """When the question is escalated by the policy that counts today."""
    return _after(policy, question.opened_at, policy.escalate_after)


def reminder_due(policy: Policy, question: QuestionRow, now: float) -> float | None:
    """When the reminder that is due by the row is due by the policy that counts today: not outside
    of working hours because of an outage, and never where none is wanted any more."""
    assert question.remind_at is not None
    if policy.remind_after is None:
        return None
    return later(policy.hours, now, 0.0) if now - question.remind_at > LATE_SECONDS else now


def next_reminder(policy: Policy, reminders: int, now: float) -> float | None:
    """When the reminder after so many comes: each takes twice as long as the one before."""
    wait = None if policy.remind_after is None else policy.remind_after * 2.0**reminders
    return _after(policy, now, wait)


def _after(policy: Policy, start: float, seconds: float | None) -> float | None:
    return None if seconds is None else later(policy.hours, start, seconds)


def _is_past(at: float | None, now: float) -> bool:
    return at is not None and at <= now
