"""The plugin's interface to the scheduler.

Requests from a hook (`activate`, `nominate`, `invalidate`) are carried out when its cycle ends; requests from elsewhere
are messages that are applied between two cycles. A verdict on a waiting pod takes effect immediately.
"""

from __future__ import annotations

from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from random import Random
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    from kframework.clock import Clock
    from kframework.framework.answers import Candidate, Diagnosis, PreemptForGroup
    from kframework.framework.cycle_state import CycleState
    from kframework.framework.source import Fetch, KeyedBy, Source, WakesPod, WhenStale
    from kframework.objects import ApiObject, GenericPodGroup
    from kframework.state.nodes import NodeInfo, NodeTable
    from kframework.state.objects import ObjectStore
    from kframework.state.pod_groups import PodGroups
    from kframework.state.pods import PendingPod, PodInfo
    from kframework.state.statement import Statement
    from kframework.state.waiting import WaitingPod
    from kframework.values.feature_gates import FeatureGates
    from kframework.values.status import Status

T = TypeVar("T", bound="ApiObject")
V = TypeVar("V")
A = TypeVar("A")


class Completed(Coroutine[Any, Any, V]):
    """A call that is complete: awaiting it takes no turn of the loop, and callers may take the `result` instead."""

    __slots__ = ("result",)

    def __init__(self, result: V) -> None:
        self.result: V = result

    def __await__(self) -> Generator[Any, None, V]:
        yield from ()
        return self.result

    def send(self, value: object, /) -> NoReturn:
        raise StopIteration(self.result)

    def throw(self, *error: Any) -> NoReturn:
        super().throw(*error)
        raise AssertionError("it raises the error")

    def close(self) -> None:
        """Do nothing: there is nothing left to do."""


#: A completed call without a result.
COMPLETED: Final = Completed(None)


class Api(Protocol):
    """Calls to the cluster's API, for hooks that may await and for spawned coroutines.

    All raise ClusterError.

    `kind` is a struct type of `kframework.objects`.
    """

    def bind(self, pod: PendingPod, node_name: str) -> Awaitable[None]:
        """Bind the pod, whose uid is a precondition; COMPLETED if no waiting is needed, as in memory.

        A `bind` hook may return the result.
        """

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """Read one object; status 404 if there is none."""

    async def list(self, kind: type[T], namespace: str = "", *, labels: Mapping[str, str]) -> Sequence[T]:
        """Read the objects of a kind that have these labels, in one namespace or in all; pods that have ended as well.

        Objects of a kind in `watches` that have not ended are at hand without a call.
        """

    async def create(self, obj: T) -> T:
        """Create the object and return it as stored; status 409 if it exists."""

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        """Merge-patch the object, all but its status, and return it as stored."""

    async def patch_status(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, object],
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> T:
        """Merge-patch the status of the object, as `{"phase": "Running"}`, and return the object as stored.

        A uid and a resource version are preconditions (status 409); status 404 if there is none, or if its kind has no
        status.
        """

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        """Delete the object; status 404 if there is none, 409 if it is not the one of this uid."""


class DryRunResult(msgspec.Struct, frozen=True):
    """The result of preemption dry runs.

    `candidates`: those that violate no budget first. `status`: Success if there are candidates, else the answer of the
    plugin: Unschedulable with the reasons for all nodes, or the errors of the dry runs.
    """

    candidates: tuple[Candidate, ...]
    status: Status


class PlacedPod(Protocol):
    """A pod of a group with the node that was found for it, and its cycle state then, for what-ifs."""

    @property
    def pod(self) -> PendingPod:
        """The pod, which is not on the node now."""

    @property
    def node(self) -> NodeInfo:
        """The node."""

    @property
    def depends_on_other_nodes(self) -> bool:
        """Whether pods on other nodes may matter to the pod, because a plugin has `add_pod` or `remove_pod` for it."""

    def add_pod(self, other: PodInfo, node: NodeInfo) -> Status | None:
        """Update the cycle state for a pod that was added to a node of the tables."""

    def remove_pod(self, other: PodInfo, node: NodeInfo) -> Status | None:
        """Update the cycle state for a pod that was removed from a node of the tables."""

    def rejection(self) -> Status | None:
        """Return the first rejection of the node, with the pods nominated to it and without them."""

    def reserve(self) -> None:
        """Run Reserve for the pod, whatever the plugins answer."""

    def unreserve(self) -> None:
        """Run Unreserve for the pod."""


#: Places a tree of groups on the tables as they are now: its pods with a node, in order, or why it is unschedulable.
FindNodes = Callable[[], "Sequence[PlacedPod] | Status"]


