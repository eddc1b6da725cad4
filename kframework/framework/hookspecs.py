"""The contract: every extension point of the scheduling framework, in the order in which a pod passes them.

A plugin is a class derived from `kframework.Plugin` with the hooks it needs marked `@hookimpl`. Each Protocol below is
one hook: both the pluggy specification, checked when a plugin is loaded, and the static type that type checkers apply
to the methods of every Plugin. Arguments are positional, so a hook takes exactly the arguments named here.

For every hook that answers a `Status`, None means Success. A *rejection* (Unschedulable, UnschedulableAndUnresolvable,
Pending) moves the pod to the unschedulable pool, from which the events of `events_to_register` release it. Any other
answer that is not expected at the point (Error, an exception, a wrong type) is a fault of the plugin: the attempt ends
as `SchedulerError` naming it, the pod backs off, the scheduler continues.

Arguments: `state` is the attempt's CycleState; `pod` the pod to schedule, read-only; `node` a NodeInfo; `nodes` the
NodeTable, `rows` a slice or int64 array of its rows; `node_name` a name, because from `reserve` on rows may be reused.
Hooks up to `permit` are plain functions that neither wait nor do I/O: no state changes while they run. `pre_bind`,
`bind` and `post_bind` may be `async def`.

A method marked `@hookwrapper` wraps a whole point once per cycle: it yields, receives the answer of the point, and
returns the answer to use. This works for `pre_enqueue`, `pre_filter`, `post_filter`, `pre_score`, `reserve`,
`unreserve` and `permit`; hooks that run per node or may await cannot be wrapped. The configuration defines the order,
so `tryfirst` and `trylast` are rejected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kframework.framework.group_hookspecs import (
    FilterMorePlugin,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupPostFilterPlugin,
    hookspec,
    not_implemented,
)

if TYPE_CHECKING:
    from kframework.framework.answers import ClearNomination, Diagnosis, NodeNames, Nominate, Preempt
    from kframework.framework.cycle_state import CycleState
    from kframework.framework.domain_limits import DomainLimit
    from kframework.framework.events import ClusterEvent
    from kframework.framework.suggestions import ChangeEstimates, Suggestions
    from kframework.state.nodes import NodeInfo, NodeTable
    from kframework.state.pods import PendingPod, PodInfo, QueuedPod
    from kframework.values.scores import Rows, Scores
    from kframework.values.status import Status, Wait

__all__ = [
    "AddPodPlugin",
    "BindPlugin",
    "EnqueueExtensions",
    "ExplainPlugin",
    "FilterDomainsPlugin",
    "FilterMorePlugin",
    "FilterNodesPlugin",
    "FilterPlugin",
    "FilterStatusPlugin",
    "PermitPlugin",
    "PlacementFeasiblePlugin",
    "PlacementGeneratePlugin",
    "PlacementScorePlugin",
    "PodGroupPostFilterPlugin",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreBindPreFlightPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreScorePlugin",
    "QueueSortPlugin",
    "RemovePodPlugin",
    "ReservePlugin",
    "ScoreExtensions",
    "ScoreNodesPlugin",
    "ScorePlugin",
    "SignPlugin",
    "SuggestNodesPlugin",
    "SuggestPlugin",
    "UnreservePlugin",
]


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """A hook that may gate a pod before it enters the active queue."""

    @hookspec
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        """Decide whether the pod may be tried at all.

        Any answer but Success gates the pod: it waits, without an attempt, for an event that this plugin registered.
        Called in no particular order among plugins, before every entry into the active and the backoff queue.
        """
        not_implemented()


@runtime_checkable
class QueueSortPlugin(Protocol):
    """Order the active queue.

    Exactly one per profile, the same in all profiles.
    """

    @hookspec
    def queue_sort(self, queued: QueuedPod) -> Hashable:
        """Return a sort key, lowest first; called once when the pod is queued and fixed until it is popped."""
        not_implemented()


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Name the events that can cure this plugin's rejections."""

    @hookspec
    def events_to_register(self) -> Sequence[ClusterEvent]:
        """List the cluster events that may make a pod schedulable that this plugin rejected; called once, at load.

        Without this hook every event on the kinds of kube-scheduler's default list wakes the pod. With an empty list
        none does, not even the pod's own update: only the flush of the unschedulable pool, after five minutes.
        """
        not_implemented()


@runtime_checkable
class SignPlugin(Protocol):
    """A hook that returns what the plugin's answers for a pod depend on, so that they can be cached."""

    @hookspec
    def sign(self, pod: PendingPod) -> Hashable | None:
        """Return a value that pods with equal answers share, or None: call the plugin in every cycle.

        With `NOTHING` the plugin skips such pods at every extension point from PreFilter to PostBind, so it is not
        called there (PostFilter also concerns other pods, and is called).

        Signing promises that `pre_filter`, `filter`, `pre_score`, `score` and, for equal scores, `normalize_score` for
        this pod depend only on the signature, on the Args and on what `reads` declares of the node; that they draw no
        random number; and that `pre_filter` and `pre_score` depend on neither the nodes they are given nor the state of
        plugins that do not sign. With `reads = "domains"`, `pre_score` and what follows from it may depend on the nodes
        that are scored. Called in every attempt, or whenever an object of `sign_reads` has changed, so it may
        return `NOTHING` for now, even if other objects can change that (KEP-5598 has the same idea for whole pods).
        """
        not_implemented()


