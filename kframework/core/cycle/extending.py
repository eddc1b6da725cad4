"""What a scheduling cycle asks extenders: questions that it yields, to be answered before it goes on.

A cycle with extenders is a generator of what is to be awaited. Whoever drives it waits as long as that takes, and sends
the answer back, or throws ExtenderError into it; without extenders it yields nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping, Sequence
from typing import Protocol, TypeVar, cast

import msgspec

from kframework.errors import KFrameworkError
from kframework.framework.answers import Candidate
from kframework.framework.status import Status
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod

T = TypeVar("T")

#: Work that may have to ask extenders before it comes to its end.
Asking = Generator[Awaitable[object], object, T]


class ExtenderError(KFrameworkError):
    """Raised when an extender does not answer, reports an error, or answers what cannot be used."""


class Filtered(msgspec.Struct, frozen=True):
    """The nodes that passed, in the order of the answer, and by name what is said against others."""

    nodes: Sequence[NodeInfo]
    failed: Mapping[str, Status]


class Extending(Protocol):
    """The extenders of a scheduler, as a cycle asks them; what they raise is ExtenderError."""

    @property
    def needs_scoring(self) -> bool:
        """Whether one of them filters or prioritizes, so that more than one node must be found for it."""
        ...

    def __len__(self) -> int:
        """Count them."""
        ...

    def filter(self, pod: PendingPod, nodes: Sequence[NodeInfo]) -> Awaitable[Filtered]:
        """Ask which of these nodes the pod may go to."""
        ...

    def prioritize(self, pod: PendingPod, nodes: Sequence[NodeInfo]) -> Awaitable[Mapping[str, int]]:
        """Ask what adds to the totals of these nodes, by name; who fails has no say."""
        ...

    def preempt(
        self, pod: PendingPod, candidates: Sequence[Candidate], nodes: NodeTable
    ) -> Awaitable[Sequence[Candidate]]:
        """Ask which of these candidates are left, perhaps with other victims."""
        ...

    def answer(self, work: Asking[None]) -> Awaitable[None]:
        """Drive a cycle to its end, waiting for the answers to what it asks."""
        ...


def answered(question: Awaitable[T]) -> Asking[T]:
    """Have a question answered by whoever drives the cycle."""
    return cast("T", (yield question))


def unasked(work: Asking[T]) -> T:
    """Bring work to its end that has no extenders to ask."""
    try:
        question = next(work)
    except StopIteration as end:
        return cast("T", end.value)
    raise RuntimeError(f"there is nobody to answer {question!r}")
