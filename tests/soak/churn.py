"""Pods in and out of a cluster, through its API: hardly anything of one of them is ever seen again in another."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import msgspec
from msgspec.structs import replace

from kframework.client.cluster import Cluster
from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.in_memory.kubelet import RUN_SECONDS
from kframework.objects import (
    Affinity,
    ApiObject,
    LabelSelector,
    Namespace,
    Node,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PriorityClass,
    Service,
    ServiceSpec,
    StorageClass,
    TopologySpreadConstraint,
)
from kframework.objects.kinds import T
from kframework.testing import make_node, make_pod
from tests.support.storage import claim, claim_volumes, storage_class

__all__ = ["PodChurn", "Shape"]

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"

#: What goes when it has lived its time: a kind, namespace and name.
_Thing = tuple[type[ApiObject], str, str]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How much comes and goes: pods a second, how long they stay, and after how many of them what else is new."""

    nodes: int = 60
    rate: float = 50.0
    stay: float = 10.0
    pods_per_template: int = 40
    pods_per_namespace: int = 400
    pods_per_node: int = 50


class PodChurn:
    """Makes pods through the API of a cluster and deletes them again, with all that they belong to.

    Each template, that is each revision of a Deployment, has labels, requests, an image, tolerations and selectors of
    its own. In between there are pods of Jobs, with labels that never repeat, and pods that fit nowhere, wait for a
    gate or need room made. Nodes are replaced by others of another name, with other labels and taints.
    """

    def __init__(self, cluster: Cluster, clock: Clock, random: Random, shape: Shape) -> None:
        self.shape = shape
        self.pods = 0
        self._cluster = cluster
        self._clock = clock
        self._random = random
        self._namespace = self._template = 0
        self._nodes: list[str] = []
        self._made_nodes = 0
        self._ends: list[tuple[float, int, _Thing]] = []
        self._serial = 0

    async def begin(self) -> None:
        """Make what stays, and the first nodes."""
        for name, value in (("low", 0), ("high", 1000)):
            await self._create(PriorityClass(metadata=ObjectMeta(name=name), value=value))
        await self._create(storage_class("made", "example.com/csi"))
        for _ in range(self.shape.nodes):
            await self._add_node()
        # Its template lives on, whatever comes and goes that has the same.
        await self._create(_nameless(make_pod("agent", labels={"app": "agent"}, affinity=_APART_ANYWHERE)))
        await self._next_namespace()

    async def run(self, until: float) -> None:
        """Let pods come and go until then, in seconds since 1970; what has been made stays."""
        due = self._clock.now()
        while self._clock.now() < until:
            due += self._random.expovariate(self.shape.rate)
            await asyncio.sleep(max(0.0, due - self._clock.now()))
            await self._next()
            while self._ends and self._ends[0][0] <= self._clock.now():
                await self._delete(*heapq.heappop(self._ends)[2])

    async def end(self) -> None:
        """Delete all that was made and is not for good; the next pods are in a namespace of their own."""
        while self._ends:
            await self._delete(*heapq.heappop(self._ends)[2])
        await self._next_namespace()

    async def _next(self) -> None:
        number, shape = self.pods, self.shape
        self.pods += 1
        if number % shape.pods_per_namespace == 0:
            await self._next_namespace()
        if number % shape.pods_per_template == 0:
            await self._next_template()
        if number % shape.pods_per_node == 0:
            await self._replace_node()
        await self._make_pod(number)

    async def _next_namespace(self) -> None:
        """Begin another namespace; the one before goes once its last pods have gone."""
        self._namespace += 1
        await self._create(Namespace(metadata=ObjectMeta(name=self._in, labels={"team": f"team-{self._namespace}"})))
        await self._create(
            Service(metadata=ObjectMeta(name="web", namespace=self._in), spec=ServiceSpec(selector={"app": "web"}))
        )
        # The cluster in memory deletes what is left in it.
        stay = 4 * self.shape.stay + self.shape.pods_per_namespace / self.shape.rate
        self._delete_later(stay, (Namespace, "", self._in))

    @property
    def _in(self) -> str:
        return f"space-{self._namespace}"

    async def _next_template(self) -> None:
        """Begin another revision of a Deployment, with a budget and a class of storage of its own."""
        self._template += 1
        name = f"web-{self._template}"
        budget = PodDisruptionBudget(
            metadata=ObjectMeta(name=name, namespace=self._in),
            spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=self._labels), min_available=1),
        )
        await self._create(budget)
        await self._create(storage_class(name, "example.com/csi"))
        self._delete_later(3 * self.shape.stay, (PodDisruptionBudget, self._in, name))
        self._delete_later(3 * self.shape.stay, (StorageClass, "", name))

    @property
    def _labels(self) -> dict[str, str]:
        return {"app": "web", "pod-template-hash": f"{self._template:x}-{self.shape.rate:g}"}

    async def _make_pod(self, number: int) -> None:
        name, random = f"pod-{number}-{random_suffix(self._random)}", self._random
        shape = random.random()
        ours = LabelSelector(match_labels=self._labels)
        owner = OwnerReference(
            api_version="apps/v1", kind="ReplicaSet", name=f"web-{self._template}", uid=f"rs-{self._template}"
        )
        pod = make_pod(
            name,
            namespace=self._in,
            labels=self._labels,
            annotations={"example.com/checksum": f"{random.getrandbits(64):x}"},
            owner=replace(owner, controller=True),
            cpu=f"{50 + self._template * 617 % 800}m",
            memory=f"{64 * 1024 + self._template}Ki",
            image=f"registry.example.com/web:{self._template}",
            topology_spread=[_spread(ours)] if self._template % 2 else (),
            affinity=_apart(ours, self._namespace) if self._template % 3 == 0 else None,
            tolerations=[f"dedicated=team-{self._template}:NoSchedule"],
            priority=None,
        )
        if shape < 0.30:
            labels = {"job-name": name, "controller-uid": f"uid-{number}", "batch.kubernetes.io/job-name": name}
            labels |= {"batch.kubernetes.io/controller-uid": f"uid-{number}"}
            runs = {RUN_SECONDS: f"{random.uniform(0.2, 0.8) * self.shape.stay:.1f}"}
            pod = make_pod(
                name,
                namespace=self._in,
                labels=labels,
                annotations=pod.metadata.annotations | runs,
                cpu=f"{50 + number * 617 % 1200}m",
                memory=f"{128 * 1024 + number}Ki",
                image=f"registry.example.com/job:{number}",
                topology_spread=[_spread(LabelSelector(match_labels={"job-name": name}))] if shape < 0.05 else (),
                affinity=_apart(LabelSelector(match_labels={"job-name": name}), number) if 0.05 < shape < 0.1 else None,
                host_ports=[1024 + number % 60_000] if 0.1 < shape < 0.15 else (),
            )
        elif shape < 0.34:
            await self._create(_nameless(claim(f"claim-{number}", f"web-{self._template}", namespace=self._in)))
            self._delete_later(3 * self.shape.stay, (PersistentVolumeClaim, self._in, f"claim-{number}"))
            pod = replace(pod, spec=replace(pod.spec, volumes=tuple(claim_volumes(f"claim-{number}"))))
        elif shape < 0.344:
            pod = make_pod(name, namespace=self._in, cpu="500", labels={"fits": f"nowhere-{number}"})
        elif shape < 0.36:
            pod = make_pod(name, namespace=self._in, gates=[f"example.com/gate-{number}"], labels=self._labels)
        elif shape < 0.38:
            pod = make_pod(name, namespace=self._in, node_selector={"example.com/pool": f"pool-{number}"})
        elif shape < 0.384:
            pod = make_pod(name, namespace=self._in, requests={f"example.com/device-{self._template}": 1})
        elif shape < 0.39:
            pod = make_pod(name, namespace=self._in, cpu="7500m", labels={"large": str(number)})
            pod = replace(pod, spec=replace(pod.spec, priority_class_name="high"))
        elif shape < 0.42:
            pod = make_pod(name, namespace=self._in, labels={"app": "agent"}, affinity=_APART_ANYWHERE)
        spec = replace(pod.spec, termination_grace_period_seconds=1) if shape >= 0.9 else pod.spec
        await self._create(_nameless(replace(pod, spec=spec)))
        self._delete_later(random.uniform(0.5, 1.5) * self.shape.stay, (Pod, self._in, name))

    async def _replace_node(self) -> None:
        """Replace one node by a new one, and change one that stays; pods of the old one outlive it by seconds."""
        name = self._nodes.pop(self._random.randrange(len(self._nodes)))
        await self._delete(Node, "", name)
        await self._add_node()
        changed = self._random.choice(self._nodes)
        patch = {"metadata": {"labels": {"example.com/revision": f"r{self._made_nodes}"}}}
        with suppress(ClusterError):
            await self._cluster.patch(Node, changed, patch)

    async def _add_node(self) -> None:
        self._made_nodes += 1
        number = self._made_nodes
        node = make_node(
            f"node-{number}-{random_suffix(self._random)}",
            zone=f"zone-{number % 3}",
            cpu=f"{16_000 + number % 1000}m",
            memory=f"{64 * 1024 * 1024 + number}Ki",
            labels={"example.com/pool": f"pool-{number}", f"example.com/only-{number % 500}": "yes"},
            annotations={"example.com/seen": f"{self._random.getrandbits(64):x}"},
            allocatable={f"example.com/device-{self._template}": 4},
            taints=[f"dedicated=team-{self._template}:NoSchedule"] if number % 10 == 0 else (),
            images={f"registry.example.com/web:{self._template}": 50_000_000 + number},
        )
        await self._create(_nameless(node))
        self._nodes.append(node.metadata.name)

    async def _create(self, subject: ApiObject) -> None:
        await self._ignore_conflict(lambda: self._cluster.create(subject))

    async def _delete(self, kind: type[ApiObject], namespace: str, name: str) -> None:
        volume = ""
        if kind is PersistentVolumeClaim:
            with suppress(ClusterError):
                volume = (await self._cluster.get(PersistentVolumeClaim, name, namespace)).spec.volume_name or ""
        await self._ignore_conflict(lambda: self._cluster.delete(kind, name, namespace))
        if volume:
            await self._delete(PersistentVolume, "", volume)

    async def _ignore_conflict(self, call: Callable[[], Awaitable[object]]) -> None:
        """Call, and take it as done if others were quicker."""
        try:
            await call()
        except ClusterError as error:
            if error.status not in (404, 409):
                raise

    def _delete_later(self, seconds: float, thing: _Thing) -> None:
        self._serial += 1
        heapq.heappush(self._ends, (self._clock.now() + seconds, self._serial, thing))


#: What all pods of one shape share, wherever they are.
_APART_ANYWHERE = Affinity(
    pod_anti_affinity=PodAntiAffinity(
        required_during_scheduling_ignored_during_execution=(
            PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "agent"}), topology_key=HOSTNAME),
        )
    )
)


def random_suffix(random: Random) -> str:
    """Make what generateName appends."""
    return "".join(random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))


def _nameless(made: T) -> T:
    """Leave the uid to the API."""
    return replace(made, metadata=replace(made.metadata, uid=""))


def _spread(selector: LabelSelector) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=3, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=selector
    )


def _apart(selector: LabelSelector, number: int) -> Affinity:
    space = LabelSelector(match_labels={"team": f"team-{number}"})
    terms = (
        PodAffinityTerm(label_selector=selector, topology_key=HOSTNAME),
        PodAffinityTerm(label_selector=selector, topology_key=f"{ZONE}-{number % 5}", namespace_selector=space),
    )
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=terms))
