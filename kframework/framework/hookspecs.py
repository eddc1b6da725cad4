"""The contract: every extension point of the scheduling framework, in the order in which a pod meets them.

A plugin is a class deriving from `kframework.Plugin` with the hooks it needs marked `@hookimpl`. Each Protocol below is
one hook: at once the pluggy specification, checked when a plugin is loaded, and the static type, against which type
checkers hold the methods of every Plugin. Arguments go by position, so a hook takes exactly the arguments named here.

For every hook that answers a `Status`, None means Success. A *rejection* (Unschedulable, UnschedulableAndUnresolvable,
Pending) sends the pod to the unschedulable pool, from which the events of `events_to_register` release it. Anything
else that is not expected at the point (Error, an exception, a wrong type) is a fault of the plugin: the attempt ends
as `SchedulerError` naming it, the pod backs off, the scheduler lives.

Arguments: `state` is the attempt's CycleState; `pod` the pod to schedule, read-only; `node` a NodeInfo; `nodes` the
NodeTable, `rows` a slice or int64 array of its rows; `node_name` a name, because from `reserve` on rows may be reused.
Hooks up to `permit` are plain functions that neither wait nor do I/O: the cluster stands still while they run.
`pre_bind`, `bind` and `post_bind` may be `async def`.

A method marked `@hookwrapper` wraps a whole point once per cycle: it yields, receives what the point answered, and
returns the answer to go on with. So it is for `pre_enqueue`, `pre_filter`, `post_filter`, `pre_score`,
`reserve`, `unreserve` and `permit`; what is asked per node, and what may await, cannot be wrapped. Order comes from the
configuration, so `tryfirst` and `trylast` are refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, runtime_checkable

import pluggy

if TYPE_CHECKING:
    from kframework.framework.answers import ClearNomination, Diagnosis, NodeNames, Nominate, Preempt
    from kframework.framework.cycle_state import CycleState
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
    "FilterNodesPlugin",
    "FilterPlugin",
    "FilterStatusPlugin",
    "PermitPlugin",
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

hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker("kframework")


def unimplemented() -> NoReturn:
    """Raise NotImplementedError; each hook says so because a body of a docstring alone makes it abstract for mypy."""
    raise NotImplementedError("a hook that a plugin does not mark is not asked")


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """Hold a pod back before it enters the active queue."""

    @hookspec
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        """Say whether the pod may be tried at all.

        Any answer but Success gates the pod: it waits, without an attempt, for an event that this plugin registered.
        Called in no particular order among plugins, on every way into the active and the backoff queue.
        """
        unimplemented()


@runtime_checkable
class QueueSortPlugin(Protocol):
    """Order the active queue.

    Exactly one per profile, the same in all profiles.
    """

    @hookspec
    def queue_sort(self, queued: QueuedPod) -> Hashable:
        """Return a key that orders, lowest first; asked once when the pod is queued and frozen until it is popped."""
        unimplemented()


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Name the events that can cure this plugin's rejections."""

    @hookspec
    def events_to_register(self) -> Sequence[ClusterEvent]:
        """List the cluster events that may make a pod schedulable that this plugin rejected; asked once, at load.

        Without this hook every event on the kinds of kube-scheduler's default list wakes the pod. An empty list means
        none does, not even the pod's own update: only the flush of the unschedulable pool, after five minutes.
        """
        unimplemented()


@runtime_checkable
class SignPlugin(Protocol):
    """Say what this plugin's answers for a pod depend on, so that they can be remembered."""

    @hookspec
    def sign(self, pod: PendingPod) -> Hashable | None:
        """Return a value that equal answers share, or None: ask me in every cycle.

        `NOTHING` says more: this plugin has nothing to say about such pods at any extension point from PreFilter to
        PostBind, so it is not asked there (PostFilter is about other pods too, and asks).

        Signing promises that `pre_filter`, `filter`, `pre_score`, `score` and, of equal scores, `normalize_score` for
        this pod depend only on the signature, on the Args and on what `reads` declares of the node; that they draw no
        random number; and that `pre_filter` and `pre_score` depend on neither the nodes they are given nor the state of
        plugins that do not sign. Asked in every attempt, or whenever what `sign_reads` names has changed, so it may say
        of now that there is nothing to say, where other objects can change that (KEP-5598 has the same idea for whole
        pods).
        """
        unimplemented()


