"""The world of a seed: one of the pod engine, of the batch engine, or one in which sources and services fail.

As a program it runs worlds, and runs them again, by orders line by line: so another process, with its sets in
another order, says whether it decides the same.
"""

from __future__ import annotations

import gc
import logging
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import msgspec

from kframework.observe.recording.replay import replay
from kframework.scheduler import sources
from tests.faults import batch_run, pod_run, source_run
from tests.faults.repetition import Repetition, repeat
from tests.faults.run import Report
from tests.faults.run_settings import random_settings

__all__ = ["Engine", "WorldOrder", "WorldResult", "engine_of", "run_world"]

Engine = Literal["pod", "batch", "outside"]

#: Every so many-th world of the pod engine is one in which what is outside fails.
OUTSIDE = 20

#: The recordings of every so many-th world are decided attempt by attempt, too, which costs as much as the world.
RECONSIDERED = 4


class WorldResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a world; `counts` tells what happened, by name, `objects` how many the process holds afterwards."""

    seed: int
    engine: Engine
    pods: int
    bindings: int
    attempts: int
    counts: dict[str, int]
    virtual: float
    seconds: float
    objects: int
    peak: int
    history: str
    recordings: list[str]
    problems: list[str]


class WorldOrder(msgspec.Struct, frozen=True):
    """What a process is to do: live through a world, or say whether what became of it `before` comes of it again."""

    seed: int
    engine: Engine
    pods: int
    folder: str
    before: WorldResult | None = None


def engine_of(seed: int, engines: str) -> Engine:
    """Return whose world this is, where `engines` is pod, batch or both: gangs are few, being dear."""
    if engines == "batch" or (engines == "both" and seed % 8 == 1):
        return "batch"
    return "outside" if seed % OUTSIDE == OUTSIDE - 1 else "pod"


def run_world(order: WorldOrder) -> WorldResult:
    """Live through a world."""
    began = time.process_time()
    report = _WORLDS[order.engine](order)
    gc.collect()
    return WorldResult(
        seed=order.seed,
        engine=order.engine,
        pods=report.pods,
        bindings=report.bindings,
        attempts=report.attempts,
        counts={
            **{f"fault: {what}": count for what, count in report.faults.items()},
            **{f"trouble: {what}": count for what, count in report.troubles.items()},
            **{f"deleted: {what}": count for what, count in report.deleted.items()},
        },
        virtual=report.seconds,
        seconds=time.process_time() - began,
        objects=len(gc.get_objects()),
        peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        history=report.history,
        recordings=list(map(str, report.recordings)),
        problems=report.problems,
    )


def _differences_from(order: WorldOrder, before: WorldResult) -> list[str]:
    """Say what another process makes of a world otherwise: from its recordings, or by living through it again."""
    registry = source_run.make_plugins(order.seed).registry if order.engine == "outside" else pod_run.PLUGINS
    differences = []
    for recording in before.recordings:
        decide = repeat if order.engine != "batch" and order.seed % RECONSIDERED == 0 else replay
        again = decide(Path(recording), registry)
        if again.difference is not None:
            differences.append(f"{recording} replays otherwise: {again.difference}")
        elif isinstance(again, Repetition) and not again.is_identical:
            differences.append(f"{recording} is decided otherwise on the state as it was: {again.differences[:5]}")
    if not before.recordings and _WORLDS[order.engine](order).history != before.history:
        differences.append("the same seed told another story in another process")
    return differences


def _run_sources(order: WorldOrder) -> Report:
    # Of the nonsense that sources answer, one is that there are too many values; so few are too many here.
    # And the log says who was blamed.
    logging.disable(logging.NOTSET)
    try:
        with patch.object(sources, "MAX_VALUES", 50):
            report = source_run.run(order.seed, Path(order.folder))
    finally:
        logging.disable(logging.CRITICAL)
    return Report(
        seed=order.seed,
        recordings=list(report.recordings),
        pods=report.bound + report.waiting,
        bindings=report.bound,
        attempts=0,
        deleted=Counter(),
        faults=Counter(),
        troubles=Counter({f"outside: {what}": count for what, count in report.occurred.items()}),
        seconds=0.0,
        history=blake2b(repr(report.history).encode()).hexdigest(),
        problems=report.problems,
    )


def _run_pods(order: WorldOrder) -> Report:
    return pod_run.run(order.seed, random_settings(order.seed, order.pods), Path(order.folder))


def _run_batch(order: WorldOrder) -> Report:
    return batch_run.run(order.seed, random_settings(order.seed, order.pods // 2), Path(order.folder))


_WORLDS: dict[Engine, Callable[[WorldOrder], Report]] = {"pod": _run_pods, "batch": _run_batch, "outside": _run_sources}


def main() -> None:
    """Do what each line says, and answer with a line: a `WorldResult`, or a list of what was not as before."""
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()  # what is imported stays, and is looked through in every collection otherwise
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=WorldOrder)
        answer = run_world(order) if order.before is None else _differences_from(order, order.before)
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