class VictimRules(msgspec.Struct, frozen=True):
    """A plugin's own rules for dry runs, in place of "every pod of lower priority may be evicted".

    A dry run goes through the pods of a node, the least important first, and removes those for which
    `may_evict(pod, removed)` is true; `removed` are the ones before. After that, and for each pod that is added back,
    the preemptor must pass the Filter plugins, and `rejection(removed)` must be None. So a plugin that rejects pods in
    `pre_filter` for what other pods use tells which victims change that.

    Budgets, groups that are evicted as a whole and pods that are exempt count as always. Results are not cached.
    """

    may_evict: Callable[[PodInfo, Collection[PodInfo]], bool]
    rejection: Callable[[Collection[PodInfo]], Status | None]


class Preemption(Protocol):
    """An evaluator of preemption by kube-scheduler's rules, which finds victims without changing anything.

    Dry runs are for `post_filter`: they work only for the pod of the current cycle, others raise RuntimeError. A plugin
    that uses them needs PodDisruptionBudgets in its `watches`: unwatched budgets are not respected. A plugin that
    answers `Preempt` needs Pods there, with the verb `delete`, so that the scheduler can evict them.
    """

    def in_progress(self, pod: PendingPod) -> bool:
        """Return whether victims of this pod are still being evicted, so that it is too early to retry it.

        For `pre_enqueue`, whose plugin registers the deletion of pods so that the pods it gates are checked again.
        """

    def released(self) -> Collection[str] | None:
        """Return the uids of the pods whose last victim is terminating or gone; None if any pod may be one.

        For `affects` of that registration, since it can help only these.
        """

    @property
    def chosen_victims(self) -> Collection[str]:
        """The uids of the pods whose eviction is decided, until they are terminating or the eviction has failed.

        A plugin that adds up what pods use must not evict others for what these give back anyway.
        """

    def blocked_reason(
        self, pod: PendingPod, diagnosis: Diagnosis, *, rules: VictimRules | None = None
    ) -> Status | None:
        """Return why the pod may not preempt others now; None if it may.

        Its policy is Never, or pods that it could evict are still terminating on its nominated node, as victims.
        """

    def for_group(
        self, group: GenericPodGroup, pods: Sequence[PendingPod], find_nodes: FindNodes
    ) -> PreemptForGroup | Status:
        """Find the victims of a root in the whole cluster, for `pod_group_post_filter`, which has the arguments.

        Success: victims of it are still terminating on nodes that its pods are nominated to.
        """

    def victims(
        self, state: CycleState, pod: PendingPod, node: NodeInfo, *, rules: VictimRules | None = None
    ) -> Candidate | Status:
        """Dry-run one node: which pods must go, of lower priority or by the `rules`, or why that does not help."""

    def candidates(
        self,
        state: CycleState,
        pod: PendingPod,
        diagnosis: Diagnosis,
        *,
        percentage: int = 10,
        absolute: int = 100,
        rules: VictimRules | None = None,
    ) -> DryRunResult:
        """Dry-run the nodes where preemption may help, from a random start, until there are enough candidates.

        It may help if the rejection is Unschedulable. Enough is `percentage` of these nodes but at least `absolute` of
        them, and one that violates no budget. Victims have a lower priority, or are those that the `rules` allow.
        """

    def key(self, candidate: Candidate) -> Hashable:
        """Return the sort key of a candidate: the smallest is the node where preemption costs least.

        Fewest violated budgets, then the lowest of the highest priorities, the smallest sum of priorities, fewest pods,
        the latest start of the most important one; ties by node name.
        """


