"""Random clusters from one generator: nodes and pods that compete, and their changes.

The vocabulary is small on purpose, so that taints meet tolerations, selectors meet labels, and nodes run full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import TypeVar

import msgspec

from kframework.objects import (
    Affinity,
    ApiObject,
    Container,
    ContainerPort,
    Node,
    Pod,
    RawQuantity,
    TopologySpreadConstraint,
)
from kframework.objects.kinds import reference
from kframework.objects.read_only import read_only
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing.builders import make_container, make_node, make_pod
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates

T = TypeVar("T")
Object = TypeVar("Object", bound=ApiObject)

_ZONE, _HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_CORDON = "node.kubernetes.io/unschedulable"
_TAINTS = (
    "dedicated=a:NoSchedule",
    "dedicated=b:NoExecute",
    "spot:PreferNoSchedule",
    "slow=very:PreferNoSchedule",
    f"{_CORDON}:NoSchedule",
)
_TOLERATIONS = ("dedicated=a:NoSchedule", "dedicated", "spot:PreferNoSchedule", "slow=very", _CORDON, ":Exists")
_ALLOCATABLE: Mapping[str, RawQuantity] = {
    "ephemeral-storage": "10Gi",
    "example.com/gpu": 2,
    "other.example.com/fpga": 1,
    "hugepages-2Mi": "8Mi",
}
_REQUESTS: Mapping[str, Sequence[RawQuantity]] = {
    "ephemeral-storage": ("1Gi", "20Gi"),
    "example.com/gpu": (1, 2, 3),
    "other.example.com/fpga": (1,),
    "hugepages-2Mi": ("4Mi",),
}
_IMAGES = {"registry/web:1": 200 << 20, "registry/db:1": 900 << 20}


# -- objects -------------------------------------------------------------------------------------------------------


def random_node(random: Random, name: str) -> Node:
    """Make a node: one in three plain, the others short of something, tainted, cordoned or labelled."""
    if random.random() < 0.3:
        return make_node(name, zone=random.choice("ab"))
    return make_node(
        name,
        zone=random.choice(["", "a", "b"]),
        labels=_random_subset(random, {"disk": random.choice(["ssd", "hdd"]), "arch": "arm64"}),
        annotations=_random_subset(random, {"example.com/owner": random.choice("ab")}),
        cpu=random.choice([None, 1, 2, "3900m", 8]),
        memory=random.choice([None, "512Mi", "4Gi", "16Gi", "200Ti"]),
        pods=random.choice([0, 2, 4, 110]),
        allocatable=_random_subset(random, _ALLOCATABLE),
        taints=_random_sample(random, _TAINTS) if random.random() < 0.5 else (),
        unschedulable=random.random() < 0.2,
        images=_random_subset(random, _IMAGES),
    )


def random_pod(random: Random, name: str, *, node_name: str = "") -> Pod:
    """Make a pod that requests nothing, little or too much, with constraints of every kind; pending without a node."""
    return make_pod(
        name,
        namespace=random.choice(["default", "default", "other"]),
        labels=_random_subset(random, {"app": random.choice(["web", "db"]), "tier": "front"}),
        annotations=_random_subset(random, {"example.com/owner": random.choice("ab")}),
        containers=[_container(random, number) for number in range(random.choice([1, 1, 2]))],
        overhead={"cpu": "50m"} if random.random() < 0.1 else {},
        node_name=node_name,
        node_selector={"disk": "ssd"} if random.random() < 0.2 else {},
        affinity=_affinity(random) if random.random() < 0.3 else None,
        tolerations=_random_sample(random, _TOLERATIONS) if random.random() < 0.5 else (),
        topology_spread=[_spread(random)] if random.random() < 0.2 else (),
        priority=random.choice([None, 0, 10]),
    )


_HOST_PORT = (ContainerPort(container_port=80, host_port=8080, protocol="TCP"),)


def _container(random: Random, number: int) -> Container:
    requests = {resource: random.choice(amounts) for resource, amounts in _random_subset(random, _REQUESTS).items()}
    return make_container(
        f"main-{number}",
        cpu=random.choice([None, None, "100m", 1, 2, 16]),
        memory=random.choice([None, None, "64Mi", "1Gi", "64Gi"]),
        requests=requests if random.random() < 0.3 else {},
        image=random.choice(["", *_IMAGES]),
        # A pod may have a port of its host only once.
        ports=_HOST_PORT if random.random() < 0.15 and number == 0 else (),
    )


def _affinity(random: Random) -> Affinity:
    selector = {"matchLabels": {"app": random.choice(["web", "db"])}}
    pods = {"topologyKey": random.choice([_ZONE, _HOSTNAME]), "labelSelector": selector}
    disk = {"matchExpressions": [{"key": "disk", "operator": random.choice(["In", "NotIn"]), "values": ["ssd"]}]}
    named = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    required, preferred = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
    choices = {
        "nodeAffinity": [
            {required: {"nodeSelectorTerms": [disk]}},
            {required: {"nodeSelectorTerms": [{"matchFields": [named]}]}},
            {preferred: [{"weight": 7, "preference": disk}]},
        ],
        "podAffinity": [{required: [pods]}, {preferred: [{"weight": 5, "podAffinityTerm": pods}]}],
        "podAntiAffinity": [{required: [pods]}, {preferred: [{"weight": 3, "podAffinityTerm": pods}]}],
    }
    kind = random.choice(list(choices))
    return msgspec.convert({kind: random.choice(choices[kind])}, Affinity)


def _spread(random: Random) -> TopologySpreadConstraint:
    constraint = {
        "maxSkew": 1,
        "topologyKey": random.choice([_ZONE, _HOSTNAME]),
        "whenUnsatisfiable": random.choice(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return msgspec.convert(constraint, TopologySpreadConstraint)


def make_twin(pod: Pod) -> Pod:
    """Return another pod of the same template: with another name, hostname, uid and times."""
    name, uid = f"{pod.metadata.name}-twin", f"{pod.metadata.uid}-twin"
    pod = with_values(pod, "metadata", name=name, uid=uid, creation_timestamp="2026-01-02T03:04:05Z")
    return with_values(with_values(pod, "spec", hostname=name), "status", start_time="2026-01-02T03:04:06Z")


def with_values(obj: Object, part: str, **values: object) -> Object:
    """Return the object with other values in its metadata, spec or status."""
    return msgspec.structs.replace(obj, **{part: msgspec.structs.replace(getattr(obj, part), **values)})


def _random_subset(random: Random, options: Mapping[str, T]) -> dict[str, T]:
    return {name: option for name, option in options.items() if random.random() < 0.5}


def _random_sample(random: Random, options: Sequence[T]) -> list[T]:
    return random.sample(options, random.randint(1, 2))


# -- clusters ------------------------------------------------------------------------------------------------------


class RandomCluster:
    """A random cluster that random events change, one after the other.

    `nodes`, `pods` and `objects` are mixed in: these nodes exist from the start, copies of these pods run on nodes and
    are among the `pending` ones, these objects are created, replaced by their next version, and deleted. One cluster in
    four has enough nodes for the columnar forms.
    """

    def __init__(
        self,
        random: Random,
        *,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        objects: Iterable[ApiObject] = (),
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        self.random = random
        self.state: ClusterState = ClusterState(gates)
        self._nodes = {node.metadata.name: node for node in nodes}
        self._pods = tuple(pods)
        self._objects = tuple(objects)
        self._name_count = 0
        for _ in self._objects:
            self._change_object()
        for node in self._nodes.values():
            self.state.put_node(read_only(node))
        for _ in range(random.randint(21, 30) if random.random() < 0.25 else random.randint(1, 6)):
            self._add_node()
        for _ in range(random.randint(0, 2 * len(self.state.nodes))):
            self._start_pod()

    def pending(self, number: int) -> list[PendingPod]:
        """Return the given pods and `number` random ones, each with a twin that differs only in its own names."""
        pods = [with_values(pod, "spec", node_name="") for pod in self._pods]
        for _ in range(number):
            node_name = self._random_node_name() if self.random.random() < 0.1 else ""
            pods.append(random_pod(self.random, self._name("pending"), node_name=node_name))
        return [PendingPod(read_only(each), self.state.interner) for pod in pods for each in (pod, make_twin(pod))]

    def next_pod(self) -> PendingPod:
        """Make another pod without a node, every other time a copy of a given one."""
        return PendingPod(read_only(self._pod(self._name("pod"), "")), self.state.interner)

    def change(self, in_what_if: Callable[[], None]) -> str:
        """Change something and return a description; in the middle of a what-if, call `in_what_if`."""
        changes = (
            self._update_node,
            self._update_node,
            self._start_pod,
            self._start_pod,
            self._end_pod,
            self._assume_pod,
            self._add_node,
            self._remove_node,
            *[self._change_object] * (2 if self._objects else 0),
        )
        if self.random.random() < 0.3:
            return self._what_if(in_what_if)
        return self.random.choice(changes)()

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _add_node(self) -> str:
        name = self._name("node")
        self.state.put_node(read_only(random_node(self.random, name)))
        return f"node {name} added"

    def _update_node(self) -> str:
        node = self._new_version()
        self.state.put_node(read_only(node))
        return f"node {node.metadata.name} changed"

    def _new_version(self) -> Node:
        """Return a new version of a random node; of a given node half of the time the given one."""
        name = self._random_node_name()
        given = self._nodes.get(name)
        return given if given is not None and self.random.random() < 0.5 else random_node(self.random, name)

    def _remove_node(self) -> str:
        if len(self.state.nodes) == 1:
            return self._add_node()
        name = self._random_node_name()
        self.state.remove_node(name)
        return f"node {name} removed"

    def _random_node_name(self) -> str:
        return self.random.choice([node.name for node in self.state.nodes])

    # -- pods ------------------------------------------------------------------------------------------------------

    def _start_pod(self) -> str:
        name, node_name = self._name("pod"), self._random_node_name()
        self.state.put_pod(read_only(self._pod(name, node_name)))
        return f"pod {name} started on {node_name}"

    def _end_pod(self) -> str:
        pod = self._random_pod()
        if pod is None:
            return self._start_pod()
        self.state.remove_pod(pod.uid)
        return f"pod {pod.key} ended"

    def _assume_pod(self) -> str:
        pod, node_name = self.next_pod(), self._random_node_name()
        self.state.assume(pod, node_name)
        if self.random.random() < 0.5:
            return f"pod {pod.key} assumed on {node_name}"
        self.state.forget(pod.uid)
        return f"pod {pod.key} assumed on {node_name} and forgotten"

    def _pod(self, name: str, node_name: str) -> Pod:
        if not self._pods or self.random.random() < 0.5:
            return random_pod(self.random, name, node_name=node_name)
        pod = with_values(self.random.choice(self._pods), "spec", node_name=node_name)
        return with_values(pod, "metadata", name=name, uid=name)

    def _random_pod(self) -> PodInfo | None:
        pods = [pod for pod in self.state.pods.values() if pod.row >= 0]
        return self.random.choice(pods) if pods else None

    def _change_object(self) -> str:
        given = self.random.choice(self._objects)
        store, metadata = self.state.objects(type(given)), given.metadata
        if store.get(metadata.name, metadata.namespace) is not None and self.random.random() < 0.3:
            store.remove(metadata)
            return f"{reference(given)} removed"
        store.put(metadata, given)
        return f"{reference(given)} changed"

    # -- what if ---------------------------------------------------------------------------------------------------

    def _what_if(self, in_what_if: Callable[[], None]) -> str:
        statement, victim = self.state.statement(), self._random_pod()
        statement.set_node(self._new_version())
        if victim is not None:
            statement.evict(victim)
        statement.assume(self.next_pod(), self._random_node_name())
        is_checked = self.random.random() < 0.5
        if is_checked:
            in_what_if()
        if self.random.random() < 0.3:
            statement.commit()
            return "what-if committed"
        statement.rollback()
        return f"what-if rolled back{' after a check' if is_checked else ''}"

    def _name(self, kind: str) -> str:
        self._name_count += 1
        return f"{kind}-{self._name_count}"
