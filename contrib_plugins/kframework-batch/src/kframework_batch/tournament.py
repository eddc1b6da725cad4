"""The best of a column of scores, known at all times: putting a score in asks few of the others.

The rows are played off in blocks, the winners of blocks in blocks again, up to one. Each block knows its best and how
many rows share it, so a score that changes is compared with one number a round; only where the last of the best has
fallen a block is looked at again. At 100,000 nodes an update and a choice take 4 to 9 us, a scan of the column 135.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The score of a row that takes no part.
ABSENT = float("-inf")

#: The binary logarithm of the size of a block.
_SHIFT = 5
_BLOCK = 1 << _SHIFT

#: If more than one row in this number changes at once, all are played again: that takes as long.
_DENSE = 256


class Tournament:
    """Scores by row, to find the best of; the rows that take part are those with a score above ABSENT."""

    def __init__(self, rows: int) -> None:
        #: By row, whole blocks of them; `put` and `put_many` alone change them.
        self.scores: NDArray[np.float64] = np.full(max(-(-rows // _BLOCK), 1) * _BLOCK, ABSENT)
        self._cells: memoryview[float] = memoryview(self.scores)  # type: ignore[arg-type]  # it exports floats
        self._count = 0
        #: The result of each block of a round: the best, and how many rows have it. No rounds: not played yet.
        self._bests: list[list[float]] = []
        self._counts: list[list[int]] = []

    def put(self, row: int, score: float) -> None:
        before = self._cells[row]
        if score == before:
            return
        self._cells[row] = score
        if self._bests:
            self._count += (score > ABSENT) - (before > ABSENT)
            self._propagate(row, before, score)

    def put_many(self, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> None:
        """Set the scores of many rows, which are aligned with them; no row twice."""
        if self._bests and len(rows) * _DENSE <= len(self.scores):
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
                self.put(row, score)
        else:
            self.scores[rows] = scores
            self._bests.clear()
            self._counts.clear()

    @property
    def best(self) -> float:
        """The highest score; ABSENT if no row takes part."""
        if not self._bests:
            self._rebuild()
        return self._bests[-1][0]

    @property
    def ties(self) -> int:
        return self._counts[-1][0] if self.best > ABSENT else 0

    @property
    def count(self) -> int:
        if not self._bests:
            self._rebuild()
        return self._count

    def best_row(self, number: int) -> int:
        """Return one of the rows with the highest score: they are counted from 0, in the order of the rows."""
        best, index = self.best, 0
        for bests, counts in zip(self._bests[-2::-1], self._counts[-2::-1], strict=True):
            index = bests.index(best, index << _SHIFT)
            while number >= counts[index]:
                number -= counts[index]
                index = bests.index(best, index + 1)
        start = index << _SHIFT
        block = self._cells[start : start + _BLOCK].tolist()
        return start + [index for index, score in enumerate(block) if score == best][number]

    def restricted_to(self, rows: NDArray[np.int64]) -> Tournament:
        """Return a tournament of these rows alone, with the scores that they have now."""
        some = Tournament(len(self.scores))
        some.scores[rows] = self.scores[rows]
        return some

    def _propagate(self, index: int, before: float, after: float) -> None:
        """Propagate a row's new score round by round, for as long as it makes a difference."""
        lost = gained = 1
        below: list[float] = []
        below_counts: list[int] = []
        for bests, counts in zip(self._bests, self._counts, strict=True):
            block = index >> _SHIFT
            best, count = bests[block], counts[block]
            if after > best:
                bests[block], counts[block] = after, gained
            elif before < best and after < best:
                return
            else:
                left = count - (lost if before == best else 0) + (gained if after == best else 0)
                if left:
                    counts[block] = left
                elif below:
                    bests[block], counts[block] = _best_of(below, below_counts, block << _SHIFT)
                else:
                    scores = self._cells[block << _SHIFT : block + 1 << _SHIFT].tolist()
                    bests[block] = best_left = max(scores)
                    counts[block] = scores.count(best_left)
            index, before, after, lost, gained = block, best, bests[block], count, counts[block]
            below, below_counts = bests, counts

    def _rebuild(self) -> None:
        scores = self.scores
        self._count = int(np.count_nonzero(scores > ABSENT))
        counts: NDArray[np.int64] | None = None  # in the first round each score is that of one row
        while counts is None or len(scores) > 1:
            bests = np.maximum.reduceat(scores, np.arange(0, len(scores), _BLOCK))
            (won,) = (scores == np.repeat(bests, _BLOCK)[: len(scores)]).nonzero()
            shares = np.bincount(won >> _SHIFT, weights=None if counts is None else counts[won], minlength=len(bests))
            scores, counts = bests, shares.astype(np.int64)
            self._bests.append(scores.tolist())
            self._counts.append(counts.tolist())


def _best_of(scores: list[float], counts: list[int], start: int) -> tuple[float, int]:
    """Return the best of a block of blocks, and how many rows have it."""
    block = scores[start : start + _BLOCK]
    best = max(block)
    if block.count(best) == 1:
        return best, counts[start + block.index(best)]
    return best, sum(count for score, count in zip(block, counts[start : start + _BLOCK], strict=True) if score == best)
