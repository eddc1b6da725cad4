"""Names, types, stability, labels and buckets are those of kube-scheduler's emulated minor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from kframework.observe.metrics.families import FAMILIES, Family, event_label, exponential, in_minor
from kframework.observe.metrics.series import format_go_float
from kframework.values.feature_gates import MINORS

DIRECTORY = Path(__file__).parent


def kube_scheduler() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the metrics of each minor, numbers as text: the last digit of a bound is part of a series' name."""
    said = yaml.load((DIRECTORY / "kube_scheduler.yaml").read_text(), yaml.BaseLoader)
    yield "1.36", said
    changed = yaml.load((DIRECTORY / "kube_scheduler_1_37.yaml").read_text(), yaml.BaseLoader)
    merged = {name: {**said.get(name, {}), **facts} for name, facts in changed.items() if isinstance(facts, dict)}
    yield "1.37", {name: facts for name, facts in (said | merged).items() if name not in changed or name in merged}


KUBE_SCHEDULER = dict(kube_scheduler())

#: Of those that kube-scheduler may have; the others have our prefix.
OURS = {
    minor: {
        family.name: family
        for each in FAMILIES
        if not each.name.startswith("kframework_") and (family := in_minor(each, minor)) is not None
    }
    for minor in MINORS
}

GATED = "behind a feature gate that is off"
CACHED = "remembered answers take the place of its batches"
CONNECTIONS = "of connections and credentials of client-go"

#: Metrics of kube-scheduler that there are not, each with the reason.
LEFT_OUT = {
    "leader_election_slowpath_total": "each renewal is a single write here",
    "rest_client_dns_resolution_duration_seconds": CONNECTIONS,
    "rest_client_exec_plugin_call_total": CONNECTIONS,
    "rest_client_exec_plugin_certificate_rotation_age": CONNECTIONS,
    "rest_client_exec_plugin_policy_call_total": CONNECTIONS,
    "rest_client_exec_plugin_ttl_seconds": CONNECTIONS,
    "rest_client_request_retries_total": "each try is a request",
    "rest_client_transport_ca_reload_total": CONNECTIONS,
    "rest_client_transport_cache_entries": CONNECTIONS,
    "rest_client_transport_cache_gc_calls_total": CONNECTIONS,
    "rest_client_transport_cert_rotation_gc_calls_total": CONNECTIONS,
    "rest_client_transport_create_calls_total": CONNECTIONS,
    "scheduler_async_api_call_execution_duration_seconds": GATED,
    "scheduler_async_api_call_execution_total": GATED,
    "scheduler_pending_async_api_calls": GATED,
    "scheduler_batch_attempts_total": CACHED,
    "scheduler_batch_cache_flushed_total": CACHED,
    "scheduler_batch_rescore_attempts_total": CACHED,
    "scheduler_batch_rescore_duration_seconds": CACHED,
    "scheduler_get_node_hint_duration_seconds": CACHED,
    "scheduler_store_schedule_results_duration_seconds": CACHED,
    "scheduler_pre_queueing_hint_evaluations_total": GATED,
    "scheduler_preemption_goroutines_duration_seconds": "always about zero there, and deprecated in 1.37",
    "scheduler_preemption_goroutines_execution_total": "always success there",
    "scheduler_volume_binder_cache_requests_total": "never counted there",
    "scheduler_volume_scheduling_stage_error_total": "the attempt ends as an error, which is counted",
}


@pytest.mark.parametrize("minor", MINORS)
def test_every_metric_of_kube_scheduler_exists_or_has_a_reason_to_be_omitted(minor: str) -> None:
    assert KUBE_SCHEDULER[minor].keys() == OURS[minor].keys() | KUBE_SCHEDULER[minor].keys() & LEFT_OUT.keys()
    assert not OURS[minor].keys() & LEFT_OUT.keys()


def test_no_reason_is_given_for_a_metric_that_no_minor_has() -> None:
    assert set[str]().union(*KUBE_SCHEDULER.values()) >= LEFT_OUT.keys()


def test_page_names_the_metrics_that_are_missing_and_no_others() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/metrics.md").read_text().partition("## What is missing")[2]
    patterns = re.findall("`([a-z_*]+)`", page.partition("\n## ")[0])
    names = LEFT_OUT.keys() | OURS["1.36"].keys() | OURS["1.37"].keys()
    named = {name for name in names if any(fnmatch(name.removeprefix("scheduler_"), each) for each in patterns)}
    assert named == LEFT_OUT.keys()


@pytest.mark.parametrize("minor", MINORS)
def test_stable_and_beta_metrics_are_not_omitted(minor: str) -> None:
    said = KUBE_SCHEDULER[minor]
    assert {said[name]["stability"] for name in LEFT_OUT.keys() & said.keys()} == {"ALPHA"}


@pytest.mark.parametrize(("minor", "name"), [(minor, name) for minor in MINORS for name in OURS[minor]])
def test_metric_has_type_stability_labels_and_buckets_of_kube_scheduler(minor: str, name: str) -> None:
    assert KUBE_SCHEDULER[minor][name] == facts(OURS[minor][name])


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


@pytest.mark.parametrize(
    ("label", "in_1_36"),
    [
        ("UnscheduledPodAdd", "UnschedulablePodAdd"),
        ("TargetPodUpdatePodLabel", "UnschedulablePodUpdatePodLabel"),
        ("AssignedPodUpdatePodLabel", "AssignedPodUpdatePodLabel"),
        ("NodeAdd", "NodeAdd"),
    ],
)
def test_events_of_pending_pods_have_new_labels_since_1_37(label: str, in_1_36: str) -> None:
    assert (event_label(label, "1.36"), event_label(label, "1.37")) == (in_1_36, label)
