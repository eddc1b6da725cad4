"""Long work beside a scheduler: a generator that yields wherever it may pause, and whoever drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from time import perf_counter
from typing import TypeVar

from kframework.state.cluster import ClusterState

T = TypeVar("T")

#: After so much work the scheduler gets its turn, in seconds; one piece of work more may be under way then.
SLICE = 0.0005


def in_slices(work: Iterator[None], aside: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Do work that yields wherever it may pause, and yield whenever it has gone on for `SLICE`.

    Each slice runs inside an `aside()` of its own, so whatever that opens is closed while others have their turn.
    """
    while True:
        with aside():
            until = perf_counter() + SLICE
            for _ in work:
                if perf_counter() >= until:
                    break
            else:
                return
        yield


def finished(work: Generator[None, None, T]) -> T:
    """Do work to its end, and return what comes of it."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


async def at_rest(cluster: ClusterState) -> None:
    """Wait while something is only supposed in a cluster's tables, as between two pieces of a session of an engine."""
    while cluster.statements:  # noqa: ASYNC110  # whoever closes the last one is in no position to tell
        await asyncio.sleep(0)


async def finished_giving_way(cluster: ClusterState, work: Generator[None, None, T]) -> T:
    """Do work that reads a cluster's tables to its end, and return what comes of it.

    Others have their turn wherever it pauses; what is only supposed meanwhile it does not see.
    """
    while True:
        await at_rest(cluster)
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)
