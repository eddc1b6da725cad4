"""Sessions of kframework-batch: 1,000 gangs of 100 pods on 5,000 nodes, by Volcano's default configuration.

Run with `python -m benchmarks.batch [GANGS SIZE NODES]`. Timed is the CPU time of one session, from its opening to its
account, without the binding cycles that run beside it. Other rows say how it grows: with the pods, and with the nodes.
The goal is 5,000 pods a second through allocate.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from time import perf_counter, process_time

from kframework_batch.testing import Stage, make_gang, make_node

from kframework.core.cycle.consequences import Reservation
from kframework.core.cycle.decision import Result
from kframework.scheduler.garbage import collect, collecting_rarely

#: Gangs, pods in each, nodes.
SIZES = ((1_000, 100, 5_000), (500, 100, 5_000), (250, 100, 5_000), (250, 100, 1_250), (250, 100, 20_000))

#: So many shapes of pods take turns among the gangs.
SHAPES = 20


class Unbound(Stage):
    """A stage on which binding takes for ever."""

    def bind(self, reservation: Reservation) -> None:
        """Leave the pod assumed."""


@dataclass
class Timing:
    """What a session took: CPU seconds, the pods that got a node, and the longest step in milliseconds."""

    seconds: float
    placed: int
    longest: float


def session(gangs: int, size: int, nodes: int) -> Timing:
    """Time the first session of a cluster whose nodes are empty and where all pods wait."""
    stage = Unbound(
        nodes=[make_node(f"n{number}", cpu=64, memory="256Gi", pods=110) for number in range(nodes)],
        gangs=[make_gang(f"g{number}", size, cpu=f"{500 + 50 * (number % SHAPES)}m") for number in range(gangs)],
    )
    stage.engine.catch_up()
    with collecting_rarely():
        collect()
        longest, began = 0.0, process_time()
        while True:
            step_began = perf_counter()
            if not stage.engine.step():
                break
            longest = max(longest, perf_counter() - step_began)
        seconds = process_time() - began
    placed = sum(decision.result is Result.SCHEDULED for decision in stage.decisions)
    return Timing(seconds, placed, longest * 1e3)


def main(chosen: list[str] | None = None) -> None:
    """Print a row for each size."""
    sizes = [tuple(map(int, chosen))] if chosen else SIZES
    row = "{:>8} {:>6} {:>8} {:>10} {:>10} {:>10} {:>12}\n"
    sys.stdout.write(row.format("gangs", "size", "nodes", "placed", "seconds", "pods/s", "longest ms"))
    for gangs, size, nodes in sizes:
        timing = session(gangs, size, nodes)
        figures = (f"{timing.seconds:.2f}", f"{timing.placed / timing.seconds:.0f}", f"{timing.longest:.1f}")
        sys.stdout.write(row.format(gangs, size, nodes, timing.placed, *figures))


if __name__ == "__main__":
    main(sys.argv[1:])
