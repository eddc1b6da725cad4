"""Resource requests of pods, in the four ways that kube-scheduler computes them.

All functions return {resource name: integer}: milli-CPU for `cpu`, whole units (bytes, devices) for everything else.
Sums are exact and rounded up once, at the end. A name requested as 0 stays in the result; names without meaning to a
scheduler are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from kframework.objects.identity import cached_by_identity
from kframework.objects.label_selectors import is_qualified_name
from kframework.objects.meta import ResourceList
from kframework.objects.node import Node
from kframework.objects.pod import Container, ContainerStatus, Pod, PodSpec, PodStatus
from kframework.objects.quantity import nano

#: The requests assumed in scoring for a container without any: milli-CPU and bytes.
DEFAULT_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024

_Nanos = dict[str, int]
_OfContainer = Callable[[Container], Mapping[str, int]]

#: The amounts that a pod uses on its node; `defaults` are those of containers that request none of a resource.
Usage = Callable[[Pod, Mapping[str, int]], Mapping[str, int]]

_DEFAULTS = {"cpu": DEFAULT_CPU * 10**6, "memory": DEFAULT_MEMORY * 10**9}
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


def fit_requests(spec: PodSpec) -> dict[str, int]:
    """Compute the requests that NodeResourcesFit compares with free resources: spec only, with pod-level resources."""
    total = aggregate(spec, _stated)
    total.update(_pod_level(spec))
    return _round_up(_with_overhead(total, spec))


def on_node_requests(pod: Pod, usage: Usage | None = None) -> dict[str, int]:
    """Compute a pod's share of its node's requested resources; counts a resize in place, by default as in 1.37.

    NodeResourcesBalancedAllocation sees an incoming pod in the same way.
    """
    return _round_up((usage or max_of_totals)(pod, {}))


def non_zero_requests(pod: Pod, usage: Usage | None = None) -> tuple[int, int]:
    """Compute a pod's share of its node's non-zero request: (milli-CPU, bytes).

    With pod-level requests a default is used only for resources that the whole pod does not request.
    """
    usage = usage or max_of_totals
    total = usage(pod, {})
    defaults = _DEFAULTS
    if _pod_level(pod.spec):
        defaults = {name: amount for name, amount in _DEFAULTS.items() if name not in total}
    rounded = _round_up(usage(pod, defaults) if defaults else total)
    return rounded.get("cpu", 0), rounded.get("memory", 0)


def reports_resources(status: PodStatus) -> bool:
    """Return whether a status reports the pod's actual resources, as after an in-place resize."""
    return bool(status.container_statuses or status.init_container_statuses) or status.resources is not None


def reports_other_requests(pod: Pod) -> bool:
    """Return whether a pod's status may report other requests than its spec, as during an in-place resize."""
    status = pod.status
    if status.resources is not None or status.allocated_resources is not None or _is_resize_infeasible(pod):
        return True
    statuses = (*status.container_statuses, *status.init_container_statuses)
    if not statuses:
        return False
    stated = {each.name: each.resources.requests for each in (*pod.spec.containers, *pod.spec.init_containers)}
    return any(
        reported is not None and reported != stated.get(each.name)
        for each in statuses
        for reported in (each.allocated_resources, each.resources.requests if each.resources is not None else None)
    )


def scoring_requests(spec: PodSpec) -> dict[str, int]:
    """Compute the requests by which NodeResourcesFit scores a pod: spec only, no pod-level resources, with defaults."""
    return _round_up(_with_overhead(aggregate(spec, _with_defaults(_stated, _DEFAULTS)), spec))


def limits(spec: PodSpec) -> dict[str, int]:
    total = aggregate(spec, lambda container: _nanos(container.resources.limits))
    if spec.resources:
        total.update(_supported_resources(spec.resources.limits))
    for name, amount in _nanos(spec.overhead).items():
        if total.get(name):
            total[name] += amount
    return _round_up(total)


def allocatable(node: Node) -> Mapping[str, int]:
    """Compute a node's allocatable resources, to be read only; `pods` is a count."""
    return _round_allocatable(node.status.allocatable)


