"""Services have the pods that they select as their endpoints, ready or not, on the ports that these have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kframework.fake_api.controllers.endpoints import pod_address
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import (
    Container,
    ContainerPort,
    Endpoint,
    Endpoints,
    EndpointSlice,
    Node,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from kframework.testing import make_node
from tests.in_memory.workloads.workload_cluster import run_controllers

LABELS = {"app": "web"}
HTTP = ServicePort(name="http", port=80, target_port=8080)
NAMED = ServicePort(name="named", port=81, target_port="metrics")


def service(*ports: ServicePort, **spec: Any) -> Service:
    created = ServiceSpec(**{"selector": LABELS, "cluster_ip": "10.96.0.1", "ports": ports, **spec})
    return Service(metadata=ObjectMeta(name="web", namespace="default", labels={"team": "a"}), spec=created)


def pod(name: str, metrics: int | None = None, node: str = "n1", **labels: str) -> Pod:
    ports = (ContainerPort(name="metrics", container_port=metrics),) if metrics else ()
    spec = PodSpec(node_name=node, containers=(Container(name="a", ports=ports),))
    return Pod(metadata=ObjectMeta(name=name, namespace="default", labels=labels or LABELS), spec=spec)


def endpoints(memory: MemoryCluster) -> dict[str, Endpoint]:
    every = (each for found in memory.objects(EndpointSlice) for each in found.endpoints)
    return {each.target_ref.name: each for each in every if each.target_ref is not None}


def addresses(memory: MemoryCluster) -> list[tuple[list[str], list[str], list[int | None]]]:
    """List ready and other pods with their ports, by Endpoints."""

    def names(found: Sequence[Any]) -> list[str]:
        return sorted(each.target_ref.name for each in found)

    return [
        (names(subset.addresses), names(subset.not_ready_addresses), [port.port for port in subset.ports])
        for each in memory.objects(Endpoints)
        for subset in each.subsets
    ]


def conditions(memory: MemoryCluster, name: str) -> tuple[bool | None, ...]:
    result = endpoints(memory)[name].conditions
    return result.ready, result.serving, result.terminating


async def unready(memory: MemoryCluster, name: str) -> None:
    found = memory.read(Pod, name)
    memory.set_status(found, replace(found.status, conditions=(PodCondition(type="Ready", status="False"),)))
    await asyncio.sleep(1)


async def test_pods_are_endpoints_of_their_service() -> None:
    node = make_node("n1", labels={"topology.kubernetes.io/zone": "z1"})
    async with run_controllers(
        node, service(HTTP), pod("a"), pod("b"), pod("c", app="other"), pod("d", node="")
    ) as memory:
        (found,) = memory.objects(EndpointSlice)
        assert found.metadata.name.startswith("web-")
        assert found.metadata.labels == {
            "team": "a",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }
        assert [(each.kind, each.name) for each in found.metadata.owner_references] == [("Service", "web")]
        assert [(port.name, port.port, port.protocol) for port in found.ports] == [("http", 8080, "TCP")]
        first = endpoints(memory)["a"]
        assert (first.addresses, first.node_name, first.zone) == ((pod_address(memory.read(Pod, "a")),), "n1", "z1")
        assert conditions(memory, "a") == (True, True, False)
        assert endpoints(memory).keys() == {"a", "b"}
        assert addresses(memory) == [(["a", "b"], [], [8080])]
        assert memory.read(Endpoints, "web").metadata.labels == {
            "team": "a",
            "endpoints.kubernetes.io/managed-by": "endpoint-controller",
        }


async def test_named_target_port_is_resolved_per_pod() -> None:
    async with run_controllers(service(NAMED), pod("a", 9000), pod("b", 9001), pod("c", 9000), pod("none")) as memory:
        slices = {
            tuple(port.port for port in each.ports): len(each.endpoints) for each in memory.objects(EndpointSlice)
        }
        assert slices == {(9000,): 2, (9001,): 1, (): 1}
        assert sorted(addresses(memory)) == [(["a", "c"], [], [9000]), (["b"], [], [9001])]


@pytest.mark.parametrize(
    ("early", "unready_pod", "ending_pod", "subsets"),
    [
        (False, (False, False, False), (False, True, True), [(["a"], ["b"], [8080])]),
        (True, (True, False, False), (True, True, True), [(["a", "b", "c"], [], [8080])]),
    ],
)
async def test_unready_and_terminating_pods_are_marked(
    early: bool, unready_pod: tuple[bool, ...], ending_pod: tuple[bool, ...], subsets: object
) -> None:
    web = service(HTTP, publish_not_ready_addresses=early)
    async with run_controllers(web, pod("a"), pod("b"), pod("c")) as memory:
        await unready(memory, "b")
        memory.remove(Pod, "c", grace=20)
        await asyncio.sleep(1)
        assert conditions(memory, "b") == unready_pod
        assert conditions(memory, "c") == ending_pod
        assert addresses(memory) == subsets
        await asyncio.sleep(20)
        assert endpoints(memory).keys() == {"a", "b"}


async def test_endpoints_stay_in_slices_of_a_hundred() -> None:
    async with run_controllers(service(HTTP), *(pod(f"p{n}") for n in range(250))) as memory:
        before = {each.metadata.name: len(each.endpoints) for each in memory.objects(EndpointSlice)}
        assert sorted(before.values()) == [50, 100, 100]
        memory.remove(Pod, "p0", grace=0)
        memory.add(pod("new"))
        await asyncio.sleep(1)
        after = {each.metadata.name: len(each.endpoints) for each in memory.objects(EndpointSlice)}
        assert after == before


@pytest.mark.parametrize(
    ("spec", "slices", "found"),
    [
        pytest.param({}, [0], 1, id="no pod is there: one that is empty"),
        pytest.param({"selector": None}, [], 0, id="somebody else keeps them"),
        pytest.param({"type": "ExternalName"}, [], 0, id="elsewhere"),
    ],
)
async def test_service_without_pods_has_empty_endpoints(spec: dict[str, Any], slices: list[int], found: int) -> None:
    async with run_controllers(service(HTTP, **spec)) as memory:
        assert [len(each.endpoints) for each in memory.objects(EndpointSlice)] == slices
        assert len(memory.objects(Endpoints)) == found
        memory.add(pod("a"))
        await asyncio.sleep(1)
        assert len(endpoints(memory)) == found


async def test_headless_services_are_labelled() -> None:
    async with run_controllers(service(cluster_ip="None"), pod("a")) as memory:
        assert all(
            "service.kubernetes.io/headless" in each.metadata.labels
            for each in (*memory.objects(EndpointSlice), *memory.objects(Endpoints))
        )
        assert addresses(memory) == [(["a"], [], [])]


async def test_endpoints_are_deleted_with_their_service_and_recreated_otherwise() -> None:
    async with run_controllers(service(HTTP), pod("a")) as memory:
        (before,) = memory.objects(EndpointSlice)
        memory.remove(EndpointSlice, before.metadata.name)
        await asyncio.sleep(1)
        assert endpoints(memory).keys() == {"a"}
        memory.remove(Service, "web")
        await asyncio.sleep(1)
        assert [*memory.objects(EndpointSlice), *memory.objects(Endpoints)] == []


async def test_changed_selector_changes_the_endpoints() -> None:
    async with run_controllers(service(HTTP), pod("a"), pod("b", app="other")) as memory:
        memory.merge(Service, "web", {"spec": {"selector": {"app": "other"}}})
        await asyncio.sleep(1)
        assert endpoints(memory).keys() == {"b"}


@pytest.mark.parametrize(("name", "left"), [("-endpoints", (0, 1)), ("-endpointslice", (1, 0))])
async def test_each_controller_can_be_disabled(name: str, left: tuple[int, int]) -> None:
    async with run_controllers(Node(metadata=ObjectMeta(name="n1")), service(HTTP), controllers=["*", name]) as memory:
        assert (len(memory.objects(Endpoints)), len(memory.objects(EndpointSlice))) == left
