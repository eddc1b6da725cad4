"""Claims that are made and devices that are waited for are counted as kube-scheduler counts them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kframework.config.load import parse
from kframework.errors import ClusterError
from kframework.in_memory.cluster import Fault
from kframework.objects import ResourceClaim
from kframework.testing import make_node, make_pod
from tests.observe.metrics.rig import Rig, ran
from tests.plugins.dynamic_resources.claiming import GPUS, gpus, wanting
from tests.support.devices import with_claim

MADE = "scheduler_resourceclaim_creates_total"
ALLOCATIONS = "scheduler_dra_bindingconditions_allocations_total"
WAITS = "scheduler_dra_bindingconditions_wait_duration_seconds"

#: Two profiles, whose pods wait for their devices for 60 s at most.
PROFILES = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: other
  pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 60s}}]
"""

#: A device that has to be made ready, and one that need not.
SLICES = (
    gpus("a", "x", device={"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}),
    gpus("a", "y", pool="b"),
)


async def tell(rig: Rig, type: str) -> None:
    """Let the driver tell something of the device that is to be made ready."""
    told = [{"driver": "gpu.example.com", "pool": "a", "device": "x", "conditions": [{"type": type, "status": "True"}]}]
    await rig.cluster.patch_status(ResourceClaim, "c", {"devices": told}, "default")


async def ready(rig: Rig) -> None:
    await tell(rig, "ready")


async def failed(rig: Rig) -> None:
    await tell(rig, "failed")


async def late(rig: Rig) -> None:
    await asyncio.sleep(50)


async def gone(rig: Rig) -> None:
    rig.cluster.merge(ResourceClaim, "c", {"metadata": {"finalizers": None}}, "default")
    rig.cluster.remove(ResourceClaim, "c", "default")


@pytest.mark.parametrize(
    ("befalls", "result", "seconds"),
    [(ready, "success", 20), (failed, "failure", 20), (late, "timeout", 60), (gone, "error", 20)],
)
def test_waits_for_device_conditions_are_counted(
    befalls: Callable[[Rig], Awaitable[None]], result: str, seconds: float
) -> None:
    counted = [dict[tuple[str, ...], float]()] * 3

    async def then(rig: Rig) -> None:
        await befalls(rig)
        await asyncio.sleep(6)
        counted[:] = rig.values(ALLOCATIONS), rig.count_of(WAITS), rig.sum_of(WAITS)

    web = with_claim(make_pod("web", scheduler_name="other"), claim="c")
    objects = make_node("a"), GPUS, *SLICES, wanting(count=2), web
    ran(*objects, then=then, configuration=parse(PROFILES))
    allocations, waits, waited = counted
    series = "gpu.example.com", "other", result
    assert (allocations, waits) == ({series: 1}, {series: 2})  # each device has waited
    assert waited == {series: pytest.approx(2 * seconds, abs=10)}


def test_ready_devices_are_not_counted_as_waits() -> None:
    rig = ran(make_node("a"), GPUS, SLICES[1], wanting(), with_claim(make_pod("web"), claim="c"))
    assert len(rig.bindings) == 1
    assert (rig.values(ALLOCATIONS), rig.count_of(WAITS), rig.values(MADE)) == ({}, {}, {})


def test_created_claims_for_extended_resources_are_counted() -> None:
    asking = [make_pod(f"train-{number}", requests={"example.com/gpu": 1}) for number in range(2)]
    refusals = iter([Fault(error=ClusterError("no", status=403))])

    async def then(rig: Rig) -> None:
        rig.cluster.faults.append(
            lambda method, kind, *name: next(refusals, None) if (method, kind) == ("create", ResourceClaim) else None
        )
        for each in asking:
            await rig.cluster.create(each)
        await rig.settle()

    rig = ran(make_node("a"), GPUS, gpus("a", "x", "y"), then=then)
    assert rig.values(MADE) == {("success",): 2, ("failure",): 1}
