"""Which host ports are taken on which nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from kframework.objects.pod import PodSpec
from kframework.objects.requests import is_sidecar
from kframework.state.row_counts import add_to_row

#: The one text that means every address; `::` is an ordinary address to kube-scheduler.
ANY_IP = "0.0.0.0"


class HostPort(NamedTuple):
    """A port on a node."""

    ip: str
    protocol: str
    port: int


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """List the host ports of a pod's sidecars and containers; other init containers use none."""
    sidecars = (container for container in spec.init_containers if is_sidecar(container))
    return tuple(
        HostPort(port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


def conflicts(one: HostPort, other: HostPort) -> bool:
    return (
        one.port == other.port
        and one.protocol == other.protocol
        and (one.ip == other.ip or ANY_IP in (one.ip, other.ip))
    )


def any_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Return whether a wanted port conflicts with one in use; conflicts among the wanted ones are ignored."""
    used = tuple(used)
    return any(conflicts(one, other) for one in wanted for other in used)


class HostPorts:
    """The host ports of the pods on all nodes.

    Each is counted by the pods that use it: it becomes free on a node when the last of them leaves. In a what-if it
    counts as free as soon as one of them leaves (`released`), as in kube-scheduler, which keeps a set.
    """

    def __init__(self) -> None:
        #: Ports that count as free on a row although pods use them there; empty while no Statement is open.
        self.released: frozenset[tuple[HostPort, int]] = frozenset()
        # (protocol, port) -> used port -> row -> number of pods
        self._rows_by_port: dict[tuple[str, int], dict[HostPort, dict[int, int]]] = {}

    def count(self, port: HostPort, row: int, delta: int) -> None:
        by_port = self._rows_by_port.setdefault((port.protocol, port.port), {})
        rows = by_port.setdefault(port, {})
        if delta > 0 and self.released:
            self.released -= {(port, row)}
        if add_to_row(rows, row, delta):
            return
        if not rows:
            del by_port[port]
        if not by_port:
            del self._rows_by_port[port.protocol, port.port]

    def conflicting_rows(self, wanted: HostPort) -> Iterator[Collection[int]]:
        """Yield the rows on which the wanted port would conflict, one collection per conflicting port."""
        for used, rows in self._rows_by_port.get((wanted.protocol, wanted.port), {}).items():
            if conflicts(wanted, used):
                yield (
                    rows.keys() - {row for port, row in self.released if port == used} if self.released else rows.keys()
                )

    def __len__(self) -> int:
        return sum(len(rows) for by_port in self._rows_by_port.values() for rows in by_port.values())
