"""A binding cycle survives whatever happens at whatever point of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count, product

import pytest
from msgspec.structs import replace

from kframework import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import RUN_SECONDS
from kframework.objects import ApiObject, Node, Pod
from kframework.scheduler.cluster_api import ClusterApi
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod
from tests.faults.interrupted_binding import Interrupt, InterruptedBinding, Silence
from tests.support.scale import sampled
from tests.support.storage import claim, claim_volumes, storage_class

#: Of the names that the plugin RandomPermit lets wait, and of those that it does not.
PATIENT, PLAIN = "pod-d", "pod-a"

NODES: Sequence[ApiObject] = (make_node("a", cpu=1), make_node("b", cpu=1), storage_class("made", "example.com/csi"))


def target(name: str = PLAIN, *, claimed: bool = False) -> list[ApiObject]:
    """Make a pod that fills a node, and its claim."""
    pod = make_pod(name, cpu=1, volumes=claim_volumes("data") if claimed else (), annotations={RUN_SECONDS: "5"})
    made = claim("data", "made")
    return [pod, replace(made, metadata=replace(made.metadata, uid=""))] if claimed else [pod]


CYCLES: dict[str, list[ApiObject]] = {
    "plain": [*NODES, *target()],
    "waiting": [*NODES, *target(PATIENT)],
    "claimed": [*NODES, *target(claimed=True)],
    "crowded": [NODES[0], *target(), *target("pod-b"), *target("pod-c")],
}


def first_pod(cluster: MemoryCluster) -> Pod:
    return cluster.objects(Pod)[0]


def delete_pod(grace: int | None) -> Interrupt:
    def strike(cluster: MemoryCluster) -> None:
        metadata = first_pod(cluster).metadata
        cluster.remove(Pod, metadata.name, metadata.namespace, grace=grace)

    return strike


def replace_pod(cluster: MemoryCluster) -> None:
    """Delete the pod, and create another one of its name."""
    pod = first_pod(cluster)
    delete_pod(0)(cluster)
    made = make_pod(pod.metadata.name, cpu=1, volumes=pod.spec.volumes)
    cluster.add(replace(made, metadata=replace(made.metadata, uid="")))


def delete_node(cluster: MemoryCluster) -> None:
    """Take all nodes away for a while, the one that the pod is to get among them."""
    nodes = cluster.objects(Node)
    for node in nodes:
        cluster.remove(Node, node.metadata.name)
        asyncio.get_running_loop().call_later(15.0, cluster.add, anew(node))


def anew(node: Node) -> Node:
    return replace(node, metadata=replace(node.metadata, uid="", resource_version=""))


def replace_node(cluster: MemoryCluster) -> None:
    for node in cluster.objects(Node):
        cluster.remove(Node, node.metadata.name)
        cluster.add(anew(node))


def cordon_node(cluster: MemoryCluster) -> None:
    for node in cluster.objects(Node):
        cluster.replace(replace(node, spec=replace(node.spec, unschedulable=True)))
        asyncio.get_running_loop().call_later(15.0, uncordon, cluster, node.metadata.name)


def uncordon(cluster: MemoryCluster, name: str) -> None:
    node = cluster.read(Node, name)
    cluster.replace(replace(node, spec=replace(node.spec, unschedulable=False)))


def bind_elsewhere(cluster: MemoryCluster) -> None:
    """Let another client bind the pod, to the node that is free then."""
    pod = first_pod(cluster)
    taken = {each.spec.node_name for each in cluster.objects(Pod)}
    free = {node.metadata.name for node in cluster.objects(Node)} - taken
    if not pod.spec.node_name and free:
        cluster.assign(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, min(free))


def silence(cluster: MemoryCluster) -> None:
    raise Silence


def no_answer(cluster: MemoryCluster) -> None:
    raise ClusterError("no answer", status=0, retryable=True)


def unavailable(cluster: MemoryCluster) -> None:
    raise ClusterError("unavailable", status=503, retryable=True)


STRIKES: dict[str, Interrupt] = {
    "pod gone": delete_pod(0),
    "pod deleted": delete_pod(None),
    "pod replaced": replace_pod,
    "node gone": delete_node,
    "node replaced": replace_node,
    "node cordoned": cordon_node,
    "bound elsewhere": bind_elsewhere,
    "no answer": no_answer,
    "silence": silence,
    "unavailable": unavailable,
}


def interruption_problems(cycle: str, strike: Interrupt) -> list[tuple[int, str]]:
    """Strike at every point of a cycle, and return what did not hold."""
    problems = []
    for at in count(1):
        run = InterruptedBinding(CYCLES[cycle], at, strike)
        problems += [(at, problem) for problem in run.run()]
        if not run.reached:
            assert at > 6, "hardly a point was reached"
            return problems
    raise AssertionError


async def never_read_back(self: ClusterApi, pod: PendingPod, node_name: str) -> None:
    await self._cluster.bind(pod.namespace, pod.name, pod.uid, node_name)


@pytest.mark.slow
def test_room_freed_too_early_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterApi, "bind", never_read_back)
    assert [text for _, text in interruption_problems("crowded", silence) if "is overcommitted by" in text]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cycle", "strike"),
    # Where there is room for one pod only, two who bind do overcommit the node.
    sampled(each for each in product(CYCLES, STRIKES) if each != ("crowded", "bound elsewhere")),
)
def test_binding_cycle_survives_an_interruption_at_any_point(cycle: str, strike: str) -> None:
    assert not interruption_problems(cycle, STRIKES[strike])
