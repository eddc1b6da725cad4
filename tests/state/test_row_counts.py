from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kframework.state.row_counts import RowCounts


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(-2, 2)), max_size=30))
def test_things_are_counted_where_they_occur(history: list[tuple[str, int, int]]) -> None:
    counts, truth = RowCounts[str](), Counter[tuple[str, int]]()
    for key, row, more in history:
        if not more or truth[key, row] + more < 0:
            continue
        truth[key, row] += more
        assert counts.count(key, row, more) == truth[key, row]
        for thing in "ab":
            assert counts.rows(thing) == {row: n for (other, row), n in truth.items() if other == thing and n}
    assert len(counts) == len({key for (key, _), n in truth.items() if n})
