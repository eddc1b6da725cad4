"""What an API server would refuse in an object and a scheduler must not compute with."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from kframework.objects.codec import FieldPath
from kframework.objects.meta import ApiObject, RawQuantity, ResourceList
from kframework.objects.node import Node
from kframework.objects.pod import Pod
from kframework.objects.quantity import QuantityError, nano
from kframework.objects.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim


def first_complaint(subject: ApiObject) -> tuple[FieldPath, str] | None:
    """Find a missing name, a time that is none, or a quantity that does not parse or is negative: (path, message)."""
    metadata = subject.metadata
    if not metadata.name:
        return ("metadata", "name"), "is missing: every object needs one"
    times: list[tuple[FieldPath, str | None]] = [
        (("metadata", "creationTimestamp"), metadata.creation_timestamp),
        (("metadata", "deletionTimestamp"), metadata.deletion_timestamp),
    ]
    if isinstance(subject, Pod):
        times.append((("status", "startTime"), subject.status.start_time))
    for path, time in times:
        if time is not None and not _is_time(time):
            return path, f"{time!r} is not a time: write it like 2026-01-02T15:04:05Z"
    for path, quantity in _quantities(subject):
        message = _quantity_complaint(quantity)
        if message is not None:
            return path, message
    return None


def _quantity_complaint(quantity: RawQuantity) -> str | None:
    try:
        return f"{quantity!r} is negative" if nano(quantity) < 0 else None
    except QuantityError as error:
        return str(error)


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _quantities(subject: ApiObject) -> Iterator[tuple[FieldPath, RawQuantity]]:
    match subject:
        case Pod():
            yield from _of_pod(subject)
        case Node():
            yield from _of_list(subject.status.capacity, "status", "capacity")
            yield from _of_list(subject.status.allocatable, "status", "allocatable")
        case PersistentVolume():
            yield from _of_list(subject.spec.capacity, "spec", "capacity")
        case PersistentVolumeClaim():
            yield from _of_list(subject.spec.resources.requests, "spec", "resources", "requests")
        case CSIStorageCapacity():
            if subject.capacity is not None:
                yield ("capacity",), subject.capacity
            if subject.maximum_volume_size is not None:
                yield ("maximumVolumeSize",), subject.maximum_volume_size


def _of_pod(pod: Pod) -> Iterator[tuple[FieldPath, RawQuantity]]:
    spec, status = pod.spec, pod.status
    for name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            place = ("spec", name, index, "resources")
            yield from _of_list(container.resources.requests, *place, "requests")
            yield from _of_list(container.resources.limits, *place, "limits")
    yield from _of_list(spec.overhead, "spec", "overhead")
    if spec.resources:
        yield from _of_list(spec.resources.requests, "spec", "resources", "requests")
        yield from _of_list(spec.resources.limits, "spec", "resources", "limits")
    for name, statuses in (
        ("containerStatuses", status.container_statuses),
        ("initContainerStatuses", status.init_container_statuses),
    ):
        for index, container_status in enumerate(statuses):
            yield from _of_list(container_status.allocated_resources, "status", name, index, "allocatedResources")
            if container_status.resources:
                place = ("status", name, index, "resources")
                yield from _of_list(container_status.resources.requests, *place, "requests")
    yield from _of_list(status.allocated_resources, "status", "allocatedResources")
    if status.resources:
        yield from _of_list(status.resources.requests, "status", "resources", "requests")


def _of_list(resources: ResourceList, *path: str | int) -> Iterator[tuple[FieldPath, RawQuantity]]:
    for name, quantity in resources.items():
        yield (*path, name), quantity
