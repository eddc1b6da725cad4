"""Validate objects: find values that an API server rejects and a scheduler must not compute with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache
from typing import TypeVar, get_args

import msgspec

from kframework.objects.codec import locate_decode_error, without_nulls
from kframework.objects.identity import cached_by_identity
from kframework.objects.kind_rules import RULED_KINDS, object_problems
from kframework.objects.kinds import KINDS
from kframework.objects.meta import ApiObject, ApiStruct, RawQuantity, ResourceList
from kframework.objects.node import Node, NodeStatus
from kframework.objects.pod import Pod, PodSpec, PodStatus
from kframework.objects.problem import FieldPath, Problem
from kframework.objects.quantity import QuantityError, nano
from kframework.objects.resource_claims import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from kframework.objects.resource_slices import Counter, ResourceSlice
from kframework.objects.scheduling_rules import pod_spec_problems
from kframework.objects.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from kframework.objects.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    JobSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

S = TypeVar("S", bound=msgspec.Struct)

_BUILT_IN = frozenset(kind.struct for kind in KINDS)

_TIMES: tuple[FieldPath, ...] = (
    ("metadata", "creationTimestamp"),
    ("metadata", "deletionTimestamp"),
    ("status", "startTime"),
)


def find_problem(subject: ApiObject) -> Problem | None:
    """Find a missing name, an invalid time, or a quantity that does not parse or is negative."""
    metadata = subject.metadata
    if not metadata.name:
        return Problem(("metadata", "name"), "is missing: every object needs one")
    started = subject.status.start_time if isinstance(subject, Pod) else None
    for path, time in zip(_TIMES, (metadata.creation_timestamp, metadata.deletion_timestamp, started), strict=True):
        if time is not None and not _is_time(time):
            return Problem(path, f"{time!r} is not a time: write it like 2026-01-02T15:04:05Z")
    if isinstance(subject, Pod):
        return _pod_spec_problem(subject.spec) or _pod_quantity_problem(subject.spec, subject.status)
    if isinstance(subject, ResourceClaim):
        return _claim_quantity_problem(subject.spec)
    if isinstance(subject, RULED_KINDS):
        problem = next(object_problems(subject), None)
        if problem is not None:
            return problem
    if isinstance(subject, Node):
        return _node_quantity_problem(subject.status)
    try:
        found = find_pod_spec(subject)
    except TemplateError as error:
        return error.problem
    specs = _embedded_pod_specs(subject, ()) if found is None and type(subject) not in _BUILT_IN else [found]
    for path, spec in filter(None, specs):
        problem = _pod_spec_problem(spec) or _pod_quantity_problem(spec, PodStatus())
        if problem is not None:
            return replace(problem, path=(*path, *problem.path[1:]))  # without the pod's own `spec`
    return _quantities_problem(_resource_lists(subject)) if found is None else None


def _embedded_pod_specs(value: object, path: FieldPath) -> Iterator[tuple[FieldPath, PodSpec]]:
    """Yield the specs of pods in the templates of a declared kind, and their paths."""
    if isinstance(value, PodSpec):
        yield path, value
    elif isinstance(value, ApiStruct):
        for name, written in _template_fields(type(value)):
            yield from _embedded_pod_specs(getattr(value, name), (*path, written))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _embedded_pod_specs(item, (*path, index))


@cache
def _template_fields(struct: type[ApiStruct]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a struct that may hold specs of pods, with their names in the API."""
    return tuple(
        (field.name, field.encode_name)
        for field in msgspec.structs.fields(struct)
        if any(issubclass(each, PodSpec) or _template_fields(each) for each in _structs_in(field.type))
    )


def _structs_in(annotation: object) -> Iterator[type[ApiStruct]]:
    if isinstance(annotation, type) and issubclass(annotation, ApiStruct):
        yield annotation
    for each in get_args(annotation):
        yield from _structs_in(each)


class TemplateError(ValueError):
    """Raised for a template of pods that cannot be decoded; `problem` says where and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def find_pod_spec(subject: ApiObject) -> tuple[FieldPath, PodSpec] | None:
    """Return the spec of a workload's pods and its path, None for other kinds; raises TemplateError."""
    path: FieldPath = ("spec", "template", "spec")
    match subject:
        case CronJob():
            job_path = ("spec", "jobTemplate", "spec")
            template = _decode_template(subject.spec.job_template.spec, JobSpec, job_path).template
            path = (*job_path, "template", "spec")
        case DaemonSet() | Deployment() | Job() | ReplicaSet() | ReplicationController() | StatefulSet():
            template = subject.spec.template
        case _:
            return None
    return path, _decode_template(template.spec, PodSpec, path)


