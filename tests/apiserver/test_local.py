"""A whole cluster in this process."""

from __future__ import annotations

import asyncio

import pytest

from kframework.apiserver.in_process import InProcess
from kframework.apiserver.local import LocalCluster
from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.objects import (
    Node,
    ObjectMeta,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    StorageClass,
)
from tests.apiserver.serving import PODS, pod, read, request


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def test_pods_run_and_claims_get_volumes() -> None:
    objects = [
        Node(metadata=ObjectMeta(name="n1")),
        StorageClass(metadata=ObjectMeta(name="fast"), provisioner="disks.example.dev"),
        PersistentVolumeClaim(
            metadata=ObjectMeta(name="data"), spec=PersistentVolumeClaimSpec(storage_class_name="fast")
        ),
    ]
    local = LocalCluster(LoopClock(asyncio.get_running_loop()), objects)
    running = asyncio.ensure_future(local.run())
    transport = InProcess(local.server)
    await transport.send(request("POST", PODS, pod()))
    await transport.send(request("POST", f"{PODS}/web/binding", {"target": {"name": "n1"}}))
    await asyncio.sleep(1)
    stored = read((await transport.send(request("GET", f"{PODS}/web"))).body)
    assert stored["status"]["phase"] == "Running"
    assert [each["ready"] for each in stored["status"]["containerStatuses"]] == [True]
    assert stored["status"]["podIP"]
    (condition,) = read((await transport.send(request("GET", "/api/v1/nodes/n1"))).body)["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    assert stored["spec"]["containers"] == pod()["spec"]["containers"]
    claim = await transport.send(request("GET", "/api/v1/namespaces/default/persistentvolumeclaims/data"))
    assert read(claim.body)["status"]["phase"] == "Bound"
    going = read((await transport.send(request("DELETE", f"{PODS}/web"))).body)
    assert going["metadata"]["deletionTimestamp"]
    await asyncio.sleep(31)
    assert (await transport.send(request("GET", f"{PODS}/web"))).status == 404
    running.cancel()
    await asyncio.wait([running])


async def test_pods_are_evicted_as_their_budget_allows() -> None:
    local = LocalCluster(LoopClock(asyncio.get_running_loop()), [Node(metadata=ObjectMeta(name="n1"))])
    running = asyncio.ensure_future(local.run())
    transport = InProcess(local.server)
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    await transport.send(request("POST", budgets, {"metadata": {"name": "web"}, "spec": spec}))
    for name in "abc":
        await transport.send(request("POST", PODS, pod(name, labels={"app": "web"})))
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
