"""For how long a large group holds the event loop: the longest turn in its cycle, and while its bindings begin.

Run with `python -m benchmarks.group_turns [CASE]`. Other tasks run between two turns. Taking in the pods when they are
created is not counted, nor is the turn of the first pods, in which the answers about all nodes are cached for later
pods too.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterable, Mapping
from time import process_time

from benchmarks.cases import find_definitions
from kframework.testing.scheduler_perf.benchmark import configuration_of
from kframework.testing.scheduler_perf.workload_run import WorkloadRun


class TimedTurns(WorkloadRun):
    """Measures the turns of the loop in which a group's cycle goes on, or binding cycles begin."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]  # as they are
        #: The processor time of each turn, in milliseconds.
        self.turns: list[float] = []

    async def _collect(self, name: str, namespaces: Iterable[str], labels: Mapping[str, str]) -> None:
        await super()._collect(name, namespaces, labels)
        self._background.start_soon(self._measure)

    async def _measure(self) -> None:
        scheduler, first = self.simulation.scheduler, self.simulation.scheduler.engine.attempts
        while True:
            engine, attempts = scheduler.engine, scheduler.engine.attempts
            is_group = engine.pending_cycle is not None or bool(scheduler._reserved)
            began = process_time()
            await asyncio.sleep(0)
            if is_group and not attempts == first < engine.attempts:
                self.turns.append((process_time() - began) * 1e3)


def longest_turn(case: str, label: str) -> float:
    """Measure the longest turn of a case, in milliseconds, without the garbage collector."""
    (definition,) = find_definitions(case, label)[:1]
    run = TimedTurns(definition, configuration_of(definition), lambda done, total: None)
    gc.disable()
    try:
        run.run()
    finally:
        gc.enable()
    return max(run.turns, default=0.0)


if __name__ == "__main__":
    print(f"{longest_turn(sys.argv[1] if len(sys.argv) > 1 else 'OneGang', 'performance'):.2f} ms")
