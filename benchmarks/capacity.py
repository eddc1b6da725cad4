"""Questions about capacity on 5,000 nodes with 50,000 pods, in seconds of processor time after loading.

Run with `python -m benchmarks.capacity`. The bounds: 0.2 s for one pod, 3 s for 20,000 copies, 10 s for the nodes of
5,000 pending pods with 8 shapes.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.timing import Stopwatch, show
from kframework import Simulation
from kframework.capacity.drain import Drainer
from kframework.capacity.fit import FitTrial
from kframework.capacity.fit_simulation import PodFitSimulation
from kframework.capacity.nodes import PRICE, NodePlanner
from kframework.capacity.workload import Workload
from kframework.clock import Seeds
from kframework.objects import ApiObject
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework.testing import make_node, make_pod

#: CPU and memory (Gi) of the shapes.
_SHAPES = ((4, 16), (8, 32), (16, 64), (32, 128), (8, 64), (16, 128), (32, 64), (64, 256))


def cluster(nodes: int) -> list[ApiObject]:
    """Make nodes with ten pods each, which leave one CPU."""
    made: list[ApiObject] = [make_node(f"node-{number}", cpu=16, memory="64Gi") for number in range(nodes)]
    made += [
        make_pod(f"pod-{number}", cpu="1500m", memory="6Gi", node_name=f"node-{number % nodes}")
        for number in range(10 * nodes)
    ]
    return made


def fit_seconds(nodes: int, copies: int) -> float:
    """Return how long it takes to find out how many copies of a small pod fit."""
    stopwatch = Stopwatch()
    with Simulation(cluster(nodes)) as simulation:
        simulation.run()
        with stopwatch:
            FitTrial(PodFitSimulation(simulation), Workload([make_pod("new", cpu="100m", memory="64Mi")])).run(copies)
    return stopwatch.seconds


def plan_seconds(nodes: int) -> float:
    """Return how long it takes to plan the nodes for as many pending pods as there are nodes."""
    random, drainer, stopwatch = Seeds(1).generator("pods"), Drainer(), Stopwatch()
    pending = [
        make_pod(f"new-{number}", cpu=random.choice([2, 3, 4, 6]), memory=f"{random.choice([4, 12, 20])}Gi")
        for number in range(nodes)
    ]
    shapes = [
        make_node(
            f"shape-{index}", cpu=cpu, memory=f"{memory}Gi", annotations={PRICE: str(cpu * 0.04 + memory * 0.005)}
        )
        for index, (cpu, memory) in enumerate(_SHAPES)
    ]
    controllers = (*STANDARD_CONTROLLERS, *drainer.controllers)
    with Simulation([*cluster(nodes), *pending], controllers=controllers) as simulation:
        simulation.run()
        with stopwatch:
            NodePlanner(simulation, drainer, shapes).plan()
    return stopwatch.seconds


def main(nodes: int = 5_000) -> None:
    """Print the table."""
    rows: Sequence[Sequence[object]] = [
        ("fit, one pod", fit_seconds(nodes, 1), 0.2),
        (f"fit, up to {4 * nodes:,} copies", fit_seconds(nodes, 4 * nodes), 3.0),
        (f"nodes, {nodes:,} pending pods, {len(_SHAPES)} shapes", plan_seconds(nodes), 10.0),
    ]
    show(("question", "seconds", "bound"), rows)


if __name__ == "__main__":
    main()
