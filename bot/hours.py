"""Working hours: when reminders, escalations and deadlines count (spec: Time)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_LONGEST = 3_660  # days that are looked at before a wait is taken to be for ever


@dataclass(frozen=True, slots=True)
class WorkingHours:
    """The hours of a working day in a time zone. `days`: 0 is Monday. `closes` may be 24:00."""

    zone: ZoneInfo
    opens: time
    closes: time
    days: frozenset[int]

    def after(self, start: float, seconds: float) -> float:
        """The time (unix seconds) at which so many working seconds have passed since `start`; at
        the end of a day rather than at the beginning of the next."""
        day = datetime.fromtimestamp(start, self.zone).date()
        for _ in range(_LONGEST):
            opens, closes = self._span(day)
            begin = max(opens, start)
            if day.weekday() in self.days and begin < closes:
                if seconds <= closes - begin:
                    return begin + seconds
                seconds -= closes - begin
            day += timedelta(days=1)
        return start + _LONGEST * 86_400.0

    def _span(self, day: date) -> tuple[float, float]:
        """When the day opens and closes, in unix seconds: the clocks may change in between."""
        end = day + timedelta(days=1) if self.closes == time(0) else day
        opens = datetime.combine(day, self.opens, self.zone)
        return opens.timestamp(), datetime.combine(end, self.closes, self.zone).timestamp()


def later(hours: WorkingHours | None, start: float, seconds: float) -> float:
    """`seconds` after `start`, in working time where there are working hours."""
    return start + seconds if hours is None else hours.after(start, seconds)
