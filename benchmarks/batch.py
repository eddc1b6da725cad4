"""Sessions of kframework-batch: 1,000 gangs of 100 pods on 5,000 nodes, by Volcano's default configuration.

Run with `python -m benchmarks.batch [GANGS SIZE NODES]`. Timed is the CPU time of one session, from its opening to its
account, without the binding cycles that run beside it. Other rows say how it grows: with the pods, and with the nodes.
The goal is 14,000 pods a second through allocate. The table below gives the time to open a session, total and longest
piece, during which nothing else is seen to: the goal is 10 ms with 5,000 jobs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import ClassVar

from kframework_batch.action import Action
from kframework_batch.config import default_configuration
from kframework_batch.session import Session
from kframework_batch.testing import Stage, make_gang, make_node

from kframework.core.cycle.records import Result
from kframework.core.cycle.results import Reservation
from kframework.scheduler.gc_policy import collect, reduced_gc

#: Gangs, pods in each, nodes.
SIZES = (
    (1_000, 100, 5_000),
    (500, 100, 5_000),
    (250, 100, 5_000),
    (250, 100, 1_250),
    (250, 100, 20_000),
    (250, 100, 100_000),
)

#: Jobs of two pods, half of which run.
JOBS = (1_000, 5_000)

#: So many shapes of pods take turns among the gangs.
SHAPES = 20


class NeverBindingStage(Stage):
    """A stage on which bindings never end."""

    def bind(self, reservation: Reservation) -> None:
        """Leave the pod assumed."""


class SessionCounter(Action):
    """Counts the sessions that are open."""

    name: ClassVar[str] = "opened"
    sessions: ClassVar[int] = 0

    def run(self, session: Session) -> Iterator[None]:
        """Count an open session."""
        SessionCounter.sessions += 1
        yield


@dataclass
class Timing:
    """What a session took: CPU seconds, the pods that got a node, and the longest step in milliseconds."""

    seconds: float
    placed: int
    longest: float


def make_waiting_stage(gangs: int, size: int, nodes: int) -> NeverBindingStage:
    """Make a cluster whose nodes are empty and where all pods wait."""
    stage = NeverBindingStage(
        nodes=[make_node(f"n{number}", cpu=64, memory="256Gi", pods=110) for number in range(nodes)],
        gangs=[make_gang(f"g{number}", size, cpu=f"{500 + 50 * (number % SHAPES)}m") for number in range(gangs)],
    )
    stage.engine.apply_messages()
    return stage


def session(gangs: int, size: int, nodes: int) -> Timing:
    """Time the first session of a cluster."""
    stage = make_waiting_stage(gangs, size, nodes)
    with reduced_gc():
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


def time_opening(jobs: int, nodes: int = 1_000, times: int = 5) -> tuple[float, float]:
    """Measure how long a session takes from its start to the first action, and its longest slice, in ms of CPU.

    The session ends there and starts again; the best of `times` is returned.
    """
    requested = {"cpu": 1, "memory": "1Gi", "pods": 2, "requests.cpu": 1}
    stage = NeverBindingStage(
        replace(default_configuration(), actions=(SessionCounter.name,)),
        classes=[SessionCounter],
        nodes=[make_node(f"n{number}", cpu=64, memory="256Gi", pods=110) for number in range(nodes)],
        gangs=[
            make_gang(f"g{number}", 2, resources=requested, on=[f"n{number % nodes}"] * (number % 2 * 2))
            for number in range(jobs)
        ],
    )
    stage.engine.apply_messages()
    whole, longest = [], []
    with reduced_gc():
        collect()
        for _ in range(times):
            stage.time += 1.0
            SessionCounter.sessions, pieces = 0, []
            while not SessionCounter.sessions:
                began = process_time()
                stage.engine.step()
                pieces.append(process_time() - began)
            stage.engine.apply_messages()
            whole.append(sum(pieces) * 1e3)
            longest.append(max(pieces) * 1e3)
    return min(whole), min(longest)


def main(names: list[str] | None = None) -> None:
    """Print a row for each size."""
    sizes = [tuple(map(int, names))] if names else SIZES
    row = "{:>8} {:>6} {:>8} {:>10} {:>10} {:>10} {:>12}\n"
    sys.stdout.write(row.format("gangs", "size", "nodes", "placed", "seconds", "pods/s", "longest ms"))
    for gangs, size, nodes in sizes:
        timing = session(gangs, size, nodes)
        figures = (f"{timing.seconds:.2f}", f"{timing.placed / timing.seconds:.0f}", f"{timing.longest:.1f}")
        sys.stdout.write(row.format(gangs, size, nodes, timing.placed, *figures))
    if names:
        return
    row = "{:>8} {:>12} {:>12}\n"
    sys.stdout.write("\n" + row.format("jobs", "opening ms", "longest ms"))
    for jobs in JOBS:
        sys.stdout.write(row.format(jobs, *(f"{figure:.1f}" for figure in time_opening(jobs))))


if __name__ == "__main__":
    main(sys.argv[1:])
