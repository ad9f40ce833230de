"""The times of a question, as they are configured and as they come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.approvers import Policies, Policy, audience, refusal, unreachable
from bot.card import CardState, draw
from bot.config import load, policies_of
from bot.deadlines import Step, next_reminder, next_time, overdue, step_of, times_of
from bot.hours_settings import seconds_of
from bot.policy_settings import weak
from bot.question import Purpose
from bot.secrets import ConfigError
from bot.surface import Actor
from storage.questions import QuestionRow, QuestionState
from tests.unit.test_card import approval, the_call
from tests.unit.test_config import AGENT, written

NOON = 1_767_268_800.0
BEN = Actor("slack", "T1", "BEN")
CYN = Actor("slack", "T1", "CYN")
OPS = Policy(
    name="ops",
    approvers=frozenset({BEN.key}),
    remind_after=60.0,
    escalate_after=600.0,
    escalate_to=frozenset({CYN.key}),
    expires_after=3_600.0,
)
POLICY = f'{AGENT}[[policies]]\nname = "a"\napprovers = ["slack:T1/U1"]\n'
TO = 'escalate_to = ["slack:T1/U2"]\n'
OFFICE = '\n[hours.office]\nzone = "Europe/Berlin"\nopens = "9:00"\ncloses = "17:30"\n'


def asked(**given: Any) -> QuestionRow:
    times = {"opened_at": NOON, "remind_at": 10.0, "escalate_at": 20.0, "expires_at": 30.0}
    return approval(**(times | given))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("90s", 90), ("30m", 1_800), ("2h", 7_200), ("7d", 604_800), ("366d", 31_622_400)],
)
def test_a_time_is_a_number_and_its_unit(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "m", "0s", "-1h", "1.5h", "2 h", "2h ", "1h30m", "2w", "367d", "٣h", "1e3s"]
)
def test_anything_else_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("expires_after = 5", "policies.0.expires_after must be a time such as 90s, 30m, 2h or 7d"),
        ('expires_after = "soon"', "policies.0.expires_after must be a time such as"),
        ('remind_after = "0m"', "policies.0.remind_after must be a time between 1s and 366d"),
        ('escalate_after = "1h"', "policies.0 has escalate_after, but escalate_to does not say"),
        (TO, "policies.0 has escalate_to, but escalate_after does not say"),
        ('escalate_to = ["cyn"]\nescalate_after = "1h"', "policies.0.escalate_to.0 must name"),
        (
            'escalate_to = ["requester"]\nescalate_after = "1h"',
            "policies.0.escalate_to.0 names the requester",
        ),
        (
            f'{TO}escalate_after = "2h"\nexpires_after = "120m"',
            "policies.0 has escalate_after 2h, when it has expired: make it shorter",
        ),
        (
            'remind_after = "1d"\nexpires_after = "2h"',
            "policies.0 has remind_after 1d, when it has expired: make it shorter",
        ),
        ('hours = "office"', "policies.0 has hours, but no time that counts in them"),
        (
            'hours = "office"\nexpires_after = "2d"',
            "policies.0 has expires_after 2d in working hours, of which a day has fewer than 24",
        ),
        (
            'hours = "night"\nexpires_after = "2h"' + OFFICE,
            r"policies.0.hours names night: there is no \[hours.night\]",
        ),
        (
            '[hours.o]\nzone = "Mars/Olympus"\nopens = "9:00"\ncloses = "17:00"',
            "hours.o.zone names the time zone 'Mars/Olympus', which is not known",
        ),
        (
            '[hours.o]\nzone = "../etc/passwd"\nopens = "9:00"\ncloses = "17:00"',
            "hours.o.zone names the time zone '../etc/passwd', which is not known",
        ),
        (
            '[hours.o]\nzone = "Europe"\nopens = "9:00"\ncloses = "17:00"',
            "hours.o.zone names the time zone 'Europe', which is not known",
        ),
        (
            '[hours.o]\nzone = ""\nopens = "9:00"\ncloses = "17:00"',
            "hours.o.zone names the time zone '', which is not known",
        ),
        (
            '[hours.o]\nzone = "UTC"\nopens = "9"\ncloses = "17:00"',
            "hours.o.opens must be a time of the day",
        ),
        (
            '[hours.o]\nzone = "UTC"\nopens = "09:00"\ncloses = "24:30"',
            "hours.o.closes must be a time of the day",
        ),
        (
            '[hours.o]\nzone = "UTC"\nopens = "17:00"\ncloses = "9:00"',
            "hours.o closes before it opens",
        ),
        (
            '[hours.o]\nzone = "UTC"\nopens = "9:00"\ncloses = "17:00"\ndays = ["monday"]',
            "hours.o.days.0 must be one of mon",
        ),
        (
            '[hours.o]\nzone = "UTC"\nopens = "9:00"\ncloses = "17:00"\ndays = []',
            "hours.o.days is empty: name at least one",
        ),
    ],
)
def test_a_wrong_time_is_named(text: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=named) as refused:
        policies_of(load(written(tmp_path, POLICY + text)))
    assert len(str(refused.value).splitlines()) == 1


def test_nobody_is_escalated_to_where_nobody_approves_first(tmp_path: Path) -> None:
    text = f'{AGENT}[[policies]]\nname = "a"\nescalate_after = "1h"\n{TO}'
    with pytest.raises(ConfigError, match=r"policies\.0 has escalate_to but no approvers"):
        load(written(tmp_path, text))


def test_a_policy_is_read_with_its_times(tmp_path: Path) -> None:
    times = f'remind_after = "30m"\nescalate_after = "2h"\n{TO}expires_after = "8h"\n'
    text = f'{POLICY}{times}hours = "office"\n{OFFICE}days = ["mon", "fri"]\n'

    (policy,) = policies_of(load(written(tmp_path, text))).policies

    assert (policy.remind_after, policy.escalate_after) == (1_800.0, 7_200.0)
    assert policy.expires_after == 28_800.0
    assert policy.escalate_to == {"slack:T1/U2"}
    assert policy.hours is not None
    assert policy.hours.days == {0, 4}
    assert (str(policy.hours.zone), policy.hours.closes.isoformat()) == (
        "Europe/Berlin",
        "17:30:00",
    )


def test_days_that_end_at_midnight_end_at_midnight(tmp_path: Path) -> None:
    hours = '[hours.always]\nzone = "UTC"\nopens = "00:00"\ncloses = "24:00"\n'
    days = 'days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]'
    text = f'{POLICY}expires_after = "100h"\nhours = "always"\n{hours}{days}'

    (policy,) = policies_of(load(written(tmp_path, text))).policies

    assert times_of(policy, Purpose.APPROVAL, NOON).expires_at == NOON + 360_000.0


def test_a_channel_that_is_escalated_to_is_weak_too(tmp_path: Path) -> None:
    text = f'{POLICY}escalate_after = "1h"\nescalate_to = ["slack:T1/#C1"]'
    (sentence,) = weak(policies_of(load(written(tmp_path, text))))
    assert "lets the members of slack:T1/#C1 approve" in sentence


def test_a_question_has_the_times_of_its_policy() -> None:
    times = times_of(OPS, Purpose.APPROVAL, NOON)

    assert (times.remind_at, times.escalate_at) == (NOON + 60, NOON + 600)
    assert times.expires_at == NOON + 3_600
    assert times_of(OPS, Purpose.ASK, NOON) == times


def test_what_came_of_a_lost_run_has_no_deadline() -> None:
    times = times_of(OPS, Purpose.OUTCOME, NOON)

    assert times.expires_at is None
    assert times.remind_at == NOON + 60


def test_without_times_nothing_is_ever_due() -> None:
    plain = Policy(name="ops")
    row = approval(opened_at=NOON, remind_at=None, expires_at=None)

    assert times_of(plain, Purpose.APPROVAL, NOON).expires_at is None
    assert (step_of(row, 1e12), next_time(row), overdue(row, 1e12)) == (None, None, False)


@pytest.mark.parametrize(
    ("now", "step", "escalated"),
    [
        (9.9, None, None),
        (10.0, Step.REMIND, None),
        (20.0, Step.ESCALATE, None),
        (20.0, Step.REMIND, 20.0),
        (29.9, Step.ESCALATE, None),
        (30.0, Step.EXPIRE, None),
        (30.0, Step.EXPIRE, 20.0),
    ],
)
def test_of_several_steps_only_the_strongest_is_due(
    now: float, step: Step | None, escalated: float | None
) -> None:
    assert step_of(asked(escalated_at=escalated), now) is step


@pytest.mark.parametrize("state", [one for one in QuestionState if one is not QuestionState.OPEN])
def test_of_what_is_settled_nothing_is_due(state: QuestionState) -> None:
    row = asked(state=state)

    assert (step_of(row, 1e12), next_time(row), overdue(row, 1e12)) == (None, None, False)


def test_the_next_time_is_the_nearest_that_still_counts() -> None:
    assert next_time(asked()) == 10.0
    assert next_time(asked(remind_at=25.0)) == 20.0
    assert next_time(asked(remind_at=25.0, escalated_at=20.0)) == 25.0
    assert next_time(asked(remind_at=None, escalated_at=20.0)) == 30.0


def test_each_reminder_takes_twice_as_long() -> None:
    assert [next_reminder(OPS, count, 0.0) for count in range(4)] == [60, 120, 240, 480]


# Who may, once it was escalated


def may(policy: Policy, actor: Actor) -> bool:
    why = refusal(actor, purpose=Purpose.APPROVAL, policy=policy, askers=["x"], tool="refund")
    return why is None


def test_the_next_approvers_may_once_it_was_escalated() -> None:
    assert [may(OPS, one) for one in (BEN, CYN)] == [True, False]
    assert [may(OPS.escalated(), one) for one in (BEN, CYN)] == [True, True]


def test_a_question_is_escalated_by_its_own_policy_only() -> None:
    policies, call = Policies([OPS]), the_call()
    other = {"policy": "other", "deciders": []}

    assert policies.of_question("a", call, asked()) == OPS
    assert policies.of_question("a", call, asked(escalated_at=1.0)) == OPS.escalated()
    assert policies.of_question("a", call, asked(escalated_at=1.0, audience=other)) == OPS


def test_what_the_next_approvers_could_approve_is_not_beyond_everybody() -> None:
    own = replace(OPS, approvers=frozenset({"slack:T1/ANA"}))

    assert unreachable(own, askers=["slack:T1/ANA"], tool="refund") is None
    assert unreachable(replace(own, escalate_after=None), askers=["slack:T1/ANA"], tool="refund")
    assert unreachable(replace(OPS, quorum=2), askers=[], tool="refund") is None
    assert unreachable(replace(OPS, quorum=3), askers=[], tool="refund")


def test_groups_that_are_escalated_to_are_looked_up_too() -> None:
    group = replace(OPS, escalate_to=frozenset({"slack:T1/@S1"}))
    assert Policies([group]).groups == {"slack:T1/@S1"}


def test_the_card_of_an_escalated_question_names_everybody() -> None:
    shown = audience(OPS.escalated(), purpose=Purpose.APPROVAL, askers=["x"])
    assert shown["deciders"] == [BEN.key, CYN.key]
    assert shown["remember"] is False


# The card


def test_an_open_card_says_what_comes_of_waiting() -> None:
    card = draw(asked(escalate_at=NOON, expires_at=NOON + 60), the_call(), "agent")

    assert card.notices == (
        "The next approvers may decide too from 2026-01-01 at 12:00 UTC.",
        "It expires on 2026-01-01 at 12:01 UTC and then does not run.",
    )
    assert not card.again


def test_an_expired_card_tells_its_deadline_and_offers_to_ask_again_once() -> None:
    row = asked(state=QuestionState.EXPIRED, expires_at=NOON, settled_at=NOON + 9_999)
    row = replace(row, settled_by=None, settled_name=None)

    card = draw(row, the_call(), "agent")
    after = draw(replace(row, body={"again": "ben"}), the_call(), "agent")

    assert (card.state, card.again, card.notices) == (CardState.CLOSED, True, ())
    assert card.outcome == "Expired on 2026-01-01 at 12:00 UTC without an answer."
    assert (after.again, after.outcome) == (False, f"{card.outcome} ben asked again.")


@pytest.mark.parametrize("state", [one for one in QuestionState if one != QuestionState.EXPIRED])
def test_nothing_else_offers_to_ask_again(state: QuestionState) -> None:
    assert not draw(asked(state=state, settled_at=NOON), the_call(), "agent").again
