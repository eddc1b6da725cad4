"""The ports a pod wants on its node, and when two of them collide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kframework.objects.pod import PodSpec
from kframework.objects.requests import is_sidecar

#: The one text that means every address; `::` is an ordinary address to kube-scheduler.
ANY_IP = "0.0.0.0"


class HostPort(NamedTuple):
    """A port on a node."""

    ip: str
    protocol: str
    port: int


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """List the host ports of a pod's sidecars and containers; other init containers hold none."""
    sidecars = (container for container in spec.init_containers if is_sidecar(container))
    return tuple(
        HostPort(port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


def conflicts(one: HostPort, other: HostPort) -> bool:
    """Return whether two host ports cannot be held on one node."""
    return (
        one.port == other.port
        and one.protocol == other.protocol
        and (one.ip == other.ip or ANY_IP in (one.ip, other.ip))
    )


def any_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Return whether one of the wanted ports collides with one in use; wanted ones may collide with each other."""
    used = tuple(used)
    return any(conflicts(one, other) for one in wanted for other in used)
