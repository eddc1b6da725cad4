"""Claims are written as they were read: others are not undone, and what got no answer is made certain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kframework.framework.suspendable import run_async
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import (
    AllocationResult,
    ContainerExtendedResourceRequest,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    Pod,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kframework.objects.resource_claims import DELETE_PROTECTION
from kframework.plugins.dynamic_resources.errors import ClaimWriteError
from kframework.plugins.dynamic_resources.writes import ClaimWrites
from kframework.testing import make_pod, pending_pod
from tests.plugins.dynamic_resources.claiming import Calls, failing, wanting, with_api

POD, OTHER = make_pod("web"), make_pod("other")
GOT = AllocationResult(
    devices=DeviceAllocationResult(
        results=(DeviceRequestAllocationResult(request="r", driver="d", pool="p", device="x"),)
    )
)
ELSEWHERE = replace(GOT, devices=DeviceAllocationResult(results=(replace(GOT.devices.results[0], device="y"),)))
Write = Callable[[ClaimWrites, ResourceClaim], Coroutine[Any, Any, object]]


def stored(cluster: MemoryCluster) -> ResourceClaim:
    return cluster.read(ResourceClaim, "c", "default")


def users(claim: ResourceClaim) -> list[str]:
    return [each.name for each in claim.status.reserved_for]


def reserved_for(*pods: Pod, allocation: AllocationResult = GOT) -> dict[str, Any]:
    """Write the status of a claim that has its devices, and is reserved for these pods."""
    named = [{"resource": "pods", "name": each.metadata.name, "uid": each.metadata.uid} for each in pods]
    return {"allocation": msgspec.to_builtins(allocation), "reservedFor": named}


def changed(**status: Any) -> Callable[[MemoryCluster], object]:
    """Let another client write the status."""
    return lambda cluster: cluster.merge(ResourceClaim, "c", {"status": status}, "default")


def reallocated(cluster: MemoryCluster) -> None:
    """Take from the claim what it has, and give it something else."""
    changed(allocation=None)(cluster)
    changed(**reserved_for(OTHER, allocation=ELSEWHERE))(cluster)


def labelled(cluster: MemoryCluster) -> object:
    count = len(stored(cluster).metadata.labels)
    return cluster.merge(ResourceClaim, "c", {"metadata": {"labels": {f"by-{count}": "another"}}}, "default")


def deleted(cluster: MemoryCluster) -> None:
    cluster.merge(ResourceClaim, "c", {"metadata": {"finalizers": [DELETE_PROTECTION]}}, "default")
    cluster.remove(ResourceClaim, "c", "default")


def removed(cluster: MemoryCluster) -> None:
    cluster.remove(ResourceClaim, "c", "default")


def recreated(cluster: MemoryCluster) -> None:
    cluster.merge(ResourceClaim, "c", {"metadata": {"finalizers": None}}, "default")
    cluster.remove(ResourceClaim, "c", "default")
    cluster.add(replace(wanting(), metadata=replace(wanting().metadata, uid="another")))


def consumer(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def bind(writes: ClaimWrites, claim: ResourceClaim) -> Coroutine[Any, Any, ResourceClaim]:
    return run_async(writes.bind(claim, GOT, consumer(POD)))


def reserve(writes: ClaimWrites, claim: ResourceClaim) -> Coroutine[Any, Any, ResourceClaim]:
    return run_async(writes.bind(claim, None, consumer(POD)))


class Written(msgspec.Struct):
    """What came of a write: the claim, unless there is none left, how it failed, and the calls and seconds it took."""

    claim: ResourceClaim | None
    problem: ClaimWriteError | None
    calls: list[str]
    seconds: float

    @property
    def text(self) -> str:
        return "" if self.problem is None else str(self.problem)


def written(
    write: Write, *befalls: tuple[str, Fault | Callable[[MemoryCluster], object], int], **status: Any
) -> Written:
    """Write a claim with this status while these befall the calls, each a number of times."""

    async def do(writes: ClaimWrites, cluster: MemoryCluster, calls: Calls) -> Written:
        claim, problem = stored(cluster), None
        for method, fault, times in befalls:
            calls.befall(method, fault, times)
        try:
            await write(writes, claim)
        except ClaimWriteError as error:
            problem = error
        return Written(cluster.find(ResourceClaim, "c", "default"), problem, calls.made, 0.0)

    found, seconds = with_api(POD, OTHER, wanting(**status), do=do)
    return replace(found, seconds=seconds)


def test_claim_gets_its_devices_for_a_pod() -> None:
    found = written(bind)
    assert found.claim is not None and found.claim.status.allocation is not None
    assert found.claim.metadata.finalizers == (DELETE_PROTECTION,)
    assert found.claim.status.allocation.devices == GOT.devices
    assert found.claim.status.allocation.allocation_timestamp == "2026-01-01T00:00:00Z"
    user = ResourceClaimConsumerReference(resource="pods", name="web", uid=POD.metadata.uid)
    assert found.claim.status.reserved_for == (user,)
    assert (found.calls, found.seconds, found.text) == (["patch", "patch_status"], 0.0, "")


def test_claim_that_has_devices_is_reserved_for_one_more() -> None:
    found = written(reserve, **reserved_for(OTHER))
    assert found.claim is not None
    assert users(found.claim) == ["other", "web"]
    # What was allocated without a time, as by older schedulers, cannot get one: the API lets no allocation change.
    assert found.claim.status.allocation == GOT
    assert found.calls == ["patch_status"]


@pytest.mark.parametrize(
    ("method", "fault", "text"),
    [
        ("patch", failing(403), "add finalizer to claim default/c: no"),
        ("patch_status", failing(422), "add allocation and reservation to claim default/c: no"),
        ("patch_status", failing(404), "add allocation and reservation to claim default/c: no"),
    ],
)
def test_refused_write_is_not_retried(method: str, fault: Fault, text: str) -> None:
    found = written(bind, (method, fault, 1))
    assert (found.text, found.calls.count(method), found.seconds) == (text, 1, 0.0)


def test_reservation_that_is_refused_says_so() -> None:
    found = written(reserve, ("patch_status", failing(422), 1), **reserved_for(OTHER))
    assert found.text == "add reservation to claim default/c: no"


@pytest.mark.parametrize(
    ("write", "status", "text"),
    [
        (bind, reserved_for(OTHER, allocation=ELSEWHERE), "claim default/c got allocated elsewhere in the meantime"),
        (reserve, {}, "claim default/c got deallocated elsewhere in the meantime"),
    ],
)
def test_claim_that_is_not_what_it_was_is_left_alone(write: Write, status: dict[str, Any], text: str) -> None:
    found = written(write, **status)
    assert (found.text, found.calls) == (text, [])


@pytest.mark.parametrize(
    ("write", "before", "meanwhile", "text"),
    [
        (bind, {}, deleted, "claim default/c got deleted in the meantime"),
        (
            bind,
            {},
            changed(**reserved_for(OTHER, allocation=ELSEWHERE)),
            "claim default/c got allocated elsewhere in the meantime",
        ),
        (
            reserve,
            reserved_for(),
            reallocated,
            "claim default/c got allocated elsewhere in the meantime",
        ),
        (
            reserve,
            reserved_for(),
            changed(allocation=None),
            "claim default/c got deallocated elsewhere in the meantime",
        ),
        (bind, {}, recreated, "claim default/c got deleted in the meantime"),
    ],
)
def test_claim_is_read_again_after_a_conflict(
    write: Write, before: dict[str, Any], meanwhile: Callable[[MemoryCluster], object], text: str
) -> None:
    found = written(write, ("patch_status", meanwhile, 1), **before)
    assert found.text == text
    assert found.claim is not None
    assert "web" not in users(found.claim)
    assert found.calls.count("get") == 1


def test_claim_that_is_gone_after_a_conflict() -> None:
    found = written(bind, ("patch", failing(409), 1), ("get", removed, 1))
    assert found.text.startswith("get updated claim default/c after conflict: ")
    assert found.problem is not None and found.problem.status == 404


@pytest.mark.parametrize(("times", "done"), [(1, True), (4, True), (5, False)])
def test_conflicting_write_is_tried_five_times(times: int, done: bool) -> None:
    found = written(reserve, ("patch_status", labelled, times), **reserved_for(OTHER))
    assert found.claim is not None
    assert users(found.claim) == (["other", "web"] if done else ["other"])
    assert (found.text == "") is done
    assert found.calls.count("get") == min(times, 4)
    assert 0.01 * min(times, 4) <= found.seconds <= 0.011 * min(times, 4)


@pytest.mark.parametrize("status", [0, 429, 500, 503, 504])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("method", ["patch", "patch_status"])
def test_write_without_an_answer_is_retried_and_done_once(method: str, done: bool, status: int) -> None:
    found = written(bind, (method, failing(status, done=done), 1))
    assert found.text == ""
    assert found.claim is not None and found.claim.status.allocation is not None
    assert found.claim.status.allocation.devices == GOT.devices
    assert users(found.claim) == ["web"]
    assert found.claim.metadata.finalizers == (DELETE_PROTECTION,)
    # What was done is a conflict when it is made again, and seen to be done.
    assert found.calls.count("get") == done


def test_write_is_retried_until_there_is_an_answer() -> None:
    found = written(bind, ("patch_status", failing(0), 8))
    assert found.claim is not None and users(found.claim) == ["web"]
    assert found.seconds == pytest.approx(0.01 + 0.05 + 0.25 + 1.25 + 6.25 + 10 + 10 + 10)


def test_write_done_without_an_answer_is_known_even_if_reading_fails_at_first() -> None:
    found = written(bind, ("patch_status", failing(0, done=True), 1), ("get", failing(504), 3))
    assert found.text == ""
    assert found.claim is not None and users(found.claim) == ["web"]
    assert found.calls.count("get") == 4


def test_write_done_without_an_answer_at_the_last_try_is_known() -> None:
    found = written(bind, ("patch_status", labelled, 4), ("patch_status", failing(504, done=True), 1))
    assert found.text == ""
    assert found.claim is not None and users(found.claim) == ["web"]
    assert found.calls.count("get") == 5


def test_unanswered_write_that_comes_too_late_is_not_done() -> None:
    """Another client has allocated the claim before it is read again."""
    meanwhile = changed(**reserved_for(OTHER, allocation=ELSEWHERE))
    found = written(bind, ("patch_status", failing(0), 1), ("patch_status", meanwhile, 1))
    assert found.text == "claim default/c got allocated elsewhere in the meantime"
    assert found.claim is not None and users(found.claim) == ["other"]


def unreserve(writes: ClaimWrites, claim: ResourceClaim) -> Coroutine[Any, Any, None]:
    return run_async(writes.unreserve(claim, POD.metadata.uid))


@pytest.mark.parametrize(
    ("before", "meanwhile", "left"),
    [
        ((POD,), None, []),
        ((OTHER, POD), None, ["other"]),
        ((OTHER,), None, ["other"]),
        ((POD,), (OTHER, POD), ["other"]),
        ((POD,), (OTHER,), ["other"]),
    ],
)
def test_pod_gives_back_its_own_reservation_alone(
    before: tuple[Pod, ...], meanwhile: tuple[Pod, ...] | None, left: list[str]
) -> None:
    befalls = [] if meanwhile is None else [("patch_status", changed(**reserved_for(*meanwhile)), 1)]
    found = written(unreserve, *befalls, **reserved_for(*before))
    assert found.claim is not None and found.claim.status.allocation is not None
    assert (users(found.claim), found.text) == (left, "")


def test_reservation_that_cannot_be_given_back() -> None:
    found = written(unreserve, ("patch_status", failing(403), 1), **reserved_for(POD))
    assert found.text == "unreserve claim default/c: no"


def deallocate(writes: ClaimWrites, claim: ResourceClaim) -> Coroutine[Any, Any, None]:
    return run_async(writes.deallocate(claim))


def test_devices_are_given_back() -> None:
    told = [{"driver": "d", "pool": "p", "device": "x"}]
    found = written(deallocate, **reserved_for(POD), devices=told)
    assert found.claim is not None
    status = found.claim.status
    assert (status.allocation, status.reserved_for, status.devices) == (None, (), ())


def test_devices_are_kept_that_somebody_else_uses_meanwhile() -> None:
    found = written(deallocate, ("patch_status", changed(**reserved_for(OTHER)), 1), **reserved_for())
    assert found.claim is not None and found.claim.status.allocation is not None
    assert (users(found.claim), found.problem is not None and found.problem.status) == (["other"], 409)


def test_no_reservation_is_found_whose_devices_are_being_given_back() -> None:
    async def do(writes: ClaimWrites, cluster: MemoryCluster, calls: Calls) -> None:
        calls.befall("patch_status", failing(0))
        claim = stored(cluster)
        given_back = asyncio.create_task(run_async(writes.deallocate(claim)))
        await asyncio.sleep(0)
        with pytest.raises(ClaimWriteError, match="claim default/c got deallocated elsewhere in the meantime"):
            await reserve(writes, claim)
        await given_back

    with_api(POD, wanting(**reserved_for(POD)), do=do)


def delete(writes: ClaimWrites, claim: ResourceClaim) -> Coroutine[Any, Any, None]:
    return run_async(writes.delete(claim))


@pytest.mark.parametrize("befalls", [[], [("patch", labelled, 1)], [("patch", failing(0, done=True), 1)]])
def test_claim_is_deleted_whatever_it_has(
    befalls: list[tuple[str, Fault | Callable[[MemoryCluster], object], int]],
) -> None:
    async def protected(writes: ClaimWrites, claim: ResourceClaim) -> None:
        await delete(writes, await bind(writes, claim))

    # The first patch adds the finalizer, before anything befalls.
    found = written(protected, ("patch", lambda cluster: None, 1), *befalls)
    assert (found.claim, found.text) == (None, "")


@pytest.mark.parametrize(
    ("method", "text"),
    [("patch", "update resourceclaim default/c: no"), ("delete", "delete resourceclaim default/c: no")],
)
def test_claim_that_cannot_be_deleted(method: str, text: str) -> None:
    assert written(delete, (method, failing(403), 1)).text == text


USES = ContainerExtendedResourceRequest(
    container_name="main", resource_name="example.com/gpu", request_name="container-0-request-0"
)


def test_claim_is_made() -> None:
    thought_of = wanting("web-extended-resources-1")
    thought_of = replace(thought_of, metadata=replace(thought_of.metadata, uid=""))

    async def do(writes: ClaimWrites, cluster: MemoryCluster, calls: Calls) -> ResourceClaim:
        made = await run_async(writes.create(thought_of))
        assert cluster.read(ResourceClaim, made.metadata.name, "default") == made
        calls.befall("create", failing(403))
        with pytest.raises(
            ClaimWriteError, match=r"^create claim for extended resources default/web-extended-resources-1: no$"
        ):
            await run_async(writes.create(thought_of))
        return made

    made, _ = with_api(do=do)
    assert made.metadata.name == "web-extended-resources-1"
    assert made.metadata.uid
    assert made.spec == thought_of.spec


def test_pod_is_told_of_its_claim() -> None:
    async def do(writes: ClaimWrites, cluster: MemoryCluster, calls: Calls) -> Pod:
        pod, claim = pending_pod(POD), wanting("made")
        with pytest.raises(ClaimWriteError, match=r"^nil or empty request mappings, no update of pod default/web "):
            await run_async(writes.write_pod_status(pod, claim, ()))
        calls.befall("patch_status", failing(0))
        await run_async(writes.write_pod_status(pod, claim, [USES]))
        calls.befall("patch_status", failing(403))
        with pytest.raises(
            ClaimWriteError, match=r"^update pod default/web ExtendedResourceClaimStatus: no$"
        ) as refused:
            await run_async(writes.write_pod_status(pod, claim, [USES]))
        assert refused.value.status == 403
        return cluster.read(Pod, "web", "default")

    pod, seconds = with_api(POD, do=do)
    told = pod.status.extended_resource_claim_status
    assert told is not None
    assert (told.resource_claim_name, told.request_mappings) == ("made", (USES,))
    assert seconds == pytest.approx(0.01, abs=1e-6)


def test_writes_of_several_pods_do_not_undo_each_other() -> None:
    pods = [make_pod(f"web-{number}") for number in range(5)]

    async def do(writes: ClaimWrites, cluster: MemoryCluster, calls: Calls) -> list[str]:
        claim = stored(cluster)
        await asyncio.gather(*(run_async(writes.bind(claim, None, consumer(pod))) for pod in pods))
        claim = stored(cluster)
        await asyncio.gather(*(run_async(writes.unreserve(claim, pod.metadata.uid)) for pod in pods[:2]))
        return users(stored(cluster))

    left, _ = with_api(wanting(**reserved_for(OTHER)), do=do)
    assert sorted(left) == ["other", "web-2", "web-3", "web-4"]


@pytest.mark.parametrize("seen_late", [False, True])
def test_bound_pod_keeps_what_an_earlier_attempt_is_still_releasing(seen_late: bool) -> None:
    async def do(writes: ClaimWrites, cluster: MemoryCluster, calls: Calls) -> list[str]:
        before = stored(cluster)
        giving_back = asyncio.ensure_future(run_async(writes.unreserve(before, POD.metadata.uid)))
        await (giving_back if seen_late else asyncio.sleep(0))
        await run_async(writes.bind(before, None, consumer(POD)))
        await giving_back
        return users(stored(cluster))

    left, _ = with_api(wanting(**reserved_for(POD)), do=do)
    assert left == ["web"]


def of_version(version: int, uid: str = "uid-c") -> ResourceClaim:
    return replace(wanting(), metadata=replace(wanting().metadata, uid=uid, resource_version=str(version)))


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ([(0.0, of_version(5))], 0.0),
        ([(0.0, of_version(6))], 0.0),
        ([(0.0, of_version(1, "another"))], 0.0),
        ([(0.0, of_version(4)), (0.05, of_version(5))], 0.11),
        ([(0.0, of_version(4)), (7.5, of_version(5))], 8.11),
        ([(0.0, of_version(4)), (7.5, None)], 8.11),
        ([], 0.11),
    ],
)
def test_release_waits_until_the_watch_shows_the_write(
    told: list[tuple[float, ResourceClaim | None]], seconds: float
) -> None:
    """No watch event comes for a claim that is deleted before it was seen: the API is asked."""

    async def do(writes: ClaimWrites, cluster: MemoryCluster, calls: Calls) -> None:
        def tell(claim: ResourceClaim | None) -> None:
            if claim is None:
                writes._claims.remove(of_version(5).metadata)
            else:
                writes._claims.put(claim.metadata, claim)

        for when, claim in told:
            asyncio.get_running_loop().call_later(when, tell, claim)
        await asyncio.sleep(0)
        await run_async(writes.wait_until_seen(of_version(5)))

    assert with_api(do=do)[1] == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("status", [0, 403])
def test_claim_that_was_not_seen_yet_but_is_there_is_waited_for(status: int) -> None:
    async def do(writes: ClaimWrites, cluster: MemoryCluster, calls: Calls) -> None:
        written = stored(cluster)
        calls.befall("get", failing(status), 2)
        asyncio.get_running_loop().call_later(9.5, writes._claims.put, written.metadata, written)
        await run_async(writes.wait_until_seen(written))

    assert with_api(wanting(), do=do)[1] >= 9.5
