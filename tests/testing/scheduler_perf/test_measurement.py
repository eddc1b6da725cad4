"""What is measured, and how it is summed up."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from kframework.core.cycle.records import Binding, Decision, Result
from kframework.objects import ObjectMeta
from kframework.testing import make_pod
from kframework.testing.scheduler_perf import measurement
from kframework.testing.scheduler_perf.measurement import MetricsCollector, Percentiles
from kframework.values.status import Code


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The machine's clocks, which stand where the test sets them."""
    now = [100.0]
    monkeypatch.setattr(measurement, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measurement, "process_time", lambda: now[0] / 2)
    yield now


_NUMBERS = count()


def scheduled(namespace: str = "a", **labels: str) -> ObjectMeta:
    """Return the metadata of a pod that was bound."""
    return make_pod(f"pod-{next(_NUMBERS)}", namespace=namespace, labels=labels, node_name="n").metadata


def attempt(number: int, *, node: str = "n", spent: int = 3_000, result: Result = Result.SCHEDULED) -> Decision:
    """Write of an attempt that took this number of nanoseconds, a third of it in Filter."""
    timings = (("filter", spent // 3, Code.SUCCESS), ("assume", spent - spent // 3, Code.SUCCESS))
    return Decision(
        attempt=number, pod_attempts=1, pod="a/p", uid="u", profile="d", queued_at=0, popped_at=0, result=result,
        node=node, started=1_000_000, timings=timings,
    )  # fmt: skip


def binding(number: int, code: Code = Code.SUCCESS) -> Binding:
    """Write of a binding cycle that ended 2 ms after its attempt began."""
    return Binding(
        attempt=number, pod="a/p", uid="u", profile="d", node="n", started_at=0, ended_at=0, code=code,
        started=2_000_000, steps=(("bind", 1_000_000, code),),
    )  # fmt: skip


def test_percentiles_are_those_of_scheduler_perf() -> None:
    assert Percentiles.from_figures([]) is None
    assert Percentiles.from_figures([5.0]) == Percentiles(5.0, 5.0, 5.0, 5.0, 5.0)
    assert Percentiles.from_figures([float(n) for n in range(10, 0, -1)]) == Percentiles(5.5, 5.0, 9.0, 10.0, 10.0)


def test_pods_are_counted_in_the_given_namespaces(seconds: list[float]) -> None:
    collector = MetricsCollector("x", ["a"], {"type": "measured"})
    collector.on_decision(attempt(1))
    seconds[0] = 102.0
    for pod in (scheduled(type="measured"), scheduled(type="other"), scheduled("b", type="measured")):
        collector.count_scheduled(pod)
    collector.count_scheduled(scheduled(type="measured"))
    measured = collector.measurement()
    assert (measured.name, measured.pods) == ("x", 2)
    assert measured.pods_per_second == pytest.approx(1.0, rel=1e-5)
    assert measured.cpu_us_per_pod == pytest.approx(0.5e6, rel=1e-5)
    assert measured.peak_mib > 10


def test_throughput_is_sampled_as_scheduler_perf_does(seconds: list[float]) -> None:
    collector = MetricsCollector("", ["a"], {})

    def second(pods: int) -> None:
        seconds[0] += 1.0
        for _ in range(pods):
            collector.count_scheduled(scheduled())
        collector.sample()

    for pods in (0, 100, 30, 0, 0, 60, 10):  # nothing yet; the base; 30/s; two that are skipped; 20/s thrice; 10/s
        second(pods)
    throughput = collector.measurement().throughput
    assert throughput is not None
    assert throughput.average == pytest.approx((30 + 20 + 20 + 20 + 10) / 5)
    assert throughput.perc99 == pytest.approx(30)


def test_short_workload_has_no_throughput(seconds: list[float]) -> None:
    collector = MetricsCollector("", ["a"], {})
    collector.count_scheduled(scheduled())
    collector.sample()
    assert collector.measurement().throughput is None


def test_attempts_end_with_their_binding(seconds: list[float]) -> None:
    collector = MetricsCollector("", ["a"], {})
    collector.on_binding(binding(0))  # of an attempt before
    collector.on_decision(attempt(1))
    collector.on_decision(attempt(2))
    collector.on_decision(attempt(3, node="", spent=6_000, result=Result.UNSCHEDULABLE))
    collector.on_binding(binding(1))
    collector.on_binding(binding(2, Code.ERROR))
    measured = collector.measurement()
    assert measured.attempts == {"error": 1, "scheduled": 1, "unschedulable": 1}
    assert {result: each.average for result, each in measured.attempt_ms.items()} == pytest.approx(
        {"scheduled": 2.0, "error": 2.0, "unschedulable": 0.006}
    )
    assert measured.cycle_us is not None
    assert measured.cycle_us.average == pytest.approx(4.0)
    points = {point: each.average for point, each in measured.extension_points_ms.items()}
    assert points == pytest.approx({"Filter": (0.001 + 0.001 + 0.002) / 3, "Bind": 1.0})


def test_empty_measurement_has_no_figures(seconds: list[float]) -> None:
    measured = MetricsCollector("", ["a"], {}).measurement()
    assert (measured.pods, measured.pods_per_second, measured.cpu_us_per_pod, measured.cycle_us) == (0, 0.0, 0.0, None)
