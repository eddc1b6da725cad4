"""Extended resources that are backed by device classes: the requests that replace them (KEP-5004)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kframework.objects import (
    Container,
    ContainerExtendedResourceRequest,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    PodSpec,
)
from kframework.objects.quantity import nano
from kframework.state.objects import ObjectStore

#: The prefix of a class name as an extended resource.
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"

_NANO = 10**9


class BackedResources:
    """The classes that back extended resources, kept current.

    Of two classes that back the same resource the newer one wins, of two with the same age the first by name.
    (kube-scheduler 1.36 keeps stale data of a class that changes without another name, and drops more than was removed:
    `docs/differences.md`.)
    """

    def __init__(self, classes: ObjectStore[DeviceClass]) -> None:
        self._named: dict[str, dict[str, DeviceClass]] = {}
        self._backing: dict[str, DeviceClass] = {}
        classes.follow(self._changed)

    def behind(self, resource: str) -> DeviceClass | None:
        """Return the class that backs an extended resource."""
        return self._backing.get(resource)

    def _changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if old is not None:
            for name in _names(old):
                self._named[name].pop(old.metadata.name, None)
                self._choose(name)
        if new is not None:
            for name in _names(new):
                self._named.setdefault(name, {})[new.metadata.name] = new
                self._choose(name)

    def _choose(self, resource: str) -> None:
        candidates = sorted(self._named[resource].values(), key=lambda each: each.metadata.name)
        if candidates:
            self._backing[resource] = max(candidates, key=lambda each: each.metadata.creation_timestamp or "")
        else:
            del self._named[resource]
            self._backing.pop(resource, None)


def _names(device_class: DeviceClass) -> list[str]:
    own = CLASS_PREFIX + device_class.metadata.name
    said = device_class.spec.extended_resource_name
    return [own] if said is None else [own, said]


class Wanted(NamedTuple):
    """Requests that replace extended resources, and the containers that use each."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class _Place(NamedTuple):
    """A container, and the number of init containers and containers before it."""

    number: int
    container: Container


def wanted(spec: PodSpec, resources: Iterable[str], backed: BackedResources) -> Wanted:
    """Return device requests for the extended resources of a pod that must be devices.

    Containers and sidecars have their own devices. An init container, which ends before later ones begin, uses theirs
    and requests what is still missing; so do other init containers, and the maximum that any of them misses is enough
    for all.
    """
    places = [_Place(index, each) for index, each in enumerate((*spec.init_containers, *spec.containers))]
    short = [each for each in places[: len(spec.init_containers)] if each.container.restart_policy != "Always"]
    requests, mappings = list[DeviceRequest](), list[ContainerExtendedResourceRequest]()
    for resource in sorted(resources):
        backing = backed.behind(resource)
        if backing is not None:
            found = _for_resource(places, short, resource, backing.metadata.name)
            requests += found.requests
            mappings += found.mappings
    return Wanted(tuple(sorted(requests, key=lambda each: each.name)), tuple(mappings))


def _for_resource(places: Sequence[_Place], short: Sequence[_Place], resource: str, class_name: str) -> Wanted:
    own = {place.number: _request(place, resource, class_name, ()) for place in places if place not in short}
    mappings = [_mapping(places[index], resource, each.name) for index, each in own.items() if each is not None]
    rests = dict[int, DeviceRequest | None]()
    for place in short:
        behind = [each for index, each in own.items() if index >= place.number and each is not None]
        rests[place.number] = _request(place, resource, class_name, behind)
    largest = max((each for each in rests.values() if each is not None), key=_count, default=None)
    for place in short:
        behind = [each for index, each in own.items() if index >= place.number and each is not None]
        mappings += [_mapping(place, resource, each.name) for each in _used(place, resource, behind)]
        if rests[place.number] is not None and largest is not None:
            mappings.append(_mapping(place, resource, largest.name))
    requests = [each for each in (largest, *own.values()) if each is not None]
    return Wanted(tuple(requests), tuple(mappings))


def _request(place: _Place, resource: str, class_name: str, behind: Sequence[DeviceRequest]) -> DeviceRequest | None:
    """Return a request for the devices that a container needs beyond those it may use; None if none."""
    missing = _amount(place.container, resource) - sum(map(_count, behind))
    if missing <= 0:
        return None
    index = sorted(place.container.resources.requests).index(resource)
    exactly = ExactDeviceRequest(device_class_name=class_name, allocation_mode="ExactCount", count=missing)
    return DeviceRequest(name=f"container-{place.number}-request-{index}", exactly=exactly)


def _used(place: _Place, resource: str, behind: Sequence[DeviceRequest]) -> list[DeviceRequest]:
    """Return those requests of others that a container uses, until it has enough."""
    needed, used = _amount(place.container, resource), list[DeviceRequest]()
    for each in behind:
        if needed <= 0:
            break
        used.append(each)
        needed -= _count(each)
    return used


def _amount(container: Container, resource: str) -> int:
    """Return the amount that a container requests; 0 if that is no integer."""
    amount = nano(container.resources.requests.get(resource, 0))
    return 0 if amount % _NANO else amount // _NANO


def _count(request: DeviceRequest) -> int:
    return 0 if request.exactly is None else request.exactly.count


def _mapping(place: _Place, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        container_name=place.container.name, resource_name=resource, request_name=request
    )
