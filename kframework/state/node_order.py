"""The order in which nodes are searched: zones in turn, so that a sample of nodes spreads over all zones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

#: Positions in node order: a slice if they are contiguous, so that a column in that order is not copied.
Positions = slice | NDArray[np.int64]

_REGIONS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_NO_ROWS = np.zeros(0, dtype=np.int64)


def zone_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return a node's (region, zone), the beta label before the stable one; both empty if neither exists."""
    return _first_value(labels, _REGIONS), _first_value(labels, _ZONES)


def _first_value(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    for key in keys:
        if key in labels:
            return labels[key]
    return ""


class NodeOrder:
    """kube-scheduler's node tree: zones in the order of their first sight, nodes of a zone in that of their arrival."""

    def __init__(self) -> None:
        self._zones: dict[tuple[str, str], dict[int, None]] = {}
        self._zone_of: dict[int, tuple[str, str]] = {}

    def add(self, row: int, zone: tuple[str, str]) -> None:
        """Append a row to its zone; a row already in that zone keeps its position."""
        old = self._zone_of.get(row)
        if old == zone:
            return
        if old is not None:
            self.remove(row)
        self._zone_of[row] = zone
        self._zones.setdefault(zone, {})[row] = None

    def remove(self, row: int) -> None:
        """Take a row out; an emptied zone comes last if it is seen again."""
        zone = self._zone_of.pop(row)
        rows = self._zones[zone]
        del rows[row]
        if not rows:
            del self._zones[zone]

    def zone(self, row: int) -> tuple[str, str]:
        return self._zone_of[row]

    def rows(self) -> NDArray[np.int64]:
        """Return the first row of every zone, then the second of each, and so on."""
        zones = [np.fromiter(rows, dtype=np.int64, count=len(rows)) for rows in self._zones.values()]
        turns = [np.arange(len(rows)) for rows in zones]
        return np.concatenate([_NO_ROWS, *zones])[np.argsort(np.concatenate([_NO_ROWS, *turns]), kind="stable")]


def rotate(start: int, count: int, nodes: int) -> Positions:
    """Return `count` positions from `start` on, wrapping around: a slice unless it wraps."""
    start %= max(nodes, 1)
    end = start + count
    return slice(start, end) if end <= nodes else np.arange(start - nodes, end - nodes)


def take(positions: Positions, indices: Positions) -> Positions:
    if not isinstance(positions, slice):
        return positions[indices]
    begin: int = positions.start
    return slice(begin + indices.start, begin + indices.stop) if isinstance(indices, slice) else begin + indices
