"""Long work of a scheduler and next to it: generators that yield where they may pause, and their drivers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from time import perf_counter
from typing import TypeVar

from kframework.core.engine import Engine
from kframework.state.cluster import ClusterState

T = TypeVar("T")

#: How long work runs before the scheduler's turn, in seconds, plus at most one step.
SLICE = 0.0005

#: The number of messages that are applied before other tasks run; these take about 1 ms.
MESSAGES_PER_TURN = 16


def time_sliced(work: Iterator[None], isolated: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Run work that yields where it may pause, and yield whenever it has run for `SLICE`.

    Each slice runs inside its own `aside()`, so what that opens is closed while other tasks run.
    """
    while True:
        with isolated():
            until = perf_counter() + SLICE
            for _ in work:
                if perf_counter() >= until:
                    break
            else:
                return
        yield


def run_to_end(work: Generator[None, None, T]) -> T:
    """Run work to its end and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


async def wait_until_idle(cluster: ClusterState) -> None:
    """Wait until no what-if statement is open, as between two slices of an engine's session."""
    while cluster.statements:  # noqa: ASYNC110  # closing the last one sends no signal
        await asyncio.sleep(0)


async def run_cooperatively(cluster: ClusterState, work: Generator[None, None, T]) -> T:
    """Run work that reads a cluster's tables to its end and return its result.

    Other tasks run where it pauses; it never runs while a what-if statement is open.
    """
    while True:
        await wait_until_idle(cluster)
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


async def apply_in_turns(engine: Engine) -> None:
    """Let an engine apply many messages while other tasks run in between; its next step applies those that are left.

    If these tasks bring messages faster than they are applied, the engine schedules pods, too.
    """
    number = len(engine.inbox)
    while number > MESSAGES_PER_TURN and engine.apply_some_messages(MESSAGES_PER_TURN):
        await asyncio.sleep(0)
        number, before = len(engine.inbox), number
        if number >= before:
            return
