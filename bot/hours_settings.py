"""Times as interlock.toml says them: working hours, and how long a question waits for what."""

from __future__ import annotations

import re
from datetime import time
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from bot.hours import WorkingHours

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd])")
_LONGEST: Final = 366 * 86_400.0
_TIME: Final = re.compile(r"([01]?[0-9]|2[0-4]):([0-5][0-9])")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def seconds_of(text: str) -> float:
    """A time such as 30m, 2h or 7d in seconds. Raises ValueError with the end of a sentence."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("must be a time such as 90s, 30m, 2h or 7d")
    seconds = float(int(found[1]) * _UNITS[found[2]])
    if not 0 < seconds <= _LONGEST:
        raise ValueError("must be a time between 1s and 366d")
    return seconds


def _duration(value: Any) -> str:
    seconds_of(value if isinstance(value, str) else "")
    return str(value)


def _zone(value: Any) -> str:
    try:
        ZoneInfo(value)
    except (LookupError, ValueError, TypeError, OSError) as error:
        raise ValueError(
            f"names the time zone {value!r}, which is not known: use one like Europe/Berlin or UTC"
        ) from error
    return str(value)


def _clock(value: Any) -> str:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None or (found[1] == "24" and found[2] != "00"):
        raise ValueError('must be a time of the day such as "09:00" or "24:00"')
    return str(value)


def _day(value: Any) -> str:
    if value not in _DAYS:
        raise ValueError(f"must be one of {', '.join(_DAYS)}")
    return str(value)


Duration = Annotated[str, BeforeValidator(_duration)]
_Clock = Annotated[str, BeforeValidator(_clock)]


class HoursSettings(BaseModel):
    """`[hours.NAME]`: when people work, in their time zone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    zone: Annotated[str, BeforeValidator(_zone)]
    opens: _Clock
    closes: _Clock
    days: tuple[Annotated[str, BeforeValidator(_day)], ...] = Field(_DAYS[:5], min_length=1)

    @model_validator(mode="after")
    def _opens_before_it_closes(self) -> HoursSettings:
        if _minutes(self.opens) >= _minutes(self.closes):
            raise ValueError("closes before it opens: hours end on the day that they begin")
        return self

    def hours(self) -> WorkingHours:
        return WorkingHours(
            zone=ZoneInfo(self.zone),
            opens=_time(self.opens),
            closes=_time(self.closes),
            days=frozenset(map(_DAYS.index, self.days)),
        )


def _minutes(text: str) -> int:
    hour, minute = map(int, text.split(":"))
    return 60 * hour + minute


def _time(text: str) -> time:
    """24:00 is midnight, at which a day ends (bot.hours)."""
    hour, minute = map(int, text.split(":"))
    return time(hour % 24, minute)


class Waiting(BaseModel):
    """What comes of a question of a policy that nobody decides."""

    remind_after: Duration | None = None
    escalate_after: Duration | None = None
    escalate_to: tuple[str, ...] = ()
    expires_after: Duration | None = None
    hours: str | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Waiting:
        if (why := self._contradiction()) is not None:
            raise ValueError(why)
        return self

    def _contradiction(self) -> str | None:
        times = {
            name: text
            for name in ("remind_after", "escalate_after", "expires_after")
            if (text := getattr(self, name)) is not None
        }
        if self.escalate_after is not None and not self.escalate_to:
            return "has escalate_after, but escalate_to does not say who may approve then"
        if self.escalate_to and self.escalate_after is None:
            return "has escalate_to, but escalate_after does not say when they may approve"
        if self.expires_after is not None:
            for name, text in times.items():
                if name != "expires_after" and seconds_of(text) >= seconds_of(self.expires_after):
                    return f"has {name} {text}, when it has expired: make it shorter"
        if self.hours is not None and not times:
            return "has hours, but no time that counts in them: remove hours"
        if self.hours is not None:
            for name, text in times.items():
                if text.endswith("d"):
                    return (
                        f"has {name} {text} in working hours, of which a day has fewer than 24: "
                        "say it in h"
                    )
        return None
