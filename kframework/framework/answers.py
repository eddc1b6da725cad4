"""The answers of hooks other than a Status, and what hooks after a search receive of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.state.columns import count_values
from kframework.values.status import Code, Status

if TYPE_CHECKING:
    from kframework.framework.cycle_state import CycleState
    from kframework.state.nodes import NodeTable
    from kframework.state.pods import PendingPod, PodInfo
    from kframework.values.scores import Scores

#: The answer of `pre_filter` other than a Status: the names of the nodes to filter.
NodeNames = frozenset[str] | set[str]


class GroupProgress(msgspec.Struct, frozen=True):
    """How far the cycle of a group is: its parts that can be scheduled, and those not tried yet.

    The parts are the pods of a PodGroup, from this cycle or before, or the groups below a CompositePodGroup.
    Terminating pods are not counted. While pods are being bound, `scheduled` are those that can be bound or are, and
    `remaining` those in Permit or PreBind.
    """

    scheduled: int
    remaining: int


class GroupPlacement(msgspec.Struct, frozen=True, eq=False):
    """A set of nodes for all pods of a group, by their rows."""

    name: str
    rows: NDArray[np.int64]


class PlacedGroup(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A placement in which a group can be scheduled, with the waiting pods that would get nodes there.

    `find_nodes` pairs them with the names of these nodes.
    """

    placement: GroupPlacement
    pods: tuple[PendingPod, ...]
    find_nodes: Callable[[], tuple[tuple[PendingPod, str], ...]]

    @cached_property
    def nodes(self) -> tuple[tuple[PendingPod, str], ...]:
        """The pods with their nodes, which may take a search for each: prefer `pods` if these are enough."""
        return self.find_nodes()


class Nothing(Enum):
    """The answer of a `sign` whose plugin skips such pods at every extension point."""

    NOTHING = "nothing"

    if not TYPE_CHECKING:
        # Signatures are hashed for each pod, and have several of it: an enumeration's own hash is a Python function.
        __hash__ = object.__hash__


#: The answer of a `sign` whose plugin skips such pods at every point from PreFilter to PostBind.
NOTHING: Final = Nothing.NOTHING


class Diagnosis:
    """The reasons why no node was feasible: a rejection per node, converted to a Status on access.

    `rejections` holds one integer per row, equal for nodes with the same reason, and `status_of` converts it.
    `rejectors` are the plugins that rejected the pod somewhere, `pre_filter_message` is set if a `pre_filter` rejected
    it as a whole.
    """

    __slots__ = ("_counts", "_rejections", "_status_of", "nodes", "pre_filter_message", "rejectors")

    def __init__(
        self,
        nodes: NodeTable,
        rejections: Scores,
        status_of: Callable[[int], Status],
        rejectors: Sequence[str] = (),
        pre_filter_message: str = "",
    ) -> None:
        self.nodes: NodeTable = nodes
        self._rejections = rejections
        self._counts: list[tuple[int, int]] | None = None
        self._status_of = status_of
        self.rejectors: Sequence[str] = rejectors
        self.pre_filter_message: str = pre_filter_message

    def __getitem__(self, row: int) -> Status:
        """Return the first rejection of the node of this row, in configured order."""
        return self._status_of(int(self._rejections[row]))

    def rows(self, code: Code) -> NDArray[np.int64]:
        """Return the rows whose rejection has this code, in node order."""
        order, distinct = self.nodes.order, [rejection for rejection, _ in self.counts()]
        matches = np.array([self._status_of(each).code == code for each in distinct], dtype=np.bool_)
        return order if matches.all() else order[matches[np.searchsorted(distinct, self._rejections[order])]]

    def counts(self) -> list[tuple[int, int]]:
        """List the rejections in their order, each with the number of nodes that have it."""
        if self._counts is None:
            self._counts = count_values(self._rejections[self.nodes.order])
        return self._counts


class RejectedPod(msgspec.Struct, frozen=True, eq=False):
    """A pod of a PodGroup for which no node was feasible, with what `post_filter` gets of pods without a group."""

    pod: PendingPod
    state: CycleState
    diagnosis: Diagnosis


class Candidate(msgspec.Struct, frozen=True):
    """A node on which the pod would fit if these victims were evicted."""

    node: str
    victims: tuple[PodInfo, ...]
    pdb_violations: int = 0


class Preempt(msgspec.Struct, frozen=True):
    """`post_filter`'s answer "evict": the engine takes the candidate of the smallest key, nominates and evicts.

    `describe` returns the text about that candidate that ends the pod's message; None adds none.
    """

    candidates: tuple[Candidate, ...]
    key: Callable[[Candidate], Hashable]
    status: Status = Status(Code.SUCCESS)
    describe: Callable[[Candidate], str] | None = None


class PreemptForGroup(msgspec.Struct, frozen=True):
    """`pod_group_post_filter`'s answer "evict": the nodes that pods are nominated to, by uid, and the victims."""

    nominations: Mapping[str, str]
    victims: tuple[PodInfo, ...]
    pdb_violations: int = 0
    status: Status = Status(Code.SUCCESS)


class Nominate(msgspec.Struct, frozen=True):
    """`post_filter`'s answer "keep this node free for the pod": it is tried first in the next attempt."""

    node: str
    status: Status = Status(Code.SUCCESS)


class ClearNomination(msgspec.Struct, frozen=True):
    """`post_filter`'s answer "the pod has no node to wait for": an earlier nomination is cleared."""

    status: Status = Status(Code.UNSCHEDULABLE)


#: The answers of `post_filter` other than a Status.
PluginResult = Preempt | Nominate | ClearNomination
