"""Which devices claims have is known as soon as it is said or assumed."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from kframework.objects import ResourceClaim
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.state.objects import ObjectStore

X, Y = DeviceId("d", "p", "x"), DeviceId("d", "p", "y")


def claim(name: str, *results: dict[str, Any], version: str = "1") -> ResourceClaim:
    said = [{"request": "r", "driver": "d", "pool": "p", **result} for result in results]
    status = {"allocation": {"devices": {"results": said}}} if results else {}
    metadata = {"name": name, "namespace": "n", "resourceVersion": version}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


def share(memory: str | None = None) -> dict[str, Any]:
    consumed = {} if memory is None else {"consumedCapacity": {"memory": memory}}
    return {"device": "y", "shareID": "s", **consumed}


def test_devices_come_and_go_with_allocations() -> None:
    store = ObjectStore[ResourceClaim]()
    first = claim("a", {"device": "x"}, share("1"))
    store.put(first.metadata, first)
    found = AllocatedDevices(store)
    assert (set(found.dedicated), dict(found.capacity)) == ({X}, {Y: {"memory": 10**9}})
    second = claim("b", share("2"), share())
    store.put(second.metadata, second)
    assert dict(found.capacity) == {Y: {"memory": 3 * 10**9}}
    assert (found.is_in_use(X), found.is_in_use(Y), repr(found)) == (
        True,
        True,
        "<AllocatedDevices 1 whole, 1 in shares>",
    )
    given_back = claim("a", version="2")
    store.put(given_back.metadata, given_back)
    assert (set(found.dedicated), dict(found.capacity)) == (set(), {Y: {"memory": 2 * 10**9}})
    store.remove(second.metadata)
    assert (dict(found.capacity), found.is_in_use(Y)) == ({}, False)


def test_what_is_assumed_counts_until_it_is_restored() -> None:
    store = ObjectStore[ResourceClaim]()
    free = claim("a")
    store.put(free.metadata, free)
    found = AllocatedDevices(store)
    assumed = replace(free, status=claim("a", {"device": "x"}).status)
    store.assume(assumed.metadata, assumed)
    assert found.is_in_use(X)
    store.restore(assumed.metadata)
    assert not found.is_in_use(X)


def test_whoever_administers_a_device_does_not_have_it() -> None:
    store = ObjectStore[ResourceClaim]()
    found = AllocatedDevices(store)
    admin = claim("a", {"device": "x", "adminAccess": True})
    store.put(admin.metadata, admin)
    assert not found.is_in_use(X)


def test_a_share_of_nothing_is_in_use_all_the_same() -> None:
    store = ObjectStore[ResourceClaim]()
    found = AllocatedDevices(store)
    empty = claim("a", share())
    store.put(empty.metadata, empty)
    assert (found.is_in_use(Y), dict(found.capacity), set(found.dedicated)) == (True, {}, set())


def test_a_device_that_others_gave_twice_is_given_back_twice() -> None:
    store = ObjectStore[ResourceClaim]()
    found = AllocatedDevices(store)
    both = [claim(name, {"device": "x"}) for name in "ab"]
    for each in both:
        store.put(each.metadata, each)
    store.remove(both[0].metadata)
    assert found.is_in_use(X)
    store.remove(both[1].metadata)
    assert not found.is_in_use(X)