@runtime_checkable
class PreFilterPlugin(Protocol):
    """Look at the pod once before any node is looked at."""

    @hookspec
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | NodeNames | None:
        """Check the pod, prepare `state` for `filter`, narrow the nodes.

        None: go on. `Skip`: this plugin's `filter` has nothing to say about this pod. A set of node names: only these
        are worth looking at (the sets of several plugins are intersected). Unschedulable: the attempt fails, but later
        `pre_filter` hooks still run, so that preemption finds their state. UnschedulableAndUnresolvable: the attempt
        fails at once.
        """
        unimplemented()


@runtime_checkable
class AddPodPlugin(Protocol):
    """Keep what `pre_filter` stored true while pods are added in a what-if."""

    @hookspec
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        """Account for `other`, which has been put on the node.

        Anything but Success is a fault.
        """
        unimplemented()


@runtime_checkable
class RemovePodPlugin(Protocol):
    """Keep what `pre_filter` stored true while pods are removed in a what-if."""

    @hookspec
    def remove_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        """Account for `other`, which has been taken off the node.

        Anything but Success is a fault.
        """
        unimplemented()


@runtime_checkable
class FilterPlugin(Protocol):
    """Say on which nodes the pod can run.

    Implement `filter` for one node; add `filter_nodes`, its columnar twin, when many nodes at once are much cheaper. A
    plugin may also have only the twin. They must agree: `kframework.testing.check_plugin` compares them.
    """

    @hookspec
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        """Say whether the pod can run on this node.

        The first rejection in configured order is the node's reason.

        Unschedulable: preemption on this node may help. UnschedulableAndUnresolvable: it cannot.
        """
        unimplemented()


@runtime_checkable
class FilterNodesPlugin(Protocol):
    """Say it of many nodes at once, as `filter` says it of each."""

    @hookspec
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        """Answer one integer per row: 0 = passes, else reason bits of the plugin's own (up to 32 bits)."""
        unimplemented()


@runtime_checkable
class FilterStatusPlugin(Protocol):
    """Put the answers of `filter_nodes` into words; who has that has this."""

    @hookspec
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        """Turn reason bits of `filter_nodes` into the Status that `filter` gives for the same node."""
        unimplemented()


@runtime_checkable
class ExplainPlugin(Protocol):
    """Say in more words why a node is rejected, for `kframework explain`."""

    @hookspec
    def explain(self, state: CycleState, pod: PendingPod, node: NodeInfo, status: Status) -> Sequence[str]:
        """Return what is behind `status`, this plugin's own rejection of the pod on the node, line by line.

        A line that belongs to the one before begins with two spaces. It is asked about a few of the nodes that are
        rejected for a reason, and not while pods are scheduled, so it may look at everything. `state` is what
        `pre_filter` made of it.
        """
        unimplemented()


@runtime_checkable
class SuggestPlugin(Protocol):
    """Say what would answer this plugin's rejections, for `kframework explain`.

    A `Suggestion` is one change; a tuple stands for several that are made together. It is no promise: each is tried
    in a what-if in which all plugins run again, and what is not needed of it is left out. This hook does not run while
    pods are scheduled.

    Of a plugin without this hook it is only known that, where it answers Unschedulable, the pods on the node may be
    in the way: one or another of them is tried without.
    """

    @hookspec
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        """List the changes that may answer `status`, this plugin's own rejection of the pod on the node; best first.

        `node` is None where the pod is rejected as a whole: by `pre_enqueue`, by `pre_filter`, or by node names of
        which none is there. `state` is what `pre_filter` made of it, if it came so far. The tables are as the
        rejection saw them, in the middle of a what-if perhaps; pods nominated to the node are not on it
        (`handle.nominated_pods`).
        """
        unimplemented()


@runtime_checkable
class SuggestNodesPlugin(Protocol):
    """Say where suggestions are worth trying first."""

    @hookspec
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        """Estimate how many changes of the cluster, those of the pod aside, `suggest` comes to on each of these rows.

        It says where to look first. A change that is smaller than others counts as a fraction of one; 1000 more say
        that no change of the cluster is known to help. Without this hook, nodes that are rejected with the same Status
        are taken to need one change if any is suggested on a few of them, and else to be beyond help. It is asked about
        many nodes some at a time.
        """
        unimplemented()


