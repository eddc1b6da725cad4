"""A cluster in which much happens: pods, claims and nodes come, change and go, by a seed, while a scheduler works."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import Clock, seconds_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import RUN_SECONDS
from kframework.objects import (
    Affinity,
    Event,
    LabelSelector,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    TopologySpreadConstraint,
)
from kframework.testing import make_node, make_pod
from tests.faults.devices import DeviceWorld
from tests.faults.groups import GroupWorld
from tests.faults.run_settings import EXTENDED, RunSettings
from tests.support.storage import claim, claim_volumes, storage_class

__all__ = ["World", "make_nodes"]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ("web", "db", "batch")

#: How long ended pods and events are kept, and pods of a node that is gone, in seconds.
RETENTION, COLLECTION_DELAY = 120.0, 40.0


def make_nodes(count: int) -> list[Node]:
    """Make nodes of two sizes in three zones."""
    return [
        make_node(f"node-{n}", zone="abc"[n % 3], cpu=8 if n % 2 else 4, memory="32Gi", pods=16, labels={"pool": "x"})
        for n in range(count)
    ]


class World:
    """Creates a given number of pods, and lets a hundred other things happen meanwhile."""

    def __init__(
        self,
        cluster: MemoryCluster,
        clock: Clock,
        random: Random,
        shape: RunSettings,
        deleted: Counter[str],
        troubles: Counter[str],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._random = random
        self._nodes = make_nodes(shape.nodes)
        self._pods = shape.pods
        self._pause = shape.pause / shape.nodes
        self._extended = shape.extender
        self._devices = DeviceWorld(cluster, random, self._nodes, troubles) if shape.devices else None
        self._made = 0
        self._deleted = deleted
        self._troubles = troubles
        self._groups = GroupWorld(cluster, random, self._pod, troubles) if shape.groups else None
        for node in self._nodes:
            cluster.add(node)
        cluster.add(storage_class("made", "example.com/csi"))
        for app in APPS if shape.budgets else ():
            cluster.add(_budget(app))

    async def run(self) -> None:
        """Let things happen until all pods are made."""
        swept = self._clock.now()
        while self._made < self._pods:
            await asyncio.sleep(self._random.expovariate(1 / self._pause))
            self._change()
            if self._clock.now() - swept > 30.0:
                swept = self._clock.now()
                self.sweep()
        for node in self._nodes:
            self._restore(node)
        if self._devices is not None:
            self._devices.end_faults()

    def _change(self) -> None:
        changes: list[tuple[Callable[[], None], float]] = [
            (self._make_pod, 1.0),
            (self._make_burst, 0.006),
            (self._delete_pod, 0.08),
            (self._delete_node, 0.005),
            (self._restore_node, 0.008),
            (self._change_node, 0.02),
            (self._change_pod, 0.03),
            *(self._devices.changes if self._devices is not None else ()),
            *(self._groups.changes if self._groups is not None else ()),
        ]
        (change,) = self._random.choices(*zip(*changes, strict=True))
        change()

    def _make_burst(self) -> None:
        for _ in range(self._random.randint(2, 20)):
            self._make_pod()

    def _make_pod(self) -> None:
        self._made += 1
        self._cluster.add(self._pod(f"pod-{self._made}"))

    def _pod(self, name: str) -> Pod:
        random = self._random
        shape = random.random()
        app = random.choice(APPS)
        pod = make_pod(
            name,
            cpu=random.choice(["250m", "500m", "1", "1", "2", "3"]),
            labels={"app": app},
            requests={EXTENDED: 1} if self._extended and shape > 0.85 else {},
            priority=random.choice([0, 0, 0, 0, 10, 100]),
            annotations={
                RUN_SECONDS: str(random.randint(60, 200) if random.random() < 0.08 else random.randint(1, 30))
            },
            volumes=claim_volumes(name.replace("pod-", "claim-")) if shape < 0.05 else (),
            topology_spread=[_spread(app)] if 0.05 < shape < 0.1 else (),
            affinity=_anti_affinity(app) if 0.1 < shape < 0.13 else None,
            host_ports=[8080] if 0.13 < shape < 0.16 else (),
            node_selector={ZONE: random.choice("abc")} if 0.16 < shape < 0.22 else {},
        )
        if shape < 0.05:
            self._troubles["pods with volumes"] += 1
            self._cluster.add(_unclaimed(name.replace("pod-", "claim-")))
        if self._devices is not None:
            pod = self._devices.with_claims(pod)
        return replace(pod, metadata=replace(pod.metadata, uid=""))

    def _delete_pod(self) -> None:
        pods = self._cluster.objects(Pod)
        if pods:
            metadata = self._random.choice(pods).metadata
            grace = self._random.choice([0, 0, 1, None])
            self._cluster.remove(Pod, metadata.name, metadata.namespace, grace=grace)
            self._deleted["pods"] += 1

    def _change_pod(self) -> None:
        pods = [pod for pod in self._cluster.objects(Pod) if not has_ended(pod)]
        if pods:
            pod = self._random.choice(pods)
            labels = {"app": self._random.choice(APPS)}
            self._cluster.replace(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    def _delete_node(self) -> None:
        nodes = self._cluster.objects(Node)
        if len(nodes) > 1:
            name = self._random.choice(nodes).metadata.name
            self._cluster.remove(Node, name)
            self._deleted["nodes"] += 1
            asyncio.get_running_loop().call_later(self._random.uniform(0.0, COLLECTION_DELAY), self._collect, name)

    def _collect(self, name: str) -> None:
        """Delete the pods of a node that is gone, if it still is."""
        if self._cluster.find(Node, name) is None:
            for pod in self._cluster.objects(Pod):
                if pod.spec.node_name == name:
                    self._cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace, grace=0)

    def _restore_node(self) -> None:
        self._restore(self._random.choice(self._nodes))

    def _restore(self, node: Node) -> None:
        """Make a node as it was at first."""
        present = self._cluster.find(Node, node.metadata.name)
        if present is None:
            self._cluster.add(replace(node, metadata=replace(node.metadata, uid="")))
        else:
            labels = node.metadata.labels
            self._cluster.replace(replace(present, metadata=replace(present.metadata, labels=labels), spec=node.spec))

    def _change_node(self) -> None:
        nodes = self._cluster.objects(Node)
        node, random = self._random.choice(nodes), self._random
        if random.random() < 0.5:
            node = replace(node, spec=replace(node.spec, unschedulable=not node.spec.unschedulable))
        else:
            labels = node.metadata.labels | {"pool": random.choice("xy")}
            node = replace(node, metadata=replace(node.metadata, labels=labels))
        self._cluster.replace(node)

    def sweep(self) -> None:
        """Delete what is over: ended pods, pods without a node, claims without a pod, volumes, events."""
        now, cluster = self._clock.now(), self._cluster
        for pod in cluster.objects(Pod):
            metadata = pod.metadata
            if has_ended(pod) and now - seconds_of(metadata.creation_timestamp or "") > RETENTION:
                cluster.remove(Pod, metadata.name, metadata.namespace, grace=0)
        names = {pod.metadata.name.replace("pod-", "claim-") for pod in cluster.objects(Pod)}
        if self._devices is not None:
            self._devices.sweep()
        for each in cluster.objects(PersistentVolumeClaim):
            if each.metadata.name not in names:
                cluster.remove(PersistentVolumeClaim, each.metadata.name, each.metadata.namespace)
        for volume in cluster.objects(PersistentVolume):
            by = volume.spec.claim_ref
            if by is not None and cluster.find(PersistentVolumeClaim, by.name, by.namespace) is None:
                cluster.remove(PersistentVolume, volume.metadata.name)
        for event in cluster.objects(Event):
            if now - seconds_of(event.metadata.creation_timestamp or "") > RETENTION:
                cluster.remove(Event, event.metadata.name, event.metadata.namespace)


def _unclaimed(name: str) -> PersistentVolumeClaim:
    made = claim(name, "made")
    return replace(made, metadata=replace(made.metadata, uid=""))


def _budget(app: str) -> PodDisruptionBudget:
    selector = LabelSelector(match_labels={"app": app})
    spec = PodDisruptionBudgetSpec(selector=selector, min_available=3)
    return PodDisruptionBudget(metadata=ObjectMeta(name=app, namespace="default"), spec=spec)


def _spread(app: str) -> TopologySpreadConstraint:
    selector = LabelSelector(match_labels={"app": app})
    return TopologySpreadConstraint(
        max_skew=2, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=selector
    )


def _anti_affinity(app: str) -> Affinity:
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": app}), topology_key=HOSTNAME)
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)))
