"""Targets of speed and measurements, row by row.

`make bench` prints all rows, `python -m benchmarks.targets ROW...` some, by name or glob. Clusters have 5,000 nodes and
the default profile unless a row says otherwise. Pods a second are per second of processor time, seconds are processor
time too; only the first binding and the first answer are by the wall clock. A ratio below 1
misses the target. Each figure is the best of two, as other work only adds to it; only
commands with 100,000 pods, or over HTTP, run once.
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

import numpy

from benchmarks import counts, fake_api, group_turns, over_http, whole_commands
from benchmarks.cases import find_definitions
from benchmarks.cycle import schedule_in_runs
from benchmarks.shadow import measure_shadow
from benchmarks.timing import Stopwatch
from kframework.errors import format_error
from kframework.testing.scheduler_perf.benchmark import WorkloadResult, benchmark
from kframework.testing.scheduler_perf.measurement import Measurement

#: How the figures of a unit are written.
_FORMS = {"pods/s": ",.0f", "/s": ",.0f", "s": ".2f", "ms": ".2f", "us": ",.0f", "MB": ",.0f", "x": ".2f"}


@dataclass(frozen=True)
class Target:
    """A lower (`≥`) or upper (`≤`) bound of a figure, in a unit."""

    sign: str
    figure: float
    unit: str

    def ratio(self, measured: float) -> float:
        """Return the measured figure over the target; below 1 it is missed."""
        return measured / self.figure if self.sign == "≥" else self.figure / measured

    def format_figure(self, figure: float) -> str:
        """Format a figure in this unit."""
        return f"{figure:{_FORMS[self.unit]}} {self.unit}"

    def __str__(self) -> str:
        return f"{self.sign} {self.format_figure(self.figure)}"


@dataclass(frozen=True)
class Scale:
    """The sizes of the measured clusters, and the number of rounds."""

    label: str
    nodes: int
    pods: int
    many_pods: int
    gangs: int
    posted: int
    rounds: int


FULL = Scale(label="performance", nodes=5_000, pods=20_000, many_pods=100_000, gangs=100, posted=2_000, rounds=2)
#: Small, but every row runs completely.
TINY = Scale(label="integration-test", nodes=5, pods=10, many_pods=20, gangs=1, posted=10, rounds=1)

Measure = Callable[[Scale], float]


@dataclass(frozen=True)
class Row:
    """A figure of the table, and how it is measured."""

    name: str
    what: str
    target: Target
    measure: Measure


# -- how it is measured ------------------------------------------------------------------------------------------------


def throughput(case: str) -> Measure:
    """Measure the pods that a case of our workloads schedules in a second, in the slowest of its workloads."""
    return lambda scale: 1 / max(_seconds_per_pod(case, scale))


def milliseconds(case: str, pods: int) -> Measure:
    """Measure the time for a group with this number of pods, in the slowest workload of a case."""
    return lambda scale: 1e3 * pods * max(_seconds_per_pod(case, scale))


def _shadow(scale: Scale) -> float:
    shadow, cycles = counts.count_shadow()
    return shadow / cycles


def _shadow_time(scale: Scale) -> float:
    """Measure the time of a shadow over that of the cycles that it shadows."""
    runs = [measure_shadow(Stopwatch, nodes=scale.nodes, warm=100, pods=scale.pods) for _ in range(scale.rounds)]
    return min(shadow.seconds / cycles.seconds for shadow, cycles in runs)


def _growth(scale: Scale) -> float:
    """Measure what a pod costs on ten times as many nodes, over what it costs."""
    few, many = _seconds_per_pod("Large", scale)
    return many / few


def _unschedulable(scale: Scale) -> float:
    """Measure a cycle that finds no node, in milliseconds: the median, once the template is cached."""
    (definition,) = find_definitions("DevicesNowhere", scale.label)
    cycles = [_only_measurement(benchmark(definition, None, _ignore_progress)).cycle_us for _ in range(scale.rounds)]
    return min(each.perc50 for each in cycles if each is not None) / 1e3


@cache
def _seconds_per_pod(case: str, scale: Scale) -> list[float]:
    """Run the workloads of a case; return the seconds per pod of each."""
    definitions = find_definitions(case, scale.label)
    rounds = [
        [_only_measurement(benchmark(each, None, _ignore_progress)).cpu_us_per_pod / 1e6 for each in definitions]
        for _ in range(scale.rounds)
    ]
    return [min(costs) for costs in zip(*rounds, strict=True)]


def _only_measurement(result: WorkloadResult) -> Measurement:
    if result.failed:
        raise RuntimeError(f"{result.name}: {result.failed}")
    (measurement,) = result.measurements
    return measurement


def _ignore_progress(done: int, total: int) -> None:
    """Report no progress."""


def _decisions_per_second(scale: Scale) -> float:
    return max(scale.pods / _scheduling_seconds(scale) for _ in range(scale.rounds))


def _scheduling_seconds(scale: Scale) -> float:
    stopwatch = Stopwatch()
    schedule_in_runs(scale.nodes, scale.pods, scale.pods // 10, stopwatch)
    return stopwatch.seconds


def _batch(scale: Scale) -> float:
    from benchmarks import batch  # another distribution, which may be missing

    timings = [batch.session(scale.gangs, 100, scale.nodes) for _ in range(scale.rounds)]
    return max(timing.placed / timing.seconds for timing in timings)


def _simulate(scale: Scale) -> float:
    return min(whole_commands.simulate(scale.nodes, scale.pods).seconds for _ in range(scale.rounds))


def _simulate_trace(scale: Scale) -> float:
    nodes, pods = scale.nodes * 6 // 25, scale.pods * 2 // 5
    return min(whole_commands.simulate_trace(nodes, pods).seconds for _ in range(scale.rounds))


@cache
def _many(scale: Scale) -> whole_commands.SimulationCost:
    return whole_commands.simulate(scale.nodes, scale.many_pods)


@cache
def _run(scale: Scale) -> whole_commands.Run:
    return whole_commands.run(scale.nodes, scale.pods)


def _first_answer(scale: Scale) -> float:
    return min(whole_commands.first_answer() for _ in range(scale.rounds))


def _turn(scale: Scale) -> float:
    return min(group_turns.longest_turn("OneGang", scale.label) for _ in range(scale.rounds))


def _created_and_bound(scale: Scale) -> float:
    return fake_api.created_and_bound(scale.posted, scale.rounds)


def _over_http(scale: Scale) -> float:
    bare, client = over_http.measure(scale.posted, scale.rounds)
    return client / bare


# -- the table ---------------------------------------------------------------------------------------------------------


def at_least(pods: int) -> Target:
    """Return a lower bound of the throughput."""
    return Target("≥", pods, "pods/s")


def at_most(figure: float, unit: str) -> Target:
    """Return an upper bound."""
    return Target("≤", figure, unit)


ROWS = (
    Row("basic", "10,000 pods of one template, nodes sampled", at_least(17_000), throughput("Basic")),
    Row("all-nodes", "10,000 pods of one template, all nodes", at_least(15_000), throughput("AllNodes")),
    Row("templates", "10,000 pods of 200 templates in turn", at_least(6_000), throughput("Templates")),
    Row("many-templates", "10,000 pods of 2,500 templates in turn", at_least(4_000), throughput("ManyTemplates")),
    Row("affinity", "affinity, required", at_least(10_000), throughput("RequiredAffinity")),
    Row("affinity-preferred", "affinity, preferred", at_least(10_000), throughput("PreferredAffinity")),
    Row("anti-affinity", "anti-affinity, required", at_least(10_000), throughput("RequiredAntiAffinity")),
    Row("anti-affinity-preferred", "anti-affinity, preferred", at_least(10_000), throughput("PreferredAntiAffinity")),
    Row("spread", "spread, required", at_least(10_000), throughput("Spread")),
    Row("spread-preferred", "spread, preferred", at_least(10_000), throughput("PreferredSpread")),
    *(
        Row(
            f"{name}-namespaces",
            f"{what}, 100 namespaces by selector",
            at_least(4_000),
            throughput(f"{case}NamespaceSelector"),
        )
        for name, what, case in (
            ("affinity", "affinity, required", "RequiredAffinity"),
            ("affinity-preferred", "affinity, preferred", "PreferredAffinity"),
            ("anti-affinity", "anti-affinity, required", "RequiredAntiAffinity"),
            ("anti-affinity-preferred", "anti-affinity, preferred", "PreferredAntiAffinity"),
        )
    ),
    Row("unschedulable", "unschedulable pods in between", at_least(10_000), throughput("Unschedulable")),
    Row("churn", "nodes, pods and Services churn", at_least(10_000), throughput("MixedChurn")),
    Row("daemonset", "DaemonSet-style, 15,000 nodes", at_least(12_000), throughput("DaemonSet")),
    Row("preemption", "preemption, 1,000 full nodes", at_least(1_000), throughput("Preemption")),
    Row("devices-half-full", "a claim of its own, half allocated", at_least(2_500), throughput("DevicesHalfFull")),
    Row("devices-nearly-full", "a claim of its own, 95 % allocated", at_least(1_000), throughput("DevicesNearlyFull")),
    Row("devices-nowhere", "a cycle for a claim that fits nowhere", at_most(2, "ms"), _unschedulable),
    Row("gangs", "a gang of 3 pods", at_most(1.5, "ms"), milliseconds("GangScheduling", 3)),
    Row("gangs-large", "gangs of 1,000 pods", at_least(8_000), throughput("LargeGangScheduling")),
    Row("groups", "a group of 3 pods, no minimum", at_most(1.5, "ms"), milliseconds("BasicScheduling", 3)),
    Row("groups-large", "groups of 1,000 pods, no minimum", at_least(8_000), throughput("LargeBasicScheduling")),
    Row("racks", "gangs of 4 pods, each in a rack", at_least(2_000), throughput("TopologyAwareScheduling")),
    Row("racks-large", "1,000 pods, each gang in a rack", at_least(3_000), throughput("LargeTopologyAwareScheduling")),
    Row("one-gang", "a gang of 5,000 pods", at_least(10_000), throughput("OneGang")),
    Row("one-gang-turn", "the loop held by a gang of 5,000 pods", at_most(2, "ms"), _turn),
    Row("growth", "a pod on 50,000 nodes over one on 5,000", at_most(1.1, "x"), _growth),
    Row("shadow", "calls of a shadow over those of the cycles it shadows", at_most(1.2, "x"), _shadow),
    Row("shadow-time", "time of a shadow over that of the cycles it shadows", at_most(1.2, "x"), _shadow_time),
    Row("engine", "decisions of an engine without a cluster", Target("≥", 30_000, "/s"), _decisions_per_second),
    Row("batch", "kframework-batch, gangs of 100 pods", at_least(14_000), _batch),
    Row("simulate", "simulate, 20,000 pods, start to exit", at_most(3.4, "s"), _simulate),
    Row("simulate-many", "simulate, 100,000 pods", at_most(16, "s"), lambda scale: _many(scale).seconds),
    Row("simulate-memory", "simulate, 100,000 pods, peak memory", at_most(650, "MB"), lambda scale: _many(scale).mb),
    Row("simulate-trace", "simulate, a trace: an hour, 1,200 nodes, 8,000 pods", at_most(10, "s"), _simulate_trace),
    Row("run", "run, 20,000 pods: first binding", at_most(1, "s"), lambda scale: _run(scale).first_binding),
    Row("run-memory", "run, 20,000 pods bound: memory", at_most(150, "MB"), lambda scale: _run(scale).mb),
    Row("fake-api", "fake-api, start to first answer", at_most(0.5, "s"), _first_answer),
    Row("fake-api-pod", "fake-api, a pod created and bound", at_most(150, "us"), _created_and_bound),
    Row("over-http", "a bound pod over two bare POSTs", at_most(1.2, "x"), _over_http),
)


def describe_machine() -> str:
    """Return the build of Python, whose speed varies by a quarter, and the load."""
    configured = (sysconfig.get_config_var("CONFIG_ARGS") or "").replace("'", "").split()
    flags = [flag for flag in configured if flag in ("--enable-optimizations", "--with-lto")]
    build = ", ".join((*platform.python_build(), platform.python_compiler(), *flags, f"numpy {numpy.__version__}"))
    python = f"{platform.python_implementation()} {platform.python_version()} ({build})"
    return f"{python}; {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"


def select_rows(names: Sequence[str]) -> list[Row]:
    """Return the rows of these names or globs, all without any; raises LookupError for one without a row."""
    if unknown := [name for name in names if not any(fnmatchcase(row.name, name) for row in ROWS)]:
        raise LookupError(f"no row {', '.join(unknown)}; rows: {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if not names or any(fnmatchcase(row.name, name) for name in names)]


def main(names: Sequence[str] = (), scale: Scale = FULL) -> None:
    """Print the table, each row as soon as it is measured."""
    rows = select_rows(names)
    print(describe_machine(), end="\n\n")
    _print("row", "what", "target", "measured", "ratio")
    ratios = [_measure_row(row, scale) for row in rows]
    print(f"\n{sum(ratio >= 1 for ratio in ratios)} of {len(rows)} targets reached")


def _measure_row(row: Row, scale: Scale) -> float:
    """Measure a row and print it; return its ratio, 0 where it cannot be measured."""
    try:
        measured = row.measure(scale)
    except Exception as error:  # the other rows can still be measured
        first, *_ = format_error(error).splitlines()
        _print(row.name, row.what, str(row.target), f"not measured: {first}", "")
        return 0.0
    ratio = row.target.ratio(measured)
    _print(row.name, row.what, str(row.target), row.target.format_figure(measured), f"{ratio:.2f}")
    return ratio


def _print(name: str, what: str, target: str, measured: str, ratio: str) -> None:
    widths = max(len(row.name) for row in ROWS), max(len(row.what) for row in ROWS)
    line = f"{name:<{widths[0]}}  {what:<{widths[1]}}  {target:>15}  {measured:>14}  {ratio:>5}"
    print(line.rstrip(), flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LookupError as error:
        sys.exit(f"error: {error}")
