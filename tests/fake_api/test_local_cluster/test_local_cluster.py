"""A whole cluster in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kframework.clock import LoopClock
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.local_cluster import LocalCluster
from kframework.in_memory.kubelet import ENDING_SECONDS
from kframework.objects import (
    Node,
    ObjectMeta,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    Service,
    ServiceSpec,
    StorageClass,
)
from kframework.objects.manifest import Manifest
from kframework.objects.manifest import read as read_files
from tests.fake_api.local_api import PODS, pod, read, request


async def test_cluster_has_its_service_unless_a_file_contains_it() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    path = "/api/v1/namespaces/default/services/kubernetes"

    async def actual(manifest: Manifest) -> object:
        spec = read((await InProcessTransport(LocalCluster(clock, manifest).server).send(request("GET", path))).body)[
            "spec"
        ]
        return spec.get("clusterIP"), spec.get("selector")

    assert await actual(Manifest([])) == ("10.96.0.1", None)
    own = Service(metadata=ObjectMeta(name="kubernetes", namespace="default"), spec=ServiceSpec(selector={"a": "b"}))
    assert await actual(Manifest([own])) == (None, {"a": "b"})


@pytest.mark.parametrize("path", ["/api/v1/namespaces/default", "/api/v1/namespaces/default/services/kubernetes"])
async def test_watch_starts_at_the_version_of_each_initial_object(path: str) -> None:
    local = LocalCluster(LoopClock(asyncio.get_running_loop()), Manifest([]))
    local.memory.add(Node(metadata=ObjectMeta(name="n1")))
    found = read((await local.server.answer(request("GET", path))).body)
    plural = "services" if "services" in path else "namespaces"
    query = {"watch": "true", "resourceVersion": found["metadata"]["resourceVersion"], "timeoutSeconds": "1"}
    async with local.server.follow(request("GET", f"/api/v1/{plural}", **query)) as stream:
        events = [read(line)["type"] async for line in stream.lines]
    assert set(events) <= {"ADDED"}


async def test_pods_run_and_claims_get_volumes() -> None:
    objects = [
        Node(metadata=ObjectMeta(name="n1")),
        StorageClass(metadata=ObjectMeta(name="fast"), provisioner="disks.example.dev"),
        PersistentVolumeClaim(
            metadata=ObjectMeta(name="data"), spec=PersistentVolumeClaimSpec(storage_class_name="fast")
        ),
    ]
    local = LocalCluster(LoopClock(asyncio.get_running_loop()), Manifest(objects))
    running = asyncio.ensure_future(local.run())
    transport = InProcessTransport(local.server)
    await transport.send(request("POST", PODS, pod()))
    await transport.send(request("POST", f"{PODS}/web/binding", {"target": {"name": "n1"}}))
    await asyncio.sleep(1)
    stored = read((await transport.send(request("GET", f"{PODS}/web"))).body)
    assert stored["status"]["phase"] == "Running"
    assert [each["ready"] for each in stored["status"]["containerStatuses"]] == [True]
    assert stored["status"]["podIP"]
    (condition,) = read((await transport.send(request("GET", "/api/v1/nodes/n1"))).body)["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    assert stored["spec"]["containers"][0].items() >= pod()["spec"]["containers"][0].items()
    claim = await transport.send(request("GET", "/api/v1/namespaces/default/persistentvolumeclaims/data"))
    assert read(claim.body)["status"]["phase"] == "Bound"
    going = read((await transport.send(request("DELETE", f"{PODS}/web"))).body)
    assert going["metadata"]["deletionTimestamp"]
    await asyncio.sleep(31)
    assert (await transport.send(request("GET", f"{PODS}/web"))).status == 404
    running.cancel()
    await asyncio.wait([running])


async def test_pods_are_evicted_within_their_budget() -> None:
    local = LocalCluster(LoopClock(asyncio.get_running_loop()), Manifest([Node(metadata=ObjectMeta(name="n1"))]))
    running = asyncio.ensure_future(local.run())
    transport = InProcessTransport(local.server)
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    await transport.send(request("POST", budgets, {"metadata": {"name": "web"}, "spec": spec}))
    for name in "abc":
        annotations = {ENDING_SECONDS: "30"}
        await transport.send(request("POST", PODS, pod(name, labels={"app": "web"}, annotations=annotations)))
        await transport.send(request("POST", f"{PODS}/{name}/binding", {"target": {"name": "n1"}}))
    answers: dict[str, list[int]] = {name: [] for name in "abc"}
    for _ in range(12):
        await asyncio.sleep(8)
        for name, tries in answers.items():
            tries.append((await transport.send(request("POST", f"{PODS}/{name}/eviction", {}))).status)
    # Each has its grace of 30 seconds, in which it may be evicted again.
    assert answers == {
        "a": [201] * 4 + [404] * 8,
        "b": [429] * 4 + [201] * 4 + [404] * 4,
        "c": [429] * 8 + [201] * 4,
    }
    await asyncio.sleep(8)
    assert local.memory.objects(Pod) == []
    running.cancel()
    await asyncio.wait([running])


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    file = tmp_path / "web.yaml"
    file.write_text(
        """\
{apiVersion: v1, kind: Node, metadata: {name: n1, managedFields: [{}], lables: {}},
 status: {nodeInfo: {kubeletVersion: v1}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: web, image: nginx}], hostname: null}}
"""
    )
    return read_files([str(file)])


async def test_objects_from_files_are_encoded_at_start(manifest: Manifest) -> None:
    local = LocalCluster(LoopClock(asyncio.get_running_loop()), manifest)
    assert not local.memory.take_drafts(Pod)  # who encodes them has taken them over


async def test_objects_from_files_are_served(manifest: Manifest) -> None:
    local = LocalCluster(LoopClock(asyncio.get_running_loop()), manifest)
    local.memory.assign("default", "web", "", "n1")
    transport = InProcessTransport(local.server)
    web = read((await transport.send(request("GET", f"{PODS}/web"))).body)
    assert web["spec"]["containers"] == [{"name": "web", "image": "nginx"}]
    assert web["spec"]["nodeName"] == "n1" and "hostname" not in web["spec"]
    node = read((await transport.send(request("GET", "/api/v1/nodes/n1"))).body)
    assert node["status"]["nodeInfo"] == {"kubeletVersion": "v1"}
    assert node["metadata"]["resourceVersion"] and not {"managedFields", "lables"} & node["metadata"].keys()
    await transport.send(request("DELETE", "/api/v1/nodes/n1"))
    await transport.send(request("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}))
    again = read((await transport.send(request("GET", "/api/v1/nodes/n1"))).body)
    assert "nodeInfo" not in again["status"]


async def test_every_cluster_has_the_system_priority_classes() -> None:
    local = LocalCluster(LoopClock(asyncio.get_running_loop()), Manifest([]))
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    actual = read((await InProcessTransport(local.server).send(request("GET", classes))).body)["items"]
    assert {each["metadata"]["name"]: each["value"] for each in actual} == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }
