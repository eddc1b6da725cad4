"""The garbage collector of pods, as kube-controller-manager's, except for nodes that never existed here.

It reconciles changed objects, instead of all pods every twenty seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace

from kframework.client.transitions import has_ended, with_condition
from kframework.clock import Clock
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Node, Pod, PodCondition

#: The delay between the deletion of a node and that of its pods, in seconds.
_QUARANTINE = 40.0
#: The delay of all other checks, in seconds: the interval of kube-controller-manager.
_PERIOD = 20.0
#: The number of terminated pods that are kept.
TERMINATED_POD_THRESHOLD = 12_500
#: The key of the taint by which an operator says that a node is dead.
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
#: The key of all terminated pods; keys of nodes have only a name.
_TERMINATED_PODS: Key = ("", "")


class PodGarbageCollector(ControlLoop):
    """Deletes pods of deleted or out-of-service nodes, deleted pods without a node, and old terminated pods."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Node, Pod)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._terminated = 0  # the number of terminated pods
        self._deleted_nodes: set[str] = set()  # names

    def _receive(self, change: Change) -> None:
        for key in self._affected_keys(change):
            self._queue.add_after(key, _QUARANTINE if key[1] in self._deleted_nodes and not key[0] else _PERIOD)

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        if isinstance(change.subject, Node):
            name = change.subject.metadata.name
            if change.new is None:
                self._deleted_nodes.add(name)
            else:
                self._deleted_nodes.discard(name)
            if change.new is None or _is_out_of_service(change.subject):
                yield "", name
            return
        old, pod = change.old, change.new
        self._terminated -= isinstance(old, Pod) and has_ended(old)
        if not isinstance(pod, Pod):
            return
        node_name, is_ending = pod.spec.node_name, pod.metadata.deletion_timestamp is not None
        if has_ended(pod):
            self._terminated += 1
            if self._terminated > TERMINATED_POD_THRESHOLD:
                yield _TERMINATED_PODS
            if is_ending:
                return  # it waits for its finalizers only
        if node_name in self._deleted_nodes:
            yield "", node_name
        elif is_ending and not node_name:
            yield key_of(pod)
        elif is_ending and (node := self._cluster.find(Node, node_name)) is not None and _is_out_of_service(node):
            yield "", node_name

    def _reconcile(self, key: Key) -> None:
        namespace, name = key
        if key == _TERMINATED_PODS:
            terminated = sorted(filter(has_ended, self._cluster.objects(Pod)), key=_deletion_order)
            for pod in terminated[: max(0, len(terminated) - TERMINATED_POD_THRESHOLD)]:
                fail_and_delete(self._cluster, pod)
        elif not namespace:
            # Of a deleted node all pods are deleted; of an out-of-service one, those with a deletion timestamp.
            node = self._cluster.find(Node, name)
            for pod in self._cluster.objects(Pod) if node is None or _is_out_of_service(node) else ():
                if pod.spec.node_name == name and (node is None or pod.metadata.deletion_timestamp is not None):
                    fail_and_delete(self._cluster, pod, _disruption_condition(pod) if node is None else None)
        else:
            unassigned = self._cluster.find(Pod, name, namespace)
            if unassigned and unassigned.metadata.deletion_timestamp is not None and not unassigned.spec.node_name:
                fail_and_delete(self._cluster, unassigned)


def fail_and_delete(cluster: MemoryCluster, pod: Pod, condition: PodCondition | None = None) -> None:
    """Set a pod to Failed unless it is terminated, and delete it at once."""
    if not has_ended(pod):
        conditions = pod.status.conditions
        if condition is not None:
            conditions = with_condition(conditions, condition, cluster.timestamp())
        cluster.set_status(pod, replace(pod.status, phase="Failed", conditions=conditions))
    cluster.remove_object(pod, grace=0)


def _is_out_of_service(node: Node) -> bool:
    is_ready = next((each.status for each in node.status.conditions if each.type == "Ready"), "True") == "True"
    return not is_ready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def _deletion_order(pod: Pod) -> tuple[bool, str, str]:
    """Return the sort key of terminated pods: evicted ones first, then the oldest."""
    status, metadata = pod.status, pod.metadata
    evicted = status.phase == "Failed" and status.reason == "Evicted"
    return not evicted, metadata.creation_timestamp or "", metadata.name


def _disruption_condition(pod: Pod) -> PodCondition:
    return PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="DeletionByPodGC",
        message="PodGC: node no longer exists",
        observed_generation=pod.metadata.generation,
    )