def _decode_template(data: dict[str, object], struct: type[S], path: FieldPath) -> S:
    written = without_nulls(data)
    try:
        return msgspec.convert(written, struct)
    except msgspec.ValidationError as error:
        raise TemplateError(locate_decode_error(error, written).with_prefix(path)) from error


@cached_by_identity
def _pod_spec_problem(spec: PodSpec) -> Problem | None:
    problem = next(pod_spec_problems(spec), None)
    return None if problem is None else problem.with_prefix(("spec",))


@cached_by_identity
def _pod_quantity_problem(spec: PodSpec, status: PodStatus) -> Problem | None:
    return _quantities_problem(_pod_quantities(spec, status))


@cached_by_identity
def _node_quantity_problem(status: NodeStatus) -> Problem | None:
    lists = (("status", "capacity"), status.capacity), (("status", "allocatable"), status.allocatable)
    return _quantities_problem(lists)


@cached_by_identity
def _claim_quantity_problem(spec: ResourceClaimSpec) -> Problem | None:
    return _quantities_problem(_claim_quantities(spec, ("spec",)))


def _quantities_problem(lists: Iterable[tuple[FieldPath, ResourceList]]) -> Problem | None:
    for path, resources in lists:
        for name, quantity in resources.items():
            message = quantity_problem(quantity)
            if message is not None:
                return Problem((*path, name), message)
    return None


def quantity_problem(quantity: RawQuantity) -> str | None:
    """Return why a quantity is invalid where it must not be negative; None if it is valid."""
    try:
        return f"{quantity!r} is negative" if nano(quantity) < 0 else None
    except QuantityError as error:
        return str(error)


@lru_cache(maxsize=1024)  # many objects are made in one second
def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _resource_lists(subject: ApiObject) -> Iterable[tuple[FieldPath, ResourceList]]:
    match subject:
        case PersistentVolume():
            return ((("spec", "capacity"), subject.spec.capacity),)
        case PersistentVolumeClaim():
            return ((("spec", "resources", "requests"), subject.spec.resources.requests),)
        case CSIStorageCapacity():
            sizes = {"capacity": subject.capacity, "maximumVolumeSize": subject.maximum_volume_size}
            return (((), {name: size for name, size in sizes.items() if size is not None}),)
        case ResourceSlice():
            return _slice_quantities(subject)
        case ResourceClaimTemplate():
            return _claim_quantities(subject.spec.spec, ("spec", "spec"))
    return ()


def _slice_quantities(published: ResourceSlice) -> Iterator[tuple[FieldPath, ResourceList]]:
    for index, device in enumerate(published.spec.devices):
        path = ("spec", "devices", index)
        yield (*path, "capacity"), {name: capacity.value for name, capacity in device.capacity.items()}
        for number, taken in enumerate(device.consumes_counters):
            yield (*path, "consumesCounters", number, "counters"), _amounts(taken.counters)
    for index, shared in enumerate(published.spec.shared_counters):
        yield ("spec", "sharedCounters", index, "counters"), _amounts(shared.counters)


def _amounts(counters: Mapping[str, Counter]) -> ResourceList:
    return {name: counter.value for name, counter in counters.items()}


def _claim_quantities(spec: ResourceClaimSpec, below: FieldPath) -> Iterator[tuple[FieldPath, ResourceList]]:
    for index, request in enumerate(spec.devices.requests):
        path = (*below, "devices", "requests", index)
        if request.exactly is not None and request.exactly.capacity is not None:
            yield (*path, "exactly", "capacity", "requests"), request.exactly.capacity.requests
        for number, either in enumerate(request.first_available):
            if either.capacity is not None:
                yield (*path, "firstAvailable", number, "capacity", "requests"), either.capacity.requests


def _pod_quantities(spec: PodSpec, status: PodStatus) -> Iterator[tuple[FieldPath, ResourceList]]:
    for name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield ("spec", name, index, "resources", "requests"), container.resources.requests
            yield ("spec", name, index, "resources", "limits"), container.resources.limits
    yield ("spec", "overhead"), spec.overhead
    if spec.resources:
        yield ("spec", "resources", "requests"), spec.resources.requests
        yield ("spec", "resources", "limits"), spec.resources.limits
    for name, statuses in (
        ("containerStatuses", status.container_statuses),
        ("initContainerStatuses", status.init_container_statuses),
    ):
        for index, container_status in enumerate(statuses):
            yield ("status", name, index, "allocatedResources"), container_status.allocated_resources or {}
            if container_status.resources:
                yield ("status", name, index, "resources", "requests"), container_status.resources.requests or {}
    yield ("status", "allocatedResources"), status.allocated_resources or {}
    if status.resources:
        yield ("status", "resources", "requests"), status.resources.requests or {}
