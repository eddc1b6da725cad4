"""Compare the allocations of a pod's claims on each node, and the written claims, with the recorded ones."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from msgspec.structs import replace

from kframework.core.cycle.records import Decision
from kframework.core.host import Host
from kframework.core.pod_engine import PodEngine
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import Api
from kframework.objects import (
    ApiObject,
    ApiStruct,
    ContainerExtendedResourceRequest,
    DeviceAllocationConfiguration,
    DeviceRequest,
    DeviceRequestAllocationResult,
    NodeSelector,
    ObjectMeta,
    ResourceClaimConsumerReference,
)
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.cycle import UNCREATED
from kframework.plugins.dynamic_resources.plugin import RESERVED, DynamicResources
from kframework.plugins.dynamic_resources.reservation import ClaimReservation
from kframework.state.inbox import Upserted
from kframework.state.pods import PendingPod
from kframework.testing.conformance.cases import Fact, compare_keys
from kframework.testing.single_plugin import PROFILE

T = TypeVar("T", bound=ApiObject)

#: Replaces any uid of a share in the records.
_ANY = "*"

#: The devices that claims get, by their names.
Allocations = Mapping[str, Sequence[DeviceRequestAllocationResult]]


class AllocationDetails(ApiStruct, frozen=True, kw_only=True):
    """The rest of an allocation; of the claim for extended resources its requests too, and who uses them."""

    config: tuple[DeviceAllocationConfiguration, ...] = ()
    node_selector: NodeSelector | None = None
    requests: tuple[DeviceRequest, ...] = ()
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class ClaimRecorder(Host):
    """A host of an engine that writes nothing, but records its decisions and which claims it would have written."""

    def __init__(self) -> None:
        #: The names of claims whose status was written, and of those that were deleted.
        self.deallocated: list[str] = []
        self.deleted: list[str] = []
        self.decisions: list[Decision] = []

    def report_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)

    @property
    def api(self) -> Api:
        return cast("Api", _RecordingApi(self))

    def spawn(self, coroutine: Coroutine[object, object, None], by: str) -> None:
        try:
            coroutine.send(None)
        except StopIteration:
            return
        raise AssertionError(f"{by} awaits something; here it must not")


class _RecordingApi:
    """Records what is written, and returns an object with only its name."""

    def __init__(self, written: ClaimRecorder) -> None:
        self._written = written

    async def patch(self, kind: type[T], name: str, patch: object, namespace: str = "") -> T:
        return kind(metadata=ObjectMeta(name=name, namespace=namespace))

    async def patch_status(self, kind: type[T], name: str, patch: object, namespace: str = "", **about: str) -> T:
        self._written.deallocated.append(name)
        return kind(metadata=ObjectMeta(name=name, namespace=namespace))

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        self._written.deleted.append(name)


def reserve_claims(engine: PodEngine, pod: PendingPod, state: CycleState, node_name: str) -> ClaimReservation | None:
    """Return the reservation of a pod's claims on a node; None if it has no claims."""
    plugin = find_plugin(engine)
    if plugin is None:
        return None
    own = CycleState(state)
    plugin.reserve(own, pod, node_name)
    plugin.unreserve(own, pod, node_name)
    return own.get(RESERVED)


def find_plugin(engine: PodEngine) -> DynamicResources | None:
    """Return the DynamicResources of the profile; None if it has none."""
    plugins = engine.profiles[PROFILE].plugins.values()
    return next((plugin for plugin in plugins if isinstance(plugin, DynamicResources)), None)


def compare_allocations(
    expected: Allocations, reservation: ClaimReservation | None, *path: str | int
) -> Iterator[Fact]:
    """Compare the devices that claims get; a claim for extended resources that gets none is not created here."""
    placed = () if reservation is None else reservation.allocations
    got = {each.claim.metadata.name: results_of(each.allocated_claim) for each in placed if each.allocation is not None}
    masked = {
        name: tuple(replace(each, share_id=_ANY) if each.share_id is not None else each for each in results)
        for name, results in got.items()
    }
    yield from compare_keys({name: tuple(results) for name, results in expected.items() if results}, masked, *path)


def compare_details(
    expected: Mapping[str, AllocationDetails], reservation: ClaimReservation | None, *path: str | int
) -> Iterator[Fact]:
    """Compare the rest of what claims get."""
    placed = () if reservation is None else reservation.allocations
    got = {}
    for each in placed:
        if reservation is not None and each.allocation is not None:
            is_extended = each.claim.metadata.name == UNCREATED
            got[each.claim.metadata.name] = AllocationDetails(
                config=each.allocation.devices.config,
                node_selector=each.allocation.node_selector,
                requests=each.claim.spec.devices.requests if is_extended else (),
                request_mappings=reservation.mappings if is_extended else (),
            )
    yield from compare_keys(
        expected, {name: details for name, details in got.items() if details != AllocationDetails()}, *path
    )


def compare_writes(engine: PodEngine, deallocates: Sequence[str], deletes: str) -> Iterator[Fact]:
    """Compare which claim lost its devices, one of several, and which was deleted."""
    assert isinstance(engine.host, ClaimRecorder)
    deallocated, deleted = "".join(engine.host.deallocated[:1]), "".join(engine.host.deleted[:1])
    expected = deallocated if deallocated in deallocates else "".join(deallocates[:1])
    yield Fact(("postFilter", "deallocates"), expected, deallocated)
    yield Fact(("postFilter", "deletes"), deletes, deleted)


def store_allocations(engine: PodEngine, pod: PendingPod, reservation: ClaimReservation | None) -> None:
    """Store the allocations of a pod's claims, reserved for it."""
    user = ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
    for each in () if reservation is None else reservation.allocations:
        claim = each.claim if each.allocation is None else each.allocated_claim
        metadata, status = claim.metadata, claim.status
        if metadata.name == UNCREATED:
            metadata = replace(metadata, name=f"{pod.name}-extended-resources")
        reserved_for = (*status.reserved_for, user)
        engine.offer(Upserted(replace(claim, metadata=metadata, status=replace(status, reserved_for=reserved_for))))
    engine.step()
