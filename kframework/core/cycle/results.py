"""Outcomes of a search, and what follows from an attempt: a reservation, or a failure, possibly with an eviction."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.group_bindings import GroupBindings
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.timing import AttemptTrace
from kframework.framework.answers import Diagnosis
from kframework.framework.cycle_state import CycleState
from kframework.objects import GenericPodGroup
from kframework.state.group_trees import entity_key
from kframework.state.node_order import Positions
from kframework.state.pods import PendingPod, PodInfo, QueuedPod
from kframework.state.waiting import ReservedPod
from kframework.values.scores import Scores
from kframework.values.status import Status

_NONE = np.zeros(0, dtype=np.int64)


class FilterOutcome(msgspec.Struct, frozen=True):
    """The result of filtering the nodes.

    `node_order`: the rows in the order in which they were evaluated; `rejections` are aligned to it, and are valid for
    the first `evaluated`. `candidates`: the positions of passing nodes, no more than are enough.
    """

    node_order: NDArray[np.int64] = _NONE
    rejections: Scores = _NONE
    evaluated: int = 0
    candidates: Positions = _NONE


class ScheduleResult(msgspec.Struct, frozen=True):
    """The chosen node; `score` is 0 and `best`, the names of the best nodes, empty if there was no choice."""

    node: str
    score: int
    ties: int
    evaluated: int
    feasible: int
    best: tuple[tuple[str, int], ...] = ()


class FitError(msgspec.Struct, frozen=True):
    """The result that no node is feasible: reasons with node counts, and the rejectors (`pending`: without backoff)."""

    diagnosis: Diagnosis
    reasons: Mapping[str, int]
    rejectors: frozenset[str]
    pending: frozenset[str]
    evaluated: int


class ScheduleError(msgspec.Struct, frozen=True):
    """Something went wrong, or there are no nodes at all."""

    status: Status


Outcome = ScheduleResult | FitError | ScheduleError


class Reservation(msgspec.Struct, eq=False, weakref=True):
    """A pod that was assumed on a node, and all that its binding cycle needs.

    `group` has the bindings of its PodGroup that this one waits for, None if it waits for none.
    """

    profile: Profile
    queued: QueuedPod
    state: CycleState
    reserved: ReservedPod
    trace: AttemptTrace
    group: GroupBindings | None = None

    @property
    def attempt(self) -> int:
        """The number of the attempt."""
        return self.trace.attempt

    @property
    def pod(self) -> PendingPod:
        """The pod."""
        return self.reserved.pod

    @property
    def node_name(self) -> str:
        """The node that it is assumed on."""
        return self.reserved.node_name


class Eviction(msgspec.Struct, frozen=True):
    """The victims of a preemption, none of them terminating yet, and what their eviction needs.

    The preemptor is a pod, or the `group`, the root of a tree, that this pod is the first of.

    `plugin` proposed it. `outranked` are the pods of lower priority that lose their nomination to the node; the API is
    not informed yet.
    """

    attempt: int
    profile: str
    plugin: str
    preemptor: PendingPod
    node_name: str
    victims: tuple[PodInfo, ...]
    lower_priority: tuple[PodInfo, ...]
    pdb_violations: int = 0
    group: GenericPodGroup | None = None

    @property
    def uid(self) -> str:
        """The uid of the preemptor."""
        return self.preemptor.uid if self.group is None else self.group.metadata.uid

    @property
    def kind(self) -> str:
        """The preemptor's kind, as texts name it."""
        return "pod" if self.group is None else entity_key(self.group)[0]


class Failure(msgspec.Struct, frozen=True):
    """The reason why a pod is requeued; `nominated` None leaves its nomination unchanged.

    `victims` are the keys of all pods that this one waits for, including those already terminating.
    """

    status: Status
    nominated: str | None = ""
    eviction: Eviction | None = None
    victims: tuple[str, ...] = ()
