"""The cluster as the scheduler sees it: live tables, including assumed pods.

Only the inbox and the cycle change it, so between two changes the tables *are* the snapshot; nothing is copied.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TypeVar

from kframework.errors import KFrameworkError
from kframework.objects import CompositePodGroup, Node, Pod, PodGroup, PodStatus
from kframework.objects.requests import max_of_totals, reports_resources, sum_of_maxima
from kframework.state.group_trees import GroupTrees
from kframework.state.log import Log
from kframework.state.nodes import NodeTable
from kframework.state.objects import ObjectStore
from kframework.state.pod_groups import PodGroups
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.statement import Statement
from kframework.state.undo_log import UndoLog
from kframework.state.waiting import WaitingPods
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates

T = TypeVar("T")


class AssumeError(KFrameworkError):
    """Raised when a pod cannot be assumed because it is already on a node."""

    def __init__(self, pod: PodInfo) -> None:
        super().__init__(f"pod {pod.uid}({pod.key}) is in the cache, so can't be assumed")


class ClusterState:
    """Nodes, the pods on them, nominations, reserved pods and all other objects.

    A pod whose node is unknown stays in `pods` with row -1 and is placed when the node appears.
    """

    def __init__(self, feature_gates: FeatureGates = DEFAULT_GATES) -> None:
        self.feature_gates: FeatureGates = feature_gates
        #: What attempts change in these tables; closed unless there are shadows.
        self.undo_log: UndoLog = UndoLog()
        self.nodes: NodeTable = NodeTable()
        self.interner: TemplateInterner = TemplateInterner(sum_of_maxima if feature_gates.is_1_36 else max_of_totals)
        #: The pods that are assigned to a node or assumed on one, by uid.
        self.pods: dict[str, PodInfo] = {}
        #: The number of these pods by priority.
        self.priorities: Counter[int] = Counter()
        #: The latest version of this scheduler's pods that are not bound, by uid.
        self.pending: dict[str, PendingPod] = {}
        #: The uids of pods that are assumed and not yet confirmed.
        self.assumed: set[str] = set()
        self.nominator: Nominator = Nominator(self.undo_log)
        self.groups: PodGroups = PodGroups(GroupTrees(feature_gates.has_group_trees))
        self.waiting: WaitingPods = WaitingPods(self.undo_log)
        #: Open statements, oldest first.
        self.statements: list[Statement] = []
        self._stores: dict[type, ObjectStore[object]] = {}
        self._signed_objects = 0
        self._followed: set[type[object]] = set()
        self._orphans: dict[str, dict[str, PodInfo]] = {}
        self._pod_callbacks: list[Callable[[PodInfo | None, PodInfo | None], None]] = []
        self.pending_callbacks: list[Callable[[PendingPod | None, PendingPod | None], None]] = []
        if feature_gates.has_pod_groups:
            self.objects(PodGroup).on_change(self.groups.trees.apply)
        if feature_gates.has_group_trees:
            self.objects(CompositePodGroup).on_change(self.groups.trees.apply)

    def objects(self, kind: type[T]) -> ObjectStore[T]:
        """Return the store of a kind."""
        if kind not in self._stores:
            self._stores[kind] = ObjectStore(self.undo_log)
        return self._stores[kind]  # type: ignore[return-value]  # a cast is a call more

    @property
    def epoch(self) -> int:
        """A counter of changes that `sign` may read besides the pod: set of nodes, terms in use, objects of kinds."""
        return self.nodes.generation + self.nodes.existing_terms.version + self._signed_objects

    def follow_kinds(self, kinds: Iterable[type[object]]) -> None:
        """Start a new epoch whenever an object of these kinds changes."""
        for kind in dict.fromkeys(kinds):
            if kind not in self._followed:
                self._followed.add(kind)
                self.objects(kind).on_change(self._begin_epoch)

    def _begin_epoch(self, old: object, new: object) -> None:
        self._signed_objects += 1

    def statement(self) -> Statement:
        """Open a what-if statement."""
        return Statement(self)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> Node | None:
        """Add a node, or replace its object; return the object before."""
        old = self.nodes.put(node)
        if old is None:
            for pod in self._orphans.pop(node.metadata.name, {}).values():
                self._add_to_node(pod)
        return old

    def remove_node(self, name: str) -> Node | None:
        """Take a node out; its pods wait for it as orphans until they are deleted too."""
        removed = self.nodes.remove(name)
        if removed is None:
            return None
        node, pods = removed
        if pods:
            self._orphans[name] = {pod.uid: pod for pod in pods}
        return node

    # -- pods ----------------------------------------------------------------------------------------------------------

    def on_pod_change(self, callback: Callable[[PodInfo | None, PodInfo | None], None]) -> None:
        """Call back with (old, new) whenever one of `pods` changes; None means absent."""
        self._pod_callbacks.append(callback)

    def on_pending_change(self, callback: Callable[[PendingPod | None, PendingPod | None], None]) -> None:
        """Call back with (old, new) whenever one of this scheduler's pending pods changes; None means absent."""
        self.pending_callbacks.append(callback)

    def stop_calling(self, callback: Callable[..., None]) -> None:
        """Undo one `on_pod_change` or `on_pending_change` of this callback."""
        for callbacks in (self._pod_callbacks, self.pending_callbacks):
            if callback in callbacks:
                callbacks.remove(callback)
                return

    def _store_pod(self, old: PodInfo | None, new: PodInfo) -> None:
        self.pods[new.uid] = new
        if old is None:
            self.priorities[new.priority] += 1
        elif old.priority != new.priority:
            self._uncount(old.priority)
            self.priorities[new.priority] += 1
        for callback in self._pod_callbacks:
            callback(old, new)

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Put a pending pod on its chosen node before the API knows; AssumeError if it is already on one."""
        if pod.uid in self.pods:
            raise AssumeError(pod)
        pod.node_name = node_name
        self._store_pod(None, pod)
        self.assumed.add(pod.uid)
        self._add_to_node(pod)
        if pod.group:
            self.groups.assume(pod.uid)
        if self.undo_log.is_open:
            self.undo_log.record(partial(self._take_back, pod), partial(self.assume, pod, node_name))

    def forget(self, uid: str) -> PodInfo | None:
        """Undo the assumption of a pod; return None if it is not assumed (any more).

        Returns a copy of the pod that still names its node, so that callers can report what was freed.
        """
        if uid not in self.assumed:
            return None
        pod = self.pods[uid]
        was = copy.copy(pod)
        was.row = -1
        self._take_back(pod)
        if self.undo_log.is_open:
            self.undo_log.record(partial(self.assume, pod, was.node_name), partial(self._take_back, pod))
        return was

    def _take_back(self, pod: PodInfo) -> None:
        """Take an assumed pod off its node."""
        self.remove_pod(pod.uid)
        pod.node_name = ""
        if pod.group:
            self.groups.forget(pod.uid)

    def put_pod(self, pod: Pod) -> PodInfo | None:
        """Apply an assigned pod from the API; return the PodInfo before, the assumed one if this confirms it."""
        uid = pod.metadata.uid
        old = self.pods.get(uid)
        new = PodInfo(pod, self.interner, old)
        if old is not None:
            _share_names(old, new)
        if new.group:
            self.groups.assign(uid, (new.namespace, new.group))
            if new.terminating:
                self.groups.terminate(uid)
        if old is None or old.row != self.nodes.row(new.node_name) or not old.has_same_requests(new):
            self.remove_pod(uid)
            self._store_pod(None, new)
            self._add_to_node(new)
        elif uid in self.assumed or not old.is_equivalent(new):
            self.assumed.discard(uid)
            self._store_pod(old, new)
            self.nodes.replace_pod(old, new)
            self._drop_stale_counts(new)
        return old

    def confirm(self, assumed: PendingPod, pod: Pod) -> bool:
        """Confirm an assumed pod that the API reports bound to its node and otherwise unchanged, else return False."""
        uid, row = assumed.uid, assumed.row
        if self.pods.get(uid) is not assumed or uid not in self.assumed or row < 0:
            return False
        if pod.spec.node_name != assumed.node_name or assumed.is_resized:
            return False
        metadata, labels = pod.metadata, assumed.label_class
        if metadata.labels != labels.labels:
            labels = self.interner.label_class(metadata.namespace, metadata.labels, labels.terminating)
        self.assumed.discard(uid)
        confirmed = assumed.to_bound(labels)
        self._store_pod(assumed, confirmed)
        self.nodes.confirm_pod(assumed, confirmed)
        if labels is not assumed.label_class or assumed.nominated_node_name:  # nothing else can differ
            self.nodes.pod_log.append(row)
        if assumed.group:
            self.groups.assign(uid, (assumed.namespace, assumed.group))
        return True

    def put_status(self, known: PodInfo, status: PodStatus) -> bool:
        """Take in the status of a pod on a node; False if it is only assumed there, or its room may have changed."""
        if known.row < 0 or known.uid in self.assumed or known.is_resized or reports_resources(status):
            return False
        new = known.with_status(status)
        if new is not known:
            self._store_pod(known, new)
            self.nodes.replace_pod(known, new)
            self._drop_stale_counts(new)
        return True

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Take a pod out, assumed or not; None if it is unknown."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return None
        self._uncount(pod.priority)
        self.assumed.discard(uid)
        for callback in self._pod_callbacks:
            callback(pod, None)
        if pod.row >= 0:
            self.nodes.remove_pod(pod)
        elif pod.node_name in self._orphans:
            orphans = self._orphans[pod.node_name]
            orphans.pop(uid, None)  # a statement may have removed it from an existing node
            if not orphans:
                del self._orphans[pod.node_name]
        return pod

    def _uncount(self, priority: int) -> None:
        self.priorities[priority] -= 1
        if not self.priorities[priority]:
            del self.priorities[priority]

    def _add_to_node(self, pod: PodInfo) -> None:
        row = self.nodes.row(pod.node_name)
        if row is None:
            self._orphans.setdefault(pod.node_name, {})[pod.uid] = pod
        else:
            self.nodes.add_pod(pod, row)
            self._drop_stale_counts(pod)

    def _drop_stale_counts(self, pod: PodInfo) -> None:
        """Drop counts of pods with such labels that are not worth keeping, unless a what-if uses them."""
        counters = self.nodes.counters
        if (pod.label_class.counts or counters.sweep_is_due) and not self.statements:
            counters.drop_stale(pod.label_class)


#: The minimum number of changes kept; a reader further behind reads all nominations again.
_LOG_SIZE = 1024


class Nominator:
    """The nominations of pending pods to nodes; a pod has at most one.

    `log` has the names of the nodes whose nominated pods changed.
    """

    def __init__(self, undo_log: UndoLog | None = None) -> None:
        self._undo_log = UndoLog() if undo_log is None else undo_log
        #: The nodes by the uid of the pod that is nominated to them.
        self.nodes: dict[str, str] = {}
        self._pods_on: dict[str, dict[str, PodInfo]] = {}
        self.log: Log[str] = Log(_LOG_SIZE)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominate the pod to a node, instead of any other; "" takes the nomination back."""
        self.remove(pod.uid)
        if node_name:
            self.nodes[pod.uid] = node_name
            self._pods_on.setdefault(node_name, {})[pod.uid] = pod
            self.log.append(node_name)
            if self._undo_log.is_open:
                self._undo_log.record(partial(self.remove, pod.uid), partial(self.nominate, pod, node_name))

    def remove(self, uid: str) -> None:
        """Forget the pod's nomination, if it has one."""
        node_name = self.nodes.pop(uid, None)
        if node_name is not None:
            pods = self._pods_on[node_name]
            if self._undo_log.is_open:
                self._undo_log.record(partial(self._restore, uid, node_name, dict(pods)), partial(self.remove, uid))
            del pods[uid]
            if not pods:
                del self._pods_on[node_name]
            self.log.append(node_name)

    def _restore(self, uid: str, node_name: str, pods: dict[str, PodInfo]) -> None:
        """Undo `remove`: `pods` were nominated to the node before."""
        self.nodes[uid], self._pods_on[node_name] = node_name, pods
        self.log.append(node_name)

    def nominated_node(self, uid: str) -> str:
        """Return the node to which the pod is nominated, "" if there is none."""
        return self.nodes.get(uid, "")

    def nominated_pods_for_node(self, pod: PodInfo, node_name: str) -> list[PodInfo]:
        """List the other pods that were nominated to a node and are at least as important as this one."""
        pods = self._pods_on.get(node_name)
        if pods is None:
            return []
        return [other for other in pods.values() if other.priority >= pod.priority and other.uid != pod.uid]

    @property
    def node_names(self) -> Collection[str]:
        """The nodes to which pods are nominated."""
        return self._pods_on.keys()

    def lower_priority(self, pod: PodInfo, node_name: str) -> list[PodInfo]:
        """List the pods nominated to a node that are less important than this one."""
        return [other for other in self._pods_on.get(node_name, {}).values() if other.priority < pod.priority]

    def __len__(self) -> int:
        return len(self.nodes)


def _share_names(old: PodInfo, new: PodInfo) -> None:
    """Replace the strings of a pod by those of its version before: each decoded pod has its own, 200 bytes."""
    new.uid, new.name = old.uid, old.name
    if new.node_name == old.node_name:
        new.node_name = old.node_name
