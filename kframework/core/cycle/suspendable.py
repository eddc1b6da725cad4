"""Generators that yield awaitables and receive their results: one code path, with or without an event loop.

A scheduling cycle yields calls to extenders, a binding cycle calls of plugins and the cluster that do not complete at
once. A generator that yields nothing is a plain call: a pod that never waits costs no task (26 us of a simulated pod's
435).
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from kframework.errors import KFrameworkError
from kframework.framework.answers import Candidate
from kframework.framework.handle import COMPLETED
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.status import Status

T = TypeVar("T")

#: Work that may have to wait before it is complete.
Suspendable = Generator[Awaitable[object], object, T]


def wait_for(question: Awaitable[T]) -> Suspendable[T]:
    """Yield an awaitable to the driver and return its result; `COMPLETED` is skipped."""
    # Several per pod, and a cast is a call more.
    answer: T = None if question is COMPLETED else (yield question)  # type: ignore[assignment]  # the driver's answer
    return answer


class _Turn(Awaitable[None]):
    """Lets the other tasks of the loop run once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


#: Yielded by long work where other tasks may run; without an event loop the work goes on.
TURN = _Turn()


def in_turns(work: Iterator[None]) -> Suspendable[None]:
    """Let the other tasks of the loop run wherever this work yields."""
    for _ in work:
        yield TURN


def run_sync(work: Suspendable[T]) -> T:
    """Run work that waits for nothing; raise RuntimeError if it does."""
    try:
        while (question := next(work)) is TURN:
            pass
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError(f"no event loop drives this work, which waits for {question!r}")


async def run_async(work: Suspendable[T], question: Awaitable[object] | None = None) -> T:
    """Run work to its end, awaiting what it yields, starting with `question` if it is already suspended on that."""
    try:
        question = next(work) if question is None else question
        while True:
            try:
                answer = await question
            except BaseException as error:
                question = work.throw(error)
            else:
                question = work.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        work.close()


class ExtenderError(KFrameworkError):
    """Raised when an extender does not answer, reports an error, or sends an unusable answer."""


class Filtered(msgspec.Struct, frozen=True):
    """The nodes that passed, in the order of the answer, and the Status of the others by name."""

    nodes: Sequence[NodeInfo]
    failed: Mapping[str, Status]


class ExtenderClient(Protocol):
    """The extenders of a scheduler as a cycle calls them; they raise ExtenderError."""

    @property
    def needs_scoring(self) -> bool:
        """Whether an extender filters or prioritizes, so that more than one node must be found for it."""

    def __len__(self) -> int:
        """Count them."""

    def filter(self, pod: PendingPod, nodes: Sequence[NodeInfo]) -> Awaitable[Filtered]:
        """Return which of these nodes the extenders accept."""

    def prioritize(self, pod: PendingPod, nodes: Sequence[NodeInfo]) -> Awaitable[Mapping[str, int]]:
        """Return the scores to add to the totals of these nodes, by name; failing extenders are ignored."""

    def preempt(
        self, pod: PendingPod, candidates: Sequence[Candidate], nodes: NodeTable
    ) -> Awaitable[Sequence[Candidate]]:
        """Return the remaining candidates, possibly with other victims."""
