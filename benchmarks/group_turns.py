"""For how long a large group holds the event loop: the longest turn of the scheduler's loop.

Run with `python -m benchmarks.group_turns [CASE]`. All turns from the creation of the pods of the group on count. Other
tasks run between two turns.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from time import process_time

from benchmarks.cases import find_definitions
from kframework.testing.scheduler_perf.benchmark import configuration_of
from kframework.testing.scheduler_perf.workload_run import WorkloadRun


class _InTimedTurns(Awaitable[None]):
    """Work that notes the processor time of each of its turns, in milliseconds."""

    def __init__(self, work: Coroutine[object, object, None], turns: list[float]) -> None:
        self._work = work
        self._turns = turns

    def __await__(self) -> Generator[object, None, None]:
        steps = self._work.__await__()
        try:
            while True:
                began = process_time()
                question = next(steps, self)
                self._turns.append((process_time() - began) * 1e3)
                if question is self:
                    return
                yield question
        finally:
            steps.close()


class TimedTurns(WorkloadRun):
    """Measures the turns of the scheduler's loop from the start of the measurement on."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]  # as they are
        self.turns: list[float] = []
        scheduler = self.simulation.scheduler
        loop: Callable[[], Coroutine[object, object, None]] = scheduler._loop

        async def timed_loop() -> None:
            await _InTimedTurns(loop(), self.turns)

        scheduler._loop = timed_loop  # type: ignore[method-assign]  # it has no hook for this

    async def _collect(self, name: str, namespaces: Iterable[str], labels: Mapping[str, str]) -> None:
        await super()._collect(name, namespaces, labels)
        self.turns.clear()


def longest_turn(case: str, label: str) -> float:
    """Measure the longest turn of a case, in milliseconds, without the garbage collector."""
    (definition,) = find_definitions(case, label)[:1]
    run = TimedTurns(definition, configuration_of(definition), lambda done, total: None)
    gc.disable()
    try:
        run.run()
    finally:
        gc.enable()
    return max(run.turns)


if __name__ == "__main__":
    print(f"{longest_turn(sys.argv[1] if len(sys.argv) > 1 else 'OneGang', 'performance'):.2f} ms")
