"""Small random clusters for PodTopologySpread, in which everything that it looks at meets, and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from kframework.objects import (
    Affinity,
    ApiObject,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    TopologySpreadConstraint,
)
from kframework.plugins.pod_topology_spread.plugin import PodTopologySpreadArgs
from kframework.state.cluster import ClusterState
from kframework.state.objects import ObjectStore
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing import make_node, make_pod
from tests.support.selectors import owner, replica_set, replication_controller, service, stateful_set

__all__ = ["ARGS", "World", "affinity", "constraint"]

HOSTNAME, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
TAINTS = ("dedicated=a:NoSchedule", "dedicated=b:NoExecute", "spot:PreferNoSchedule")
TOLERATIONS = ("dedicated=a:NoSchedule", "dedicated", "spot", ":Exists")
SELECTORS: Sequence[Mapping[str, object] | None] = (
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"app": "db"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
    {},
    None,
)
INVALID = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["w*"]}]}
REQUIRED: Sequence[Mapping[str, object]] = (
    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
    {"matchExpressions": [{"key": RACK, "operator": "Exists"}]},
    {"matchExpressions": [{"key": "disk", "operator": "Like", "values": ["s*"]}]},
    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
    {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-2"]}]},
)
OWNERS = (("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicaSet"))


def constraint(key: str = ZONE, when: str = "DoNotSchedule", skew: int = 1, **more: Any) -> TopologySpreadConstraint:
    stated = {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": skew} | more
    return msgspec.convert(stated, TopologySpreadConstraint)


def affinity(*terms: Mapping[str, object]) -> Affinity:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return msgspec.convert({"nodeAffinity": required}, Affinity)


def listed(*constraints: TopologySpreadConstraint) -> PodTopologySpreadArgs:
    return PodTopologySpreadArgs(default_constraints=constraints, defaulting_type="List")


ARGS = (
    PodTopologySpreadArgs(),
    listed(),
    listed(
        constraint(),
        constraint(HOSTNAME, skew=2, minDomains=3, nodeTaintsPolicy="Honor"),
        constraint(when="ScheduleAnyway"),
    ),
    listed(constraint(RACK, "ScheduleAnyway", 2, nodeAffinityPolicy="Ignore", matchLabelKeys=["rev"])),
)


class World:
    """A cluster to which one thing after another happens."""

    def __init__(self, random: Random, nodes: int) -> None:
        self.random = random
        self.cluster = ClusterState()
        self._made = 0
        for _ in range(nodes):
            self.add_node()
        for _ in range(random.randint(0, 4 * nodes)):
            self.start_pod()
        for _ in range(random.randint(0, 6)):
            self.change_other()

    def change(self) -> None:
        """Let something happen."""
        happenings = (self.add_node, self.change_node, self.remove_node, self.start_pod, self.end_pod, self.change_pod)
        self.random.choice((*happenings, self.assume_pod, self.change_other))()

    def add_node(self) -> None:
        self.cluster.put_node(self.node(self._name("node")))

    def change_node(self) -> None:
        self.cluster.put_node(self.node(self._some_node()))

    def remove_node(self) -> None:
        if len(self.cluster.nodes) > 1:
            self.cluster.remove_node(self._some_node())

    def node(self, name: str) -> Node:
        random = self.random
        labels = {ZONE: random.choice("abc"), RACK: random.choice("12"), "disk": random.choice(["ssd", "hdd"])}
        if random.random() < 0.3:
            labels = {key: label for key, label in labels.items() if random.random() < 0.7}
        if random.random() < 0.05:
            labels |= {random.choice([ZONE, RACK]): ""}
        made = make_node(name, labels=labels, taints=self._some(TAINTS) if random.random() < 0.4 else ())
        if random.random() < 0.1:
            made.metadata.labels.pop(HOSTNAME)
        return made

    def _some_node(self) -> str:
        return self.random.choice([node.name for node in self.cluster.nodes])

    def start_pod(self) -> None:
        self.cluster.put_pod(self.pod(node_name=self._some_node(), constrained=False))

    def end_pod(self) -> None:
        pod = self.some_pod()
        if pod is not None:
            self.cluster.remove_pod(pod.uid)

    def change_pod(self) -> None:
        """Give a pod that runs other labels, or let it terminate."""
        pod = self.some_pod()
        if pod is not None:
            other = self.pod(node_name=pod.node_name, constrained=False)
            metadata = msgspec.structs.replace(other.metadata, uid=pod.uid, name=pod.name, namespace=pod.namespace)
            self.cluster.put_pod(msgspec.structs.replace(other, metadata=metadata))

    def assume_pod(self) -> None:
        pod = PendingPod(self.pod(constrained=False), self.cluster.interner)
        self.cluster.assume(pod, self._some_node())
        if self.random.random() < 0.3:
            self.cluster.forget(pod.uid)

    def some_pod(self) -> PodInfo | None:
        pods = [pod for pod in self.cluster.pods.values() if pod.row >= 0]
        return self.random.choice(pods) if pods else None

    def pod(self, *, node_name: str = "", constrained: bool = True) -> Pod:
        random = self.random
        constraints = [self.constraint() for _ in range(random.choice([0, 1, 1, 2, 3]))] if constrained else []
        return make_pod(
            self._name("pod"),
            namespace=random.choice(["default", "default", "default", "other"]),
            labels=self.labels(),
            owner=self._owner() if random.random() < 0.5 else None,
            node_name=node_name,
            node_selector={"disk": "ssd"} if constrained and random.random() < 0.2 else {},
            affinity=affinity(*self._some(REQUIRED)) if constrained and random.random() < 0.3 else None,
            tolerations=self._some(TOLERATIONS) if random.random() < 0.4 else (),
            topology_spread=constraints,
            deletion_timestamp="2026-01-02T03:04:05Z" if node_name and random.random() < 0.15 else None,
        )

    def labels(self) -> dict[str, str]:
        labels = {"app": self.random.choice(["web", "web", "db"]), "rev": self.random.choice("12"), "tier": "front"}
        return {key: label for key, label in labels.items() if self.random.random() < 0.8}

    def constraint(self) -> TopologySpreadConstraint:
        random = self.random
        stated: dict[str, object] = {"labelSelector": random.choice(SELECTORS)}
        if random.random() < 0.01:
            stated["labelSelector"] = INVALID
        if random.random() < 0.3:
            stated["minDomains"] = random.randint(1, 4)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if random.random() < 0.5:
                stated[policy] = random.choice(["Honor", "Ignore"])
        if random.random() < 0.3:
            stated["matchLabelKeys"] = random.choice([["rev"], ["rev", "absent"], ["absent"]])
        action = random.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"])
        return constraint(random.choice([ZONE, HOSTNAME, RACK]), action, random.choice([1, 1, 2, 3]), **stated)

    def _owner(self) -> OwnerReference:
        api_version, kind = self.random.choice(OWNERS)
        controls = self.random.random() < 0.9
        return owner(kind, api_version, name=self.random.choice("xy"), controller=controls)

    def change_other(self) -> None:
        random = self.random
        metadata = ObjectMeta(name=random.choice("xy"), namespace=random.choice(["default", "default", "other"]))
        other = self._other(metadata)
        store: ObjectStore[ApiObject] = self.cluster.objects(type(other))
        if random.random() < 0.2:
            store.remove(metadata)
        else:
            store.put(metadata, other)

    def _other(self, metadata: ObjectMeta) -> ApiObject:
        random = self.random
        chosen = random.choice([None, {}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}])
        labels = random.choice([{}, {"app": "web"}, {"app": "db", "rev": "1"}])
        stated = random.choice([*SELECTORS, INVALID])
        return random.choice(
            [
                service(chosen, metadata),
                replication_controller(labels, metadata),
                replica_set(stated, metadata),
                stateful_set(stated, metadata),
            ]
        )

    def _some(self, options: Sequence[Any]) -> list[Any]:
        return self.random.sample(options, self.random.randint(1, 2))

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made}"
