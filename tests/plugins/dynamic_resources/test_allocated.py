"""Which devices claims have is known as soon as it is said or assumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kframework.objects import ResourceClaim
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices, results_of
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.state.objects import ObjectStore

#: Whether x is somebody's, and how much of y is in use.
InUse = tuple[bool, dict[str, int]]

X, Y = DeviceId("d", "p", "x"), DeviceId("d", "p", "y")


def claim(name: str, *results: dict[str, Any], version: str = "1", uid: str = "") -> ResourceClaim:
    said = [{"request": "r", "driver": "d", "pool": "p", **result} for result in results]
    status = {"allocation": {"devices": {"results": said}}} if results else {}
    metadata = {"name": name, "namespace": "n", "uid": uid or f"uid-{name}", "resourceVersion": version}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


def share(memory: str | None = None) -> dict[str, Any]:
    consumed = {} if memory is None else {"consumedCapacity": {"memory": memory}}
    return {"device": "y", "shareID": "s", **consumed}


def in_use(found: AllocatedDevices) -> InUse:
    return found.is_dedicated(X), dict(found.consumed_capacity(Y))


def test_devices_come_and_go_with_allocations() -> None:
    store = ObjectStore[ResourceClaim]()
    first = claim("a", {"device": "x"}, share("1"))
    store.put(first.metadata, first)
    found = AllocatedDevices(store)
    assert in_use(found) == (True, {"memory": 10**9})
    second = claim("b", share("2"), share())
    store.put(second.metadata, second)
    assert in_use(found) == (True, {"memory": 3 * 10**9})
    assert (found.is_in_use(X), found.is_in_use(Y)) == (True, True)
    given_back = claim("a", version="2")
    store.put(given_back.metadata, given_back)
    assert in_use(found) == (False, {"memory": 2 * 10**9})
    store.remove(second.metadata)
    assert (in_use(found), found.is_in_use(Y)) == ((False, {}), False)


def test_assumed_allocation_counts_until_it_is_restored() -> None:
    store = ObjectStore[ResourceClaim]()
    free = claim("a")
    store.put(free.metadata, free)
    found = AllocatedDevices(store)
    assumed = replace(free, status=claim("a", {"device": "x"}).status)
    store.assume(assumed.metadata, assumed)
    assert found.is_in_use(X)
    store.restore(assumed.metadata)
    assert not found.is_in_use(X)


def test_admin_access_does_not_allocate_the_device() -> None:
    store = ObjectStore[ResourceClaim]()
    found = AllocatedDevices(store)
    admin = claim("a", {"device": "x", "adminAccess": True})
    store.put(admin.metadata, admin)
    assert not found.is_in_use(X)


def test_share_of_nothing_is_in_use_all_the_same() -> None:
    store = ObjectStore[ResourceClaim]()
    found = AllocatedDevices(store)
    empty = claim("a", share())
    store.put(empty.metadata, empty)
    assert (found.is_in_use(Y), in_use(found)) == (True, (False, {}))


def test_device_that_others_gave_twice_is_given_back_twice() -> None:
    store = ObjectStore[ResourceClaim]()
    found = AllocatedDevices(store)
    both = [claim(name, {"device": "x"}) for name in "ab"]
    for each in both:
        store.put(each.metadata, each)
    store.remove(both[0].metadata)
    assert found.is_in_use(X)
    store.remove(both[1].metadata)
    assert not found.is_in_use(X)


#: What happens to the claim `a`, which may get x and a share of y: the scheduler's side and the cluster's.
RESULTS = ({"device": "x"}, share("1"))
Step = Callable[[ObjectStore[ResourceClaim], AllocatedDevices], object]


def said(subject: ResourceClaim) -> Step:
    """The cluster says what a claim is now."""
    return lambda store, found: store.put(subject.metadata, subject)


def gone(subject: ResourceClaim) -> Step:
    return lambda store, found: store.remove(subject.metadata)


FREE, PROTECTED, GIVEN_BACK = (claim("a", version=version) for version in ("1", "2", "4"))
TAKEN = claim("a", *RESULTS, version="3")
#: The same by the next attempt.
AGAIN = claim("a", *RESULTS, version="3")
FREE_TWIN, TAKEN_TWIN = claim("a", version="5", uid="twin"), claim("a", {"device": "x"}, version="6", uid="twin")


def reserved(store: object, found: AllocatedDevices) -> None:
    found.reserve(TAKEN)


def reserved_again(store: object, found: AllocatedDevices) -> None:
    found.reserve(AGAIN)


def released(store: object, found: AllocatedDevices) -> None:
    found.release(TAKEN)


ABOUT_TO_BE: list[Step] = [said(FREE), reserved, said(PROTECTED)]
HELD: InUse = (True, {"memory": 10**9})
NOTHING: InUse = (False, {})


@pytest.mark.parametrize(
    ("steps", "in_use_then", "pending"),
    [
        pytest.param(ABOUT_TO_BE, HELD, True, id="pending"),
        pytest.param([*ABOUT_TO_BE, released], NOTHING, False, id="released"),
        pytest.param([*ABOUT_TO_BE, released, released], NOTHING, False, id="released twice"),
        pytest.param([*ABOUT_TO_BE, released, reserved_again], HELD, True, id="by the next attempt"),
        pytest.param([*ABOUT_TO_BE, released, reserved_again, released], HELD, True, id="released late"),
        pytest.param([*ABOUT_TO_BE, said(TAKEN)], HELD, False, id="said"),
        pytest.param([*ABOUT_TO_BE, said(TAKEN), released], HELD, False, id="said is not taken back"),
        pytest.param([*ABOUT_TO_BE, said(TAKEN), said(GIVEN_BACK)], NOTHING, False, id="given back"),
        pytest.param([*ABOUT_TO_BE, said(GIVEN_BACK)], HELD, True, id="given back before it was said"),
        pytest.param([*ABOUT_TO_BE, said(GIVEN_BACK), released], NOTHING, False, id="given back unsaid, then released"),
        pytest.param([*ABOUT_TO_BE, gone(PROTECTED)], NOTHING, False, id="deleted"),
        pytest.param([*ABOUT_TO_BE, gone(PROTECTED), released], NOTHING, False, id="deleted, then released"),
        pytest.param([*ABOUT_TO_BE, said(TAKEN), gone(TAKEN)], NOTHING, False, id="said, then deleted"),
        pytest.param([*ABOUT_TO_BE, said(FREE_TWIN)], NOTHING, False, id="another of the same name"),
        pytest.param([*ABOUT_TO_BE, said(TAKEN_TWIN), released], (True, {}), False, id="another that has x"),
    ],
)
def test_devices_are_held_from_reserve_on(steps: list[Step], in_use_then: InUse, pending: bool) -> None:
    store = ObjectStore[ResourceClaim]()
    found = AllocatedDevices(store)
    for step in steps:
        step(store, found)
    assert (in_use(found), found.is_pending(FREE)) == (in_use_then, pending)
    for subject in (TAKEN_TWIN, TAKEN, AGAIN):
        found.release(subject)
        store.remove(subject.metadata)
    assert not found.is_in_use(X)
    assert not found.is_in_use(Y)


@pytest.mark.parametrize("is_told", [True, False])
def test_claim_that_is_still_to_be_made_holds_its_devices_until_the_cluster_tells_of_them(is_told: bool) -> None:
    """Under its name, as one for extended resources has no uid before it is made."""
    store = ObjectStore[ResourceClaim]()
    found = AllocatedDevices(store)
    thought_of = claim("made", {"device": "x"})
    thought_of = replace(thought_of, metadata=replace(thought_of.metadata, uid=""))
    found.reserve(thought_of)
    bare, taken = claim("made", version="2"), claim("made", {"device": "x"}, version="3")
    store.put(bare.metadata, bare)
    assert (found.is_dedicated(X), found.is_unconfirmed(thought_of)) == (True, True)
    if is_told:
        store.put(taken.metadata, taken)
    assert (found.is_dedicated(X), found.is_unconfirmed(thought_of)) == (True, not is_told)
    found.release(thought_of)
    assert found.is_dedicated(X) is is_told
    store.remove(bare.metadata)
    assert not found.is_in_use(X)


def test_devices_are_named_that_come_and_go() -> None:
    store = ObjectStore[ResourceClaim]()
    found = AllocatedDevices(store)
    reader = found.log.reader()
    reader.read_new()
    for step, names in [
        (said(FREE), []),
        (reserved, [X, Y]),
        (reserved, []),
        (said(TAKEN), []),
        (said(GIVEN_BACK), [X, Y]),
    ]:
        step(store, found)
        assert reader.read_new() == names


@pytest.mark.parametrize(
    ("freed", "whole", "shared"),
    [
        ([], True, (True, {"memory": 3 * 10**9})),
        ([{"device": "x"}], False, (True, {"memory": 3 * 10**9})),
        ([share("1")], True, (True, {"memory": 2 * 10**9})),
        ([share("1"), share("2")], True, (False, {})),
        ([{"device": "x", "adminAccess": True}], True, (True, {"memory": 3 * 10**9})),
    ],
)
def test_devices_in_use_without_some_claims_are_known(freed: list[dict[str, Any]], whole: bool, shared: InUse) -> None:
    store = ObjectStore[ResourceClaim]()
    for each in (claim("a", {"device": "x"}, share("1")), claim("b", share("2"))):
        store.put(each.metadata, each)
    found = AllocatedDevices(store)
    rest = found.as_if_released(results_of(claim("c", *freed)))
    assert (rest.is_dedicated(X), rest.is_in_use(X)) == (whole, whole)
    assert (rest.is_in_use(Y), dict(rest.consumed_capacity(Y))) == shared
    assert not rest.is_dedicated(Y)
    assert in_use(found) == (True, {"memory": 3 * 10**9})
