"""Remembered dry runs: what was found on each row for one kind of preemptor, kept as long as it holds.

Preemptors of one signature and one priority find the same on a row as long as its node and pods
stay as they are, the same pods are nominated to it, and no PodDisruptionBudget changes.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.changed_rows import ChangedRows
from kframework.core.preemption.dry_runs import Ranked
from kframework.core.runtime.profile import Signature
from kframework.state.cluster import ClusterState
from kframework.state.columns import Column
from kframework.state.pods import PodInfo
from kframework.values.status import Status

#: What `Answers.found` says of a row: nothing yet, or that there are victims. Smaller numbers refer to a Status.
UNKNOWN, VICTIMS = 0, 1

#: About what a remembered candidate with some ten victims takes, in bytes.
_CANDIDATE = 500


class Answers:
    """What the dry runs of one kind of preemptor found, by row.

    `found` is UNKNOWN, VICTIMS (see `candidates`), or the number of a Status. Bring it up to date before use.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._nodes = cluster.nodes
        self._changed = ChangedRows(cluster)
        self._numbers: dict[Status, int] = {}
        self._statuses: list[Status] = []
        #: Where in the order of the nodes the last preemptor began; None before the first.
        self.offset: int | None = None
        self.found: Column = Column(cluster.nodes.capacity)
        self.candidates: dict[int, Ranked] = {}

    def catch_up(self, pod: PodInfo) -> None:
        """Forget the rows that have changed since the last preemptor, or to which other pods are nominated now."""
        changed = self._changed.since_last(pod)
        if changed is None or len(self._statuses) > 2 * len(self._nodes):
            self.clear()
        else:
            for row in changed:
                self._forget(row)

    def clear(self) -> None:
        """Forget everything."""
        self.found.values[:] = UNKNOWN
        self.candidates.clear()
        self._numbers.clear()
        self._statuses.clear()

    def _forget(self, row: int) -> None:
        self.found.cells[row] = UNKNOWN
        self.candidates.pop(row, None)

    def put(self, row: int, answer: Ranked | Status) -> None:
        """Keep what a dry run found."""
        if isinstance(answer, Ranked):
            self.candidates[row] = answer
            self.found.cells[row] = VICTIMS
            return
        number = self._numbers.get(answer)
        if number is None:
            number = self._numbers[answer] = -1 - len(self._statuses)
            self._statuses.append(answer)
        self.found.cells[row] = number

    def get(self, row: int) -> Ranked | Status | None:
        """Return what was found on a row, if anything."""
        number = self.found.cells[row]
        return self.candidates.get(row) if number >= UNKNOWN else self._statuses[-1 - number]

    def statuses(self, rows: NDArray[np.int64]) -> list[tuple[Status, int]]:
        """Count what stands against these rows, in the order in which it was first met."""
        numbers, counts = np.unique(self.found.values[rows], return_counts=True)
        counted = zip(numbers.tolist(), counts.tolist(), strict=True)
        return [(self._statuses[-1 - number], count) for number, count in reversed(list(counted)) if number < UNKNOWN]

    @property
    def nbytes(self) -> int:
        """About what it takes."""
        return self.found.values.nbytes + _CANDIDATE * len(self.candidates)


class DryRunMemory:
    """The answers for the kinds of preemptors, least recently used first, within a budget of bytes.

    All are forgotten when the set of nodes or a PodDisruptionBudget changes.
    """

    def __init__(self, cluster: ClusterState, budget: int = 32 << 20) -> None:
        self._cluster = cluster
        self._budget = budget
        self._answers: OrderedDict[tuple[Signature, int], Answers] = OrderedDict()
        self._as_of = (-1, -1)

    def answers(self, signature: Signature, priority: int, budget_changes: int) -> Answers:
        """Return the answers for preemptors of this signature and priority; none yet if nothing is remembered."""
        as_of = (self._cluster.nodes.generation, budget_changes)
        if as_of != self._as_of:
            self._as_of = as_of
            self._answers.clear()
        self._trim()
        key = (signature, priority)
        if key not in self._answers:
            self._answers[key] = Answers(self._cluster)
        self._answers.move_to_end(key)
        return self._answers[key]

    def _trim(self) -> None:
        """Forget until there is room; what is asked for grows only after that."""
        nbytes = sum(answers.nbytes for answers in self._answers.values())
        while nbytes > self._budget:
            _, oldest = self._answers.popitem(last=False)
            nbytes -= oldest.nbytes

    def __len__(self) -> int:
        return len(self._answers)
