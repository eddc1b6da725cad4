"""The last records are kept as far as they do not weigh too much; the very last one always."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kframework.observe.history import RecordBuffer


@given(st.lists(st.integers(1, 9)), st.integers(1, 20), st.integers(0, 9))
def test_record_buffer_keeps_the_last_records_up_to_its_weight(weights: list[int], most: int, count: int) -> None:
    records = list(enumerate(weights))
    kept: RecordBuffer[tuple[int, int]] = RecordBuffer(most, lambda record: record[1])
    forgotten = [each for record in records for each in kept.add(record)]
    left = list(kept)[::-1]
    assert forgotten + left == records
    assert kept.recent(count) == left[::-1][:count]
    assert len(kept) == len(left)
    assert sum(weight for _, weight in left) <= most or len(left) == 1
    if forgotten:
        # With the youngest of those that are forgotten it would have been too much, then and ever since.
        assert sum(weight for _, weight in [forgotten[-1], *left]) > most
