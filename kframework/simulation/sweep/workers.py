"""Runs on the workers of an executor: local processes, or those of a cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing import get_context, parent_process
from threading import Thread

from kframework.errors import KFrameworkError
from kframework.simulation.measures import SimulationMeasures
from kframework.simulation.sweep.runs import ResultFolder, RunError, SweepRun, execute


def run_missing(
    runs: Sequence[SweepRun],
    folder: ResultFolder,
    create_executor: Callable[[], Executor],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[RunError]:
    """Execute the runs without a result and save theirs; return the errors of those that failed, in order.

    If a worker dies, its runs are executed again by a new executor. Raises KFrameworkError if workers die before any
    run ends, and OSError if a result cannot be saved.
    """
    missing = {run.key: run for run in runs if folder.read(run) is None}
    errors: dict[str, RunError] = {}
    total = len({run.key for run in runs})
    while missing:
        left = len(missing)
        on_progress(total - left, total)
        executor, futures = create_executor(), dict[Future[SimulationMeasures], SweepRun]()
        try:
            with suppress(BrokenExecutor):  # a worker has died meanwhile: the others go to the next executor
                for run in missing.values():
                    futures[executor.submit(execute, run)] = run
            for future in as_completed(futures):
                run = futures[future]
                try:
                    folder.write(run, future.result())
                except BrokenExecutor:
                    continue
                except RunError as error:
                    errors[run.key] = error
                del missing[run.key]
                on_progress(total - len(missing), total)
        finally:
            for future in futures:
                future.cancel()
            executor.shutdown()
        if len(missing) == left:
            raise KFrameworkError("workers end before any run does: use fewer --jobs if memory is short")
    return [errors[run.key] for run in runs if run.key in errors]


def local_processes(jobs: int | None) -> Executor:
    """Create an executor of processes on this machine, by default one for each core."""
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_driver)


def _end_with_driver() -> None:
    """End this worker with the process that started it, which cannot end it when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches all processes; only the driver reports it
    Thread(target=_wait_for_driver, daemon=True).start()


def _wait_for_driver() -> None:
    driver = parent_process()
    assert driver is not None  # this is a worker
    driver.join()
    os._exit(1)