@runtime_checkable
class PreFilterPlugin(Protocol):
    """Look at the pod once before any node is looked at."""

    @hookspec
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | NodeNames | None:
        """Check the pod, prepare `state` for `filter`, narrow the nodes.

        None: continue. `Skip`: this plugin's `filter` is skipped for this pod. A set of node names: only these are
        filtered (the sets of several plugins are intersected). Unschedulable: the attempt fails, but later `pre_filter`
        hooks still run, so that preemption finds their state. UnschedulableAndUnresolvable: the attempt fails at once.
        """
        not_implemented()


@runtime_checkable
class AddPodPlugin(Protocol):
    """A hook that updates what `pre_filter` stored when a what-if adds a pod."""

    @hookspec
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        """Update `state` for `other`, which was added to the node.

        Anything but Success is a fault.
        """
        not_implemented()


@runtime_checkable
class RemovePodPlugin(Protocol):
    """A hook that updates what `pre_filter` stored when a what-if removes a pod."""

    @hookspec
    def remove_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        """Update `state` for `other`, which was removed from the node.

        Anything but Success is a fault.
        """
        not_implemented()


@runtime_checkable
class FilterPlugin(Protocol):
    """A hook that decides on which nodes the pod can run.

    Implement `filter` for one node; add `filter_nodes`, its columnar form, if many nodes at once are much cheaper. A
    plugin may also have only the columnar form. They must agree: `kframework.testing.check_plugin` compares them.
    """

    @hookspec
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        """Return whether the pod can run on this node.

        The first rejection in configured order is the node's reason.

        Unschedulable: preemption on this node may help. UnschedulableAndUnresolvable: it cannot.
        """
        not_implemented()


@runtime_checkable
class FilterNodesPlugin(Protocol):
    """The columnar form of `filter`, for many nodes at once."""

    @hookspec
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        """Answer one integer per row: 0 = passes, else reason bits of the plugin's own (up to 32 bits)."""
        not_implemented()


