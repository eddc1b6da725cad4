"""Each namespace has a service account and the certificate of the API server, and gets them back."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, ConfigMap, Namespace, ObjectMeta, ServiceAccount
from tests.in_memory.workloads.workload_cluster import run_controllers

CERTIFICATE = "kube-root-ca.crt"
DESCRIPTION = "kubernetes.io/description"
SYSTEM = ["default", "kube-node-lease", "kube-public", "kube-system"]
MADE = pytest.mark.parametrize(("kind", "name"), [(ServiceAccount, "default"), (ConfigMap, CERTIFICATE)])


def namespaces_with(memory: MemoryCluster, kind: type[ApiObject], name: str) -> list[str]:
    return sorted(each.metadata.namespace for each in memory.objects(kind) if each.metadata.name == name)


def certificate(memory: MemoryCluster, namespace: str = "default") -> ConfigMap:
    return memory.read(ConfigMap, CERTIFICATE, namespace)


@MADE
async def test_all_namespaces_get_their_objects(kind: type[ApiObject], name: str) -> None:
    async with run_controllers() as memory:
        assert namespaces_with(memory, kind, name) == SYSTEM
        memory.add(Namespace(metadata=ObjectMeta(name="later")))
        await asyncio.sleep(1)
        assert namespaces_with(memory, kind, name) == [*SYSTEM, "later"]


@MADE
async def test_deleted_object_is_created_again(kind: type[ApiObject], name: str) -> None:
    async with run_controllers() as memory:
        before = memory.read(kind, name, "default").metadata.uid
        memory.remove(kind, name, "default")
        await asyncio.sleep(1)
        assert memory.read(kind, name, "default").metadata.uid != before


@MADE
async def test_terminating_namespace_gets_no_objects(kind: type[ApiObject], name: str) -> None:
    held = ConfigMap(metadata=ObjectMeta(name="held", namespace="going", finalizers=("example.com/hold",)))
    async with run_controllers(held) as memory:
        memory.remove(Namespace, "going")
        await asyncio.sleep(1)
        assert memory.read(Namespace, "going").status.phase == "Terminating"
        assert namespaces_with(memory, kind, name) == SYSTEM
        memory.replace(replace(memory.read(ConfigMap, "held", "going"), metadata=replace(held.metadata, finalizers=())))
        await asyncio.sleep(1)
        assert memory.find(Namespace, "going") is None
        assert namespaces_with(memory, kind, name) == SYSTEM


async def test_other_objects_are_ignored() -> None:
    other = ConfigMap(metadata=ObjectMeta(name="other", namespace="default"))
    async with run_controllers(other, ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default"))) as memory:
        memory.remove(ConfigMap, "other", "default")
        memory.remove(ServiceAccount, "robot", "default")
        await asyncio.sleep(1)
        assert memory.find(ConfigMap, "other", "default") is None
        assert memory.find(ServiceAccount, "robot", "default") is None


async def test_certificate_is_that_of_the_server() -> None:
    async with run_controllers() as memory:
        assert certificate(memory).data == {"ca.crt": ""}
        assert certificate(memory).metadata.annotations[DESCRIPTION].startswith("Contains a CA bundle")
        memory.certificate_authority = "PEM"
        memory.add(Namespace(metadata=ObjectMeta(name="later")))
        await asyncio.sleep(1)
        assert certificate(memory, "later").data == {"ca.crt": "PEM"}


@pytest.mark.parametrize(
    ("annotations", "data"),
    [
        ({DESCRIPTION: "mine", "note": "kept"}, {"ca.crt": "forged"}),
        ({DESCRIPTION: "mine", "note": "kept"}, {"ca.crt": "", "more": "texts"}),
        ({"note": "kept"}, {"ca.crt": ""}),
    ],
)
async def test_changed_certificate_is_restored(annotations: dict[str, str], data: dict[str, str]) -> None:
    metadata = ObjectMeta(name=CERTIFICATE, namespace="default", annotations=annotations)
    async with run_controllers(ConfigMap(metadata=metadata, data=data)) as memory:
        for _ in range(2):
            actual = certificate(memory)
            assert actual.data == {"ca.crt": ""}
            assert actual.metadata.annotations["note"] == "kept"
            assert actual.metadata.annotations[DESCRIPTION].startswith("Contains a CA bundle")
            memory.replace(replace(actual, data=data))
            await asyncio.sleep(1)


async def test_own_description_is_kept() -> None:
    metadata = ObjectMeta(name=CERTIFICATE, namespace="default", annotations={DESCRIPTION: "mine"})
    async with run_controllers(ConfigMap(metadata=metadata, data={"ca.crt": ""})) as memory:
        assert certificate(memory).metadata.annotations == {DESCRIPTION: "mine"}


@pytest.mark.parametrize(
    ("controllers", "made"),
    [
        (["*", "-serviceaccount-controller"], [0, 4]),
        (["*", "-root-ca-certificate-publisher-controller"], [4, 0]),
    ],
)
async def test_each_controller_can_be_disabled(controllers: list[str], made: list[int]) -> None:
    async with run_controllers(controllers=controllers) as memory:
        assert [len(memory.objects(kind)) for kind in (ServiceAccount, ConfigMap)] == made
