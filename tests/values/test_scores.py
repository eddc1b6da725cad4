"""The two ways to bring scores to 0..100."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kframework.values.scores import default_normalize, min_max_normalize

columns = st.lists(st.integers(0, 10**6), min_size=1, max_size=30).map(lambda scores: np.array(scores, dtype=np.int64))


@given(columns)
def test_min_max_normalize_uses_the_whole_range(scores: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    normalized = np.broadcast_to(min_max_normalize(scores), scores.shape)
    low, high = min(scores.tolist()), max(scores.tolist())
    slow = [0 if low == high else (score - low) * 100 // (high - low) for score in scores.tolist()]
    assert normalized.tolist() == slow


@given(columns, st.booleans())
def test_default_normalize_scales_by_the_maximum(
    scores: np.ndarray[tuple[int], np.dtype[np.int64]], reverse: bool
) -> None:
    normalized = np.broadcast_to(default_normalize(scores, reverse=reverse), scores.shape)
    high = max(scores.tolist())
    scaled = [score * 100 // high if high else 0 for score in scores.tolist()]
    assert normalized.tolist() == [100 - score if reverse else score for score in scaled]
