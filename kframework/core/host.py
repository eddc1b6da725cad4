"""Side effects of an engine outside its tables: bindings, status patches, events, evictions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TypeVar

import msgspec

from kframework.core.cycle.records import Decision, GroupDecision
from kframework.core.cycle.results import Eviction, Reservation
from kframework.core.cycle.run import Run, RunBinding
from kframework.errors import ClusterError
from kframework.framework.handle import Api
from kframework.objects import PodCondition
from kframework.state.pods import PodInfo

T = TypeVar("T")


class PodEvent(msgspec.Struct, frozen=True):
    """A Kubernetes Event about a pod, recorded on behalf of a profile.

    `related` is the other pod involved, such as the preemptor of a victim.
    """

    profile: str
    pod: PodInfo
    reason: str
    action: str
    note: str
    warning: bool = False
    related: PodInfo | None = None


class Host:
    """The interface through which an engine and plugin handles act on the cluster; this base class does nothing.

    Calls that change the cluster return at once; their outcome arrives at the engine as a message.
    """

    @property
    def api(self) -> Api:
        """The cluster's API; raises RuntimeError if there is no cluster."""
        raise RuntimeError(
            "there is no API here: plugins may call it in pre_bind, bind and post_bind, and in spawned coroutines"
        )

    def bind(self, reservation: Reservation) -> None:
        """Start the binding cycle of an assumed pod; BindingStarted and BindingEnded report on it."""

    @property
    def can_bind_runs(self) -> bool:
        """Whether the pods of a run can be bound together."""
        return False

    def bind_run(self, run: Run) -> None:
        """Record the decisions of a run and bind its pods; a RunBinding reports the outcome."""

    def patch_status(self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        """Write the pod's condition, its nominated node or both; None leaves the field unchanged."""

    def record(self, event: PodEvent) -> None:
        """Record an Event about a pod."""

    def record_run(self, bound: RunBinding) -> None:
        """Record a Scheduled event for each bound pod of a run."""

    def evict(self, eviction: Eviction) -> None:
        """Start evicting the victims of a preemption; LastVictimReached and PreemptionEnded report on it."""

    def evict_gang(self, pods: Sequence[PodInfo], note: str) -> None:
        """Start evicting the pods of a gang that stays bound in part; the watch reports on it."""

    def report_decision(self, decision: Decision) -> None:
        """Pass the record of an attempt to observers."""

    def report_group_decision(self, decision: GroupDecision) -> None:
        """Pass the record of a group's attempt to observers (`GroupObserver`)."""

    def report_account(self, account: msgspec.Struct) -> None:
        """Pass to observers a record of the engine that covers more than one attempt (`AccountObserver`)."""

    def write(self, key: str, call: Callable[[], Awaitable[object]], refused: Callable[[ClusterError], None]) -> None:
        """Write through the API in the background, with retries while they may help.

        Calls with the same key run one after another, and a later call replaces a waiting one. `refused` receives the
        error of a call that failed permanently, unless the scheduler stops.
        """

    def spawn(self, coroutine: Coroutine[object, object, None], by: str) -> None:
        """Run a coroutine concurrently; its errors are attributed to `by`, such as `plugin 'Quota'`."""
        coroutine.close()

    async def shield(self, work: Awaitable[T]) -> T:
        """Await work to completion even if the caller is cancelled, unless the scheduler stops."""
        return await work
