"""What the generators of a scheduling cycle wait for: extenders, and turns of other tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from kframework.errors import KFrameworkError
from kframework.framework.answers import Candidate
from kframework.framework.suspendable import Suspendable
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.status import Status

T = TypeVar("T")


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
