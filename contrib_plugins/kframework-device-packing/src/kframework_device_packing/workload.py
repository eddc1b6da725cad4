"""The workload of the simulation: pods with small and large claims that come and go on nodes of cards to be cut up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from kframework.objects import (
    ApiObject,
    DeviceClass,
    Node,
    Pod,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kframework.testing import make_node, make_pod

DRIVER = "gpu.example.com"
CARDS = 4
#: What a card has.
SLICES, MEMORY = 7, 80
#: Pods come until so much of the slices is taken; then pods end until it is so much less.
FULL, EBB = 0.85, 0.80

Kind = TypeVar("Kind", bound=ApiObject)


class Size(NamedTuple):
    """Slices and gigabytes that a claim takes, how many of these a card can be cut into, and how frequent they are."""

    slices: int
    memory: int
    each: int
    share: int


#: As an A100 of 80 GB is cut up: 1g.10gb, 2g.20gb, 3g.40gb, 7g.80gb. Each size makes up about a quarter of the demand.
SIZES: Mapping[str, Size] = {
    "small": Size(1, 10, 7, 12),
    "middle": Size(2, 20, 3, 6),
    "large": Size(3, 40, 2, 4),
    "whole": Size(7, 80, 1, 2),
}


class Cluster(Protocol):
    """What is needed of the cluster in memory that a scenario hands to its actions."""

    def add(self, subject: Pod) -> Pod:
        """Create a pod."""
        ...

    def read(self, kind: type[Kind], name: str, namespace: str) -> Kind:
        """Return an object."""
        ...

    def remove(self, kind: type[ApiObject], name: str, namespace: str) -> None:
        """Delete a pod; one on a node first gets its grace period."""
        ...


def make_nodes(number: int) -> list[Node]:
    """Make the nodes of the cluster."""
    return [make_node(f"gpu-{place}", cpu=96, memory="768Gi") for place in range(number)]


def make_devices(nodes: int) -> list[ApiObject]:
    """Make the cards of the nodes, and for each size a class and a template of claims."""
    made: list[ApiObject] = []
    for size in SIZES:
        selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].size == "{size}"'}}
        of_class = {"metadata": {"name": size}, "spec": {"selectors": [selector]}}
        request = {"name": "gpu", "exactly": {"deviceClassName": size}}
        template = {
            "metadata": {"name": size, "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        made += [msgspec.convert(of_class, DeviceClass), msgspec.convert(template, ResourceClaimTemplate)]
    for node in make_nodes(nodes):
        made += _slices(node.metadata.name)
    return made


def _slices(node: str) -> Iterator[ResourceSlice]:
    """Yield the two slices of a node: counters stand in one of their own."""
    counters = [{"name": f"card-{card}", "counters": _counters(SLICES, MEMORY)} for card in range(CARDS)]
    devices = [
        {
            "name": f"card-{card}-{name}-{number}",
            "attributes": {"size": {"string": name}},
            "consumesCounters": [{"counterSet": f"card-{card}", "counters": _counters(size.slices, size.memory)}],
        }
        for card in range(CARDS)
        for name, size in SIZES.items()
        for number in range(size.each)
    ]
    for suffix, said in (("counters", {"sharedCounters": counters}), ("devices", {"devices": devices})):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **said}
        yield msgspec.convert({"metadata": {"name": f"{node}-{suffix}"}, "spec": spec}, ResourceSlice)


def _counters(slices: int, memory: int) -> Mapping[str, Mapping[str, str]]:
    return {"slices": {"value": str(slices)}, "memory": {"value": f"{memory}Gi"}}


def claiming(pod: Pod, size: str) -> Pod:
    """Let a pod have a claim of this size made for it."""
    claim = PodResourceClaim(name="gpu", resource_claim_template_name=size)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resource_claims=(claim,)))


class Running(NamedTuple):
    """A pod that has its devices."""

    name: str
    size: str
    #: Its node and the number of the card there.
    card: tuple[str, str]


class Left(NamedTuple):
    """What is left of a card."""

    slices: int
    memory: int

    def room(self, size: Size) -> int:
        """Return how many claims of a size it could still take."""
        return min(self.slices // size.slices, self.memory // size.memory)


class Course:
    """What happens to the cluster, step by step; the scheduler has its say between two steps.

    In each step one pod comes. The one before it, if it found no room, is turned away. Whenever the cluster is so
    full, it is noted what is left of each card, and pods drawn at random end. The first `warm_up` pods fill the cluster
    and shuffle it; nothing is noted until they have come.
    """

    def __init__(self, nodes: int, seed: int, warm_up: int) -> None:
        self._slices = nodes * CARDS * SLICES
        self._coming = Random(f"pods that come {seed}")
        self._going = Random(f"pods that go {seed}")
        self._warm_up = warm_up
        self._latest: tuple[Pod, str] | None = None
        self._running: list[Running] = []
        self._cards = [(node.metadata.name, str(card)) for node in make_nodes(nodes) for card in range(CARDS)]
        self._came = 0
        #: What was left of each card, every time the cluster was full.
        self.counts: list[list[Left]] = []
        #: How many claims of each size came, and those of them that were turned away.
        self.asked: Counter[str] = Counter()
        self.turned_away: Counter[str] = Counter()

    def step(self, cluster: Cluster) -> None:
        """Let one pod come, after what follows from the one before."""
        if self._latest is not None:
            self._settle(cluster, *self._latest)
        if self._taken() >= FULL * self._slices:
            if self._counting:
                self.counts.append(list(self._left()))
            self._end_some(cluster)
        self._came += 1
        size, pod = self._pod()
        self._latest = cluster.add(pod), size

    @property
    def _counting(self) -> bool:
        return self._came > self._warm_up

    def _taken(self) -> int:
        return sum(SIZES[pod.size].slices for pod in self._running)

    def _left(self) -> Iterator[Left]:
        slices, memory = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for pod in self._running:
            slices[pod.card] += SIZES[pod.size].slices
            memory[pod.card] += SIZES[pod.size].memory
        for card in self._cards:
            yield Left(SLICES - slices[card], MEMORY - memory[card])

    def _settle(self, cluster: Cluster, pod: Pod, size: str) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        pod = cluster.read(Pod, name, namespace)
        placed = bool(pod.spec.node_name)
        if placed:
            claim = cluster.read(
                ResourceClaim, pod.status.resource_claim_statuses[0].resource_claim_name or "", namespace
            )
            assert claim.status.allocation is not None, "a pod that is bound has its devices"
            (got,) = claim.status.allocation.devices.results
            self._running.append(Running(name, size, (got.pool, got.device.split("-")[1])))
        else:
            cluster.remove(Pod, name, namespace)
        if self._counting:
            self.asked[size] += 1
            self.turned_away[size] += not placed

    def _end_some(self, cluster: Cluster) -> None:
        while self._taken() > EBB * self._slices:
            pod = self._running.pop(self._going.randrange(len(self._running)))
            cluster.remove(Pod, pod.name, "default")

    def _pod(self) -> tuple[str, Pod]:
        (name,) = self._coming.choices(list(SIZES), [size.share for size in SIZES.values()])
        # At most 84 of 96 CPUs and 672 of 768 GiB for all slices of a node, so that nothing but devices runs out.
        slices = SIZES[name].slices
        cpu, memory = slices * self._coming.randint(1, 3), slices * self._coming.randint(8, 24)
        return name, claiming(make_pod(f"pod-{self._came}", cpu=cpu, memory=f"{memory}Gi"), name)
