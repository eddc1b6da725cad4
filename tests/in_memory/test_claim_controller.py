"""Claims to devices are made, reserved, freed and deleted as by the real controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.in_memory.claim_controller import ClaimController
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import (
    ApiObject,
    Event,
    Pod,
    PodGroup,
    PodResourceClaimStatus,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kframework.objects.claims import group_consumer
from kframework.objects.resource_claims import DELETE_PROTECTION, POD_CLAIM_NAME
from kframework.testing import make_pod
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates
from tests.support.devices import allocated, claim, template, with_claim
from tests.support.groups import basic, claiming, members


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@asynccontextmanager
async def running(*objects: ApiObject, gates: FeatureGates = DEFAULT_GATES) -> AsyncIterator[MemoryCluster]:
    """Run a controller over a cluster; it has done its work when the block begins."""
    clock = LoopClock(asyncio.get_running_loop())
    memory = MemoryCluster(clock, objects, feature_gates=gates)
    controller = ClaimController(memory, clock)
    task = asyncio.ensure_future(controller.run())
    await settled(controller)
    yield memory
    await settled(controller)
    assert not task.done(), task.exception()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def settled(controller: ClaimController | None = None) -> None:
    await asyncio.sleep(0.1)
    assert controller is None or controller.idle


def pod(name: str = "web", **settings: object) -> Pod:
    return make_pod(name, **settings)  # type: ignore[arg-type]  # a test's own


def claims(cluster: MemoryCluster) -> list[ResourceClaim]:
    return cluster.objects(ResourceClaim)


def result(cluster: MemoryCluster, name: str = "web") -> dict[str, str | None]:
    statuses = cluster.read(Pod, name, "default").status.resource_claim_statuses
    return {each.name: each.resource_claim_name for each in statuses}


async def test_each_pod_gets_its_own_claim() -> None:
    web = with_claim(with_claim(pod(), template="one-gpu"), template="one-gpu", called="other")
    async with running(template(), web, with_claim(pod("db"), template="one-gpu")) as cluster:
        first, second, third = claims(cluster)
        assert result(cluster) == {"gpu": first.metadata.name, "other": second.metadata.name}
        assert result(cluster, "db") == {"gpu": third.metadata.name}
        assert first.metadata.name.startswith("web-gpu-") and second.metadata.name.startswith("web-other-")
        assert first.metadata.labels == {"made": "so"}
        assert first.metadata.annotations == {"a": "b", POD_CLAIM_NAME: "gpu"}
        (owner,) = first.metadata.owner_references
        assert (owner.kind, owner.name, owner.controller) == ("Pod", "web", True)
        assert first.spec.devices.requests[0].name == "r"


async def test_claim_is_created_when_its_template_appears() -> None:
    async with running(with_claim(pod(), template="one-gpu")) as cluster:
        assert claims(cluster) == []
        cluster.add(template())
        await settled()
        assert result(cluster) == {"gpu": claims(cluster)[0].metadata.name}


async def test_deleted_claim_is_created_again() -> None:
    async with running(template(), with_claim(pod(), template="one-gpu")) as cluster:
        (first,) = claims(cluster)
        cluster.remove(ResourceClaim, first.metadata.name, "default")
        await settled()
        (second,) = claims(cluster)
        assert result(cluster) == {"gpu": second.metadata.name}
        assert second.metadata.uid != first.metadata.uid


async def test_claim_missing_in_the_pod_status_is_reused() -> None:
    async with running(template(), with_claim(pod(), template="one-gpu")) as cluster:
        (made,) = claims(cluster)
        forgotten = replace(cluster.read(Pod, "web", "default").status, resource_claim_statuses=())
        cluster.set_status(cluster.read(Pod, "web", "default"), forgotten)
        await settled()
        assert result(cluster) == {"gpu": made.metadata.name} and claims(cluster) == [made]


async def test_pod_that_needs_no_claim_gets_none() -> None:
    web = with_claim(pod(), template="one-gpu")
    web = replace(web, status=replace(web.status, resource_claim_statuses=(PodResourceClaimStatus(name="gpu"),)))
    async with running(template(), web) as cluster:
        assert claims(cluster) == []


async def test_both_halves_of_a_long_claim_name_are_shortened() -> None:
    web = with_claim(pod("p" * 60), template="one-gpu", called="c" * 30)
    async with running(template(), web) as cluster:
        (made,) = claims(cluster)
        base = f"{'p' * (60 * 57 // 92)}-{'c' * (30 * 57 // 92)}"
        assert made.metadata.name.startswith(base) and len(made.metadata.name) == len(base) + 5


def users(cluster: MemoryCluster) -> list[str]:
    return [each.name for each in cluster.read(ResourceClaim, "shared", "default").status.reserved_for]


async def test_claim_is_reserved_for_a_pod_bound_by_another_scheduler() -> None:
    bound = with_claim(pod(node_name="n1"), claim="shared")
    async with running(allocated(claim()), bound, with_claim(pod("waits"), claim="shared")) as cluster:
        assert users(cluster) == ["web"]


async def test_unallocated_claim_is_not_reserved() -> None:
    async with running(claim(), with_claim(pod(node_name="n1"), claim="shared")) as cluster:
        assert users(cluster) == []


async def test_devices_are_released_after_the_last_consumer() -> None:
    pods = [with_claim(pod(name, node_name="n1"), claim="shared") for name in ("web", "db")]
    async with running(*pods) as cluster:
        cluster.add(allocated(claim(), *cluster.objects(Pod)))
        await settled()
        assert users(cluster) == ["web", "db"]
        cluster.set_status(actual := cluster.read(Pod, "web", "default"), replace(actual.status, phase="Succeeded"))
        await settled()
        assert users(cluster) == ["db"]
        assert cluster.read(ResourceClaim, "shared", "default").status.allocation is not None
        cluster.remove(Pod, "db", "default", grace=0)
        await settled()
        shared = cluster.read(ResourceClaim, "shared", "default")
        assert (shared.status.allocation, shared.status.reserved_for, shared.metadata.finalizers) == (None, (), ())


async def test_recreated_pod_is_not_a_consumer() -> None:
    async with running(with_claim(pod(node_name="n1"), claim="shared")) as cluster:
        cluster.add(allocated(claim(), *cluster.objects(Pod)))
        cluster.remove(Pod, "web", "default", grace=0)
        other = pod()
        cluster.add(replace(other, metadata=replace(other.metadata, uid="another")))
        await settled()
        assert users(cluster) == []


async def test_consumers_of_other_kinds_stay() -> None:
    stranger = ResourceClaimConsumerReference(api_group="example.com", resource="gadgets", name="g", uid="1")
    used = allocated(claim())
    async with running(replace(used, status=replace(used.status, reserved_for=(stranger,)))) as cluster:
        assert users(cluster) == ["g"]


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "gone"])
async def test_claim_from_a_template_is_deleted_with_its_pod(ended: bool) -> None:
    async with running(template(), with_claim(pod(node_name="n1"), template="one-gpu")) as cluster:
        (made,) = claims(cluster)
        cluster.replace(allocated(made, *cluster.objects(Pod)))
        if ended:
            cluster.set_status(actual := cluster.read(Pod, "web", "default"), replace(actual.status, phase="Failed"))
        else:
            cluster.remove(Pod, "web", "default", grace=0)
        await settled()
        assert claims(cluster) == []


async def test_terminated_pod_gets_no_claim() -> None:
    ended = with_claim(pod(node_name="n1"), template="one-gpu")
    async with running(template(), replace(ended, status=replace(ended.status, phase="Succeeded"))) as cluster:
        assert claims(cluster) == []
        web = cluster.read(Pod, "web", "default")
        cluster.replace(replace(web, metadata=replace(web.metadata, labels={"seen": "yes"})))
        await settled()
        assert claims(cluster) == []


async def test_deleted_claim_is_removed_after_its_last_consumer() -> None:
    async with running(with_claim(pod(node_name="n1"), claim="shared")) as cluster:
        cluster.add(allocated(claim(), *cluster.objects(Pod)))
        cluster.remove(ResourceClaim, "shared", "default")
        await settled()
        held = cluster.read(ResourceClaim, "shared", "default")
        assert held.metadata.deletion_timestamp is not None and held.metadata.finalizers == (DELETE_PROTECTION,)
        cluster.remove(ResourceClaim, "shared", "default")
        assert cluster.read(ResourceClaim, "shared", "default") == held, "it is being deleted already"
        cluster.remove(Pod, "web", "default", grace=0)
        await settled()
        assert claims(cluster) == []


async def test_deleted_claim_releases_its_devices() -> None:
    async with running(allocated(claim())) as cluster:
        assert cluster.read(ResourceClaim, "shared", "default").status.allocation is not None
        cluster.remove(ResourceClaim, "shared", "default")
        await settled()
        assert claims(cluster) == []


async def test_unallocated_claim_is_deleted_at_once() -> None:
    async with running(claim()) as cluster:
        cluster.remove(ResourceClaim, "shared", "default")
        assert claims(cluster) == []


# -- claims of groups --------------------------------------------------------------------------------------------------

GATES = FeatureGates(settings={"GenericWorkload": True, "DRAWorkloadResourceClaims": True})
#: A group with a claim of a template, and its pods.
TEAM = [with_claim(each, template="one-gpu") for each in members("g", 2)]
GROUP = claiming(basic("g"), *TEAM[0].spec.resource_claims)


def group_result(cluster: MemoryCluster) -> dict[str, str | None]:
    statuses = cluster.read(PodGroup, "g", "default").status.resource_claim_statuses
    return {each.name: each.resource_claim_name for each in statuses}


@pytest.mark.parametrize("created", [[GROUP, *TEAM], [*TEAM, GROUP]], ids=["group first", "pods first"])
async def test_group_gets_one_claim_for_all_its_pods(created: list[ApiObject]) -> None:
    async with running(template(), gates=GATES) as cluster:
        for each in created:
            cluster.add(each)
            await settled()
        (made,) = claims(cluster)
        assert made.metadata.name.startswith("g-gpu-")
        assert made.metadata.annotations == {"a": "b", POD_CLAIM_NAME: "gpu"}
        (owner,) = made.metadata.owner_references
        assert (owner.api_version, owner.kind, owner.name) == ("scheduling.k8s.io/v1beta1", "PodGroup", "g")
        assert group_result(cluster) == result(cluster, "g-0") == result(cluster, "g-1") == {"gpu": made.metadata.name}


async def test_claim_that_is_not_one_of_the_group_belongs_to_the_pod() -> None:
    others = [with_claim(each, template="other") for each in members("g", 2)]
    async with running(template(), template("other"), GROUP, *others, gates=GATES) as cluster:
        owners = [each.metadata.owner_references[0].kind for each in claims(cluster)]
        assert sorted(owners) == ["Pod", "Pod", "PodGroup"]


async def test_claims_of_a_group_are_ignored_while_their_gate_is_off() -> None:
    async with running(template(), GROUP, *TEAM, gates=FeatureGates(settings={"GenericWorkload": True})) as cluster:
        assert [each.metadata.owner_references[0].kind for each in claims(cluster)] == ["Pod", "Pod"]
        assert group_result(cluster) == {}


async def test_claim_of_a_group_is_created_when_its_template_appears() -> None:
    async with running(GROUP, *TEAM, gates=GATES) as cluster:
        assert claims(cluster) == []
        cluster.add(template())
        await settled()
        assert group_result(cluster) == result(cluster, "g-1") == {"gpu": claims(cluster)[0].metadata.name}


async def test_missing_template_is_logged_once_and_an_event_of_each_owner(caplog: pytest.LogCaptureFixture) -> None:
    others = [with_claim(pod(name), template="one-gpu") for name in ("db", "web")]
    async with running(GROUP, *TEAM, *others, gates=GATES) as cluster:
        cluster.add(template("another"))
        await settled()
        (line,) = caplog.messages
        assert line == "Pod default/db waits for ResourceClaimTemplate default/one-gpu, which does not exist"
        text = 'resource claim template "one-gpu": resourceclaimtemplate.resource.k8s.io "one-gpu" not found'
        assert [(each.regarding.name, each.reason, each.note) for each in cluster.objects(Event)] == [
            ("db", "FailedResourceClaimCreation", f"PodResourceClaim gpu: {text}"),
            ("web", "FailedResourceClaimCreation", f"PodResourceClaim gpu: {text}"),
            ("g", "FailedResourceClaimCreation", f"PodGroupResourceClaim gpu: {text}"),
        ]
        cluster.add(template())
        await settled()
        assert len(claims(cluster)) == 3


async def test_deleted_claim_of_a_group_is_created_again() -> None:
    async with running(template(), GROUP, *TEAM, gates=GATES) as cluster:
        (first,) = claims(cluster)
        cluster.remove(ResourceClaim, first.metadata.name, "default")
        await settled()
        (second,) = claims(cluster)
        assert second.metadata.uid != first.metadata.uid
        assert group_result(cluster) == result(cluster, "g-0") == {"gpu": second.metadata.name}


async def test_claim_of_a_group_is_reserved_for_it_until_it_is_deleted() -> None:
    team = [with_claim(each, claim="shared") for each in members("g", 2)]
    group = claiming(basic("g"), *team[0].spec.resource_claims)
    bound = [replace(each, spec=replace(each.spec, node_name="n1")) for each in team]
    async with running(allocated(claim()), group, *bound, gates=GATES) as cluster:
        assert users(cluster) == ["g"]
        for each in bound:
            cluster.remove(Pod, each.metadata.name, "default", grace=0)
        await settled()
        assert users(cluster) == ["g"]
        cluster.remove(PodGroup, "g", "default")
        await settled()
        shared = cluster.read(ResourceClaim, "shared", "default")
        assert (shared.status.allocation, shared.status.reserved_for, shared.metadata.finalizers) == (None, (), ())


async def test_claim_from_a_template_is_deleted_with_its_group() -> None:
    async with running(template(), GROUP, gates=GATES) as cluster:
        (made,) = claims(cluster)
        reserved = (group_consumer(cluster.read(PodGroup, "g", "default")),)
        used = allocated(made)
        cluster.replace(replace(used, status=replace(used.status, reserved_for=reserved)))
        cluster.remove(PodGroup, "g", "default")
        await settled()
        assert claims(cluster) == []


async def test_recreated_group_is_not_a_consumer() -> None:
    former = replace(group_consumer(GROUP), uid="another")
    used = allocated(claim())
    used = replace(used, status=replace(used.status, reserved_for=(former,)))
    async with running(used, GROUP, gates=GATES) as cluster:
        assert users(cluster) == []
