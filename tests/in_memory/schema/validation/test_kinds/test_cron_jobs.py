"""What is wrong with a CronJob is said in Kubernetes' words, those of its parser of schedules among them."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.validation.kinds import object_causes
from tests.in_memory.schema.validation.test_pods.test_workloads import workload


def actual(data: dict[str, Any]) -> list[str]:
    return list(map(str, object_causes(data, "batch/v1", "CronJob")))


def cron_job_causes(template: dict[str, Any] | None = None, called: str = "c", **spec: Any) -> dict[str, Any]:
    created = {"spec": workload()["spec"] | {"selector": None} | (template or {})}
    return {"metadata": {"name": called}, "spec": {"schedule": "@daily", "jobTemplate": created} | spec}


@pytest.mark.parametrize("text", ["@daily", "*/5 0-6 ? jan,MAR Mon-Fri", "@every 90m", "  0 0   1 1 0 "])
def test_valid_schedule_is_accepted(text: str) -> None:
    assert actual(cron_job_causes(schedule=text)) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
    ],
)
def test_invalid_schedule_is_rejected(text: str, why: str) -> None:
    assert actual(cron_job_causes(schedule=text)) == [f'spec.schedule: Invalid value: "{text}": {why}']


def test_time_zone_in_the_schedule_is_rejected() -> None:
    told = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    for text in ("TZ=UTC 0 * * * *", "CRON_TZ=Europe/Berlin 0 * * * *"):
        assert actual(cron_job_causes(schedule=text)) == [f'spec.schedule: Invalid value: "{text}": {told}']
    (unknown, also) = actual(cron_job_causes(schedule="TZ=X 0 * * * *"))
    assert "provided bad location X: unknown time zone X" in unknown and told in also


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "Etc/GMT+2", "America/Argentina/Ushuaia"])
def test_known_time_zone_is_accepted(zone: str) -> None:
    assert actual(cron_job_causes(timeZone=zone)) == []


@pytest.mark.parametrize(
    ("zone", "why"),
    [
        ("", ["timeZone must be nil or non-empty string"]),
        ("Local", ["timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"]),
        (
            "LOCAL",
            [
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
                "unknown time zone LOCAL",
            ],
        ),
        *((zone, [f"unknown time zone {zone}"]) for zone in ("Europe/Nowhere", "Europe//Berlin", "/UTC", "UTC/")),
        *((zone, [f"unknown time zone {zone}"]) for zone in ("../UTC", "Etc/./UTC", "-UTC", "Europe/Bérlin", "UTC ")),
        *((zone, [f"unknown time zone {zone}"]) for zone in ("ABCDEFGHIJKLMNO", "Europe")),
    ],
)
def test_unknown_time_zone_is_rejected(zone: str, why: list[str]) -> None:
    assert actual(cron_job_causes(timeZone=zone)) == [f'spec.timeZone: Invalid value: "{zone}": {each}' for each in why]


@pytest.mark.parametrize(
    ("told", "causes"),
    [
        (
            cron_job_causes(startingDeadlineSeconds=-1, successfulJobsHistoryLimit=-2, failedJobsHistoryLimit=-3),
            [
                f"spec.{field}: Invalid value: {number}: must be greater than or equal to 0"
                for field, number in (
                    ("startingDeadlineSeconds", -1),
                    ("successfulJobsHistoryLimit", -2),
                    ("failedJobsHistoryLimit", -3),
                )
            ],
        ),
        (
            {"spec": {"jobTemplate": workload(selector=None, parallelism=-1), "concurrencyPolicy": "No"}},
            [
                "spec.schedule: Required value",
                'spec.concurrencyPolicy: Unsupported value: "No": supported values: "Allow", "Forbid", "Replace"',
                "spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            cron_job_causes({"selector": {}, "manualSelector": True}),
            [
                "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
                'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"',
            ],
        ),
        (cron_job_causes(called="c" * 52), []),
        (
            cron_job_causes(called="c" * 53),
            [f'metadata.name: Invalid value: "{"c" * 53}": must be no more than 52 characters'],
        ),
    ],
)
def test_other_invalid_fields_are_rejected(told: dict[str, Any], causes: list[str]) -> None:
    assert actual(told) == causes
