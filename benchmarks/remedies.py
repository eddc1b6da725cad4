"""What would help a pod that fits on none of 5,000 full nodes, beside the budgets of the design (milliseconds).

Run with `python -m benchmarks.remedies`. A slice is what goes on while the scheduler waits; its worst is shown.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import process_time

from benchmarks.cycle import NODES, apply_messages, make_engine
from benchmarks.timing import show
from kframework import Plugin, hookimpl, unschedulable
from kframework.core.pod_engine import PodEngine
from kframework.explain.remedies.remedies import remedies
from kframework.objects import (
    Affinity,
    LabelSelector,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)
from kframework.state.inbox import Upserted
from kframework.testing import make_pod


class Full(Plugin):
    """A naive plugin without a columnar form that lets no pod in."""

    name = "Full"
    reads = "pods"

    @hookimpl
    def filter(self, state, pod, node):  # type: ignore[no-untyped-def]  # written as a newcomer would
        """Reject nodes with ten pods."""
        return unschedulable("full") if len(node.pods) >= 10 else None


#: The number of pods that fill a node.
VICTIMS = 10
#: In milliseconds: the search, and one slice of it.
BUDGET, SLICE = 500.0, 2.0
RUNS = 5

_EVERYWHERE = LabelSelector(match_labels={"app": "1"})
_APART = PodAntiAffinity(
    required_during_scheduling_ignored_during_execution=(
        PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=_EVERYWHERE),
    )
)
_SPREAD = TopologySpreadConstraint(
    max_skew=1,
    topology_key="topology.kubernetes.io/zone",
    when_unsatisfiable="DoNotSchedule",
    label_selector=_EVERYWHERE,
)


def pods() -> Iterator[tuple[str, Pod]]:
    """Yield pods that are blocked everywhere, each in its own way."""
    yield "cpu", make_pod("cpu", cpu=12, memory=None)
    yield "a label", make_pod("label", cpu=None, memory=None, node_selector={"disk": "ssd"})
    yield "a label and cpu", make_pod("both", cpu=12, memory=None, node_selector={"disk": "ssd"})
    yield "a device that is nowhere", make_pod("device", cpu=12, requests={"nvidia.com/gpu": 1})
    yield "anti-affinity", make_pod("apart", cpu=None, memory=None, affinity=Affinity(pod_anti_affinity=_APART))
    spread = [_SPREAD]
    yield (
        "spread, cpu and ports",
        make_pod("spread", labels={"app": "1"}, cpu=12, memory=None, topology_spread=spread, host_ports=[80]),
    )


def make_full_engine(*plugins: type[Plugin]) -> PodEngine:
    """Make an engine whose nodes are full."""
    engine, _ = make_engine(plugins=plugins)
    for index in range(NODES * VICTIMS):
        node = f"node-{index % NODES}"
        engine.offer(Upserted(make_pod(f"pod-{index}", labels={"app": "1"}, cpu="6400m", node_name=node)))
    apply_messages(engine)
    gc.freeze()
    return engine


def slices(engine: PodEngine, pod: Pod) -> list[float]:
    """Search, after an attempt to schedule the pod; return what each slice took, in milliseconds of the processor."""
    engine.offer(Upserted(pod))
    engine.step()
    search = remedies(engine, engine.handlers.pending[pod.metadata.uid])
    over, times = False, []
    while not over:
        began = process_time()
        over = next(search, True) is True
        times.append((process_time() - began) * 1e3)
    return times


def measure_search(engine: PodEngine, pod: Pod) -> tuple[float, float, float, float]:
    """Return the best of several runs beside the budgets."""
    runs = [slices(engine, pod) for _ in range(RUNS)]
    return min(map(sum, runs)), BUDGET, min(map(max, runs)), SLICE


def main() -> None:
    """Print the table."""
    engine = make_full_engine()
    rows = [(what, *measure_search(engine, pod)) for what, pod in pods()]
    naive = make_pod("naive", cpu=None, memory=None)
    rows.append(("a plugin without columns", *measure_search(make_full_engine(Full), naive)))
    show(("what blocks the pod", "all", "budget", "worst slice", "budget"), rows)


if __name__ == "__main__":
    main()
