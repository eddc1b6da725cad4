"""What a scheduling cycle asks extenders: questions that it yields, to be answered before it goes on.

A cycle with extenders is a generator. Whoever drives it puts each question to them, waits as long as that takes, and
sends the answer back, or throws ExtenderError into it; without extenders it yields nothing.
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


class ExtenderError(KFrameworkError):
    """Raised when an extender does not answer, reports an error, or answers what cannot be used."""


class Filtered(msgspec.Struct, frozen=True):
    """The nodes that passed, in the order of the answer, and by name what is said against others."""

    nodes: Sequence[NodeInfo]
    failed: Mapping[str, Status]


class FilterQuestion(msgspec.Struct, frozen=True):
    """Asks which of these nodes the pod may go to."""

    pod: PendingPod
    nodes: Sequence[NodeInfo]


class PrioritizeQuestion(msgspec.Struct, frozen=True):
    """Asks what is added to the totals of these nodes."""

    pod: PendingPod
    nodes: Sequence[NodeInfo]


class PreemptQuestion(msgspec.Struct, frozen=True):
    """Asks which of these candidates preemption may choose from, and with which victims."""

    pod: PendingPod
    candidates: Sequence[Candidate]
    nodes: NodeTable


ExtenderQuestion = FilterQuestion | PrioritizeQuestion | PreemptQuestion

#: Work that may have to ask extenders before it comes to its end.
Asking = Generator[ExtenderQuestion, object, T]


class Extending(Protocol):
    """The extenders of a scheduler, as far as a cycle must know them."""

    @property
    def needs_scoring(self) -> bool:
        """Whether one of them filters or prioritizes, so that more than one node must be found for it."""
        ...

    def __len__(self) -> int:
        """Count them."""
        ...

    def answer(self, work: Asking[None]) -> Awaitable[None]:
        """Drive a cycle to its end, waiting for the answers to what it asks."""
        ...


def filtered(pod: PendingPod, nodes: Sequence[NodeInfo]) -> Asking[Filtered]:
    """Ask which of these nodes the pod may go to; raises ExtenderError."""
    return cast("Filtered", (yield FilterQuestion(pod, nodes)))


def added_scores(pod: PendingPod, nodes: Sequence[NodeInfo]) -> Asking[Mapping[str, int]]:
    """Ask what adds to the totals of these nodes, by name."""
    return cast("Mapping[str, int]", (yield PrioritizeQuestion(pod, nodes)))


def candidates_left(pod: PendingPod, candidates: Sequence[Candidate], nodes: NodeTable) -> Asking[Sequence[Candidate]]:
    """Ask which of these candidates are left, perhaps with other victims; raises ExtenderError."""
    return cast("Sequence[Candidate]", (yield PreemptQuestion(pod, candidates, nodes)))


def unasked(work: Asking[T]) -> T:
    """Bring work to its end that has no extenders to ask."""
    try:
        question = next(work)
    except StopIteration as end:
        return cast("T", end.value)
    raise RuntimeError(f"there is nobody to answer {question!r}")
