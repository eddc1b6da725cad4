"""Claims get their volumes as from the real controllers, without anything being stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.volume_controller import VolumeController
from kframework.objects import (
    ApiObject,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeNodeAffinity,
)
from kframework.objects.claims import is_bound
from kframework.testing import make_node, make_pod
from tests.support.storage import HOSTNAME, ZONE, claim, ephemeral, label_affinity, reference, storage_class, volume

DRIVER = "csi.example.com"
NOW, LATER = storage_class("now", DRIVER, "Immediate"), storage_class("later", DRIVER)
BY_US, COMPLETE = "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/bind-completed"


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@asynccontextmanager
async def running(*objects: ApiObject) -> AsyncIterator[MemoryCluster]:
    """Run a controller over a cluster; it has done its work when the block begins."""
    memory = MemoryCluster(LoopClock(asyncio.get_running_loop()), objects)
    controller = VolumeController(memory)
    task = asyncio.ensure_future(controller.run())
    await settled(controller)
    yield memory
    await settled(controller)
    assert not task.done(), task.exception()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def settled(controller: VolumeController) -> None:
    await asyncio.sleep(0.1)
    assert controller.idle


def the_claim(cluster: MemoryCluster, name: str = "data") -> PersistentVolumeClaim:
    return cluster.read(PersistentVolumeClaim, name, "default")


def volume_of(cluster: MemoryCluster, name: str = "data") -> PersistentVolume | None:
    """Return the volume of a claim, None while it is not bound; both must say so."""
    mine = the_claim(cluster, name)
    if not is_bound(mine):
        assert (mine.spec.volume_name, mine.status.phase) in (("", "Pending"), ("disk", "Pending"))
        return None
    actual = cluster.read(PersistentVolume, mine.spec.volume_name)
    by = actual.spec.claim_ref
    assert by is not None and (by.uid, by.name, by.namespace) == (mine.metadata.uid, name, "default")
    assert (mine.status.phase, actual.status.phase) == ("Bound", "Bound")
    assert mine.status.capacity == actual.spec.capacity
    return actual


async def test_smallest_matching_volume_is_bound() -> None:
    disks = [volume("large", "now", "9Gi"), volume("fits", "now", "3Gi"), volume("small", "now", "1Gi", phase="")]
    async with running(
        *disks, volume("other", "x", "2Gi"), storage_class("now", mode="Immediate"), claim(of="now", size="2Gi")
    ) as cluster:
        actual = volume_of(cluster)
        assert actual is not None and actual.metadata.name == "fits"
        assert actual.metadata.annotations == {BY_US: "yes"}
        assert the_claim(cluster).metadata.annotations == {BY_US: "yes", COMPLETE: "yes"}
        assert cluster.read(PersistentVolume, "small").status.phase == "Available"


async def test_claim_without_a_class_gets_a_volume_without_one() -> None:
    async with running(claim(of=""), volume("disk", of="")) as cluster:
        actual = volume_of(cluster)
        assert actual is not None and actual.metadata.name == "disk"


async def test_claim_is_bound_when_a_volume_appears() -> None:
    async with running(claim(of="hand"), storage_class("hand", mode="Immediate")) as cluster:
        assert volume_of(cluster) is None
        cluster.add(volume("disk", of="hand", phase=""))
        await asyncio.sleep(0.1)
        assert volume_of(cluster) is not None


@pytest.mark.parametrize("phase", ["", "Available"])
async def test_volume_may_be_reserved_for_a_claim(phase: str) -> None:
    async with running(
        claim(of="later"), LATER, volume(of="later", kept_for=reference(uid=""), phase=phase)
    ) as cluster:
        actual = volume_of(cluster)
        assert actual is not None and actual.metadata.annotations == {}


async def test_claim_may_name_its_volume() -> None:
    async with running(claim(of="x", volumeName="disk")) as cluster:
        assert volume_of(cluster) is None
        cluster.add(volume(of="x"))
        await asyncio.sleep(0.1)
        assert volume_of(cluster) is not None
        assert the_claim(cluster).metadata.annotations == {COMPLETE: "yes"}


@pytest.mark.parametrize(
    "wrong", [{"size": "1Mi"}, {"of": "y"}, {"volumeMode": "Block"}, {"accessModes": ["ReadOnlyMany"]}]
)
async def test_claim_is_not_bound_to_a_named_volume_that_does_not_match(wrong: Mapping[str, Any]) -> None:
    async with running(claim(of="x", volumeName="disk"), volume(**{"of": "x"} | dict(wrong))) as cluster:
        assert volume_of(cluster) is None


@pytest.mark.parametrize("wrong", [{"size": "1Mi"}, {"volumeMode": "Block"}, {"accessModes": ["ReadOnlyMany"]}])
async def test_reserved_volume_that_does_not_match_is_skipped(wrong: Mapping[str, Any]) -> None:
    kept = volume("kept", "now", kept_for=reference(uid=""), **wrong)
    async with running(kept, volume(of="now"), claim(of="now"), storage_class("now", mode="Immediate")) as cluster:
        actual = volume_of(cluster)
        assert actual is not None and actual.metadata.name == "disk"


async def test_volume_of_another_claim_is_left_alone() -> None:
    async with running(claim(of="x", volumeName="disk"), volume(of="x", kept_for=reference("other"))) as cluster:
        assert volume_of(cluster) is None


async def test_waiting_claim_gets_the_volume_reserved_by_the_scheduler() -> None:
    async with running(claim(), storage_class(), volume()) as cluster:
        assert volume_of(cluster) is None
        await cluster.patch(PersistentVolume, "disk", {"spec": {"claimRef": reference()}})
        await asyncio.sleep(0.1)
        actual = volume_of(cluster)
        assert actual is not None and actual.metadata.name == "disk"


async def test_volume_is_provisioned_immediately() -> None:
    async with running(claim(of="now", size="3Gi", volumeMode="Block"), NOW) as cluster:
        actual = volume_of(cluster)
        assert actual is not None and actual.metadata.name == "pvc-uid-data"
        spec = actual.spec
        assert (spec.capacity, spec.access_modes, spec.volume_mode) == ({"storage": "3Gi"}, ("ReadWriteOnce",), "Block")
        assert (spec.storage_class_name, spec.node_affinity) == ("now", None)
        assert spec.csi is not None and spec.csi.driver == DRIVER
        assert actual.metadata.annotations == {"pv.kubernetes.io/provisioned-by": DRIVER}


async def test_volume_is_provisioned_for_the_selected_node() -> None:
    async with running(claim(of="later"), LATER, make_node("n")) as cluster:
        assert volume_of(cluster) is None
        await selected(cluster, "gone")
        assert volume_of(cluster) is None
        await selected(cluster, "n")
        actual = volume_of(cluster)
        assert actual is not None and actual.spec.node_affinity == affinity(label_affinity(HOSTNAME, "n"))


async def test_volume_is_provisioned_when_the_selected_node_appears() -> None:
    async with running(claim(of="later", selected="n"), LATER) as cluster:
        assert volume_of(cluster) is None
        cluster.add(make_node("n"))
        await asyncio.sleep(0.1)
        assert volume_of(cluster) is not None


async def selected(cluster: MemoryCluster, node: str) -> None:
    patch = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}}
    await cluster.patch(PersistentVolumeClaim, "data", patch, "default")
    await asyncio.sleep(0.1)


def affinity(stated: Mapping[str, Any]) -> VolumeNodeAffinity | None:
    return volume(on=stated).spec.node_affinity


@pytest.mark.parametrize(
    ("allowed", "keys", "reached"),
    [
        ([], (), label_affinity(HOSTNAME, "n")),
        ([{ZONE: ["a"]}, {ZONE: ["b", "z"]}], (), label_affinity(ZONE, "z")),
        ([], (ZONE,), label_affinity(ZONE, "z")),
        ([{HOSTNAME: ["n"]}], (ZONE,), label_affinity(HOSTNAME, "n")),
        ([], ("unknown",), None),
    ],
)
async def test_provisioned_volume_has_the_topology_of_the_node(
    allowed: list[Mapping[str, list[str]]], keys: tuple[str, ...], reached: Mapping[str, Any] | None
) -> None:
    spec = CSINodeSpec(drivers=(CSINodeDriver(name="other"), CSINodeDriver(name=DRIVER, topology_keys=keys)))
    csi_node = CSINode(metadata=ObjectMeta(name="n"), spec=spec)
    later = storage_class("later", DRIVER, allowed=allowed)
    async with running(claim(of="later", selected="n"), later, make_node("n", zone="z"), csi_node) as cluster:
        actual = volume_of(cluster)
        assert actual is not None
        assert actual.spec.node_affinity == (affinity(reached) if reached is not None else None)


async def test_immediate_volume_has_all_allowed_topologies() -> None:
    now = storage_class("now", DRIVER, "Immediate", allowed=[{ZONE: ["a", "b"]}])
    async with running(claim(of="now"), now) as cluster:
        actual = volume_of(cluster)
        assert actual is not None and actual.spec.node_affinity == affinity(label_affinity(ZONE, "a", "b"))


@pytest.mark.parametrize("provisioner", ["", "kubernetes.io/no-provisioner"])
async def test_class_without_a_provisioner_gets_no_volume(provisioner: str) -> None:
    async with running(claim(selected="n"), storage_class("local", provisioner), make_node("n")) as cluster:
        assert volume_of(cluster) is None


async def test_volume_is_provisioned_when_the_class_appears() -> None:
    async with running(claim(of="now")) as cluster:
        assert volume_of(cluster) is None
        cluster.add(NOW)
        await asyncio.sleep(0.1)
        assert volume_of(cluster) is not None


async def test_claim_without_a_class_gets_the_default_one() -> None:
    default = storage_class("first", DRIVER, "Immediate", default=True)
    async with running(claim(of=None), storage_class("other", DRIVER), default) as cluster:
        actual = volume_of(cluster)
        assert actual is not None and actual.spec.storage_class_name == "first"
        assert the_claim(cluster).spec.storage_class_name == "first"


async def test_ephemeral_claim_lives_as_long_as_its_pod() -> None:
    pod = make_pod("web", volumes=[ephemeral("scratch", "now", "3Gi")])
    async with running(pod, NOW) as cluster:
        assert volume_of(cluster, "web-scratch") is not None
        (owner,) = the_claim(cluster, "web-scratch").metadata.owner_references
        assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Pod", "web", pod.metadata.uid, True)
        cluster.remove(Pod, "web", "default")
        await asyncio.sleep(0.1)
        assert cluster.find(PersistentVolumeClaim, "web-scratch", "default") is None


async def test_terminating_pod_gets_no_claim() -> None:
    pod = make_pod("web", volumes=[ephemeral("scratch", "now")])
    going = replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    async with running(going, NOW) as cluster:
        assert cluster.find(PersistentVolumeClaim, "web-scratch", "default") is None


async def test_claim_of_another_owner_is_left_alone() -> None:
    pod = make_pod("web", volumes=[ephemeral("scratch", "now")])
    async with running(pod, claim("web-scratch", "later"), NOW, LATER) as cluster:
        assert the_claim(cluster, "web-scratch").spec.storage_class_name == "later"
        cluster.remove(Pod, "web", "default")
        await asyncio.sleep(0.1)
        assert the_claim(cluster, "web-scratch")


async def test_recreated_pod_gets_its_own_claim() -> None:
    pod = make_pod("web", volumes=[ephemeral("scratch", "now")])
    async with running(pod, NOW) as cluster:
        cluster.remove(Pod, "web", "default")
        await asyncio.sleep(0.1)
        cluster.add(replace(pod, metadata=replace(pod.metadata, uid="second")))
        await asyncio.sleep(0.1)
        assert the_claim(cluster, "web-scratch").metadata.owner_references[0].uid == "second"


async def test_volume_of_a_deleted_claim_is_released() -> None:
    async with running(claim(of="hand"), storage_class("hand", mode="Immediate"), volume("disk", of="hand")) as cluster:
        cluster.remove(PersistentVolumeClaim, "data", "default")
        await asyncio.sleep(0.1)
        assert cluster.read(PersistentVolume, "disk").status.phase == "Released"
        cluster.add(claim(of="hand", metadata={"uid": "second"}))
        await asyncio.sleep(0.1)
        assert volume_of(cluster) is None  # its data are another claim's


@pytest.mark.parametrize(("policy", "phases"), [("Delete", []), ("Retain", ["Released"])])
async def test_provisioned_volume_is_deleted_with_its_claim_by_the_policy(policy: str, phases: list[str]) -> None:
    async with running(claim(of="now"), replace(NOW, reclaim_policy=policy)) as cluster:
        cluster.remove(PersistentVolumeClaim, "data", "default")
        await asyncio.sleep(0.1)
        assert [each.status.phase for each in cluster.objects(PersistentVolume)] == phases


async def test_deleted_volume_is_forgotten() -> None:
    memory = MemoryCluster(LoopClock(asyncio.get_running_loop()), [NOW, claim("data", "now")])
    controller = VolumeController(memory)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(controller.run())
        await settled(controller)
        created = volume_of(memory)
        assert created is not None
        memory.remove(PersistentVolumeClaim, "data", "default")
        memory.remove(PersistentVolume, created.metadata.name)
        await settled(controller)
        task.cancel()
    assert not any(held for held in vars(controller).values() if isinstance(held, dict))
