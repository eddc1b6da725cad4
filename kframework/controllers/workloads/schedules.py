"""Schedules of cron jobs: five fields, `@hourly` and its like, or `@every 1h30m`, as Kubernetes reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

_SHORT = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)}
_DAYS = {name: n for n, name in enumerate("sun mon tue wed thu fri sat".split())}
_BOUNDS: tuple[tuple[int, int, Mapping[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_PART = re.compile(r"(?:(?P<star>[*?])|(?P<low>\w{1,4})(?:-(?P<high>\w{1,4}))?)(?:/(?P<step>\d{1,4}))?")
_EVERY = re.compile(r"@every ((?:\d{1,9}(?:\.\d{1,9})?(?:h|ms|m|s)){1,9})")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
#: How far a schedule is looked ahead: what does not come within so many days never does.
_HORIZON = 5 * 366


class ScheduleError(ValueError):
    """Text that is no schedule, or no time zone."""


class Schedule(Protocol):
    """When something is due, in seconds since 1970."""

    def after(self, time: float) -> float | None:
        """Return the first time after another, None if there is none any more."""
        ...


class Every(NamedTuple):
    """Due again so many whole seconds later."""

    seconds: int

    def after(self, time: float) -> float | None:
        """Return a time so much later."""
        return int(time) + self.seconds


class Cron(NamedTuple):
    """Due at these minutes of these hours of days that match."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    #: Whether a day must match both ways, as where one of them says any.
    both: bool
    zone: tzinfo

    def after(self, time: float) -> float | None:
        """Return the first time after another, None if there is none any more."""
        local = datetime.fromtimestamp(time, self.zone)
        for ahead in range(_HORIZON):
            day = local.date() + timedelta(days=ahead)
            if self._matches(day):
                first_hour = local.hour if not ahead else 0
                due = next((at for at in self._times(day, first_hour) if at > time), None)
                if due is not None:
                    return due
        return None

    def _matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_day and by_weekday) if self.both else (by_day or by_weekday)

    def _times(self, day: date, first_hour: int) -> Iterator[float]:
        """Yield what is due on a day: an hour that comes twice counts twice, and one that is left out does not."""
        for hour in self.hours:
            for fold in (0, 1) if hour >= first_hour else ():
                for minute in self.minutes:
                    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone, fold=fold)
                    again = local.astimezone(UTC).astimezone(self.zone)
                    if again.replace(tzinfo=None) == local.replace(tzinfo=None, fold=again.fold) and again.fold == fold:
                        yield local.timestamp()


@lru_cache(maxsize=256)
def schedule(text: str, time_zone: str | None) -> Schedule:
    """Read a schedule; without a time zone it is UTC.

    Raises ScheduleError.
    """
    if every := _EVERY.fullmatch(text):
        parts = re.findall(r"([\d.]+)(h|ms|m|s)", every[1])
        return Every(max(1, int(sum(float(number) * _UNITS[unit] for number, unit in parts))))
    fields = _SHORT.get(text, text).split()
    if len(fields) != len(_BOUNDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: {text!r}")
    minutes, hours, days, months, weekdays = (_field(*each) for each in zip(fields, _BOUNDS, strict=True))
    return Cron(
        tuple(sorted(minutes.values)),
        tuple(sorted(hours.values)),
        days.values,
        months.values,
        weekdays.values,
        days.is_any or weekdays.is_any,
        _zone(time_zone),
    )


class _Field(NamedTuple):
    """The values of a field, and whether it says any."""

    values: frozenset[int]
    is_any: bool


def _field(text: str, bounds: tuple[int, int, Mapping[str, int]]) -> _Field:
    values: set[int] = set()
    is_any = False
    for part in text.split(","):
        lowest, highest, names = bounds
        match = _PART.fullmatch(part)
        if match is None:
            raise ScheduleError(f"failed to parse {part!r}")
        step = int(match["step"] or 1)
        low, high = lowest, highest
        if match["star"]:
            is_any = is_any or step == 1
        else:
            low = _number(match["low"], names)
            high = _number(match["high"], names) if match["high"] else (highest if match["step"] else low)
        if not (lowest <= low <= high <= highest and step):
            raise ScheduleError(f"{part!r} is not within {lowest} and {highest}")
        values.update(range(low, high + 1, step))
    return _Field(frozenset(values), is_any)


def _number(text: str, names: Mapping[str, int]) -> int:
    found = names.get(text.lower(), int(text) if text.isdecimal() else None)
    if found is None:
        raise ScheduleError(f"failed to parse number: {text!r}")
    return found


def _zone(name: str | None) -> tzinfo:
    if not name or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ScheduleError(f"unknown time zone {name!r}") from error


def most_recent(when: Schedule, earliest: float, now: float) -> float | None:
    """Return the last time that has come after `earliest`, None if none has."""
    first = when.after(earliest)
    if first is None or now < first:
        return None
    second = when.after(first)
    if second is None or now < second:
        return first
    gap = max(1.0, second - first)
    # Most schedules are regular, and there may be years between the two.
    last, due = first, when.after(max(earliest, first + (int((now - first) / gap) - 1) * gap))
    while due is not None and due <= now:
        last, due = due, when.after(due)
    return last