class Handle(Protocol):
    """A plugin's access to its scheduler; one per profile and plugin."""

    @property
    def profile_name(self) -> str:
        """The scheduler name of the plugin's profile."""

    @property
    def feature_gates(self) -> FeatureGates:
        """The minor of Kubernetes that the scheduler imitates, with its feature gates; they never change."""

    @property
    def nodes(self) -> NodeTable:
        """The nodes as the scheduler sees them now, assumed pods included.

        Read it only inside a cycle's hooks.
        """

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """The pods that are on nodes, assumed ones included, by uid."""

    @property
    def pending(self) -> Mapping[str, PendingPod]:
        """The unassigned pods of this scheduler, in their latest version, by uid."""

    @property
    def pod_groups(self) -> PodGroups:
        """The pods that name a PodGroup, of all schedulers, by group, and the trees of the groups that exist."""

    def objects(self, kind: type[T]) -> ObjectStore[T]:
        """Return the store of another kind, e.g. `objects(Namespace)`; kept current for kinds in `watches`.

        TypeError for Pod and Node, whose tables are `pods`, `pending` and `nodes`.
        """

    def on_change(self, kind: type[T], callback: Callable[[T | None, T | None], None]) -> None:
        """Call back with (old, new) whenever an object of the kind changes; None means absent."""

    def on_pod_change(self, callback: Callable[[PodInfo | None, PodInfo | None], None]) -> None:
        """Call back with (old, new) whenever one of `pods` changes, assumed ones included; None means absent.

        A pod is a PendingPod while it is only assumed, before Reserve, maybe in a what-if. Statements that add or
        remove pods are not reported, nor are pods that are there already: `pods` has these.
        """

    def on_pending_change(self, callback: Callable[[PendingPod | None, PendingPod | None], None]) -> None:
        """Call back with (old, new) whenever one of `pending` changes; None means absent.

        A pod stays pending until its binding is confirmed, so while it is assumed it is in `pods`, too.
        """

    def statement(self) -> Statement:
        """Open a what-if on the live tables; close it with `rollback` before the hook returns."""

    def fits(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        """Run this profile's Filter plugins on one node in its current state, inside a Statement for instance."""

    @property
    def preemption(self) -> Preemption:
        """The evaluator of preemption dry runs, for `post_filter`."""

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod of this uid."""

    def waiting_pods(self) -> Iterator[WaitingPod]:
        """List the pods that wait for Permit, oldest first."""

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move these pods to the active queue, whatever they wait for and however long their backoff.

        A pod that is being scheduled, including the one whose hook makes this call, is retried if it fails.
        """

    def nominated_pods(self, pod: PodInfo, node_name: str) -> Sequence[PodInfo]:
        """List the other pods nominated to a node that are at least as important: the pod must leave room for them."""

    @property
    def nominations(self) -> Mapping[str, str]:
        """The names of the nodes that pending pods of this scheduler are nominated to, by uid, whatever their priority.

        A plugin whose answers depend on them registers `EventResource.NOMINATED_POD`.
        """

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Keep room for the pod on the node, until it is scheduled or nominated elsewhere; "" takes it back."""

    def invalidate(self, *node_names: str) -> None:
        """Report that outside data changed this plugin's answers on these nodes; without names, on all."""

    def source(
        self,
        name: str,
        kind: type[V],
        fetch: Fetch[V],
        *,
        keyed_by: KeyedBy = "key",
        every: float = 15.0,
        jitter: float = 0.1,
        timeout: float | None = None,
        retry: float = 1.0,
        stale_after: float = 60.0,
        when_stale: WhenStale = "reject",
        wakes_pod: WakesPod[V] | None = None,
    ) -> Source[V]:
        """Declare a source of outside data, to be read in hooks; for the plugin's `__init__`.

        `kind` is the type of its values: plain data, a struct or a dataclass. `fetch` is a coroutine function that
        returns all values and is called again every `every` seconds, plus or minus the fraction `jitter`; or an async
        generator that yields them (all, or a SourceChange) at any time. `timeout` limits one fetch, or the silence of a
        generator: by default `hookTimeouts.source` (30 s) for the former, no limit for the latter. After a failure it
        is retried after `retry` seconds, twice as long each time up to `every`. Times are seconds.

        `stale_after` and `when_stale` define when its data is too old (math.inf: never), and what then happens to pods.

        When it changes, or becomes fresh again, the pods that this plugin rejected are retried, after their backoff:
        those for which `wakes_pod(pod, change)` is true; without it all, or with keyed_by="pod" those that the change
        names. Cached answers of the plugin are dropped: with keyed_by="node" those of `filter` and `score` for the
        nodes that the change names, else all.

        ValueError for invalid settings, or a name in use.
        """

    @property
    def sources(self) -> Mapping[str, Source[object]]:
        """The sources that this plugin has declared, by name."""

    def event(self, pod: PodInfo, *, reason: str, action: str, note: str, warning: bool = False) -> None:
        """Record a Kubernetes Event about the pod; written behind, never waited for."""

    def spawn(self, coroutine: Coroutine[object, object, None]) -> None:
        """Run a coroutine concurrently with the scheduler until it ends or the scheduler stops."""

    def has_received(self, obj: ApiObject) -> bool:
        """Return whether this very object has just arrived, so that what happens from now on is applied after it.

        A cluster in memory sends what a call has written before the call returns it.
        """

    async def shield(self, work: Awaitable[A]) -> A:
        """Await work of `pre_bind` to its end; a preemption meanwhile raises CancelledError after it.

        This way the outcome of an API call is always known. Only a stopping scheduler cancels it, and the hook's time
        limit unless the hook is in `own_timeouts`.
        """

    @property
    def clock(self) -> Clock:
        """The only source of time."""

    @property
    def random(self) -> Random:
        """This plugin's own generator, derived from the one seed.

        A plugin that signs draws nothing in its answers.
        """

    @property
    def api(self) -> Api:
        """The cluster's API, for hooks that may await."""