@runtime_checkable
class PostFilterPlugin(Protocol):
    """Find a way out when no node was feasible, by preemption for instance."""

    @hookspec
    def post_filter(
        self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis
    ) -> Preempt | Nominate | ClearNomination | Status | None:
        """Propose what would make the pod schedulable; change nothing here.

        Preempt: the engine picks a candidate, nominates its node and evicts. Nominate: keep a node for the pod.
        ClearNomination: take an earlier nomination back. None or a bare Status: keep it as it is. The Status says how
        the search went on: Success and UnschedulableAndUnresolvable end it, Unschedulable lets the next plugin try, an
        error ends it and drops the result. The attempt fails in any case; its message carries the reasons given here.
        """
        unimplemented()


@runtime_checkable
class PreScorePlugin(Protocol):
    """Look at the pod once before the feasible nodes are scored."""

    @hookspec
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        """Prepare `state` for `score`; `Skip` when this plugin scores every node alike."""
        unimplemented()


@runtime_checkable
class ScorePlugin(Protocol):
    """Rank the feasible nodes.

    Scores, after normalising, lie in 0..100 and are multiplied by the plugin's weight.
    """

    @hookspec
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        """Return this node's score; without `normalize_score` it must lie in 0..100."""
        unimplemented()


@runtime_checkable
class ScoreNodesPlugin(Protocol):
    """Rank many nodes at once, as `score` ranks each."""

    @hookspec
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        """Return one score per row, or one integer for all: the columnar twin of `score`."""
        unimplemented()


@runtime_checkable
class ScoreExtensions(Protocol):
    """Bring scores to the common scale."""

    @hookspec
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        """Bring the scores of the feasible nodes (int64) to 0..100; return new ones, or one integer for all."""
        unimplemented()


@runtime_checkable
class ReservePlugin(Protocol):
    """Keep books beside the scheduler's own, for a pod that is about to be bound."""

    @hookspec
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        """Claim what the pod needs on the chosen node.

        A rejection or a fault unreserves every plugin.
        """
        unimplemented()


@runtime_checkable
class UnreservePlugin(Protocol):
    """Take back what `reserve` claimed, for a pod that is not bound after all."""

    @hookspec
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        """Undo `reserve`.

        Called in reverse order, for every plugin, even one whose `reserve` never ran: idempotent.
        """
        unimplemented()


@runtime_checkable
class PermitPlugin(Protocol):
    """Have the last word before binding, or delay it."""

    @hookspec
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Wait | None:
        """Approve, reject, or `Wait(seconds)`.

        A waiting pod keeps its place until every waiting plugin allows it through the handle, one rejects it, or the
        earliest timeout does; at most 15 minutes. Other pods are scheduled meanwhile.
        """
        unimplemented()


@runtime_checkable
class PreBindPreFlightPlugin(Protocol):
    """Say beforehand whether `pre_bind` has work to do."""

    @hookspec
    def pre_bind_pre_flight(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        """Say whether `pre_bind` has work to do: None = yes (also when this hook is absent), `Skip` = nothing to do.

        While there is work, `status.nominatedNodeName` announces the node (KEP-5278).
        """
        unimplemented()


@runtime_checkable
class PreBindPlugin(Protocol):
    """Do the work that must be done before the pod is bound, e.g. provision a volume."""

    @hookspec
    def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Awaitable[Status | None] | None:
        """Do the work.

        A rejection or a fault undoes the reservation and the pod backs off.
        """
        unimplemented()


@runtime_checkable
class BindPlugin(Protocol):
    """Bind the pod to its node."""

    @hookspec
    def bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Awaitable[Status | None] | None:
        """Bind, or answer `Skip` to leave it to the next plugin; the first that does not skip decides."""
        unimplemented()


@runtime_checkable
class PostBindPlugin(Protocol):
    """Take notice of a bound pod."""

    @hookspec
    def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Awaitable[None] | None:
        """Clean up or count; nothing can fail any more."""
        unimplemented()


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
    FilterStatusPlugin,
    ExplainPlugin,
    SuggestPlugin,
    SuggestNodesPlugin,
    PostFilterPlugin,
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
