"""How a search ends, and what follows from an attempt: a reservation, or a failure, perhaps with victims to evict."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kframework.core.runtime.profile import Profile
from kframework.core.runtime.timing import AttemptTrace
from kframework.framework.answers import Diagnosis
from kframework.framework.cycle_state import CycleState
from kframework.state.pods import PendingPod, PodInfo, QueuedPod
from kframework.state.waiting import ReservedPod
from kframework.values.status import Status


class ScheduleResult(msgspec.Struct, frozen=True):
    """The chosen node; `score` is 0 and `best`, the names of the best nodes, empty when there was nothing to choose."""

    node: str
    score: int
    ties: int
    evaluated: int
    feasible: int
    best: tuple[tuple[str, int], ...] = ()


class FitError(msgspec.Struct, frozen=True):
    """No node is feasible: why, how many nodes say so, and who must change their mind (`pending`: without backoff)."""

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
    """A pod that was assumed on a node, and all that its binding cycle needs."""

    profile: Profile
    queued: QueuedPod
    state: CycleState
    reserved: ReservedPod
    trace: AttemptTrace

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
    """The victims of a preemption, none of which is going yet, and all that it takes to send them away.

    `plugin` proposed it. `outranked` are the pods, less important than the preemptor, that lose their nomination to the
    node; the API has not heard of that yet.
    """

    attempt: int
    profile: str
    plugin: str
    preemptor: PendingPod
    node_name: str
    victims: tuple[PodInfo, ...]
    outranked: tuple[PodInfo, ...]


class Failure(msgspec.Struct, frozen=True):
    """Why a pod is put back; `nominated` None leaves its nomination as it is.

    `victims` are the keys of all that the pod waits for, of those too that were going before.
    """

    status: Status
    nominated: str | None = ""
    eviction: Eviction | None = None
    victims: tuple[str, ...] = ()
