"""Admission by priority classes, runtime classes and limit ranges, in the words of kube-apiserver's plugins.

An object that is bound or has a resource version was admitted before, and keeps what it has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from kframework.client import api_errors
from kframework.errors import ClusterError
from kframework.objects import (
    ApiObject,
    Container,
    LimitRange,
    LimitRangeItem,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PriorityClass,
    Quantity,
    RawQuantity,
    ResourceList,
    Resources,
    RuntimeClass,
    Toleration,
)
from kframework.objects.identity import cached_by_identity
from kframework.objects.kinds import T
from kframework.objects.problem import FieldPath
from kframework.objects.quantity import milli, nano
from kframework.objects.requests import aggregate

PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
#: The annotation that names the resources that a pod got from limit ranges.
LIMIT_RANGER = "kubernetes.io/limit-ranger"
#: The priority classes that every cluster has.
SYSTEM_CLASSES = (
    PriorityClass(metadata=ObjectMeta(name="system-cluster-critical"), value=2_000_000_000),
    PriorityClass(metadata=ObjectMeta(name="system-node-critical"), value=2_000_001_000),
)
_NO_CLASS = PriorityClass()
_PRIORITY_CLASS: FieldPath = ("spec", "priorityClassName")


class Policies(NamedTuple):
    """The objects by which another is admitted: all classes, and the limit ranges of its namespace."""

    priority_classes: Collection[PriorityClass] = ()
    runtime_classes: Collection[RuntimeClass] = ()
    limit_ranges: Sequence[LimitRange] = ()


#: For objects of kinds without policies.
NO_POLICIES = Policies()


class AdmissionError(ClusterError):
    """Raised when admission rejects an object; `path` is the field that is at fault."""

    def __init__(self, subject: ApiObject, path: FieldPath, why: str) -> None:
        name = subject.metadata.name or subject.metadata.generate_name
        error = api_errors.forbidden(type(subject), name, why)
        super().__init__(error.message, status=error.status, reason=error.reason)
        self.path = path


def was_admitted(subject: ApiObject) -> bool:
    is_bound = isinstance(subject, Pod) and subject.spec.node_name != ""
    return is_bound or subject.metadata.resource_version != ""


def _find_class(classes: Iterable[T], name: str) -> T | None:
    return next((each for each in classes if each.metadata.name == name), None)


# --- priorities -------------------------------------------------------------------------------------------------------


def find_priority_class(pod: Pod, classes: Collection[PriorityClass]) -> PriorityClass | None:
    """Return the class of a pod; None if it has a priority: it keeps that, where an API server would reject it.

    So printed pods can be read without their classes, and hand-written ones may have a priority and no class.
    ClusterError 403 for an unknown class, and if a new pod has another priority or preemption policy than its class.
    """
    spec = pod.spec
    name, priority = spec.priority_class_name, spec.priority
    if not name and priority is not None:
        return None
    priority_class = resolve_priority_class(pod, name, priority, classes)
    if name and priority_class is not None and not was_admitted(pod):
        by_class = "must not be provided in pod spec; priority admission controller computed"
        source = "from the given PriorityClass name"
        if priority not in (None, priority_class.value):
            value = priority_class.value
            why = f"the integer value of priority ({priority}) {by_class} {value} {source}"
            raise AdmissionError(pod, ("spec", "priority"), why)
        policy = priority_class.preemption_policy or PREEMPT_LOWER_PRIORITY
        if spec.preemption_policy not in (None, policy):
            given = spec.preemption_policy
            why = f"the string value of PreemptionPolicy ({given}) {by_class} {policy} {source}"
            raise AdmissionError(pod, ("spec", "preemptionPolicy"), why)
    return None if priority is not None else priority_class


def resolve_priority_class(
    subject: ApiObject, name: str, priority: int | None, classes: Collection[PriorityClass]
) -> PriorityClass | None:
    """Return the class of this name, without a name the default one; None if it is unknown and a priority is given."""
    if not name:
        defaults = (each for each in classes if each.global_default)
        return min(defaults, key=lambda each: each.value, default=_NO_CLASS)
    found = _find_class((*classes, *SYSTEM_CLASSES), name)
    if found is None and priority is None:
        raise AdmissionError(subject, _PRIORITY_CLASS, f"no PriorityClass with name {name} was found")
    return found


def with_priority(spec: PodSpec, priority_class: PriorityClass | None) -> PodSpec:
    if priority_class is None:
        return replace(spec, preemption_policy=spec.preemption_policy or PREEMPT_LOWER_PRIORITY)
    return replace(
        spec,
        priority=priority_class.value,
        priority_class_name=priority_class.metadata.name,
        preemption_policy=spec.preemption_policy or priority_class.preemption_policy or PREEMPT_LOWER_PRIORITY,
    )


def check_global_default(priority_class: PriorityClass, classes: Collection[PriorityClass]) -> None:
    """Raise ClusterError 403 for a second default class."""
    name = priority_class.metadata.name
    for other in classes if priority_class.global_default else ():
        if other.global_default and other.metadata.name != name:
            why = f"PriorityClass {other.metadata.name} is already marked as default. Only one default can exist"
            raise AdmissionError(priority_class, ("globalDefault",), why)


# --- runtime classes --------------------------------------------------------------------------------------------------


def find_runtime_class(pod: Pod, classes: Collection[RuntimeClass]) -> RuntimeClass | None:
    """Return the runtime class of a new pod; ClusterError 403 if it is unknown, or contradicts the pod."""
    name = pod.spec.runtime_class_name
    if name is None or was_admitted(pod):
        return None
    runtime_class = _find_class(classes, name)
    if runtime_class is None:
        raise AdmissionError(pod, ("spec", "runtimeClassName"), f'pod rejected: RuntimeClass "{name}" not found')
    overhead = runtime_class.overhead.pod_fixed if runtime_class.overhead is not None else {}
    if pod.spec.overhead and not overhead:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise AdmissionError(pod, ("spec", "overhead"), why)
    if pod.spec.overhead and _amounts(pod.spec.overhead) != _amounts(overhead):
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise AdmissionError(pod, ("spec", "overhead"), why)
    scheduling = runtime_class.scheduling
    for key, value in (scheduling.node_selector if scheduling is not None else {}).items():
        own = pod.spec.node_selector.get(key, value)
        if own != value:
            why = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            raise AdmissionError(pod, ("spec", "nodeSelector"), f"conflict: {why}")
    return runtime_class


@cached_by_identity
def with_runtime_class(spec: PodSpec, runtime_class: RuntimeClass) -> PodSpec:
    """Set the overhead of a runtime class, and add its node selector and its tolerations."""
    overhead, scheduling = runtime_class.overhead, runtime_class.scheduling
    if overhead is not None:
        spec = replace(spec, overhead=overhead.pod_fixed)
    if scheduling is not None:
        tolerations = _merge_tolerations((*spec.tolerations, *scheduling.tolerations))
        spec = replace(spec, node_selector=spec.node_selector | scheduling.node_selector, tolerations=tolerations)
    return spec


def _amounts(resources: ResourceList) -> dict[str, int]:
    return {name: nano(quantity) for name, quantity in resources.items()}


def _merge_tolerations(tolerations: Sequence[Toleration]) -> tuple[Toleration, ...]:
    """Drop tolerations that others include; of equal ones, keep the first."""
    merged: list[Toleration] = []
    for index, each in enumerate(tolerations):
        later = (other for other in tolerations[index + 1 :] if other != each)
        if not any(_includes(other, each) for other in (*merged, *later)):
            merged.append(each)
    return tuple(merged)


def _includes(wider: Toleration, other: Toleration) -> bool:
    """Return whether a toleration covers all that another one does."""
    if wider == other:
        return True
    if other.key != wider.key and (wider.key or wider.operator != "Exists"):
        return False
    if wider.effect not in ("", other.effect):
        return False
    if wider.effect == "NoExecute" and wider.toleration_seconds is not None:
        if other.toleration_seconds is None or other.toleration_seconds > wider.toleration_seconds:
            return False
    if wider.operator in ("", "Equal"):
        return other.operator == "Equal" and other.value == wider.value
    return wider.operator == "Exists"


# --- limit ranges -----------------------------------------------------------------------------------------------------


def with_item_defaults(item: LimitRangeItem) -> LimitRangeItem:
    """Complete the defaults of containers: limits by the maximum, requests by the limits, then by the minimum."""
    if item.type != "Container":
        return item
    default = item.max | item.default
    return replace(item, default=default, default_request=item.min | default | item.default_request)


def limit_pod(pod: Pod, ranges: Sequence[LimitRange]) -> Pod:
    """Return a new pod with the defaults of limit ranges; ClusterError 403 if it is beyond a limit."""
    for limit_range in ranges:
        pod = _with_default_resources(pod, limit_range)
    check_limits(pod, ranges)
    return pod


def _with_default_resources(pod: Pod, limit_range: LimitRange) -> Pod:
    limits: ResourceList = {}
    requests: ResourceList = {}
    for item in map(with_item_defaults, limit_range.spec.limits):
        limits |= item.default
        requests |= item.default_request
    spec, changes = _with_container_defaults(pod.spec, limits, requests)
    if not changes:
        return pod
    annotations = pod.metadata.annotations | {LIMIT_RANGER: f"LimitRanger plugin set: {'; '.join(changes)}"}
    return replace(pod, spec=spec, metadata=replace(pod.metadata, annotations=annotations))


def _with_container_defaults(spec: PodSpec, limits: ResourceList, requests: ResourceList) -> tuple[PodSpec, list[str]]:
    changes: list[str] = []

    def complete(container: Container, what: str) -> Container:
        own = container.resources
        added = {"request": requests.keys() - own.requests.keys(), "limit": limits.keys() - own.limits.keys()}
        for field, names in added.items():
            if names:
                changes.append(f"{', '.join(sorted(names))} {field} for {what} {container.name}")
        resources = replace(own, requests=requests | own.requests, limits=limits | own.limits)
        return replace(container, resources=resources)

    containers = tuple(complete(each, "container") for each in spec.containers)
    init_containers = tuple(complete(each, "init container") for each in spec.init_containers)
    return replace(spec, containers=containers, init_containers=init_containers), changes


def check_limits(subject: Pod | PersistentVolumeClaim, ranges: Iterable[LimitRange]) -> None:
    """Raise ClusterError 403 with all limits of a range that the resources of a pod or a claim break."""
    for limit_range in ranges:
        problems = [*dict.fromkeys(_broken_limits(subject, limit_range))]
        if problems:
            raise AdmissionError(subject, ("spec",), problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _broken_limits(subject: Pod | PersistentVolumeClaim, limit_range: LimitRange) -> Iterator[str]:
    for item in limit_range.spec.limits:
        match subject:
            case Pod(spec=spec) if item.type == "Container":
                for container in (*spec.containers, *spec.init_containers):
                    yield from _limit_problems(item, container.resources.requests, container.resources.limits)
            case Pod(spec=spec) if item.type == "Pod":
                yield from _limit_problems(item, _pod_resources(spec, "requests"), _pod_resources(spec, "limits"))
            case PersistentVolumeClaim(spec=claim) if item.type == "PersistentVolumeClaim":
                requests = ("request", claim.resources.requests)
                yield from _bound_problems(item, "minimum", requests)
                yield from _bound_problems(item, "maximum", requests)


def _limit_problems(item: LimitRangeItem, requests: ResourceList, limits: ResourceList) -> Iterator[str]:
    request, limit = ("request", requests), ("limit", limits)
    yield from _bound_problems(item, "minimum", request, limit)
    yield from _bound_problems(item, "maximum", limit, request)
    for name, bound in item.max_limit_request_ratio.items():
        usage = f"{name} max limit to request ratio per {item.type} is {_text(bound)}"
        for word, amounts in (request, limit):
            if not milli(amounts.get(name, 0)):
                yield f"{usage}, but no {word} is specified or {word} is 0"
                break
        else:
            ratio = milli(limits[name]) / milli(requests[name])
            if ratio * 1000 > milli(bound):
                yield f"{usage}, but provided ratio is {ratio:f}"


def _bound_problems(item: LimitRangeItem, extreme: str, *given: tuple[str, ResourceList]) -> Iterator[str]:
    """Yield the resources below the minimum or above the maximum; the first list must have each of them."""
    bounds, sign = (item.min, -1) if extreme == "minimum" else (item.max, 1)
    needed, first = given[0]
    for name, bound in bounds.items():
        usage = f"{extreme} {name} usage per {item.type} is {_text(bound)}"
        if name not in first:
            yield f"{usage}.  No {needed} is specified"
            continue
        beyond = (each for each in given if (milli(each[1].get(name, bound)) - milli(bound)) * sign > 0)
        if (worst := next(beyond, None)) is not None:
            yield f"{usage}, but {worst[0]} is {_text(worst[1][name])}"


def _pod_resources(spec: PodSpec, field: str) -> ResourceList:
    """Return the requests or limits of a pod: those of its own, and the sums of its containers'."""
    read = attrgetter(f"resources.{field}")
    formats = {
        name: Quantity.parse(str(quantity)).format
        for container in (*spec.init_containers, *spec.containers)
        for name, quantity in read(container).items()
    }
    totals = aggregate(spec, lambda container: _amounts(read(container)))
    sums: ResourceList = {name: str(Quantity(total, formats[name])) for name, total in totals.items()}
    own: ResourceList = getattr(spec.resources, field) if spec.resources is not None else {}
    return sums | {name: quantity for name, quantity in own.items() if name in ("cpu", "memory")}


def _text(quantity: RawQuantity) -> str:
    return str(Quantity.parse(str(quantity)))


# --- changes ----------------------------------------------------------------------------------------------------------


def check_change(old: ApiObject, new: ApiObject, policies: Policies) -> None:
    """Raise ClusterError 403 for a second default class, and for resources that change and are beyond a limit."""
    match old, new:
        case PriorityClass(), PriorityClass():
            check_global_default(new, policies.priority_classes)
        case PersistentVolumeClaim(), PersistentVolumeClaim() if old.spec.resources != new.spec.resources:
            check_limits(new, policies.limit_ranges)
        case Pod(), Pod() if policies.limit_ranges and _resources(old.spec) != _resources(new.spec):
            check_limits(new, policies.limit_ranges)


def _resources(spec: PodSpec) -> list[Resources | None]:
    return [spec.resources, *(each.resources for each in (*spec.init_containers, *spec.containers))]
