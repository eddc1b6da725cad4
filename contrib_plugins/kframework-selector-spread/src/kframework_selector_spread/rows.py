"""Numbers of nodes that are worked out once and kept until the node changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kframework import NodeInfo, NodeTable, Rows, Scores

#: A row whose number must be worked out.
_UNKNOWN = -1


class RowNumbers:
    """A natural number for each row, worked out when it is first asked for, and again when `changed` names the row.

    So the pods of a node are looked at when they have changed, not in every cycle.
    """

    def __init__(
        self, nodes: NodeTable, changed: Callable[[], list[int] | None], compute: Callable[[NodeInfo], int]
    ) -> None:
        self._nodes = nodes
        self._changed = changed
        self._compute = compute
        self._numbers: NDArray[np.int64] = np.full(nodes.capacity, _UNKNOWN, dtype=np.int64)

    def for_rows(self, rows: Rows) -> Scores:
        self._catch_up()
        listed = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        for row in listed[self._numbers[listed] == _UNKNOWN].tolist():
            self._numbers[row] = self._compute(self._nodes[row])
        return self._numbers[listed]

    def for_node(self, node: NodeInfo) -> int:
        return int(self.for_rows(np.array([node.row]))[0])

    def _catch_up(self) -> None:
        changed = self._changed()
        if changed is None or len(self._numbers) < self._nodes.capacity:
            self._numbers = np.full(self._nodes.capacity, _UNKNOWN, dtype=np.int64)
        else:
            self._numbers[changed] = _UNKNOWN
