"""What pods ask of NUMA zones.

Only Guaranteed pods get CPUs, memory and huge pages of their own; devices are given to pods of any class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from kframework import PodInfo
from kframework.objects import PodSpec, ResourceList, parse_amounts

Amounts = Mapping[str, int]

_INIT, _SIDECAR = "init container", "sidecar container"

#: Resources of the node as a whole.
_OF_NODE = frozenset({"ephemeral-storage", "storage", "pods"})


class ContainerClaim(NamedTuple):
    """What one container asks of the zones; `name` is what messages call its kind."""

    amounts: Amounts
    name: str = "container"

    @property
    def stays(self) -> bool:
        """Whether it keeps what it has as long as the pod runs."""
        return self.name != _INIT


class ZoneClaim(NamedTuple):
    """What a pod asks of the zones: its containers in the order in which they start, and all together."""

    guaranteed: bool
    containers: tuple[ContainerClaim, ...]
    total: Amounts

    @property
    def signature(self) -> Hashable:
        """A value that claims of equal effect share."""
        containers = tuple((tuple(sorted(each.amounts.items())), each.name) for each in self.containers)
        return self.guaranteed, containers, tuple(sorted(self.total.items()))

    def is_exclusive(self, resources: frozenset[str]) -> bool:
        """Return whether the running pod has whole CPUs, memory, or devices that zones report, for itself."""
        return any(
            name in resources if is_device(name) else name != "cpu" or amount % 1000 == 0
            for container in self.containers
            if container.stays
            for name, amount in container.amounts.items()
        )


def claim_of(pod: PodInfo) -> ZoneClaim:
    """Return what a pod asks of zones; nothing for resources that its class shares with other pods."""
    guaranteed, containers = pod.template.cached("kframework-numa/containers", _containers)
    return ZoneClaim(guaranteed, containers, _zonal(dict(pod.on_node), guaranteed))


def _containers(spec: PodSpec) -> tuple[bool, tuple[ContainerClaim, ...]]:
    guaranteed = _is_guaranteed(spec)
    started = (
        *((each, _SIDECAR if each.restart_policy == "Always" else _INIT) for each in spec.init_containers),
        *((each, "container") for each in spec.containers),
    )
    return guaranteed, tuple(
        ContainerClaim(_zonal(parse_amounts(each.resources.requests), guaranteed), name) for each, name in started
    )


def _is_guaranteed(spec: PodSpec) -> bool:
    """Return whether each container, or the pod as a whole, has limits for CPU and memory that equal its requests."""
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        return _is_bounded(spec.resources.requests, spec.resources.limits)
    return all(
        _is_bounded(each.resources.requests, each.resources.limits)
        for each in (*spec.init_containers, *spec.containers)
    )


def _is_bounded(requests: ResourceList, limits: ResourceList) -> bool:
    wanted, most = parse_amounts(requests), parse_amounts(limits)
    return all(most.get(name, 0) > 0 and wanted.get(name, most[name]) == most[name] for name in ("cpu", "memory"))


def is_device(name: str) -> bool:
    """Return whether a resource is none of Kubernetes' own: it has a domain, and not that of Kubernetes."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and not domain.endswith("kubernetes.io")


def _zonal(amounts: Amounts, guaranteed: bool) -> Amounts:
    return {
        name: amount
        for name, amount in amounts.items()
        if amount > 0 and name not in _OF_NODE and (guaranteed or is_device(name))
    }


def sum_amounts(parts: Iterable[Amounts]) -> dict[str, int]:
    """Add amounts up, resource by resource."""
    total = Counter[str]()
    for part in parts:
        total.update(part)
    return total
