from __future__ import annotations

import pytest

from kframework.plugins.priority_sort import PrioritySort
from kframework.state.pods import QueuedPod
from kframework.testing import make_pod
from tests.plugins.asking import made, pending


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param((10, 5.0), (1, 1.0), id="a higher priority goes first although it is younger"),
        pytest.param((1, 1.0), (1, 2.0), id="of equals the older goes first"),
        pytest.param((None, 1.0), (0, 2.0), id="no priority is 0"),
        pytest.param((None, 2.0), (-1, 1.0), id="a negative priority goes last"),
    ],
)
def test_order_is_by_priority_then_time(first: tuple[int | None, float], second: tuple[int | None, float]) -> None:
    sort = made(PrioritySort)
    keys = [
        sort.queue_sort(QueuedPod(pending(make_pod(priority=priority)), timestamp))
        for priority, timestamp in (first, second)
    ]
    assert keys[0] < keys[1]
