"""The garbage collector of pods: it ends pods that no kubelet ends, and deletes the oldest of many ended ones.

The rules are those of kube-controller-manager, except for nodes that never existed here: files rarely hold all objects
of a cluster. It reconciles changed objects, instead of all pods every twenty seconds.
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

#: The seconds that a node may be gone before its pods are deleted.
_QUARANTINE = 40.0
#: The seconds after which all else is checked: the interval of kube-controller-manager.
_PERIOD = 20.0
#: The number of ended pods that are kept.
_MOST_ENDED = 12_500
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
#: The key of all ended pods; those of nodes have a name alone.
_ENDED: Key = ("", "")


class PodGarbageCollector(ControlLoop):
    """Deletes pods of nodes that are gone or out of service, those that end without one, and old ones that are over.

    At most `most_ended` of these last are kept.
    """

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Node, Pod)

    def __init__(self, cluster: MemoryCluster, clock: Clock, most_ended: int = _MOST_ENDED) -> None:
        super().__init__(cluster, clock)
        self._most_ended = most_ended
        self._ended = 0  # how many pods are over
        self._gone: set[str] = set()  # names of nodes

    def _receive(self, change: Change) -> None:
        for key in self._affected_keys(change):
            self._queue.add_after(key, _QUARANTINE if key[1] in self._gone and not key[0] else _PERIOD)

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        if isinstance(change.subject, Node):
            name = change.subject.metadata.name
            if change.new is None:
                self._gone.add(name)
            else:
                self._gone.discard(name)
            if change.new is None or _is_out_of_service(change.subject):
                yield "", name
            return
        old, pod = change.old, change.new
        self._ended -= isinstance(old, Pod) and has_ended(old)
        if not isinstance(pod, Pod):
            return
        node_name, is_ending = pod.spec.node_name, pod.metadata.deletion_timestamp is not None
        if has_ended(pod):
            self._ended += 1
            if self._ended > self._most_ended:
                yield _ENDED
            if is_ending:
                return  # it waits for its finalizers only
        if node_name in self._gone:
            yield "", node_name
        elif is_ending and not node_name:
            yield key_of(pod)
        elif is_ending and (node := self._cluster.find(Node, node_name)) is not None and _is_out_of_service(node):
            yield "", node_name

    def _reconcile(self, key: Key) -> None:
        namespace, name = key
        if key == _ENDED:
            ended = sorted(filter(has_ended, self._cluster.objects(Pod)), key=_place_in_line)
            for pod in ended[: max(0, len(ended) - self._most_ended)]:
                self._end(pod)
        elif not namespace:
            # Of a node that is gone all pods end, of one that is out of service those that are to end.
            node = self._cluster.find(Node, name)
            for pod in self._cluster.objects(Pod) if node is None or _is_out_of_service(node) else ():
                if pod.spec.node_name == name and (node is None or pod.metadata.deletion_timestamp is not None):
                    self._end(pod, _orphaned(pod) if node is None else None)
        else:
            found = self._cluster.find(Pod, name, namespace)
            if found is not None and found.metadata.deletion_timestamp is not None and not found.spec.node_name:
                self._end(found)

    def _end(self, pod: Pod, why: PodCondition | None = None) -> None:
        """Fail a pod unless it is over, and delete it at once."""
        if not has_ended(pod):
            conditions = pod.status.conditions
            if why is not None:
                conditions = with_condition(conditions, why, self._cluster.timestamp())
            self._cluster.set_status(pod, replace(pod.status, phase="Failed", conditions=conditions))
        metadata = pod.metadata
        self._cluster.remove(Pod, metadata.name, metadata.namespace, uid=metadata.uid, grace=0)


def _is_out_of_service(node: Node) -> bool:
    """Return whether a node is not ready and is marked as out of service."""
    is_ready = next((each.status for each in node.status.conditions if each.type == "Ready"), "True") == "True"
    return not is_ready and any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints)


def _place_in_line(pod: Pod) -> tuple[bool, str, str]:
    """Return the sort key of ended pods: evicted ones are deleted first, then the oldest."""
    status, metadata = pod.status, pod.metadata
    evicted = status.phase == "Failed" and status.reason == "Evicted"
    return not evicted, metadata.creation_timestamp or "", metadata.name


def _orphaned(pod: Pod) -> PodCondition:
    return PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="DeletionByPodGC",
        message="PodGC: node no longer exists",
        observed_generation=pod.metadata.generation,
    )
