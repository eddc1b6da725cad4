"""Which host ports are taken on which nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kframework.objects.ports import HostPort, conflicts
from kframework.state.row_counts import count


class HostPorts:
    """The host ports of the pods on all nodes.

    Each is held as often as pods hold it: it becomes free on a node when the last of them leaves. In a what-if it
    counts as free as soon as one of them leaves (`let_go`), as in kube-scheduler, which keeps a set.
    """

    def __init__(self) -> None:
        #: Ports that count as free on a row although pods hold them there; none while no Statement is open.
        self.let_go: frozenset[tuple[HostPort, int]] = frozenset()
        # (protocol, port) -> held port -> row -> number of holders
        self._held: dict[tuple[str, int], dict[HostPort, dict[int, int]]] = {}

    def count(self, port: HostPort, row: int, more: int) -> None:
        """Note that so many pods more (or, negative, fewer) hold the port on this row."""
        alike = self._held.setdefault((port.protocol, port.port), {})
        rows = alike.setdefault(port, {})
        if more > 0 and self.let_go:
            self.let_go -= {(port, row)}
        if count(rows, row, more):
            return
        if not rows:
            del alike[port]
        if not alike:
            del self._held[port.protocol, port.port]

    def against(self, wanted: HostPort) -> Iterator[Collection[int]]:
        """List the rows on which the wanted port would collide, one collection for each port it collides with."""
        for held, rows in self._held.get((wanted.protocol, wanted.port), {}).items():
            if conflicts(wanted, held):
                yield rows.keys() - {row for port, row in self.let_go if port == held} if self.let_go else rows.keys()

    def __len__(self) -> int:
        return sum(len(rows) for alike in self._held.values() for rows in alike.values())
