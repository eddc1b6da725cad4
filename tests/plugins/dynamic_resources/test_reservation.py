"""Claims are the pod's from Reserve on, and what is not written is given back."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace

from kframework.clock import run_virtual
from kframework.framework.suspendable import Suspendable, run_async
from kframework.objects import (
    AllocationResult,
    ContainerExtendedResourceRequest,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.cycle import UNCREATED, ClaimAllocation
from kframework.plugins.dynamic_resources.errors import ClaimWriteError
from kframework.plugins.dynamic_resources.reservation import ClaimReservation
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.plugins.dynamic_resources.writes import ClaimWrites
from kframework.state.objects import ObjectStore
from kframework.state.pods import PodInfo
from kframework.testing import make_pod, pending_pod
from tests.plugins.dynamic_resources.claiming import wanting

POD = pending_pod(make_pod("web"))
USES = (ContainerExtendedResourceRequest(container_name="main", resource_name="gpu", request_name="r"),)


class Writes:
    """Notes what is to be written, tells of it when that is waited for, and refuses these calls."""

    def __init__(self, store: ObjectStore[ResourceClaim], *refused: str) -> None:
        self.calls: list[str] = []
        self._store = store
        self._refused = refused
        #: What the cluster tells of instead.
        self.instead: ResourceClaim | None = None
        #: The claims whose writes have arrived.
        self.certain: list[str] = []

    def _call(self, what: str, name: str) -> None:
        self.calls.append(call := f"{what} {name}")
        if call in self._refused:
            raise ClaimWriteError(f"{call} is refused")

    def bind(
        self, claim: ResourceClaim, allocation: AllocationResult | None, user: ResourceClaimConsumerReference
    ) -> Suspendable[ResourceClaim]:
        yield from ()
        self._call("bind", claim.metadata.name)
        got = allocation or claim.status.allocation
        status = replace(claim.status, allocation=got, reserved_for=(*claim.status.reserved_for, user))
        return replace(claim, metadata=replace(claim.metadata, resource_version="5"), status=status)

    def is_certain_to_be_seen(self, written: ResourceClaim) -> bool:
        return written.metadata.name in self.certain

    def wait_until_seen(self, written: ResourceClaim) -> Suspendable[None]:
        yield from ()
        self.calls.append(f"await {written.metadata.name}")
        told = self.instead or written
        self._store.put(told.metadata, told)

    def create(self, claim: ResourceClaim) -> Suspendable[ResourceClaim]:
        yield from ()
        self._call("create", claim.metadata.name)
        return replace(claim, metadata=replace(claim.metadata, uid="uid-made", resource_version="4"))

    def write_pod_status(
        self, pod: PodInfo, claim: ResourceClaim, mappings: tuple[ContainerExtendedResourceRequest, ...]
    ) -> Suspendable[None]:
        yield from ()
        assert mappings == USES
        self._call("tell", claim.metadata.name)


def got(device: str) -> AllocationResult:
    result = DeviceRequestAllocationResult(request="r", driver="d", pool="p", device=device)
    return AllocationResult(devices=DeviceAllocationResult(results=(result,)))


class World:
    """Claims that are about to get x, y and z; the last one is only thought of."""

    def __init__(self, *refused: str) -> None:
        self.store = ObjectStore[ResourceClaim]()
        for name in ("first", "second"):
            self.said(wanting(name))
        self.allocated = AllocatedDevices(self.store)
        self.writes = Writes(self.store, *refused)
        thought_of = wanting(UNCREATED)
        thought_of = replace(thought_of, metadata=replace(thought_of.metadata, generate_name="web-"))
        placed = [
            ClaimAllocation(wanting("first"), got("x")),
            ClaimAllocation(wanting("second"), got("y")),
            ClaimAllocation(thought_of, got("z")),
        ]
        self.reservation = ClaimReservation(self.allocated, placed, USES, "made")

    def said(self, claim: ResourceClaim, version: str = "1") -> None:
        claim = replace(claim, metadata=replace(claim.metadata, resource_version=version))
        self.store.put(claim.metadata, claim)

    def write(self) -> str:
        """Write the claims, and return what could not be."""

        async def main() -> str:
            try:
                await run_async(self.reservation.write(cast("ClaimWrites", self.writes), POD))
            except ClaimWriteError as error:
                return str(error)
            return ""

        return run_virtual(main)

    def held(self) -> str:
        return "".join(each for each in "xyz" if self.allocated.is_dedicated(DeviceId("d", "p", each)))


def test_claims_are_written_one_after_the_other() -> None:
    here = World()
    assert (here.held(), here.write(), here.held()) == ("xyz", "", "xyz")
    assert here.writes.calls == [
        *("bind first", "bind second", "create web-made", "bind web-made", "tell web-made"),
        *("await first", "await second", "await web-made"),
    ]
    assert [claim.metadata.name for claim in here.reservation.claims] == ["first", "second", "web-made"]


@pytest.mark.parametrize(
    ("refused", "calls", "held", "left"),
    [
        ("bind first", 1, "", ["first", "second"]),
        ("bind second", 3, "x", ["first", "second"]),
        ("create web-made", 5, "xy", ["first", "second"]),
        ("bind web-made", 6, "xy", ["first", "second", "web-made"]),
        ("tell web-made", 8, "xyz", ["first", "second", "web-made"]),
    ],
)
def test_unwritten_allocation_is_released(refused: str, calls: int, held: str, left: list[str]) -> None:
    here = World(refused)
    assert here.write() == f"{refused} is refused"
    assert (len(here.writes.calls), here.held()) == (calls, "xyz")
    assert [claim.metadata.name for claim in here.reservation.undo()] == left
    assert here.held() == held
    # Once is enough.
    assert here.reservation.undo() == []
    assert here.held() == held


def test_write_that_has_arrived_is_not_waited_for() -> None:
    here = World()
    here.writes.certain = ["first", "web-made"]
    assert (here.write(), here.writes.calls[5:]) == ("", ["await second"])


def test_allocation_that_was_never_written_is_released() -> None:
    here = World()
    assert len(here.reservation.undo()) == 2
    assert here.held() == ""


def test_written_allocation_stays_until_the_cluster_changes_it() -> None:
    here = World("bind second")
    here.write()
    here.reservation.undo()
    assert here.held() == "x"
    here.said(wanting("first"), "6")
    assert here.held() == ""


def test_allocation_released_before_the_watch_confirms_it_fails_the_pod() -> None:
    here = World()
    here.writes.instead = replace(wanting("first"), metadata=replace(wanting("first").metadata, resource_version="6"))
    assert here.write() == "claim default/first got deallocated elsewhere in the meantime"
    assert here.held() == "xyz"
    here.reservation.undo()
    assert here.held() == ""


def test_name_of_a_claim_that_is_made_is_as_long_as_those_that_the_api_makes() -> None:
    thought_of = wanting(UNCREATED)
    thought_of = replace(thought_of, metadata=replace(thought_of.metadata, generate_name="x" * 100))
    allocated = AllocatedDevices(ObjectStore[ResourceClaim]())
    (claim,) = ClaimReservation(allocated, [ClaimAllocation(thought_of, got("x"))], USES, "0123456789").claims
    assert (len(claim.metadata.name), claim.metadata.name[-11:], claim.metadata.uid) == (63, "x0123456789", "")


def test_claim_that_is_reserved_already_is_made_certain_of() -> None:
    store = ObjectStore[ResourceClaim]()
    user = ResourceClaimConsumerReference(resource="pods", name="web", uid=POD.uid)
    taken = replace(wanting(), status=replace(wanting().status, allocation=got("x"), reserved_for=(user,)))
    allocated, writes = AllocatedDevices(store), Writes(store)
    reservation = ClaimReservation(allocated, [ClaimAllocation(taken, None)], (), "")

    async def main() -> None:
        await run_async(reservation.write(cast("ClaimWrites", writes), POD))

    run_virtual(main)
    assert writes.calls == ["bind c"]
    assert [claim.metadata.name for claim in reservation.undo()] == ["c"]
