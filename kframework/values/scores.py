"""Rows of the node table, scores of rows, and the ways to normalise them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The largest score of a node after normalising; the smallest is 0.
MAX_SCORE = 100

#: Rows of the NodeTable, as a slice or as row numbers (int64).
Rows = slice | NDArray[np.int64]

#: One integer per row (int64).
Scores = NDArray[np.int64]


def min_max_normalize(scores: Scores) -> Scores | int:
    """Stretch scores linearly so that the smallest becomes 0 and the largest 100; equal ones all become 0."""
    low, high = int(scores.min()), int(scores.max())
    return 0 if low == high else (scores - low) * MAX_SCORE // (high - low)


def default_normalize(scores: Scores, *, reverse: bool = False) -> Scores | int:
    """Scale scores to 0..100 by their maximum, `reverse` turning the best into the worst (kube-scheduler's own).

    With a maximum of 0 they stay as they are, or all become 100 when reversed.
    """
    high = int(scores[scores.argmax()])  # two microseconds less than `max`
    if high == 0:
        return MAX_SCORE if reverse else 0
    scaled = scores * MAX_SCORE // high
    return MAX_SCORE - scaled if reverse else scaled