@runtime_checkable
class FilterDomainsPlugin(Protocol):
    """The form of `filter` by domain, for a plugin with `reads = "domains"`; the others follow from it."""

    @hookspec
    def filter_domains(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Sequence[DomainLimit]:
        """List the limits that a node must keep; the first one that it does not keep is its reason.

        Called in each cycle before which pods moved. Only the domains of those pods are then looked at again, unless a
        limit has changed. It is called even after a `Skip` of `pre_filter`, which is not remembered.
        """
        not_implemented()


@runtime_checkable
class FilterStatusPlugin(Protocol):
    """A hook that converts the answers of `filter_nodes` or `filter_domains` to Statuses; required with them."""

    @hookspec
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        """Turn reason bits into the Status that `filter` gives for the same node."""
        not_implemented()


@runtime_checkable
class ExplainPlugin(Protocol):
    """A hook that gives details of a rejection, for `kframework explain`."""

    @hookspec
    def explain(self, state: CycleState, pod: PendingPod, node: NodeInfo, status: Status) -> Sequence[str]:
        """Return the reasons behind `status`, this plugin's own rejection of the pod on the node, line by line.

        A line that continues the previous one begins with two spaces. It is called for a few of the nodes that are
        rejected for a reason, and not while pods are scheduled, so it may read everything. `state` is as `pre_filter`
        left it.
        """
        not_implemented()


@runtime_checkable
class SuggestPlugin(Protocol):
    """A hook that suggests changes to resolve this plugin's rejections, for `kframework explain`.

    A `Suggestion` is one change; a tuple is several changes made together. It is no promise: each is tried in a what-if
    in which all plugins run again, and unneeded parts are left out. This hook does not run while pods are scheduled.

    For a plugin without this hook that answers Unschedulable, the pods on the node may be the reason: removing them is
    tried instead, one or another.
    """

    @hookspec
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        """List the changes that may resolve `status`, this plugin's own rejection of the pod on the node; best first.

        `node` is None if the pod is rejected as a whole: by `pre_enqueue`, by `pre_filter`, or by node names that do
        not exist. `state` is as `pre_filter` left it, if that ran. The tables are as at the rejection, possibly inside
        a what-if; pods nominated to the node are not on it (`handle.nominated_pods`).
        """
        not_implemented()


@runtime_checkable
class SuggestNodesPlugin(Protocol):
    """A hook that estimates where suggestions are worth trying first."""

    @hookspec
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        """Estimate the number of cluster changes, those of the pod aside, in the suggestions for each row.

        Rows with low numbers are tried first. A change that is smaller than others counts as a fraction of one; 1000
        more mean that no change of the cluster is known to help. Without this hook, nodes that are rejected with the
        same Status are assumed to need one change if any is suggested on a few of them, and else to be beyond help. It
        is called with a part of the nodes at a time.
        """
        not_implemented()


@runtime_checkable
class PostFilterPlugin(Protocol):
    """A hook that runs if no node is feasible, for preemption for instance."""

    @hookspec
    def post_filter(
        self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis
    ) -> Preempt | Nominate | ClearNomination | Status | None:
        """Propose what would make the pod schedulable; change nothing here.

        Preempt: the engine picks a candidate, nominates its node and evicts. Nominate: reserve a node for the pod.
        ClearNomination: clear an earlier nomination. None or a bare Status: keep it. The Status decides how to
        continue: Success and UnschedulableAndUnresolvable end it, Unschedulable lets the next plugin try, an error ends
        it and drops the result. The attempt fails in any case; its message contains the reasons given here.
        """
        not_implemented()


@runtime_checkable
class PreScorePlugin(Protocol):
    """Look at the pod once before the feasible nodes are scored."""

    @hookspec
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        """Prepare `state` for `score`; `Skip` if this plugin scores all nodes equally."""
        not_implemented()


@runtime_checkable
class ScorePlugin(Protocol):
    """Rank the feasible nodes.

    Scores, after normalising, lie in 0..100 and are multiplied by the plugin's weight.
    """

    @hookspec
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        """Return this node's score; without `normalize_score` it must lie in 0..100."""
        not_implemented()


@runtime_checkable
class ScoreNodesPlugin(Protocol):
    """The columnar form of `score`, for many nodes at once."""

    @hookspec
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        """Return one score per row, or one integer for all: the columnar twin of `score`."""
        not_implemented()


@runtime_checkable
class ScoreExtensions(Protocol):
    """Bring scores to the common scale."""

    @hookspec
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        """Bring the scores of the feasible nodes (int64) to 0..100; return new ones, or one integer for all."""
        not_implemented()


@runtime_checkable
class ReservePlugin(Protocol):
    """A hook that updates the plugin's own data for a pod that is about to be bound."""

    @hookspec
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        """Reserve what the pod needs on the chosen node.

        A rejection or a fault unreserves every plugin.
        """
        not_implemented()


@runtime_checkable
class UnreservePlugin(Protocol):
    """A hook that undoes `reserve`, for a pod that is not bound after all."""

    @hookspec
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        """Undo `reserve`.

        Called in reverse order, for every plugin, even one whose `reserve` never ran: idempotent.
        """
        not_implemented()


@runtime_checkable
class PermitPlugin(Protocol):
    """A hook that approves, rejects or delays the binding."""

    @hookspec
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Wait | None:
        """Approve, reject, or `Wait(seconds)`.

        A waiting pod stays reserved until every waiting plugin allows it through the handle, one rejects it, or the
        earliest timeout does; at most 15 minutes. Other pods are scheduled meanwhile.
        """
        not_implemented()


@runtime_checkable
class PreBindPreFlightPlugin(Protocol):
    """A hook that returns in advance whether `pre_bind` has work to do."""

    @hookspec
    def pre_bind_pre_flight(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        """Return whether `pre_bind` has work: None = yes (also if this hook is absent), `Skip` = no.

        While there is work, `status.nominatedNodeName` announces the node (KEP-5278).
        """
        not_implemented()


@runtime_checkable
class PreBindPlugin(Protocol):
    """A hook for work before the pod is bound, e.g. provisioning a volume."""

    @hookspec
    def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Awaitable[Status | None] | None:
        """Do the work.

        A rejection or a fault undoes the reservation and the pod backs off.
        """
        not_implemented()


@runtime_checkable
class BindPlugin(Protocol):
    """Bind the pod to its node."""

    @hookspec
    def bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Awaitable[Status | None] | None:
        """Bind, or answer `Skip` to leave it to the next plugin; the first that does not skip decides."""
        not_implemented()


@runtime_checkable
class PostBindPlugin(Protocol):
    """A hook that runs after the pod is bound."""

    @hookspec
    def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Awaitable[None] | None:
        """Clean up or count; errors no longer affect the pod."""
        not_implemented()


class Hooks(
    PreEnqueuePlugin,
    QueueSortPlugin,
    EnqueueExtensions,
    SignPlugin,
    PreFilterPlugin,
    AddPodPlugin,
    RemovePodPlugin,
    FilterPlugin,
    FilterNodesPlugin,
    FilterDomainsPlugin,
    FilterStatusPlugin,
    FilterMorePlugin,
    ExplainPlugin,
    SuggestPlugin,
    SuggestNodesPlugin,
    PostFilterPlugin,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupPostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ScoreNodesPlugin,
    ScoreExtensions,
    ReservePlugin,
    UnreservePlugin,
    PermitPlugin,
    PreBindPreFlightPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """All hooks of the contract, in the order above; type checkers take it for a base of every Plugin."""


#: Every Protocol of the contract, in the order above.
SPECIFICATIONS: tuple[type, ...] = Hooks.__bases__
