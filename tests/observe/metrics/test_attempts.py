"""What the records tell is counted as kube-scheduler counts it."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.core.cycle.records import Binding, Decision, Result
from kframework.observe.metrics.attempts import EXTENSION_POINTS, AttemptMetrics
from kframework.values.status import Code
from tests.observe.metrics.exposition import count_of, sum_of, text, values

OK, UNFIT, ERROR = Code.SUCCESS, Code.UNSCHEDULABLE, Code.ERROR
MICROSECOND, SECOND = 1_000, 10**9

POINTS = "scheduler_framework_extension_point_duration_seconds"
DURATION = "scheduler_scheduling_attempt_duration_seconds"
SEARCH = "scheduler_scheduling_algorithm_duration_seconds"
LIFE = "scheduler_pod_scheduling_sli_duration_seconds"

MAX_MATCHES = (
    ("pre_filter", 10 * MICROSECOND, OK),
    ("filter", 50 * MICROSECOND, OK),
    ("score", 30 * MICROSECOND, OK),
    ("assume", 5 * MICROSECOND, OK),
    ("reserve", 2 * MICROSECOND, OK),
    ("permit", 3 * MICROSECOND, OK),
)
BOUND = (
    ("pre_bind_pre_flight", 1 * MICROSECOND, OK),
    ("wait_on_permit", 4 * MICROSECOND, OK),
    ("bind", 900 * MICROSECOND, OK),
    ("post_bind", 20 * MICROSECOND, OK),
)
NOT_FOUND = (
    ("pre_filter", 10 * MICROSECOND, OK),
    ("filter", 50 * MICROSECOND, OK),
    ("post_filter", 200 * MICROSECOND, UNFIT),
)


def decision(**changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "attempt": 7,
        "pod_attempts": 1,
        "pod": "shop/web",
        "uid": "u-1",
        "profile": "default-scheduler",
        "initial_attempt_at": 100.0,
        "queued_at": 100.0,
        "popped_at": 101.0,
        "requeued_by": "UnscheduledPodAdd",
        "result": Result.SCHEDULED,
        "node": "n1",
        "sample_value": 0.5,
        "started": 1_000,
        "timings": MAX_MATCHES,
    }
    return Decision(**fields | changes)


def failed(**changes: Any) -> Decision:
    fields: dict[str, Any] = {"result": Result.UNSCHEDULABLE, "code": UNFIT, "node": "", "timings": NOT_FOUND}
    return decision(**fields | changes)


def binding(**changes: Any) -> Binding:
    fields: dict[str, Any] = {
        "attempt": 7,
        "pod": "shop/web",
        "uid": "u-1",
        "profile": "default-scheduler",
        "node": "n1",
        "started_at": 101.0,
        "ended_at": 103.0,
        "code": OK,
        "sample_value": 0.5,
        "started": 1_000 + 150 * MICROSECOND,
        "steps": BOUND,
    }
    return Binding(**fields | changes)


def told(*records: Decision | Binding) -> AttemptMetrics:
    attempts = AttemptMetrics()
    for record in records:
        if isinstance(record, Decision):
            attempts.on_decision(record)
        else:
            attempts.on_binding(record)
    return attempts


@pytest.mark.parametrize(
    ("records", "result"),
    [
        ((decision(), binding()), "scheduled"),
        ((failed(),), "unschedulable"),
        ((failed(result=Result.ERROR, code=ERROR),), "error"),
        ((decision(), binding(code=UNFIT)), "unschedulable"),
        ((decision(), binding(code=Code.PENDING)), "unschedulable"),
        ((decision(), binding(code=ERROR)), "error"),
        ((decision(), binding(code=Code.SKIP)), "error"),
    ],
)
def test_attempt_is_counted_once_by_result(records: tuple[Decision | Binding, ...], result: str) -> None:
    attempts = told(*records)
    expected = {("default-scheduler", result): 1}
    assert values(attempts.series, "scheduler_schedule_attempts_total") == expected
    assert count_of(attempts.series, DURATION) == expected


def test_successful_attempt_is_counted_when_its_pod_is_bound() -> None:
    attempts = told(decision())
    assert values(attempts.series, "scheduler_schedule_attempts_total") == {}
    assert count_of(attempts.series, SEARCH) == {(): 1}


def test_binding_without_a_seen_decision_is_not_counted() -> None:
    assert text(told(binding()).series) == text(AttemptMetrics().series)


def test_attempts_are_counted_by_profile() -> None:
    attempts = told(failed(), failed(profile="batch"), failed(profile="batch"))
    assert values(attempts.series, "scheduler_schedule_attempts_total") == {
        ("batch", "unschedulable"): 2,
        ("default-scheduler", "unschedulable"): 1,
    }


def test_attempt_duration_spans_pop_to_binding() -> None:
    """The aftermath of the binding does not count."""
    attempts = told(decision(), binding())
    assert list(sum_of(attempts.series, DURATION).values()) == [pytest.approx((150 + 1 + 4 + 900) * 1e-6)]


def test_failed_attempt_duration_is_the_sum_of_its_points() -> None:
    assert list(sum_of(told(failed()).series, DURATION).values()) == [pytest.approx(260e-6)]


def test_permit_wait_is_measured_on_the_clock() -> None:
    """In virtual time this machine did not wait."""
    attempts = told(decision(), binding(waited=2.0))
    assert list(sum_of(attempts.series, DURATION).values()) == [pytest.approx(2.001_051)]
    assert sum_of(attempts.series, "scheduler_permit_wait_duration_seconds") == {("Success",): 2}


def test_permit_wait_is_labelled_with_its_result() -> None:
    steps = (("pre_bind_pre_flight", 1, OK), ("wait_on_permit", 2 * SECOND, UNFIT))
    attempts = told(decision(), binding(waited=2.0, code=UNFIT, steps=steps))
    assert sum_of(attempts.series, "scheduler_permit_wait_duration_seconds") == {("Unschedulable",): 2}


def test_pod_without_a_permit_wait_is_not_counted() -> None:
    assert count_of(told(decision(), binding()).series, "scheduler_permit_wait_duration_seconds") == {}


@pytest.mark.parametrize(("record", "microseconds"), [(decision(), 90), (failed(), 260)])
def test_algorithm_duration_ends_with_the_choice_of_a_node(record: Decision, microseconds: int) -> None:
    assert sum_of(told(record).series, SEARCH) == {(): pytest.approx(microseconds * 1e-6)}


def test_extension_points_are_timed_by_status() -> None:
    """PreScore and PreBind count though no plugin has work there, as in kube-scheduler."""
    attempts = told(decision(), binding(), failed(attempt=8))
    observed = {(point, status): count for (point, _, status), count in count_of(attempts.series, POINTS).items()}
    assert observed == {
        ("Bind", "Success"): 1,
        ("Filter", "Success"): 2,
        ("Permit", "Success"): 1,
        ("PreBind", "Success"): 1,
        ("PostBind", "Success"): 1,
        ("PostFilter", "Unschedulable"): 1,
        ("PreBindPreFlight", "Success"): 1,
        ("PreFilter", "Success"): 2,
        ("Reserve", "Success"): 1,
        ("PreScore", "Success"): 1,
        ("Score", "Success"): 1,
    }
    assert sum_of(attempts.series, POINTS)["Bind", "default-scheduler", "Success"] == pytest.approx(900e-6)


def test_no_two_points_share_a_label() -> None:
    assert len(set(EXTENSION_POINTS.values())) == len(EXTENSION_POINTS)


def test_timings_outside_plugins_are_not_extension_points() -> None:
    timings = (("extender_filter", 5, ERROR), ("extender_filter", 5, OK), ("assume", 5, OK))
    assert count_of(told(failed(timings=timings)).series, POINTS) == {}


def test_pre_enqueue_is_observed_from_the_queue() -> None:
    attempts = AttemptMetrics()
    attempts.observe_pre_enqueue(7 * MICROSECOND, UNFIT, "default-scheduler")
    assert count_of(attempts.series, POINTS) == {("PreEnqueue", "default-scheduler", "Unschedulable"): 1}


def test_sli_duration_ends_with_the_binding() -> None:
    attempts = told(decision(pod_attempts=3), binding())
    assert sum_of(attempts.series, LIFE) == {("3",): pytest.approx(3 - 20e-6)}
    assert sum_of(attempts.series, "scheduler_pod_scheduling_attempts") == {(): 3}


@pytest.mark.parametrize(("tries", "label"), [(1, "1"), (14, "14"), (15, "15+"), (99, "15+")])
def test_high_attempt_counts_share_a_label(tries: int, label: str) -> None:
    assert count_of(told(decision(pod_attempts=tries), binding()).series, LIFE) == {(label,): 1}


def test_unbound_pods_have_no_sli_duration() -> None:
    attempts = told(decision(), binding(code=ERROR), failed(attempt=8))
    assert count_of(attempts.series, LIFE) == {}
    assert count_of(attempts.series, "scheduler_pod_scheduling_attempts") == {(): 0}


@pytest.mark.parametrize(("event", "count"), [("UnschedulableTimeout", 1), ("NodeAdd", 0)])
def test_pods_bound_after_a_flush_are_counted(event: str, count: int) -> None:
    attempts = told(decision(requeued_by=event), binding(), failed(attempt=8, requeued_by=event))
    assert values(attempts.series, "scheduler_pod_scheduled_after_flush_total") == {(): count}


def test_preemption_is_counted_whether_it_helps_or_not() -> None:
    attempts = told(failed(victims=("a/b", "c/d", "e/f")), failed(), failed(timings=NOT_FOUND[:2]))
    assert values(attempts.series, "scheduler_preemption_attempts_total") == {(): 2}
    assert count_of(attempts.series, "scheduler_preemption_victims") == {(): 1}
    assert sum_of(attempts.series, "scheduler_preemption_victims") == {(): 3}


PLUGINS = (
    ("pre_filter", "Fit", 5 * MICROSECOND, OK),
    ("pre_filter", "Spread", MICROSECOND, Code.SKIP),
    ("filter", "Fit", 20 * MICROSECOND, OK),
    ("normalize_score", "Taints", 2 * MICROSECOND, OK),
)


def test_plugins_are_timed() -> None:
    attempts = told(
        decision(plugins=PLUGINS, sample_value=0.0), binding(plugins=(("bind", "Binder", 7, OK),), sample_value=0.0)
    )
    assert count_of(attempts.series, "scheduler_plugin_execution_duration_seconds") == {
        ("Bind", "Binder", "Success"): 1,
        ("Filter", "Fit", "Success"): 1,
        ("PreFilter", "Fit", "Success"): 1,
        ("PreFilter", "Spread", "Skip"): 1,
        ("ScoreExtensionNormalize", "Taints", "Success"): 1,
    }


def test_timed_attempt_represents_all_since_the_previous_one() -> None:
    """Skip is no evaluation, nor is what comes after scoring."""
    timed = (decision(attempt=number, plugins=PLUGINS if number in (3, 4, 9) else ()) for number in range(1, 12))
    attempts = told(*timed)
    assert values(attempts.series, "scheduler_plugin_evaluation_total") == {
        ("Filter", "Fit", "default-scheduler"): 9,
        ("PreFilter", "Fit", "default-scheduler"): 9,
    }


@pytest.mark.usefixtures("frozen_heap")
def test_attempt_metrics_do_not_keep_finished_attempts() -> None:
    attempts = AttemptMetrics()
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(5_000):
            attempts.on_decision(decision(attempt=number, sample_value=0.0, plugins=PLUGINS))
            attempts.on_binding(binding(attempt=number))
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()


def test_reset_clears_all_attempt_metrics() -> None:
    attempts = told(
        decision(plugins=PLUGINS, sample_value=0.0), binding(waited=1.0), failed(attempt=8, victims=("a/b",))
    )
    for series in attempts.series:
        series.reset()
    assert text(attempts.series) == text(AttemptMetrics().series)
    attempts.on_decision(failed(attempt=9))
    assert count_of(attempts.series, POINTS)["Filter", "default-scheduler", "Success"] == 1


points = st.tuples(st.sampled_from([*EXTENSION_POINTS, "assume"]), st.integers(0, 10**9), st.sampled_from(Code))


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.lists(points, max_size=8)), max_size=8))
def test_every_timing_is_observed_once(records: list[tuple[str, list[tuple[str, int, Code]]]]) -> None:
    attempts, expected = AttemptMetrics(), Counter[tuple[str, str, str]]()
    for profile, timings in records:
        attempts.on_decision(failed(profile=profile, timings=tuple(timings)))
        expected.update(
            (EXTENSION_POINTS[point], profile, code.title) for point, _, code in timings if point in EXTENSION_POINTS
        )
        for (before, _, _), (point, _, _) in pairwise([("", 0, OK), *timings]):
            idle = {"score": "pre_score", "bind": "pre_bind"}.get(point, before)
            if idle != before:
                expected[EXTENSION_POINTS[idle], profile, "Success"] += 1
    assert count_of(attempts.series, POINTS) == expected
    assert sum(sum_of(attempts.series, SEARCH).values()) <= sum(sum_of(attempts.series, DURATION).values()) + 1e-6
