"""Time that counts only while people work."""

from __future__ import annotations

from datetime import datetime, time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.hours import WorkingHours, later

BERLIN = ZoneInfo("Europe/Berlin")
OFFICE = WorkingHours(BERLIN, time(9), time(17), frozenset(range(5)))
HOUR = 3_600.0
TIMES = st.floats(1_700_000_000, 1_900_000_000)
WAITS = st.floats(1, 200 * HOUR)


def at(text: str, zone: ZoneInfo = BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


@pytest.mark.parametrize(
    ("start", "hours", "end"),
    [
        ("2026-11-30 10:00", 2, "2026-11-30 12:00"),  # a Monday
        ("2026-11-30 16:00", 2, "2026-12-01 10:00"),
        ("2026-11-30 16:00", 1, "2026-11-30 17:00"),
        ("2026-11-30 03:00", 1, "2026-11-30 10:00"),
        ("2026-11-30 22:00", 1, "2026-12-01 10:00"),
        ("2026-12-04 16:00", 2, "2026-12-07 10:00"),  # over a weekend
        ("2026-12-05 12:00", 1, "2026-12-07 10:00"),
        ("2026-11-30 09:00", 40, "2026-12-04 17:00"),
        ("2026-10-23 16:00", 2, "2026-10-26 10:00"),  # the clocks went back in between
        ("2026-03-27 16:00", 2, "2026-03-30 10:00"),
    ],
)
def test_only_working_hours_count(start: str, hours: float, end: str) -> None:
    assert OFFICE.after(at(start), hours * HOUR) == at(end)


def test_a_night_in_which_the_clocks_change_is_as_long_as_it_is() -> None:
    always = WorkingHours(BERLIN, time(0), time(0), frozenset(range(7)))
    start = at("2026-10-25 00:00")
    assert always.after(start, 25 * HOUR) == at("2026-10-26 00:00")


def test_another_zone_has_other_hours() -> None:
    tokyo = WorkingHours(ZoneInfo("Asia/Tokyo"), time(9), time(17), frozenset(range(5)))
    assert tokyo.after(at("2026-11-30 10:00"), HOUR) == at("2026-12-01 10:00", tokyo.zone)


def test_without_hours_every_second_counts() -> None:
    assert later(None, 100.0, 5.0) == 105.0


def test_without_a_working_day_it_is_for_ever() -> None:
    never = WorkingHours(BERLIN, time(9), time(17), frozenset())
    assert never.after(at("2026-11-30 10:00"), 1.0) > at("2036-01-01 00:00")


@given(TIMES, WAITS)
def test_it_ends_within_working_hours_and_never_early(start: float, wait: float) -> None:
    end = OFFICE.after(start, wait)
    local = datetime.fromtimestamp(end, BERLIN)
    assert end >= start + wait - 1e-3
    assert local.weekday() < 5
    assert time(9) <= local.time() <= time(17, 0, 1)


@given(TIMES, WAITS, WAITS)
def test_waiting_twice_is_waiting_once_for_both(start: float, one: float, other: float) -> None:
    assert OFFICE.after(OFFICE.after(start, one), other) == pytest.approx(
        OFFICE.after(start, one + other), abs=0.01
    )
