"""Amounts of cpu and memory: what pods request and may use, and what was measured of a node."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from kframework import PodInfo
from kframework.objects import Container, PodSpec, RawQuantity, milli, value
from kframework_load_aware.providers import NodeLoad

RESOURCES = ("cpu", "memory")

#: Milli-CPU and bytes.
Amounts = tuple[int, int]

_UNITS: Mapping[str, Callable[[RawQuantity], int]] = {"cpu": milli, "memory": value}


def requests_of(pod: PodInfo) -> Amounts:
    """Return what the pod requests, as the scheduler counts it."""
    requests = dict(pod.on_node)
    return requests.get("cpu", 0), requests.get("memory", 0)


def add_requests(pods: Iterable[tuple[PodInfo, float]]) -> tuple[float, float]:
    """Add up what parts of pods request."""
    cpu = memory = 0.0
    for pod, part in pods:
        requests = requests_of(pod)
        cpu, memory = cpu + part * requests[0], memory + part * requests[1]
    return cpu, memory


def limits_of(pod: PodInfo) -> Amounts:
    """Return what the pod may use: what it requests at least, and no more than that without a limit."""
    cpu, memory = pod.template.cached("kframework-load-aware/limits", _limits)
    requests = requests_of(pod)
    return max(cpu, requests[0]), max(memory, requests[1])


def _limits(spec: PodSpec) -> Amounts:
    cpu, memory = (_limit(spec, resource) for resource in RESOURCES)
    return cpu, memory


def _limit(spec: PodSpec, resource: str) -> int:
    unit = _UNITS[resource]

    def limit(container: Container) -> int:
        return unit(container.resources.limits.get(resource, 0))

    together = sum(map(limit, spec.containers))
    return max([together, *map(limit, spec.init_containers)]) + unit(spec.overhead.get(resource, 0))


def measure_resource(load: NodeLoad, resource: str, capacity: int) -> tuple[float, float, float]:
    """Return mean and deviation of a resource's load, in its unit and within the capacity; NaN if not measured."""
    mean, deviation = (load.cpu, load.cpu_deviation) if resource == "cpu" else (load.memory, load.memory_deviation)
    if mean is None:
        return math.nan, 0.0, capacity
    factor = 1.0 if load.unit == "amount" else capacity / 100
    return min(max(mean * factor, 0), capacity), min(max(deviation * factor, 0), capacity), capacity
