"""What a scheduling cycle asks extenders: questions that it yields, to be answered before it goes on (`asking`)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

import msgspec

from kframework.errors import KFrameworkError
from kframework.framework.answers import Candidate
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.status import Status


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
