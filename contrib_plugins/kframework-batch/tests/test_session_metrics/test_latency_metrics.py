"""How long tasks and jobs waited: moments are those of the records, and creations those of the objects."""

from __future__ import annotations

import re

import msgspec
import pytest
from kframework_batch.objects import PodGroup
from kframework_batch.session_metrics import LatencyMetrics
from kframework_batch.testing import Stage, make_gang, make_node, make_queue
from msgspec.structs import replace

from kframework import Code
from kframework.clock import VIRTUAL_EPOCH
from kframework.engine import Binding, Decision, Reservation
from kframework.objects import Pod
from kframework.observe.metrics.series import format_series

PLAIN = 'actions: "allocate, backfill"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]'

TASKS = "volcano_task_scheduling_latency_milliseconds"
JOBS = "volcano_e2e_job_scheduling_latency_milliseconds"
DURATION = "volcano_e2e_job_scheduling_duration"
LAST = "volcano_e2e_job_scheduling_last_time"


class Observed(Stage):
    """A stage whose engine is observed."""

    latencies: LatencyMetrics

    def observe(self) -> LatencyMetrics:
        """Observe all that comes from now on."""
        self.latencies = LatencyMetrics()
        self.latencies.attach(self.engine)
        return self.latencies

    def bind(self, reservation: Reservation) -> None:
        """Bind at once, and tell a second later that it took half a second to bind, and a tenth after that."""
        super().bind(reservation)
        code = Code.ERROR if reservation.pod.name in self.unbindable else Code.SUCCESS
        pod = reservation.pod
        steps = (("pre_bind", 400_000_000, code), ("bind", 500_000_000, code), ("post_bind", 100_000_000, code))
        self.latencies.on_binding(
            Binding(
                attempt=reservation.attempt,
                pod=pod.key,
                uid=pod.uid,
                profile="volcano",
                node=reservation.node_name,
                started_at=self.time,
                ended_at=self.time + 1.0,
                code=code,
                steps=steps,
            )
        )

    def report_decision(self, decision: Decision) -> None:
        super().report_decision(decision)
        self.latencies.on_decision(decision)

    def report_account(self, account: msgspec.Struct) -> None:
        super().report_account(account)
        self.latencies.on_account(account)


def stage(*gangs: tuple[PodGroup, list[Pod]], cpu: int = 4) -> Observed:
    """Set a stage with a node; pods are as old as their pod groups."""
    dated = [(group, [of_age(pod, group) for pod in pods]) for group, pods in gangs]
    made = Observed(PLAIN, nodes=[make_node("n", cpu=cpu)], queues=[make_queue("q")], gangs=dated)
    made.observe()
    return made


def of_age(pod: Pod, group: PodGroup) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, creation_timestamp=group.metadata.creation_timestamp))


def readings(made: Observed) -> dict[str, float]:
    text = "".join(piece for series in made.latencies.series for piece in format_series(series))
    return {name: float(value) for name, value in re.findall(r"^(volcano_\S+) (\S+)$", text, re.MULTILINE)}


def labels(name: str, queue: str = "q") -> str:
    return f'{{job_name="{name}",queue="{queue}",job_namespace="default"}}'


@pytest.mark.parametrize(
    ("stage_label", "seconds"),
    [("Watched", 5.0), ("Assumed", 6.0), ("PreBound", 6.4), ("Bound", 6.9)],
)
def test_task_latency_counts_from_creation(stage_label: str, seconds: float) -> None:
    made = stage(make_gang("train", 2, queue="q", age=5.0))
    made.engine.apply_messages()
    made.session()
    said = readings(made)
    assert said[f'{TASKS}_count{{stage="{stage_label}"}}'] == 2
    assert said[f'{TASKS}_sum{{stage="{stage_label}"}}'] == pytest.approx(2 * seconds * 1e3)


def test_failed_binding_is_only_assumed() -> None:
    made = stage(make_gang("train", 1, queue="q", age=5.0))
    made.unbindable["train-0"] = "no"
    made.session()
    assert {name for name in readings(made) if name.startswith(f"{TASKS}_count")} == {
        f'{TASKS}_count{{stage="Watched"}}',
        f'{TASKS}_count{{stage="Assumed"}}',
    }


def test_pod_is_observed_as_watched_once() -> None:
    made = stage(make_gang("large", 9, queue="q", age=5.0))
    made.session()
    pod = made.objects[Pod, "large-0"]
    made.put(replace(pod, metadata=replace(pod.metadata, labels={"new": "label"})))
    made.session()
    assert readings(made)[f'{TASKS}_count{{stage="Watched"}}'] == 9


def test_job_latency_counts_each_placed_task() -> None:
    made = stage(make_gang("train", 3, minimum=2, queue="q", age=5.0), make_gang("late", 1, queue="q", age=2.0))
    made.session()
    said = readings(made)
    assert said[f"{JOBS}_count"] == 4
    assert said[f"{JOBS}_sum"] == (3 * 6.0 + 3.0) * 1e3
    assert (said[DURATION + labels("train")], said[LAST + labels("train")]) == (6000.0, VIRTUAL_EPOCH + 1.0)
    assert (said[DURATION + labels("late")], said[LAST + labels("late")]) == (3000.0, VIRTUAL_EPOCH + 1.0)


def test_job_latency_includes_discarded_turns_like_in_volcano() -> None:
    made = stage(make_gang("large", 9, queue="q", age=5.0))
    made.session(2)
    said = readings(made)
    assert said[f"{JOBS}_count"] == 8 and said[DURATION + labels("large")] == 7000.0
    assert f'{TASKS}_count{{stage="Assumed"}}' not in said


def test_job_without_placed_task_has_no_gauge() -> None:
    made = stage(make_gang("huge", 1, cpu=9, queue="q"))
    made.session()
    assert [name for name in readings(made) if name.startswith((DURATION, LAST))] == []


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made anew"])
def test_gauges_are_removed_with_the_pod_group(again: bool) -> None:
    made = stage(make_gang("train", 2, queue="q"))
    made.session()
    assert DURATION + labels("train") in readings(made)
    group = made.objects[PodGroup, "train"]
    made.delete("train", PodGroup)
    if again:
        made.put(replace(group, metadata=replace(group.metadata, uid="another")))
    made.session()
    assert DURATION + labels("train") not in readings(made)


def test_latency_is_not_negative_with_a_clock_ahead() -> None:
    made = stage(make_gang("train", 1, queue="q", age=-60.0))
    made.session()
    said = readings(made)
    assert said[f'{TASKS}_sum{{stage="Assumed"}}'] == 0.0 == said[DURATION + labels("train")]


@pytest.mark.parametrize(
    ("name", "least", "most"), [(f'{TASKS}_bucket{{stage="Bound",', 50, 60_000), (f"{JOBS}_bucket{{", 100, 120_000)]
)
def test_buckets_are_those_of_volcano(name: str, least: float, most: float) -> None:
    made = stage(make_gang("train", 1, queue="q"))
    made.session()
    bounds = [float(re.findall(r'le="(.+)"', said)[0]) for said in readings(made) if said.startswith(name)]
    assert len(bounds) == 31 and bounds == sorted(bounds)
    assert (bounds[0], bounds[-2]) == pytest.approx((least, most))
