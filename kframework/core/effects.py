"""What an engine has done outside: bindings, statuses, events, evictions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

import msgspec

from kframework.core.cycle.records import Decision
from kframework.core.cycle.results import Eviction, Reservation
from kframework.core.cycle.run import Run, RunBinding
from kframework.errors import ClusterError
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


def bound_note(pod: PodInfo, node_name: str) -> str:
    """Say that a pod is bound."""
    return f"Successfully assigned {pod.key} to {node_name}"


class Host:
    """The outside of an engine and of the handles of plugins; this one does nothing.

    Calls that do something in the cluster return at once; how it ended comes back to the engine as a message.
    """

    @property
    def api(self) -> Api:
        """The cluster's API; RuntimeError where there is no cluster."""
        raise RuntimeError("there is no API: a plugin may ask it from the hooks that bind, and from spawned coroutines")

    def bind(self, reservation: Reservation) -> None:
        """Start the binding cycle of an assumed pod; BindingStarted and BindingEnded report on it."""

    @property
    def binds_runs(self) -> bool:
        """Whether it can bind the pods of a run at once."""
        return False

    def bind_run(self, run: Run) -> None:
        """Take notice of the decisions of a run, and bind its pods; a RunBinding reports on it."""

    def patch_status(self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        """Write the pod's condition, its nominated node or both; None leaves as it is."""

    def record(self, event: PodEvent) -> None:
        """Record an Event about a pod."""

    def record_run(self, bound: RunBinding) -> None:
        """Record of each pod of a run that it is bound, in Events as those of `record`."""

    def evict(self, eviction: Eviction) -> None:
        """Start evicting the victims of a preemption; LastVictim and PreemptionEnded report on it."""

    def decided(self, decision: Decision) -> None:
        """Give observers the record of an attempt."""

    def accounted(self, account: msgspec.Struct) -> None:
        """Give observers a record of the engine's own, of more than a single attempt (`Accounting`)."""

    def write(self, key: str, call: Callable[[], Awaitable[object]], refused: Callable[[ClusterError], None]) -> None:
        """Write by a call of the API in the background, and try again while that may help.

        Calls of one key are made one after the other, and a later one replaces one that waits. `refused` is called with
        the error of a call that failed for good, unless the scheduler stops.
        """

    def spawn(self, coroutine: Coroutine[object, object, None], by: str) -> None:
        """Run a coroutine beside the scheduler; `by`, as `plugin 'Quota'`, is blamed for its faults."""
        coroutine.close()

    async def to_the_end(self, work: Awaitable[T]) -> T:
        """Await work whether or not it is cancelled meanwhile, unless the scheduler stops."""
        return await work
