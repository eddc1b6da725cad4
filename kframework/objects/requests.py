"""Resource requests of pods, in the four ways that kube-scheduler computes them.

All functions return {resource name: integer}: milli-CPU for `cpu`, whole units (bytes, devices) for everything else.
Sums are exact and rounded up once, at the end. A name requested as 0 stays in the result; names without meaning to a
scheduler are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from kframework.objects.label_selectors import is_qualified_name
from kframework.objects.meta import ResourceList
from kframework.objects.node import Node
from kframework.objects.pod import Container, Pod, PodSpec
from kframework.objects.quantity import nano

#: The requests assumed in scoring for a container without any: milli-CPU and bytes.
DEFAULT_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024

_Nanos = dict[str, int]
_OfContainer = Callable[[Container], Mapping[str, int]]

_DEFAULTS = {"cpu": DEFAULT_CPU * 10**6, "memory": DEFAULT_MEMORY * 10**9}
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


def fit_requests(spec: PodSpec) -> dict[str, int]:
    """Compute the requests that NodeResourcesFit compares with free resources: spec only, with pod-level resources."""
    total = aggregate(spec, _stated)
    total.update(_pod_level(spec))
    return _rounded(_with_overhead(total, spec))


def on_node_requests(pod: Pod) -> dict[str, int]:
    """Compute a pod's share of its node's requested resources; counts a resize in place.

    NodeResourcesBalancedAllocation sees an incoming pod in the same way.
    """
    return _rounded(_on_node(pod, _resized(pod)))


def non_zero_requests(pod: Pod) -> tuple[int, int]:
    """Compute a pod's share of its node's non-zero request: (milli-CPU, bytes).

    With pod-level requests a default is used only for resources that the whole pod does not request.
    """
    resized = _resized(pod)
    total = _on_node(pod, resized)
    defaults = _DEFAULTS
    if _pod_level(pod.spec):
        defaults = {name: amount for name, amount in _DEFAULTS.items() if name not in total}
    if defaults:
        total = _on_node(pod, _with_defaults(resized, defaults))
    rounded = _rounded(total)
    return rounded.get("cpu", 0), rounded.get("memory", 0)


def reports_other_requests(pod: Pod) -> bool:
    """Return whether a pod's status may report other requests than its spec, as during an in-place resize."""
    if pod.status.resources is not None:
        return True
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    if not statuses:
        return False
    stated = {each.name: each.resources.requests for each in (*pod.spec.containers, *pod.spec.init_containers)}
    return any(
        status.resources is not None
        and not (
            status.resources.requests == stated.get(status.name)
            and status.allocated_resources in ({}, stated[status.name])
        )
        for status in statuses
    )


def scoring_requests(spec: PodSpec) -> dict[str, int]:
    """Compute the requests by which NodeResourcesFit scores a pod: spec only, no pod-level resources, with defaults."""
    return _rounded(_with_overhead(aggregate(spec, _with_defaults(_stated, _DEFAULTS)), spec))


def limits(spec: PodSpec) -> dict[str, int]:
    total = aggregate(spec, lambda container: _nanos(container.resources.limits))
    if spec.resources:
        total.update(_supported(spec.resources.limits))
    for name, amount in _nanos(spec.overhead).items():
        if total.get(name):
            total[name] += amount
    return _rounded(total)


def allocatable(node: Node) -> dict[str, int]:
    """Compute a node's allocatable resources; `pods` is a count."""
    return _rounded(_nanos(node.status.allocatable), _NATIVE | {"pods"})


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Return whether a resource other than cpu, memory, ephemeral-storage and pods counts: extended, hugepages, ..."""
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return "/" in name and not name.startswith("requests.") and is_qualified_name(f"requests.{name}")


def is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


# --- one container ----------------------------------------------------------------------------------------------------


def _nanos(resources: ResourceList) -> _Nanos:
    return {name: nano(quantity) for name, quantity in resources.items()}


def _stated(container: Container) -> _Nanos:
    return _nanos(container.resources.requests)


def _resized(pod: Pod) -> _OfContainer:
    """Return each container's requests or, during an in-place resize, the most it may hold."""
    statuses = {
        status.name: status
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
        if status.resources is not None
    }
    if not statuses:
        return _stated
    once = {container.name for container in pod.spec.init_containers if not is_sidecar(container)}
    infeasible = _is_resize_infeasible(pod)

    def resized(container: Container) -> _Nanos:
        status = statuses.get(container.name)
        if status is None or status.resources is None or container.name in once:
            return _stated(container)
        held = _maximum((_nanos(status.resources.requests), _nanos(status.allocated_resources)))
        return held if infeasible else _maximum((_stated(container), held))

    return resized


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


def _on_node(pod: Pod, of_container: _OfContainer) -> _Nanos:
    total = aggregate(pod.spec, of_container)
    total.update(_resized_pod_level(pod))
    return _with_overhead(total, pod.spec)


def _pod_level(spec: PodSpec) -> _Nanos:
    return _supported(spec.resources.requests) if spec.resources else {}


def _resized_pod_level(pod: Pod) -> _Nanos:
    stated = _pod_level(pod.spec)
    if not stated or pod.status.resources is None:
        return stated
    held = _maximum((_nanos(pod.status.resources.requests), _nanos(pod.status.allocated_resources)))
    effective = held if _is_resize_infeasible(pod) else _maximum((stated, held))
    return {name: effective.get(name, 0) for name in stated}


def _supported(resources: ResourceList) -> _Nanos:
    return {
        name: nano(quantity)
        for name, quantity in resources.items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }


def _is_resize_infeasible(pod: Pod) -> bool:
    pending = (condition for condition in pod.status.conditions if condition.type == "PodResizePending")
    first = next(pending, None)
    return first is not None and first.reason == "Infeasible"


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


def _rounded(total: _Nanos, native: frozenset[str] = _NATIVE) -> dict[str, int]:
    return {
        name: -(-amount // (10**6 if name == "cpu" else 10**9))
        for name, amount in total.items()
        if name in native or is_scalar(name)
    }
