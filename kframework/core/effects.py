"""What an engine has done outside, and what a binding cycle takes with it."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Protocol, TypeVar

import msgspec

from kframework.core.cycle.consequences import Eviction, Reservation
from kframework.core.cycle.decision import Decision
from kframework.framework.handle import Api
from kframework.objects import PodCondition
from kframework.state.pods import PodInfo

T = TypeVar("T")


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

    def accounted(self, account: msgspec.Struct) -> None:
        """Take notice of what was done beyond single attempts: a record of the engine's own (`Accounting`)."""
        ...

    def spawn(self, coroutine: Coroutine[object, object, None], by: str) -> None:
        """Run a coroutine beside the scheduler; who spawned it, as `plugin 'Quota'`, is blamed for its faults."""
        ...

    async def to_the_end(self, work: Awaitable[T]) -> T:
        """Await work whether or not it is cancelled meanwhile, unless the scheduler stops."""
        ...


class NullEffects:
    """The outside of an engine that has none: nothing that it asks for is done."""

    @property
    def api(self) -> Api:
        """Refuse: without a cluster there is no API."""
        raise RuntimeError("there is no API: a plugin may ask it from the hooks that bind, and from spawned coroutines")

    def spawn(self, coroutine: Coroutine[object, object, None], by: str) -> None:
        """Drop a plugin's coroutine."""
        coroutine.close()

    async def to_the_end(self, work: Awaitable[T]) -> T:
        """Await a plugin's work."""
        return await work

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

    def accounted(self, account: msgspec.Struct) -> None:
        """Take no notice."""
