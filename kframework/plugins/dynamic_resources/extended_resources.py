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
        self._candidates: dict[str, dict[str, DeviceClass]] = {}
        self._backing: dict[str, DeviceClass] = {}
        classes.follow(self._on_change)

    def class_for(self, resource: str) -> DeviceClass | None:
        return self._backing.get(resource)

    def _on_change(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if old is not None:
            for name in _names(old):
                self._candidates[name].pop(old.metadata.name, None)
                self._choose(name)
        if new is not None:
            for name in _names(new):
                self._candidates.setdefault(name, {})[new.metadata.name] = new
                self._choose(name)

    def _choose(self, resource: str) -> None:
        candidates = sorted(self._candidates[resource].values(), key=lambda each: each.metadata.name)
        if candidates:
            self._backing[resource] = max(candidates, key=lambda each: each.metadata.creation_timestamp or "")
        else:
            del self._candidates[resource]
            self._backing.pop(resource, None)


def _names(device_class: DeviceClass) -> list[str]:
    own = CLASS_PREFIX + device_class.metadata.name
    extended_name = device_class.spec.extended_resource_name
    return [own] if extended_name is None else [own, extended_name]


class DeviceRequests(NamedTuple):
    """Requests that replace extended resources, and the containers that use each."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class _NumberedContainer(NamedTuple):
    """A container, and the number of init containers and containers before it."""

    number: int
    object: Container


def replace_extended_resources(spec: PodSpec, resources: Iterable[str], backed: BackedResources) -> DeviceRequests:
    """Return device requests for the extended resources of a pod that must be devices.

    Containers and sidecars have their own devices. An init container, which ends before later ones begin, uses theirs
    and requests what is still missing; so do other init containers, and the maximum that any of them misses is enough
    for all.
    """
    containers = [
        _NumberedContainer(index, each) for index, each in enumerate((*spec.init_containers, *spec.containers))
    ]
    init_containers = [
        each for each in containers[: len(spec.init_containers)] if each.object.restart_policy != "Always"
    ]
    requests, mappings = list[DeviceRequest](), list[ContainerExtendedResourceRequest]()
    for resource in sorted(resources):
        device_class = backed.class_for(resource)
        if device_class is not None:
            replacement = _for_resource(containers, init_containers, resource, device_class.metadata.name)
            requests += replacement.requests
            mappings += replacement.mappings
    return DeviceRequests(tuple(sorted(requests, key=lambda each: each.name)), tuple(mappings))


def _for_resource(
    containers: Sequence[_NumberedContainer],
    init_containers: Sequence[_NumberedContainer],
    resource: str,
    class_name: str,
) -> DeviceRequests:
    own = {
        container.number: _request(container, resource, class_name, ())
        for container in containers
        if container not in init_containers
    }
    mappings = [_mapping(containers[index], resource, each.name) for index, each in own.items() if each is not None]
    missing = dict[int, DeviceRequest | None]()
    for container in init_containers:
        reusable = [each for index, each in own.items() if index >= container.number and each is not None]
        missing[container.number] = _request(container, resource, class_name, reusable)
    largest = max((each for each in missing.values() if each is not None), key=_count, default=None)
    for container in init_containers:
        reusable = [each for index, each in own.items() if index >= container.number and each is not None]
        mappings += [_mapping(container, resource, each.name) for each in _used_requests(container, resource, reusable)]
        if missing[container.number] is not None and largest is not None:
            mappings.append(_mapping(container, resource, largest.name))
    requests = [each for each in (largest, *own.values()) if each is not None]
    return DeviceRequests(tuple(requests), tuple(mappings))


def _request(
    container: _NumberedContainer, resource: str, class_name: str, reusable: Sequence[DeviceRequest]
) -> DeviceRequest | None:
    """Return a request for the devices that a container needs beyond those it may use; None if none."""
    missing = _amount(container.object, resource) - sum(map(_count, reusable))
    if missing <= 0:
        return None
    index = sorted(container.object.resources.requests).index(resource)
    exactly = ExactDeviceRequest(device_class_name=class_name, allocation_mode="ExactCount", count=missing)
    return DeviceRequest(name=f"container-{container.number}-request-{index}", exactly=exactly)


def _used_requests(
    container: _NumberedContainer, resource: str, reusable: Sequence[DeviceRequest]
) -> list[DeviceRequest]:
    """Return those requests of others that a container uses, until it has enough."""
    needed, used = _amount(container.object, resource), list[DeviceRequest]()
    for each in reusable:
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


def _mapping(container: _NumberedContainer, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        container_name=container.object.name, resource_name=resource, request_name=request
    )
