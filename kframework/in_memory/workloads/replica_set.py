"""The controllers of ReplicaSets and ReplicationControllers: they create and delete pods, and count them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework.client.transitions import is_ready
from kframework.clock import Clock
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.in_memory.workloads.dependents import (
    Dependents,
    available_at,
    can_create_pods,
    create_pod,
    is_active,
    sort_for_deletion,
    update_status,
)
from kframework.objects import (
    ApiObject,
    Deployment,
    Pod,
    ReplicaSet,
    ReplicaSetStatus,
    ReplicationController,
)

Replicas = ReplicaSet | ReplicationController

#: The maximum number of pods created or deleted at a time.
BURST = 500


class ReplicaSetController(ControlLoop):
    """Creates and deletes the pods of replica sets; ignores those without a template, as often in files."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (ReplicaSet, Pod)
    #: The kind whose pods it creates.
    kind: ClassVar[type[Replicas]] = ReplicaSet

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        if isinstance(change.subject, Pod):
            yield from self._pods.affected_keys(change, self.kind)
        else:
            yield key_of(change.subject)

    def _reconcile(self, key: Key) -> None:
        replica_set = self._cluster.find(self.kind, key[1], key[0])
        if replica_set is None or not can_create_pods(replica_set):
            return
        claimed = self._pods.claim(replica_set, is_active)
        active = [pod for pod in claimed if is_active(pod)]
        if replica_set.metadata.deletion_timestamp is None:
            self._scale(replica_set, active)
        ending = sum(pod.metadata.deletion_timestamp is not None for pod in claimed)
        self._update_status(replica_set, active, ending)

    def _scale(self, replica_set: Replicas, active: list[Pod]) -> None:
        missing = desired_replicas(replica_set) - len(active)
        if abs(missing) > BURST:
            self._queue.add(key_of(replica_set))
        template = replica_set.spec.template
        for _ in range(min(missing, BURST)):
            create_pod(self._cluster, replica_set, template, template.spec)
        if missing < 0:
            # The nodes are crowded by the active pods of all replica sets of one deployment.
            owner = replica_set.metadata.controlling_owner
            siblings: list[Replicas] = [replica_set]
            if owner is not None:
                others = self._cluster.objects(self.kind, replica_set.metadata.namespace)
                siblings = [
                    each for each in others if (mine := each.metadata.controlling_owner) and mine.uid == owner.uid
                ]
            related = [pod for each in siblings for pod in self._pods.owned_by(each) if is_active(pod)]
            ordered = sort_for_deletion(active, related, self._clock.now())
            for pod in ordered[: min(-missing, BURST)]:
                self._cluster.remove_object(pod)

    def _update_status(self, replica_set: Replicas, active: list[Pod], ending: int) -> None:
        """Update the status from the existing pods, and requeue for when one will be available."""
        now, seconds = self._clock.now(), replica_set.spec.min_ready_seconds
        times = [available_at(pod, seconds) for pod in active if is_ready(pod)]
        labels = replica_set.spec.template.metadata.labels.items()
        status = ReplicaSetStatus(
            replicas=len(active),
            fully_labeled_replicas=sum(labels <= pod.metadata.labels.items() for pod in active),
            ready_replicas=len(times),
            available_replicas=sum(time <= now for time in times),
            terminating_replicas=ending if self.kind is ReplicaSet else None,
            observed_generation=replica_set.metadata.generation,
            conditions=replica_set.status.conditions,
        )
        update_status(self._cluster, replica_set, status)
        self._requeue_at(key_of(replica_set), times, now)


class ReplicationControllerController(ReplicaSetController):
    """Creates and deletes the pods of replication controllers."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (ReplicationController, Pod)
    kind: ClassVar[type[Replicas]] = ReplicationController


def desired_replicas(workload: Replicas | Deployment) -> int:
    return 1 if workload.spec.replicas is None else workload.spec.replicas
