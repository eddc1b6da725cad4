"""Whether it can be said when a CronJob is due, and of what its jobs are made."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, invalid, required, unsupported
from kframework.fake_api.schema.validation.workloads import job, negative_numbers
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, name, value
from kframework.in_memory.workloads.schedules import ScheduleError, location, schedule

#: A job is called after its cron job, with eleven letters more.
_LONGEST_NAME = 52
_POLICIES = ("Allow", "Forbid", "Replace")
#: What stands between the slashes of a time zone's name.
_PART_OF_A_ZONE = re.compile(r"(?!-|\.\.?$)[A-Za-z._0-9+-]{1,14}", re.ASCII)


def cron_job(data: Data) -> Iterator[Cause]:
    """Yield what is wrong with a CronJob."""
    spec = mapping(data, "spec")
    yield from _schedule(spec.get("schedule"))
    yield from negative_numbers(spec, ["startingDeadlineSeconds"])
    yield from _time_zone(spec.get("timeZone"))
    if (policy := spec.get("concurrencyPolicy")) not in (None, *_POLICIES):
        yield unsupported("spec.concurrencyPolicy", policy, _POLICIES)
    template = mapping(spec, "jobTemplate")
    yield from job(template, "spec.jobTemplate.spec")
    if (selector := value(template, "spec.selector")) is not None:
        yield invalid("spec.jobTemplate.spec.selector", selector, "`selector` will be auto-generated")
    if value(template, "spec.manualSelector") is True:
        yield unsupported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    yield from negative_numbers(spec, ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"])
    if len(name(data)) > _LONGEST_NAME:
        yield invalid("metadata.name", name(data), f"must be no more than {_LONGEST_NAME} characters")


def _schedule(text: object) -> Iterator[Cause]:
    if not isinstance(text, str) or not text:
        yield required("spec.schedule")
        return
    try:
        schedule(text)
    except ScheduleError as error:
        yield invalid("spec.schedule", text, str(error))
    if "TZ" in text:
        yield invalid("spec.schedule", text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")


def _time_zone(zone: object) -> Iterator[Cause]:
    if not isinstance(zone, str):
        return
    if not zone:
        yield invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
        return
    if not all(map(_PART_OF_A_ZONE.fullmatch, zone.split("/"))):
        yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")
        return
    if zone.lower() == "local":
        explicit = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid("spec.timeZone", zone, explicit)
    if zone != "Local":  # which Go knows
        try:
            location(zone)
        except ScheduleError as error:
            yield invalid("spec.timeZone", zone, str(error))
