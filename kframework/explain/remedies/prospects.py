"""Where it is worth looking for a remedy: an estimate, for every node at once, of how much stands in a pod's way there.

An estimate may be wrong: what is found is tried anyway. It only has to put the promising nodes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.rejections import PASS
from kframework.explain.full_evaluation import FullEvaluation
from kframework.explain.remedies.suggestions import SuggestHooks
from kframework.framework.suggestions import MAX_SUGGESTIONS, UNFIXABLE
from kframework.values.scores import Scores

_Floats = NDArray[np.float64]


class _Rejecting(NamedTuple):
    """What it takes to answer a plugin's rejections on each row: how many changes, and how large they are."""

    changes: _Floats
    size: _Floats


class Prospects:
    """What stands in the pod's way on the nodes that PreFilter leaves."""

    def __init__(self, evaluation: FullEvaluation, suggestions: SuggestHooks) -> None:
        self.evaluation = evaluation
        self._suggestions = suggestions
        #: The rows that are looked at; all else is aligned to them.
        self.rows: NDArray[np.int64] = evaluation.within
        #: The plugins that reject nodes.
        self.rejecting: dict[str, _Rejecting] = {}
        #: How many changes of the cluster it takes, how many where the pod is changed if nothing else can be done, and
        #: how large the changes are.
        self.changes: NDArray[np.float64] = np.zeros(len(self.rows))
        self.effort: NDArray[np.float64] = np.zeros(len(self.rows))
        self.size: NDArray[np.float64] = np.zeros(len(self.rows))
        #: Which plugins reject the node, as one integer.
        self.pattern: Scores = np.zeros(len(self.rows), dtype=np.int64)

    def work(self) -> Iterator[None]:
        """Estimate, one plugin after the other."""
        deletions = np.zeros(len(self.rows))
        for name, said in self.evaluation.said.items():
            rejected = said[self.rows] != PASS
            if not rejected.any():
                continue
            size, changes = np.zeros((2, len(self.rows)))
            efforts = yield from self._suggestions.efforts(self.evaluation, name, self.rows[rejected])
            changes[rejected], size[rejected] = np.ceil(efforts), efforts % UNFIXABLE
            self.pattern += rejected.astype(np.int64) << len(self.rejecting)
            self.rejecting[name] = _Rejecting(changes, size)
            self.effort += np.where(changes <= MAX_SUGGESTIONS, changes, 1)
            if self.evaluation.profile.plugins[name].reads == "node":
                self.changes += changes
            else:
                deletions = np.maximum(deletions, changes)  # whoever is in the way of one may be in that of another
            self.size += size
            yield
        self.changes += deletions

    def promising(self, each: int) -> list[int]:
        """List the rows where changes of the cluster may help: so many for each pattern of rejections, best first."""
        return self._best(np.flatnonzero(self.changes <= MAX_SUGGESTIONS), self.changes, each)

    def easiest(self, each: int) -> list[int]:
        """List the rows with the least to do, be it to the pod itself: so many for each pattern, best first."""
        return self._best(np.arange(len(self.rows)), self.effort, each)

    def alone(self, plugin: str) -> int | None:
        """Return the row that only this plugin rejects, and least; None if there is none."""
        rejecting = self.rejecting[plugin]
        places = np.flatnonzero(self.pattern == 1 << list(self.rejecting).index(plugin))
        order = np.lexsort((rejecting.changes[places], rejecting.size[places]))
        return int(self.rows[places[order[0]]]) if len(places) else None

    def _best(self, places: NDArray[np.int64], first: _Floats, each: int) -> list[int]:
        places = places[np.lexsort((self.size[places], first[places]))]
        patterns = self.pattern[places]
        best: list[int] = []
        for pattern in np.unique(patterns).tolist():
            best += places[patterns == pattern][:each].tolist()
        best.sort(key=lambda place: (first[place], self.size[place]))
        return [int(self.rows[place]) for place in best]
