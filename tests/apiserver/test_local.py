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
    assert stored["spec"]["containers"] == pod()["spec"]["containers"]
    claim = await transport.send(request("GET", "/api/v1/namespaces/default/persistentvolumeclaims/data"))
    assert read(claim.body)["status"]["phase"] == "Bound"
    going = read((await transport.send(request("DELETE", f"{PODS}/web"))).body)
    assert going["metadata"]["deletionTimestamp"]
    await asyncio.sleep(31)
    assert (await transport.send(request("GET", f"{PODS}/web"))).status == 404
    running.cancel()
    await asyncio.wait([running])
