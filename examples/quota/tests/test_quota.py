"""Quota, against a service that really listens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Thread

import pytest
from quota import Quota, QuotaArgs
from quota.service import QuotaService

from kframework import CycleState, PendingPod, Plugin, Status, error, hookimpl
from kframework.testing import (
    PluginContract,
    Scenario,
    ScenarioResult,
    create,
    make_node,
    make_pod,
    pending_pod,
    stub_handle,
)

PODS = [make_pod(f"web-{i}", cpu=1) for i in range(3)]


@pytest.fixture
def service() -> Iterator[QuotaService]:
    with QuotaService({"default": 2000}) as service:
        thread = Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield service
        service.shutdown()
        thread.join()


def scenario(url: str, *others: type[Plugin]) -> Scenario:
    args = {"Quota": {"url": url, "timeoutSeconds": 2}}
    return Scenario(nodes=[make_node("node", cpu=8)], pods=PODS, plugins=[Quota, *others], args=args)


def bound(result: ScenarioResult) -> list[str]:
    return [pod.metadata.name for pod in PODS if result.node_of(pod.metadata.name)]


def test_pods_are_bound_within_the_quota(service: QuotaService) -> None:
    result = scenario(service.url).run()
    assert bound(result) == ["web-0", "web-1"]
    assert service.free("default") == 0
    assert "quota of default: 0m of cpu are free" in result.message_of("web-2")


def test_bound_pod_counts_until_the_service_is_polled_again(service: QuotaService) -> None:
    """Else the next pod would go for the cpu that the service said to be free before."""
    result = scenario(service.url).at(5, create(make_pod("late", cpu=1))).run(until=10)
    assert "quota of default: 0m of cpu are free" in result.message_of("late")
    assert len(result.bindings) == 2


def test_larger_quota_requeues_the_pending_pod(service: QuotaService) -> None:
    world = scenario(service.url)
    world.at(100, lambda cluster: service.limits.update(default=3000))
    result = world.run(until=200)
    assert bound(result) == ["web-0", "web-1", "web-2"]
    assert result.decisions_on("web-2")[-1].requeued_by == "Quota/free"


def test_service_decides_on_the_claim(service: QuotaService) -> None:
    """Another client takes the reported free amount before the pod is bound."""
    world = scenario(service.url)
    world.source("Quota", "free", {"default": 9000})
    result = world.run(until=30)
    assert len(bound(result)) == 2  # whichever claims came first
    (waits,) = {pod.metadata.name for pod in PODS} - {*bound(result)}
    assert "quota of default: 1000m of cpu are requested, 0m of 2000m are free" in result.message_of(waits)


def test_claim_of_unbound_pod_is_given_back(service: QuotaService) -> None:
    class NoDisk(Plugin):
        """Fail behind Quota."""

        name = "NoDisk"

        @hookimpl
        def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status:
            return error("no disk")

    result = scenario(service.url, NoDisk).run(until=20)
    assert "no disk" in result.message_of("web-0")
    assert service.free("default") == 2000


def test_pod_waits_until_its_previous_claim_is_given_back(service: QuotaService) -> None:
    """Else what was meant for the last claim might take back the next."""

    async def main() -> None:
        handle, pod = stub_handle(), pending_pod(PODS[0])
        plugin = Quota(QuotaArgs(url=service.url), handle)
        await plugin.start()
        assert await plugin.pre_bind(CycleState(), pod, "node") is None
        plugin.unreserve(CycleState(), pod, "node")
        (given_back,) = handle.spawned
        refused = await plugin.pre_bind(CycleState(), pod, "node")
        assert refused is not None and "still being given back" in refused.message
        await given_back
        assert service.free("default") == 2000
        assert await plugin.pre_bind(CycleState(), pod, "node") is None
        await plugin.close()

    asyncio.run(main())


def test_no_pod_is_bound_without_the_service_and_the_error_names_it() -> None:
    result = scenario("http://127.0.0.1:1").run(until=20)
    assert bound(result) == []
    assert "Quota" in result.message_of("web-0")
    assert "ConnectError" in result.message_of("web-0")


def test_each_namespace_has_its_own_quota(service: QuotaService) -> None:
    service.limits["other"] = 1000
    service.claims["other"] = {}
    result = scenario(service.url).at(1, create(make_pod("api", namespace="other", cpu=1))).run()
    assert result.node_of("other/api") == "node"


class TestContract(PluginContract):
    plugin = Quota
    args = {"url": "http://127.0.0.1:1"}
    sources = {"free": {"default": 500, "other": 5000}}
