"""What an engine has done outside, and what a binding cycle takes with it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Protocol

import msgspec

from kframework.core.cycle.decision import Decision
from kframework.core.queue.queued_pod import QueuedPod
from kframework.core.runtime.profile import Profile
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import Api
from kframework.objects import PodCondition
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.waiting import ReservedPod


class Reservation:
    """A pod that was assumed on a node, and all that its binding cycle needs.

    `draw` is its Decision's; `timed` says whether plugins are timed.
    """

    __slots__ = ("attempt", "draw", "node_name", "pod", "profile", "queued", "reserved", "state", "timed")

    def __init__(
        self,
        attempt: int,
        profile: Profile,
        queued: QueuedPod,
        state: CycleState,
        reserved: ReservedPod,
        *,
        draw: float = 0.0,
        timed: bool = False,
    ) -> None:
        self.attempt: int = attempt
        self.profile: Profile = profile
        self.queued: QueuedPod = queued
        self.pod: PendingPod = queued.pod
        self.state: CycleState = state
        self.reserved: ReservedPod = reserved
        self.draw: float = draw
        self.timed: bool = timed
        self.node_name: str = reserved.node_name

    def __repr__(self) -> str:
        return f"<Reservation {self.attempt}: {self.reserved!r}>"


class Eviction(msgspec.Struct, frozen=True):
    """The victims of a preemption, none of which is going yet, and all that it takes to send them away.

    `plugin` proposed it. `outranked` are the pods, less important than the preemptor, that lost their nomination to
    the node; the API has not heard of that yet.
    """

    attempt: int
    profile: str
    plugin: str
    preemptor: PendingPod
    node_name: str
    victims: tuple[PodInfo, ...]
    outranked: tuple[PodInfo, ...]


class PodEvent(msgspec.Struct, frozen=True):
    """What is to be told about a pod on behalf of a profile, as an Event of Kubernetes.

    `related` is the other pod that it is about, as the preemptor of a victim.
    """

    profile: str
    pod: PodInfo
    reason: str
    action: str
    note: str
    warning: bool = False
    related: PodInfo | None = None


class Effects(Protocol):
    """What the engine has done outside; every call returns at once."""

    def bind(self, reservation: Reservation) -> None:
        """Start the binding cycle of an assumed pod; BindingStarted and BindingEnded report on it."""
        ...

    def patch_status(self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        """Write the pod's condition, its nominated node or both; None leaves as it is."""
        ...

    def record(self, event: PodEvent) -> None:
        """Record an Event about a pod."""
        ...

    def evict(self, eviction: Eviction) -> None:
        """Start sending the victims of a preemption away; LastVictim and PreemptionEnded report on it."""
        ...

    def decided(self, decision: Decision) -> None:
        """Take notice of an attempt."""
        ...


class EngineHost(Effects, Protocol):
    """All that an engine and the handles of plugins reach beyond the engine."""

    @property
    def api(self) -> Api:
        """The cluster's API."""
        ...

    def spawn(self, coroutine: Coroutine[object, object, None]) -> None:
        """Run a coroutine beside the scheduler."""
        ...


class NullEffects:
    """The outside of an engine that has none: nothing that it asks for is done."""

    @property
    def api(self) -> Api:
        """Refuse: without a cluster there is no API."""
        raise RuntimeError("there is no API: a plugin may ask it from the hooks that bind, and from spawned coroutines")

    def spawn(self, coroutine: Coroutine[object, object, None]) -> None:
        """Drop a plugin's coroutine."""
        coroutine.close()

    def bind(self, reservation: Reservation) -> None:
        """Start no binding."""

    def patch_status(self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        """Write nothing."""

    def record(self, event: PodEvent) -> None:
        """Record nothing."""

    def evict(self, eviction: Eviction) -> None:
        """Send nobody away."""

    def decided(self, decision: Decision) -> None:
        """Take no notice."""