@cached_by_identity  # listed nodes share equal resources
def _round_allocatable(resources: ResourceList) -> Mapping[str, int]:
    return _round_up(_nanos(resources), _NATIVE | {"pods"})


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Return whether a resource other than cpu, memory, ephemeral-storage and pods counts: extended, hugepages, ..."""
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return "/" in name and not name.startswith("requests.") and is_qualified_name(f"requests.{name}")


def is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


# --- one container ----------------------------------------------------------------------------------------------------


def _nanos(resources: ResourceList | None) -> _Nanos:
    return {name: nano(quantity) for name, quantity in (resources or {}).items()}


def _stated(container: Container) -> _Nanos:
    return _nanos(container.resources.requests)


def _with_defaults(of_container: _OfContainer, defaults: Mapping[str, int]) -> _OfContainer:
    return lambda container: {**defaults, **of_container(container)}


# --- the whole pod ----------------------------------------------------------------------------------------------------


def aggregate(spec: PodSpec, of_container: _OfContainer) -> _Nanos:
    """Add up concurrent containers; init containers raise the total to the peak before the containers start."""
    total: _Nanos = {}
    for container in spec.containers:
        _add(total, of_container(container))
    if not spec.init_containers:
        return total
    sidecars: _Nanos = {}
    peaks: list[_Nanos] = []
    for container in spec.init_containers:
        own = of_container(container)
        peak = dict(sidecars)
        _add(peak, own)
        peaks.append(peak)
        if is_sidecar(container):
            _add(total, own)
            sidecars = peak
    return _maximum((total, *peaks))


def _pod_level(spec: PodSpec) -> _Nanos:
    return _supported_resources(spec.resources.requests) if spec.resources else {}


def _supported_resources(resources: ResourceList | None) -> _Nanos:
    return {
        name: nano(quantity)
        for name, quantity in (resources or {}).items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }


def _is_resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


# --- a resize in place ------------------------------------------------------------------------------------------------


def sum_of_maxima(pod: Pod, defaults: Mapping[str, int]) -> Mapping[str, int]:
    """Add up the most that each container may hold during a resize in place, as Kubernetes 1.36 does."""
    once = {container.name for container in pod.spec.init_containers if not is_sidecar(container)}
    statuses = {
        name: status
        for name, status in _container_statuses(pod).items()
        if status.resources is not None and name not in once
    }
    infeasible = _is_resize_infeasible(pod)

    def largest_request(container: Container) -> _Nanos:
        status = statuses.get(container.name)
        if status is None or status.resources is None:
            return _stated(container)
        held = _maximum((_nanos(status.resources.requests), _nanos(status.allocated_resources)))
        return held if infeasible else _maximum((_stated(container), held))

    total = aggregate(pod.spec, _with_defaults(largest_request, defaults))
    stated, status = _pod_level(pod.spec), pod.status
    if stated and status.resources is not None:
        held = _maximum((_nanos(status.resources.requests), _nanos(status.allocated_resources)))
        effective = held if infeasible else _maximum((stated, held))
        stated = {name: effective.get(name, 0) for name in stated}
    total.update(stated)
    return _with_overhead(total, pod.spec)


def max_of_totals(pod: Pod, defaults: Mapping[str, int]) -> Mapping[str, int]:
    """Add up what is requested, allocated and actuated, and take the largest totals, as Kubernetes 1.37 does."""
    statuses, status = _container_statuses(pod), pod.status
    infeasible = _is_resize_infeasible(pod)

    def allocated_request(container: Container) -> _Nanos:
        own = statuses.get(container.name)
        if own is not None and own.allocated_resources is not None:
            return _nanos(own.allocated_resources)
        return {} if infeasible else _stated(container)

    def actuated_request(container: Container) -> _Nanos:
        own = statuses.get(container.name)
        if own is not None and own.resources is not None and own.resources.requests is not None:
            return _nanos(own.resources.requests)
        return allocated_request(container)

    totals = [] if infeasible else [aggregate(pod.spec, _with_defaults(_stated, defaults))]
    actual = status.resources.requests if status.resources is not None else None
    if status.allocated_resources is not None and actual is not None:
        totals += [_nanos(status.allocated_resources), _nanos(actual)]
    elif statuses or infeasible:
        totals += [
            aggregate(pod.spec, _with_defaults(each, defaults)) for each in (allocated_request, actuated_request)
        ]
    total = _maximum(totals)
    stated = _pod_level(pod.spec)
    if stated and status.resources is not None:
        held = (_supported_resources(actual), _supported_resources(status.allocated_resources))
        stated = _maximum(held if infeasible else (stated, *held))
    total.update(stated)
    return _with_overhead(total, pod.spec)


def _container_statuses(pod: Pod) -> Mapping[str, ContainerStatus]:
    return {each.name: each for each in (*pod.status.init_container_statuses, *pod.status.container_statuses)}


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _add(total: _Nanos, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _with_overhead(total: _Nanos, spec: PodSpec) -> _Nanos:
    _add(total, _nanos(spec.overhead))
    return total


def _maximum(several: Iterable[Mapping[str, int]]) -> _Nanos:
    largest: _Nanos = {}
    for amounts in several:
        for name, amount in amounts.items():
            if name not in largest or amount > largest[name]:
                largest[name] = amount
    return largest


def _round_up(total: Mapping[str, int], native: frozenset[str] = _NATIVE) -> dict[str, int]:
    return {
        name: -(-amount // (10**6 if name == "cpu" else 10**9))
        for name, amount in total.items()
        if name in native or is_scalar(name)
    }
