"""Replicas of a scheduler on large clusters, by simulation: how long pods wait, conflicts, and the room that is left.

Run with `python -m benchmarks.replicas`; it writes docs/replicas-*.svg. The table has the processor time of each run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from benchmarks.line_chart import Panel, Points, line_chart
from benchmarks.timing import Stopwatch, show
from kframework import Simulation
from kframework.clock import Seeds
from kframework.objects import ApiObject, Node, Pod
from kframework.objects.requests import allocatable, fit_requests
from kframework.simulation.replicas import NodeShards, PodShards, Replicas
from kframework.simulation.timetable import ARRIVES_SECONDS
from kframework.testing import make_node, make_pod

DOCS = Path(__file__).parents[1] / "docs"

#: One pod costs a scheduler this many seconds: in front of a real API server it bound 940 pods a second.
DECISION_TIME = 0.001
#: The seconds until a replica hears what another one did.
WATCH_DELAY = 0.05
#: The pods that arrive each second: four times what one scheduler can do.
ARRIVALS = 4_000
#: The pods for each node, the CPUs of a node, how many of them are free at most, and the CPUs of pods.
PODS_PER_NODE, NODE_CPUS, MOST_FREE, SIZES = 0.4, 16, 4, (1, 2, 4)

SHARDS: Mapping[str, type[NodeShards] | type[PodShards]] = {"nodes": NodeShards, "pods": PodShards}
STRATEGIES = {"spread": "LeastAllocated", "pack": "MostAllocated"}


class Setup(NamedTuple):
    """A cluster, and the replicas that schedule its pods."""

    nodes: int
    shard: str
    strategy: str
    replicas: int
    watch_delay: float = WATCH_DELAY


class Outcome(NamedTuple):
    """The result of a run.

    Waits are in seconds. Conflicts, repeated attempts and pods that stay pending are shares of the pods that arrive.
    `room` is the number of further pods of the largest size that fit at the end.
    """

    wait_p50: float
    wait_p99: float
    conflicts: float
    repeated: float
    pending: float
    room: int
    processor_seconds: float


def cluster(nodes: int) -> Iterator[ApiObject]:
    """Yield nodes that are nearly full, and the pods that arrive."""
    random = Seeds(1).generator("replicas")
    for number in range(nodes):
        yield make_node(f"node-{number}", cpu=NODE_CPUS, memory="64Gi")
        used = NODE_CPUS - random.randrange(MOST_FREE + 1)
        yield make_pod(f"running-{number}", cpu=used, memory="8Gi", node_name=f"node-{number}")
    for number in range(round(PODS_PER_NODE * nodes)):
        arrives = {ARRIVES_SECONDS: f"{number / ARRIVALS}"}
        yield make_pod(f"new-{number}", cpu=random.choice(SIZES), memory="1Gi", annotations=arrives)


def run(setup: Setup) -> Outcome:
    """Simulate the arrivals until nothing changes any more."""
    replicas = Replicas(setup.replicas, SHARDS[setup.shard], decision_time=DECISION_TIME, watch_delay=setup.watch_delay)
    first, *others = replicas.engines
    strategy = {"type": STRATEGIES[setup.strategy], "resources": [{"name": "cpu", "weight": 1}]}
    profile = {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    controllers, stopwatch = [replicas.create_controller], Stopwatch()
    with (
        stopwatch,
        Simulation(
            cluster(setup.nodes),
            document | {"profiles": [profile]},
            engine=first,
            replicas=others,
            controllers=controllers,
        ) as simulation,
    ):
        simulation.run()
    admission, pods = replicas.admission, simulation.objects(Pod)
    arrived = {each.metadata.uid: float(at) for each in pods if (at := each.metadata.annotations.get(ARRIVES_SECONDS))}
    bound = {each.uid: each.ended_at - simulation.started_at for each in simulation.bindings if not each.message}
    waits = sorted(bound[uid] - arrived[uid] for uid in bound)
    conflicts = 0 if admission is None else admission.rejected + admission.late
    return Outcome(
        waits[len(waits) // 2],
        waits[len(waits) * 99 // 100],
        conflicts / len(arrived),
        len(simulation.decisions) / len(arrived) - 1,
        1 - len(bound) / len(arrived),
        _room(simulation.objects(Node), pods),
        stopwatch.seconds,
    )


def _room(nodes: Iterable[Node], pods: Iterable[Pod]) -> int:
    """Count the pods of the largest size that still fit."""
    free = {node.metadata.name: allocatable(node)["cpu"] for node in nodes}
    for pod in pods:
        if pod.spec.node_name:
            free[pod.spec.node_name] -= fit_requests(pod.spec)["cpu"]
    return sum(cpu // (1000 * SIZES[-1]) for cpu in free.values())


class Series(NamedTuple):
    """Numbers of replicas that are compared on a cluster."""

    nodes: int
    strategy: str
    replicas: Sequence[int]

    def setups(self) -> Iterator[Setup]:
        """Yield what is run; a single scheduler has no shards."""
        for count, shard in product(self.replicas, SHARDS):
            if count > 1 or shard == "pods":
                yield Setup(self.nodes, shard, self.strategy, count)


SERIES = (
    Series(50_000, "spread", (1, 2, 4, 8)),
    Series(50_000, "pack", (1, 8)),
    Series(130_000, "spread", (1, 4, 8)),
)
#: The watch delays that are compared, on a cluster where pods compete for fewer nodes.
DELAYS = [Setup(5_000, "pods", "spread", 4, delay) for delay in (0.01, 0.05, 0.2, 1.0)]


def panels(outcomes: Mapping[Setup, Outcome], what: str) -> list[Panel]:
    """Draw a field of the outcomes over the number of replicas, a panel for each cluster and strategy."""
    marks = sorted({setup.replicas for setup in outcomes})
    drawn = []
    for nodes, strategy in dict.fromkeys((setup.nodes, setup.strategy) for setup in outcomes):
        figures = {
            setup: getattr(outcome, what) * PICTURES[what].factor
            for setup, outcome in outcomes.items()
            if (setup.nodes, setup.strategy) == (nodes, strategy)
        }
        lines = {f"shards of {shard}": _line(figures, shard) for shard in SHARDS}
        drawn.append(Panel(f"{nodes:,} nodes, {strategy}", "replicas", marks, lines))
    return drawn


def _line(figures: Mapping[Setup, float], shard: str) -> Points:
    return [
        (setup.replicas, figure) for setup, figure in figures.items() if setup.replicas == 1 or setup.shard == shard
    ]


class Picture(NamedTuple):
    """The titles of a picture, and what its figures are multiplied by."""

    title: str
    subtitle: str
    factor: float


PICTURES = {
    "wait_p99": Picture("How long pods wait with replicas of the scheduler", "The 99th percentile in seconds", 1),
    "conflicts": Picture("Conflicts of replicas of the scheduler", "Rejected bindings for 100 pods", 100),
    "pending": Picture("Pods left without a node by replicas of the scheduler", "For 100 pods", 100),
}


def run_all(setups: Sequence[Setup]) -> dict[Setup, Outcome]:
    """Run each in a process of its own, which returns its memory, and print the figures."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        outcomes = dict(zip(setups, pool.map(run, setups), strict=True))
    show((*Setup._fields, *Outcome._fields), [(*setup, *outcome) for setup, outcome in outcomes.items()])
    return outcomes


def main(series: Sequence[Series] = SERIES, delays: Sequence[Setup] = DELAYS, docs: Path = DOCS) -> None:
    """Run it all, print the figures and draw them."""
    draw(run_all([setup for each in series for setup in each.setups()]), docs)
    run_all(delays)


def draw(outcomes: Mapping[Setup, Outcome], docs: Path) -> None:
    """Draw the pictures."""
    for what, drawn in PICTURES.items():
        picture = docs / f"replicas-{what.replace('_', '-')}.svg"
        picture.write_text(line_chart(drawn.title, drawn.subtitle, panels(outcomes, what)))
        print(f"drawn in {picture}")


if __name__ == "__main__":
    main()
