"""Random events of a cluster, one at a time, as an API server would send them.

No event is one that an API server would reject: a pending pod keeps its constraints, tolerations are only added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random

import msgspec

from kframework.core.cycle.results import Eviction, Reservation
from kframework.core.host import Host
from kframework.core.pod_engine import PodEngine
from kframework.objects import (
    ApiObject,
    Container,
    Namespace,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Pod,
    PodCondition,
    PodResourceClaimStatus,
    PodSchedulingGate,
    ReplicaSet,
    ResourceClaim,
    Service,
    StatefulSet,
    StorageClass,
)
from kframework.objects.kinds import reference
from kframework.state.inbox import BindingEnded, BindingStarted, Deleted, PreemptionEnded, Upserted
from kframework.state.pods import PodInfo
from kframework.testing.clusters import random_node, random_pod, with_values
from kframework.values.status import Code

#: The scheduling gate that some pods are created with.
GATE = "example.com/hold"

_MOST_NODES, _MOST_PODS = 3, 12
#: The probability that an event is about a given object, and that a given object exists from the start.
_GIVEN_SHARE, _INITIAL_SHARE = 0.8, 0.8

_HOSTNAME = "kubernetes.io/hostname"
_RESIZED = ("cpu", "memory")
#: The fields of a node that may change, with their parts of the object.
_NODE_FIELDS = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "taints"),
    ("spec", "unschedulable"),
    ("status", "allocatable"),
    ("status", "images"),
    ("status", "declared_features"),
)
#: The fields of a volume's spec that give its type.
_SOURCES = set(PersistentVolumeSpec.__struct_fields__) - {
    "capacity",
    "access_modes",
    "claim_ref",
    "storage_class_name",
    "volume_attributes_class_name",
    "persistent_volume_reclaim_policy",
    "node_affinity",
}
_OTHER_OBJECTS: Sequence[ApiObject] = (
    Namespace(metadata=ObjectMeta(name="default")),
    Namespace(metadata=ObjectMeta(name="other")),
    Service(metadata=ObjectMeta(name="web", namespace="default")),
    StorageClass(metadata=ObjectMeta(name="fast")),
    PersistentVolume(metadata=ObjectMeta(name="disk")),
    PersistentVolumeClaim(metadata=ObjectMeta(name="data", namespace="default")),
)


class RandomEvents:
    """The objects of a cluster, and random changes of them.

    Most of `nodes`, `pods` and `objects` exist from the start; all come and go, with random ones, and nodes exchange
    their fields. Nodes and pods are few, as pods that fit anywhere wait for nothing.
    """

    def __init__(
        self,
        random: Random,
        *,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        objects: Iterable[ApiObject] = (),
    ) -> None:
        self.random = random
        self._given_nodes = tuple(nodes)
        self._given_pods = tuple(pods)
        self._given_others = tuple(objects)
        names = {reference(each) for each in self._given_others}
        self._more_others = tuple(each for each in _OTHER_OBJECTS if reference(each) not in names)
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._others: dict[str, ApiObject] = {}
        self._name_count = 0

    def initial_messages(self) -> Iterator[Upserted | Deleted]:
        """List the initial objects."""
        for node in self._given_nodes:
            yield self._put_node(node)
        yield self._put_node(random_node(self.random, self._name("node")))
        for given in self._given_others:
            if self.random.random() < _INITIAL_SHARE:
                yield self._put_other(given)
        for _ in range(self.random.randint(2, 6)):
            yield self._create_pod()

    def next_message(self) -> Upserted | Deleted:
        """Change the cluster at random and return the change."""
        changes = (
            *[self._change_node] * 4,
            *[self._change_pod] * 4,
            *[self._create_pod] * 2,
            *[self._remove_pod] * 2,
            *[self._change_other] * (3 + len(self._given_others) // 2),
            self._add_node,
            self._remove_node,
            self._start_pod,
        )
        return self.random.choice(changes)()

    # -- what a scheduler does -------------------------------------------------------------------------------------

    def bind_pod(self, uid: str, node_name: str) -> Iterator[Upserted]:
        """Bind a pod, if it still exists."""
        if uid in self._pods:
            yield self._put_pod(with_values(self._pods[uid], "spec", node_name=node_name))

    def nominate_pod(self, uid: str, node_name: str) -> Iterator[Upserted]:
        """Nominate a pod to a node, or clear its nomination (""), if it still exists."""
        pod = self._pods.get(uid)
        if pod is not None and pod.status.nominated_node_name != node_name:
            yield self._put_pod(with_values(pod, "status", nominated_node_name=node_name))

    def evict_pod(self, uid: str) -> Iterator[Deleted]:
        """Evict a pod, if it still exists."""
        if uid in self._pods:
            yield Deleted(self._pods.pop(uid))

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _add_node(self) -> Upserted | Deleted:
        if len(self._nodes) >= _MOST_NODES:
            return self._remove_node()
        deleted = [node for node in self._given_nodes if node.metadata.name not in self._nodes]
        return self._put_node(self.random.choice(deleted) if deleted else random_node(self.random, self._name("node")))

    def _change_node(self) -> Upserted:
        node = self._nodes[self.random.choice(list(self._nodes))]
        for part, field in self.random.sample(_NODE_FIELDS, self.random.choice([1, 1, 1, 2])):
            node = with_values(
                node, part, **{field: getattr(getattr(self._other_node(node.metadata.name), part), field)}
            )
        return self._put_node(node)

    def _other_node(self, name: str) -> Node:
        if self._given_nodes and self.random.random() < 0.5:
            other = self.random.choice(self._given_nodes)
            return with_values(other, "metadata", labels=other.metadata.labels | {_HOSTNAME: name})
        return random_node(self.random, name)

    def _remove_node(self) -> Upserted | Deleted:
        if len(self._nodes) == 1:
            return self._add_node()
        return Deleted(self._nodes.pop(self.random.choice(list(self._nodes))))

    def _put_node(self, node: Node) -> Upserted:
        self._nodes[node.metadata.name] = node
        return Upserted(node)

    # -- pods ------------------------------------------------------------------------------------------------------

    def _start_pod(self) -> Upserted | Deleted:
        if len(self._pods) >= _MOST_PODS:
            return self._remove_pod()
        return self._put_pod(with_values(self._new_pod(), "spec", node_name=self.random.choice(list(self._nodes))))

    def _create_pod(self) -> Upserted | Deleted:
        if len(self._pods) >= _MOST_PODS:
            return self._remove_pod()
        pod, chance = self._new_pod(), self.random.random()
        if chance < 0.15:
            pod = with_values(pod, "spec", scheduling_gates=(PodSchedulingGate(name=GATE),))
        elif chance < 0.3:
            pod = with_values(pod, "status", nominated_node_name=self.random.choice(list(self._nodes)))
        return self._put_pod(pod)

    def _new_pod(self) -> Pod:
        name = self._name("pod")
        if self._takes_given(self._given_pods):
            return with_values(self.random.choice(self._given_pods), "metadata", name=name, uid=name)
        return random_pod(self.random, name)

    def _change_pod(self) -> Upserted | Deleted:
        """Change a pod as an API server allows it; every other time a pending one."""
        if not self._pods:
            return self._create_pod()
        waiting = [pod for pod in self._pods.values() if not pod.spec.node_name]
        pods = waiting if waiting and self.random.random() < 0.5 else list(self._pods.values())
        pod = self.random.choice(pods)
        other = self._new_pod()
        deadline, before = other.spec.active_deadline_seconds, pod.spec.active_deadline_seconds
        changes = ["labels", "size", "tolerations", "gates", "nomination"]
        changes += ["claims"] if pod.spec.resource_claims else []
        if deadline is not None and (before is None or deadline < before):
            changes.append("deadline")  # an API server accepts a first or an earlier one
        change = self.random.choice(changes)
        if change == "labels":
            pod = with_values(pod, "metadata", labels=other.metadata.labels)
        elif change == "size":
            size = other.spec.containers[0]
            pod = with_values(pod, "spec", containers=tuple(_resize(each, size) for each in pod.spec.containers))
        elif change == "tolerations":
            pod = with_values(pod, "spec", tolerations=pod.spec.tolerations + other.spec.tolerations)
        elif change == "gates":
            pod = with_values(pod, "spec", scheduling_gates=())
        elif change == "claims":
            statuses = (PodResourceClaimStatus(name=each.name) for each in pod.spec.resource_claims)
            pod = with_values(pod, "status", resource_claim_statuses=tuple(statuses))
        elif change == "deadline":
            pod = with_values(pod, "spec", active_deadline_seconds=deadline)
        else:
            pod = with_values(pod, "status", nominated_node_name="")
        return self._put_pod(pod)

    def _remove_pod(self) -> Upserted | Deleted:
        if not self._pods:
            return self._create_pod()
        return Deleted(self._pods.pop(self.random.choice(list(self._pods))))

    def _put_pod(self, pod: Pod) -> Upserted:
        self._pods[pod.metadata.uid] = pod
        return Upserted(pod)

    # -- all else --------------------------------------------------------------------------------------------------

    def _change_other(self) -> Upserted | Deleted:
        possible = self.random.choice(
            self._given_others if self._takes_given(self._given_others) else self._more_others
        )
        old = self._others.get(reference(possible))
        if old is not None and (self.random.random() < 0.5 or not _can_become(old, possible)):
            if self._is_used(old):
                return self._put_other(with_values(old, "metadata", labels=self._labels()))
            return Deleted(self._others.pop(reference(old)))
        return self._put_other(with_values(possible, "metadata", labels=possible.metadata.labels | self._labels()))

    def _is_used(self, other: ApiObject) -> bool:
        """Return whether an object must stay for its users, as claims to devices must."""
        if not isinstance(other, ResourceClaim):
            return False
        used = (each.resource_claim_name for pod in self._given_pods for each in pod.spec.resource_claims)
        return other.metadata.name in used

    def _put_other(self, other: ApiObject) -> Upserted:
        name = reference(other)
        # As an API server does; plugins may tell objects apart by it.
        other = other if other.metadata.uid else with_values(other, "metadata", uid=name)
        self._others[name] = other
        return Upserted(other)

    def _takes_given(self, given: Sequence[object]) -> bool:
        return bool(given) and self.random.random() < _GIVEN_SHARE

    def _labels(self) -> dict[str, str]:
        return {"team": self.random.choice("ab")} if self.random.random() < 0.5 else {}

    def _name(self, kind: str) -> str:
        self._name_count += 1
        return f"{kind}-{self._name_count}"


def _resize(container: Container, other: Container) -> Container:
    """Resize a container to the CPU and memory of another one; nothing else of a pod can be resized."""
    others = {name: amount for name, amount in container.resources.requests.items() if name not in _RESIZED}
    changed = {name: amount for name, amount in other.resources.requests.items() if name in _RESIZED}
    resources = msgspec.structs.replace(container.resources, requests=changed | others)
    return msgspec.structs.replace(container, resources=resources)


def _can_become(old: ApiObject, new: ApiObject) -> bool:
    """Return whether an API server allows the change: claims stay bound, storage keeps its type."""
    if isinstance(old, ResourceClaim) and old.metadata.deletion_timestamp is not None:
        return new.metadata.deletion_timestamp is not None
    if isinstance(old, PersistentVolumeClaim) and isinstance(new, PersistentVolumeClaim):
        return old.spec.volume_name in ("", new.spec.volume_name)
    if isinstance(old, PersistentVolume) and isinstance(new, PersistentVolume):
        return all(getattr(old.spec, field) == getattr(new.spec, field) for field in _SOURCES)
    if isinstance(old, StorageClass) and isinstance(new, StorageClass):
        return old.provisioner == new.provisioner
    if isinstance(old, ReplicaSet | StatefulSet) and isinstance(new, ReplicaSet | StatefulSet):
        return old.spec.selector == new.spec.selector
    return True


class RandomHost(Host):
    """A host of an engine with random events: it binds and evicts at once, and queues the changes."""

    #: The engine; its creator sets this.
    engine: PodEngine

    def __init__(self, events: RandomEvents) -> None:
        self.events = events
        #: The resulting changes that the engine has not received yet.
        self.pending_messages: list[Upserted | Deleted] = []

    def bind(self, reservation: Reservation) -> None:
        reservation.reserved.on_verdict(lambda: self._on_verdict(reservation))

    def _on_verdict(self, reservation: Reservation) -> None:
        uid, attempt, verdict = reservation.pod.uid, reservation.attempt, reservation.reserved.verdict
        assert verdict is not None
        if verdict.code == Code.SUCCESS:
            self.engine.offer(BindingStarted(uid, attempt))
            self.engine.offer(BindingEnded(uid, attempt, None))
            self.pending_messages += self.events.bind_pod(uid, reservation.node_name)
        else:
            self.engine.offer(BindingEnded(uid, attempt, verdict, verdict.plugin if verdict.is_rejected else None))

    def patch_status(self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        if nominated_node_name is not None:
            self.pending_messages += self.events.nominate_pod(pod.uid, nominated_node_name)

    def evict(self, eviction: Eviction) -> None:
        for victim in eviction.victims:
            self.pending_messages += self.events.evict_pod(victim.uid)
        for lower_priority in eviction.lower_priority:
            self.pending_messages += self.events.nominate_pod(lower_priority.uid, "")
        self.engine.offer(PreemptionEnded(eviction.uid, eviction.attempt, failed=False))
