"""Names, types, labels and buckets are kube-scheduler's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kframework.observe.metrics.families import FAMILIES, Family, exponential
from kframework.observe.metrics.series import format_go_float

#: What kube-scheduler says, numbers as text: the last digit of a bound is part of a series' name.
KUBE_SCHEDULER: dict[str, dict[str, Any]] = yaml.load(
    Path(__file__).with_name("kube_scheduler.yaml").read_text(), yaml.BaseLoader
)

#: Of those that kube-scheduler may have; the others have our prefix.
OURS = {family.name: family for family in FAMILIES if not family.name.startswith("kframework_")}

#: Metrics of kube-scheduler that there are not, each with the reason.
LEFT_OUT = {
    "scheduler_async_api_call_execution_duration_seconds": "behind a feature gate that is off",
    "scheduler_async_api_call_execution_total": "behind a feature gate that is off",
    "scheduler_pending_async_api_calls": "behind a feature gate that is off",
    "scheduler_batch_attempts_total": "remembered answers take the place of its batches",
    "scheduler_batch_cache_flushed_total": "remembered answers take the place of its batches",
    "scheduler_get_node_hint_duration_seconds": "remembered answers take the place of its batches",
    "scheduler_store_schedule_results_duration_seconds": "remembered answers take the place of its batches",
    "scheduler_podgroup_schedule_attempts_total": "behind a feature gate that is off",
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": "behind a feature gate that is off",
    "scheduler_podgroup_scheduling_attempt_duration_seconds": "behind a feature gate that is off",
    "scheduler_preemption_goroutines_duration_seconds": "always about zero there",
    "scheduler_preemption_goroutines_execution_total": "always success there",
    "scheduler_volume_binder_cache_requests_total": "never counted there",
    "scheduler_volume_scheduling_stage_error_total": "the attempt ends as an error, which is counted",
}


def test_every_metric_of_kube_scheduler_exists_or_has_a_reason_to_be_omitted() -> None:
    assert KUBE_SCHEDULER.keys() == OURS.keys() | LEFT_OUT.keys()
    assert not OURS.keys() & LEFT_OUT.keys()


def test_stable_and_beta_metrics_are_not_omitted() -> None:
    assert {KUBE_SCHEDULER[name]["stability"] for name in LEFT_OUT} == {"ALPHA"}


@pytest.mark.parametrize("name", OURS)
def test_metric_has_type_labels_and_buckets_of_kube_scheduler(name: str) -> None:
    family = OURS[name]
    said = KUBE_SCHEDULER[name]
    assert said == facts(family)


def facts(family: Family) -> dict[str, Any]:
    """Say of a family what the list says, in the same form."""
    buckets = {"buckets": [format_go_float(bound) for bound in family.buckets]} if family.buckets else {}
    stability = family.help.partition("]")[0].removeprefix("[")
    return {"type": family.type, "stability": stability, "labels": sorted(family.labels), **buckets}


def test_help_is_one_line_without_escapes() -> None:
    assert [family.name for family in FAMILIES if set(family.help) & set('\n\\"')] == []


def test_metric_names_are_unique() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_exponential_bounds_are_multiplied_step_by_step() -> None:
    assert exponential(1, 2, 5) == (1, 2, 4, 8, 16)
    assert exponential(0.00001, 1.5, 3)[1:] == (0.00001 * 1.5, 0.00001 * 1.5 * 1.5)
