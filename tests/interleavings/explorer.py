"""Runs a world under many schedules, and reduces one under which it fails to the few choices that matter."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

import msgspec

from tests.interleavings.loop import NOT_YET, ExploringLoop, Schedule
from tests.interleavings.schedules import Deviation, Priorities, Recorded, Replayed, Walk

__all__ = ["Exploration", "Failure", "Outcome", "World", "attempt", "explore", "replay", "shrink"]

#: A world: lives under the loop that runs it, and returns what did not hold in the end.
World = Callable[[], Coroutine[Any, Any, list[str]]]


class Outcome(msgspec.Struct, frozen=True):
    """What came of one schedule: what did not hold, where it deviated, and what it could have chosen where."""

    problems: list[str]
    deviations: list[Deviation]
    options: list[list[str]]
    trace: int


class Failure(msgspec.Struct, frozen=True):
    """A schedule under which something does not hold, reduced."""

    world: str
    problems: list[str]
    deviations: list[Deviation]
    #: How many schedules were run before it was found.
    after: int

    def __str__(self) -> str:
        choices = ";".join(f"{each.point}={each.label}" for each in self.deviations)
        return "\n  ".join(
            [
                f"{self.world} fails under a schedule that deviates {len(self.deviations)} times:",
                *map(str, self.deviations),
                "and so",
                *self.problems[:10],
                f"again: python -m tests.interleavings --world {self.world} --replay '{choices}'",
            ]
        )


class Exploration(msgspec.Struct):
    """What came of many schedules."""

    world: str
    schedules: int = 0
    distinct: int = 0
    points: int = 0
    failure: Failure | None = None


def attempt(world: World, schedule: Schedule) -> Outcome:
    """Run a world once."""
    recorded = Recorded(schedule)
    unheard: list[str] = []
    logger, heard = logging.getLogger("kframework"), _Heard(unheard)
    logger.addHandler(heard)
    propagates, logger.propagate = logger.propagate, False
    try:
        with asyncio.Runner(loop_factory=lambda: ExploringLoop(recorded)) as runner:
            loop = runner.get_loop()
            loop.set_exception_handler(lambda _, context: unheard.append(_said(context)))
            problems = runner.run(world())
        gc.collect(0)
    except Exception as error:
        problems = [f"the world ended with {error!r}"]
    finally:
        logger.removeHandler(heard)
        logger.propagate = propagates
    return Outcome([*problems, *unheard], recorded.deviations, recorded.options, hash(tuple(recorded.trace)))


def replay(world: World, deviations: Mapping[int, str]) -> Outcome:
    """Run a world under a schedule that deviates here and nowhere else."""
    return attempt(world, Replayed(deviations))


def explore(name: str, world: World, schedules: int, seed: int = 0) -> Exploration:
    """Run a world under `count` schedules, or until one fails, which is then reduced."""
    found, traces = Exploration(name), set[int]()
    for outcome in _outcomes(world, schedules, seed):
        found.schedules += 1
        found.points += len(outcome.options)
        traces.add(outcome.trace)
        if outcome.problems:
            found.failure = shrink(name, world, outcome, found.schedules)
            break
    found.distinct = len(traces)
    return found


def _outcomes(world: World, schedules: int, seed: int) -> Iterator[Outcome]:
    """Run schedules by turns: one after the other of those that deviate once, then twice; walks; priorities."""
    few = _few_deviations(world)
    for number in range(schedules):
        match number % 3:
            case 0:
                yield next(few, None) or attempt(world, Walk(f"{seed}/{number}"))
            case 1:
                yield attempt(world, Priorities(f"{seed}/{number}"))
            case _:
                yield attempt(world, Walk(f"{seed}/{number}"))


def _few_deviations(world: World, most: int = 2) -> Iterator[Outcome]:
    """Run every schedule that deviates at most so often, those with fewer deviations first."""
    waiting: deque[dict[int, str]] = deque([{}])
    while waiting:
        deviations = waiting.popleft()
        outcome = replay(world, deviations)
        yield outcome
        if len(deviations) < most:
            first = max(deviations, default=-1) + 1
            for point in range(first, len(outcome.options)):
                waiting.extend(deviations | {point: label} for label in outcome.options[point][1:])


def shrink(name: str, world: World, outcome: Outcome, after: int = 1) -> Failure:
    """Leave out deviations, many at once and then each, as long as something still does not hold."""
    size = max(len(outcome.deviations) // 2, 1)
    while True:
        smaller = _smaller(world, outcome, size)
        if smaller is not None:
            outcome = smaller
            size = min(size, max(len(outcome.deviations) // 2, 1))
        elif size > 1:
            size //= 2
        else:
            return Failure(name, outcome.problems, outcome.deviations, after)


def _smaller(world: World, failed: Outcome, size: int) -> Outcome | None:
    """Find a schedule that fails with fewer deviations: without some, or with one that is late for several others."""
    all_of_them = failed.deviations
    kept = {each.point: each.label for each in all_of_them}
    trials = [
        {each.point: each.label for each in (*all_of_them[:start], *all_of_them[start + size :])}
        for start in range(len(all_of_them) - 1, -1, -1)[::size]
    ]
    if size == 1:
        trials += [kept | {each.point: f"{NOT_YET}{each.instead_of}"} for each in all_of_them]
    for trial in trials:
        outcome = replay(world, trial)
        if outcome.problems and len(outcome.deviations) < len(all_of_them):
            return outcome
    return None


class _Heard(logging.Handler):
    """Takes an error that is logged with a traceback for a complaint: what a world plans for is none."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__()
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR and record.exc_info and record.exc_info[1] is not None:
            self._problems.append(f"logged: {record.getMessage()}: {record.exc_info[1]!r}")


def _said(context: Mapping[str, Any]) -> str:
    return f"asyncio: {context.get('message')}: {context.get('exception')!r}"
