"""Schedules of cron jobs: five fields, `@hourly` and its like, or `@every 1h30m`, as Kubernetes parses them.

Not `croniter`: it accepts what Kubernetes rejects, such as weekday 7 and six fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "


class _Bounds(NamedTuple):
    """The minimum and the maximum of a field, and the names of values."""

    minimum: int
    maximum: int
    names: Mapping[str, int] = {}


_MONTHS = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)}
_DAYS = {name: n for n, name in enumerate("sun mon tue wed thu fri sat".split())}
_BOUNDS = (_Bounds(0, 59), _Bounds(0, 23), _Bounds(1, 31), _Bounds(1, 12, _MONTHS), _Bounds(0, 6, _DAYS))
_ZONED = re.compile(r"(?:CRON_)?TZ=(?P<zone>[^ ]*)(?P<rest> .*)?", re.DOTALL)
_NUMBER = re.compile(r"(?P<sign>[+-]?)(?=[0-9])0*(?P<digits>[0-9]*)")
#: The range of a number in Go, and its maximum number of digits.
_INT64, _MAX_DIGITS = range(-(1 << 63), 1 << 63), 19
#: How many days ahead the next time is searched; after that the schedule is never due.
_MAX_DAYS = 5 * 366


class CronScheduleError(ValueError):
    """Raised for an invalid schedule or time zone."""


class ConstantDelaySchedule(NamedTuple):
    """A schedule with a fixed period in whole seconds."""

    seconds: int

    def next_after(self, time: float) -> float | None:
        """Return the first due time after another, in seconds since 1970."""
        return int(time) + self.seconds


class CronSchedule(NamedTuple):
    """A schedule with these minutes of these hours, on matching days."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    #: Whether a day must match both fields, as when one of them is `*`.
    must_match_both: bool
    zone: tzinfo

    def next_after(self, time: float) -> float | None:
        local = datetime.fromtimestamp(time, self.zone)
        for days in range(_MAX_DAYS):
            day = local.date() + timedelta(days=days)
            by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
            matches = (by_day and by_weekday) if self.must_match_both else (by_day or by_weekday)
            if matches and day.month in self.months:
                first_hour = local.hour if not days else 0
                due = next((at for at in self._times(day, first_hour) if at > time), None)
                if due is not None:
                    return due
        return None

    def _times(self, day: date, first_hour: int) -> Iterator[float]:
        """Yield the due times of a day; an hour repeated by a clock change counts twice, a skipped one not at all."""
        for hour in self.hours:
            for fold in (0, 1) if hour >= first_hour else ():
                for minute in self.minutes:
                    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone, fold=fold)
                    again = local.astimezone(UTC).astimezone(self.zone)
                    if again.replace(tzinfo=None) == local.replace(tzinfo=None, fold=again.fold) and again.fold == fold:
                        yield local.timestamp()


Schedule = ConstantDelaySchedule | CronSchedule


@lru_cache(maxsize=256)
def parse_schedule(text: str, time_zone: str | None = None) -> Schedule:
    """Parse a schedule; the time zone is UTC by default, and a prefix `TZ=` takes precedence.

    Raises CronScheduleError with the messages of Kubernetes' parser.
    """
    if not text:
        raise CronScheduleError("empty spec string")
    zone = load_time_zone(time_zone) if time_zone and "TZ" not in text else UTC
    if zoned := _ZONED.fullmatch(text):
        if zoned["rest"] is None:
            raise CronScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        try:
            zone = load_time_zone(zoned["zone"])
        except CronScheduleError as error:
            raise CronScheduleError(f"provided bad location {zoned['zone']}: {error}") from error
        text = zoned["rest"].strip()
    if text.startswith(_EVERY):
        return _parse_every(text.removeprefix(_EVERY))
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise CronScheduleError(f"unrecognized descriptor: {text}")
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_BOUNDS):
        raise CronScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = map(_parse_field, fields, _BOUNDS)
    return CronSchedule(
        tuple(sorted(minutes.values)),
        tuple(sorted(hours.values)),
        days.values,
        months.values,
        weekdays.values,
        days.is_any or weekdays.is_any,
        zone,
    )


def load_time_zone(name: str) -> tzinfo:
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise CronScheduleError(f"unknown time zone {name}") from error


def _parse_every(text: str) -> ConstantDelaySchedule:
    from kframework.config.duration import Duration  # hardly any schedule has one, and pydantic comes with it

    try:
        return ConstantDelaySchedule(max(1, int(Duration.parse(text))))
    except ValueError as error:
        raise CronScheduleError(f"failed to parse duration {text}: {error}") from error


class _Field(NamedTuple):
    """The values of a field, and whether it is `*`."""

    values: frozenset[int]
    is_any: bool


def _parse_field(text: str, bounds: _Bounds) -> _Field:
    ranges = [_parse_range(each, bounds) for each in text.split(",") if each]
    values = frozenset[int]().union(*(each.values for each in ranges))
    return _Field(values, any(each.is_any for each in ranges))


def _parse_range(text: str, bounds: _Bounds) -> _Field:
    """Parse one part of a field: `5`, `1-5` or `*`, optionally with a step; `5/10` ends at the maximum."""
    span, *steps = text.split("/")
    first, *others = span.split("-")
    is_any = first in ("*", "?")
    low, high = bounds.minimum, bounds.maximum
    if not is_any:
        low = _parse_value(first, bounds.names)
        if len(others) > 1:
            raise CronScheduleError(f"too many hyphens: {text}")
        high = _parse_value(others[0], bounds.names) if others else low
    if len(steps) > 1:
        raise CronScheduleError(f"too many slashes: {text}")
    step = _parse_number(steps[0]) if steps else 1
    if steps and not others:
        high = bounds.maximum
    if low < bounds.minimum:
        raise CronScheduleError(f"beginning of range ({low}) below minimum ({bounds.minimum}): {text}")
    if high > bounds.maximum:
        raise CronScheduleError(f"end of range ({high}) above maximum ({bounds.maximum}): {text}")
    if low > high:
        raise CronScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise CronScheduleError(f"step of range should be a positive number: {text}")
    return _Field(frozenset(range(low, high + 1, step)), is_any and step == 1)


def _parse_value(text: str, names: Mapping[str, int]) -> int:
    result = names.get(text.lower())
    return _parse_number(text) if result is None else result


def _parse_number(text: str) -> int:
    match = _NUMBER.fullmatch(text)
    number = int(f"{match['sign']}0{match['digits'][: _MAX_DIGITS + 1]}") if match else None
    if number is None or number not in _INT64:
        why = "invalid syntax" if number is None else "value out of range"
        quoted = json.dumps(text, ensure_ascii=False)
        raise CronScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {quoted}: {why}")
    if number < 0:
        raise CronScheduleError(f"negative number ({number}) not allowed: {text}")
    return number


def most_recent_time(schedule: Schedule, earliest: float, now: float) -> float | None:
    """Return the last time that has come after `earliest`, None if none has."""
    first = schedule.next_after(earliest)
    if first is None or now < first:
        return None
    second = schedule.next_after(first)
    if second is None or now < second:
        return first
    gap = max(1.0, second - first)
    # Most schedules are regular, and there may be years between the two.
    last, due = first, schedule.next_after(max(earliest, first + (int((now - first) / gap) - 1) * gap))
    while due is not None and due <= now:
        last, due = due, schedule.next_after(due)
    return last
