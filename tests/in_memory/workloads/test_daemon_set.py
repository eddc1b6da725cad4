"""A daemon set has a pod on each node that it fits, and replaces them without doing without too many."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from kframework.clock import VirtualTimeLoop
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.workloads.revisions import REVISION_LABEL
from kframework.objects import ControllerRevision, DaemonSet, Node, NodeSpec, Pod, RollingUpdate, Taint, UpdateStrategy
from kframework.testing import make_node
from tests.in_memory.workloads.workload_cluster import daemon_set, pods, run_controllers


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


NODES = [make_node(name) for name in ("n1", "n2", "n3", "n4")]


def with_template(**spec: object) -> DaemonSet:
    created = daemon_set()
    template = replace(created.spec.template, spec=created.spec.template.spec | spec)
    return replace(created, spec=replace(created.spec, template=template))


def rolling(surge: int | str | None = None, unavailable: int | str | None = None) -> UpdateStrategy:
    return UpdateStrategy(
        type="RollingUpdate", rolling_update=RollingUpdate(max_surge=surge, max_unavailable=unavailable)
    )


def nodes(memory: MemoryCluster) -> list[str]:
    return sorted(pod.spec.node_name for pod in memory.objects(Pod))


def images(memory: MemoryCluster) -> list[str]:
    return [pod.spec.containers[0].image for pod in memory.objects(Pod)]


def numbers(memory: MemoryCluster) -> tuple[int, ...]:
    result = memory.read(DaemonSet, "web").status
    return (
        result.desired_number_scheduled,
        result.current_number_scheduled,
        result.number_misscheduled,
        result.number_ready,
        result.updated_number_scheduled,
        result.number_available,
        result.number_unavailable,
    )


async def roll(memory: MemoryCluster, image: str, seconds: float = 120) -> None:
    spec: dict[str, Any] = daemon_set().spec.template.spec
    container = {**spec["containers"][0], "image": image}
    memory.merge(DaemonSet, "web", {"spec": {"template": {"spec": {"containers": [container]}}}})
    await asyncio.sleep(seconds)


def tainted(name: str, key: str, effect: str) -> Node:
    node = make_node(name)
    return replace(node, spec=NodeSpec(taints=(Taint(key=key, effect=effect),)))


@pytest.mark.parametrize(
    ("owner", "others", "expected"),
    [
        pytest.param(daemon_set(), [], ["n1"], id="each node"),
        pytest.param(daemon_set(), [tainted("n2", "own", "NoSchedule")], ["n1"], id="but for tainted ones"),
        pytest.param(daemon_set(), [tainted("n2", "own", "PreferNoSchedule")], ["n1", "n2"], id="a mild taint"),
        pytest.param(
            daemon_set(),
            [tainted("n2", "node.kubernetes.io/unschedulable", "NoSchedule")],
            ["n1", "n2"],
            id="what befalls nodes is tolerated",
        ),
        pytest.param(
            with_template(tolerations=[{"key": "own", "operator": "Exists"}]),
            [tainted("n2", "own", "NoExecute")],
            ["n1", "n2"],
            id="and what the template tolerates",
        ),
        pytest.param(
            with_template(nodeSelector={"disk": "ssd"}),
            [make_node("n2", labels={"disk": "ssd"})],
            ["n2"],
            id="selected",
        ),
        pytest.param(with_template(nodeName="n2"), [make_node("n2")], ["n2"], id="by name"),
    ],
)
async def test_matching_nodes_get_a_pod(owner: DaemonSet, others: list[Node], expected: list[str]) -> None:
    async with run_controllers(make_node("n1"), *others, owner) as memory:
        assert nodes(memory) == expected
        count = len(expected)
        assert numbers(memory) == (count, count, 0, count, count, count, 0)


async def test_daemon_pod_fits_only_its_node() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]}
    owner = with_template(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}, hostNetwork=True
    )
    async with run_controllers(make_node("n1"), make_node("n2", labels={"disk": "ssd"}), owner) as memory:
        (pod,) = memory.objects(Pod)
        assert pod.spec.affinity is not None and pod.spec.affinity.node_affinity is not None
        required_now = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        assert required_now is not None
        assert pod.metadata.labels["pod-template-generation"] == "1"
        (term,) = required_now.node_selector_terms
        assert [(each.key, each.values) for each in term.match_fields] == [("metadata.name", ("n1",))]
        assert term.match_expressions == ()
        keys = [each.key.removeprefix("node.kubernetes.io/") for each in pod.spec.tolerations]
        assert keys[:7] == [
            "not-ready",
            "unreachable",
            "disk-pressure",
            "memory-pressure",
            "pid-pressure",
            "unschedulable",
            "network-unavailable",
        ]


async def test_pods_follow_nodes() -> None:
    async with run_controllers(make_node("n1"), daemon_set()) as memory:
        memory.add(make_node("n2"))
        await asyncio.sleep(5)
        assert nodes(memory) == ["n1", "n2"]
        for effect, left, status in (("NoSchedule", 2, (1, 1, 1)), ("NoExecute", 1, (1, 1, 0))):
            memory.merge(Node, "n2", {"spec": {"taints": [{"key": "own", "effect": effect}]}})
            await asyncio.sleep(5)
            assert (len(nodes(memory)), numbers(memory)[:3]) == (left, status)


@pytest.mark.parametrize(
    ("strategy", "most", "fewest"),
    [
        (UpdateStrategy(), 4, 3),
        (rolling(unavailable=2), 4, 2),
        (rolling(unavailable="50%"), 4, 2),
        (rolling(surge=1, unavailable=0), 5, 4),
        (rolling(surge="50%", unavailable=0), 6, 4),
    ],
)
async def test_rollout_respects_its_limits(strategy: UpdateStrategy, most: int, fewest: int) -> None:
    async with run_controllers(*NODES, daemon_set(update_strategy=strategy, min_ready_seconds=3)) as memory:
        await asyncio.sleep(10)
        assert numbers(memory) == (4, 4, 0, 4, 4, 4, 0)
        recorded: list[tuple[int, int]] = []

        def note(change: object) -> None:
            alive = [pod for pod in memory.objects(Pod) if pod.metadata.deletion_timestamp is None]
            recorded.append((len(alive), sum(pod.status.phase == "Running" for pod in alive)))

        memory.subscribe([Pod], note)
        await roll(memory, "app:2")
        assert (max(count for count, _ in recorded), min(ready for _, ready in recorded)) == (most, fewest)
        assert (images(memory), numbers(memory)) == (["app:2"] * 4, (4, 4, 0, 4, 4, 4, 0))


async def test_on_delete_pods_are_updated_when_deleted() -> None:
    async with run_controllers(*NODES[:2], daemon_set(update_strategy=UpdateStrategy(type="OnDelete"))) as memory:
        await roll(memory, "app:2")
        assert (images(memory), numbers(memory)[4]) == (["app:1", "app:1"], 0)
        memory.remove(Pod, pods(memory)[0])
        await asyncio.sleep(40)
        assert (sorted(images(memory)), numbers(memory)[4]) == (["app:1", "app:2"], 1)


async def test_old_template_reuses_its_revision() -> None:
    async with run_controllers(NODES[0], daemon_set()) as memory:
        for image in ("app:2", "app:1"):
            await roll(memory, image)
        revisions = memory.objects(ControllerRevision)
        assert sorted(each.revision for each in revisions) == [2, 3]
        latest = max(revisions, key=lambda each: each.revision)
        label = memory.objects(Pod)[0].metadata.labels[REVISION_LABEL]
        assert latest.metadata.name == f"web-{label}" and latest.metadata.labels[REVISION_LABEL] == label


async def test_failed_pods_are_replaced_with_backoff() -> None:
    async with run_controllers(NODES[0], daemon_set()) as memory:
        deleted = asyncio.Event()
        memory.subscribe([Pod], lambda change: deleted.set() if change.new is None else None)
        times = []
        for _ in range(4):
            pod = memory.objects(Pod)[0]
            deleted.clear()
            memory.set_status(pod, replace(pod.status, phase="Failed"))
            await deleted.wait()
            times.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.1)
        assert [round(after - before) for before, after in pairwise(times)] == [1, 2, 4]


@pytest.mark.parametrize(("policy", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 2)])
async def test_pods_and_revisions_are_deleted_with_their_owner_unless_orphaned(policy: str, left: int) -> None:
    async with run_controllers(*NODES[:2], daemon_set()) as memory:
        before = pods(memory)
        memory.remove(DaemonSet, "web", policy=policy)
        await asyncio.sleep(40)
        assert memory.find(DaemonSet, "web") is None
        assert (len(pods(memory)), len(memory.objects(ControllerRevision))) == (left, min(left, 1))
        if left:
            memory.add(daemon_set())
            await asyncio.sleep(5)
            assert (pods(memory), numbers(memory)) == (before, (2, 2, 0, 2, 2, 2, 0))


async def test_controller_can_be_disabled() -> None:
    async with run_controllers(NODES[0], daemon_set(), controllers=["*", "-daemonset"]) as memory:
        assert pods(memory) == []
