"""The measurements of a workload, on real time: scheduler_perf's figures, and the cost of a pod and a cycle."""

from __future__ import annotations

import math
import resource
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter, process_time

import msgspec

from kframework.core.cycle.records import Binding, Decision, Observer
from kframework.core.cycle.run import Run, RunBinding, RunObserver
from kframework.objects import ObjectMeta
from kframework.observe.metrics.attempts import EXTENSION_POINTS
from kframework.values.status import Code

#: How often the throughput is sampled, in seconds; as in scheduler_perf.
SAMPLE_INTERVAL = 1.0

_KIB_IN_MIB = 1024

#: The number of pods between two readings of the time.
_PODS_PER_READING = 64


class Percentiles(msgspec.Struct, frozen=True):
    """The average of some figures, and their percentiles."""

    average: float
    perc50: float
    perc90: float
    perc95: float
    perc99: float

    @classmethod
    def from_figures(cls, figures: Sequence[float]) -> Percentiles | None:
        """Sum some figures up; None of none."""
        if not figures:
            return None
        ordered, count = sorted(figures), len(figures)
        ranks = (ordered[math.ceil(count * share / 100) - 1] for share in (50, 90, 95, 99))
        return cls(sum(ordered) / count, *ranks)


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements between two points of a workload.

    `pods_per_second` counts from the first pop of a pod to the last binding, `throughput` is over samples of a second
    and None if it took no two of them. `cycle_us` is a scheduling cycle in microseconds, `attempt_ms` an attempt from
    its pop to its end by result, `extension_points_ms` the time of each. `cpu_us_per_pod` is what the process used per
    scheduled pod, `peak_mib` the most memory that it has had.
    """

    name: str
    pods: int
    pods_per_second: float
    throughput: Percentiles | None
    cycle_us: Percentiles | None
    attempts: Mapping[str, int]
    attempt_ms: Mapping[str, Percentiles]
    extension_points_ms: Mapping[str, Percentiles]
    cpu_us_per_pod: float
    peak_mib: float


class MetricsCollector(RunObserver, Observer):
    """Records decisions and bindings, and which pods of some namespaces are scheduled meanwhile."""

    def __init__(self, name: str, namespaces: Iterable[str], labels: Mapping[str, str]) -> None:
        self.name: str = name
        self.scheduled: int = 0
        self._namespaces = frozenset(namespaces)
        self._labels = labels.items()
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)
        self._cycles: list[float] = []
        self._ends: dict[str, list[float]] = {}
        self._points: dict[str, list[float]] = {}
        self._decisions: dict[int, Decision] = {}
        self._started_runs: set[int] = set()
        self._rates: list[float] = []
        #: When the throughput was last sampled, and how many pods had been scheduled then; None before the first one.
        self._last_sample: tuple[float, int] | None = None
        self._skipped = 0

    def on_decision(self, decision: Decision) -> None:
        spent = sum(nanoseconds for _, nanoseconds, _ in decision.timings)
        if self._first is None:
            self._first = (perf_counter() - spent / 1e9, process_time() - spent / 1e9)
        self._cycles.append(spent / 1e3)
        self._note(decision.timings)
        if decision.node:
            self._decisions[decision.attempt] = decision
        else:
            self._ends.setdefault(decision.result.value, []).append(spent / 1e6)

    def on_binding(self, binding: Binding) -> None:
        decision = self._decisions.pop(binding.attempt, None)
        if decision is None:  # it began before this collector did
            return
        self._note(binding.steps)
        ended = binding.started + sum(nanoseconds for _, nanoseconds, _ in binding.steps)
        result = "scheduled" if binding.code == Code.SUCCESS else "error"
        self._ends.setdefault(result, []).append((ended - decision.started) / 1e6)

    def on_run(self, run: Run) -> None:
        for attempt in run.attempts:
            phases = attempt.trace.phases
            spent = sum([nanoseconds for _, nanoseconds, _ in phases])
            if self._first is None:
                self._first = (perf_counter() - spent / 1e9, process_time() - spent / 1e9)
            self._cycles.append(spent / 1e3)
            self._note(phases)
        self._started_runs.add(id(run))

    def on_run_binding(self, bound: RunBinding) -> None:
        if id(bound.run) not in self._started_runs:  # it began before this collector did
            return
        self._started_runs.remove(id(bound.run))
        each = bound.took / len(bound.run)
        for position, attempt in enumerate(bound.run.attempts):
            result = "error" if position in bound.errors else "scheduled"
            spent = bound.started + position * each + each - attempt.trace.started
            self._ends.setdefault(result, []).append(spent / 1e6)
            self._points.setdefault("Bind", []).append(each / 1e6)

    def _note(self, timings: Iterable[tuple[str, int, Code]]) -> None:
        for point, nanoseconds, _ in timings:
            if point in EXTENSION_POINTS:
                self._points.setdefault(EXTENSION_POINTS[point], []).append(nanoseconds / 1e6)

    def count_scheduled(self, pod: ObjectMeta) -> None:
        """Count a pod with this metadata that has been scheduled."""
        if pod.namespace in self._namespaces and self._labels <= pod.labels.items():
            self.scheduled += 1
            # To read the time of the process is a system call, which takes as long as all that is done here.
            if self.scheduled % _PODS_PER_READING == 0:
                self._last = (perf_counter(), process_time())

    def sample(self) -> None:
        """Sample the throughput as scheduler_perf does: the first sample with a pod is the base of the next one.

        A sample without a further pod is skipped; the next one counts for it too.
        """
        now = perf_counter()
        if not self.scheduled:
            return
        if self._last_sample is None:
            self._last_sample = now, self.scheduled
            return
        since, before = self._last_sample
        if self.scheduled == before:
            self._skipped += 1
            return
        self._rates += [(self.scheduled - before) / (now - since)] * (self._skipped + 1)
        self._last_sample, self._skipped = (now, self.scheduled), 0

    def measurement(self) -> Measurement:
        """Sum it up, as soon as the last pod is scheduled."""
        if self.scheduled % _PODS_PER_READING:
            self._last = (perf_counter(), process_time())
        began, used = self._first or self._last
        took = self._last[0] - began
        return Measurement(
            name=self.name,
            pods=self.scheduled,
            pods_per_second=self.scheduled / took if took > 0 else 0.0,
            throughput=Percentiles.from_figures(self._rates),
            cycle_us=Percentiles.from_figures(self._cycles),
            attempts={result: len(figures) for result, figures in sorted(self._ends.items())},
            attempt_ms=_percentiles_by_name(self._ends),
            extension_points_ms=_percentiles_by_name(self._points),
            cpu_us_per_pod=(self._last[1] - used) / self.scheduled * 1e6 if self.scheduled else 0.0,
            peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_IN_MIB,
        )


def _percentiles_by_name(figures: Mapping[str, Sequence[float]]) -> dict[str, Percentiles]:
    return {name: each for name in sorted(figures) if (each := Percentiles.from_figures(figures[name])) is not None}
