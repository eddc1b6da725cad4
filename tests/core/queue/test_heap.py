"""Heap: the smallest key first, whatever comes, goes and cannot be compared in between."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.core.queue.heap import Heap
from kframework.state.pods import QueuedPod
from tests.core.queue.rig import pending, queued


def names(heap: Heap, most: int | None = None) -> list[str]:
    """Pop pods, all by default, and return their names."""
    return [popped.pod.name for popped in islice(iter(heap.pop, None), most)]


def unexpected(error: Exception) -> None:
    raise error


def filled(*keys: object, report: Callable[[Exception], None] = unexpected) -> Heap:
    """Make a heap of pods named by the order in which they come."""
    heap = Heap(report)
    for number, key in enumerate(keys):
        heap.push(key, queued(str(number)))
    return heap


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ((), ""),
        ((2, 1, 3), "102"),
        ((1, 1, 1), "012"),
        ((1, 0, 1, 0), "1302"),
        ((1, 0.5, True), "102"),
        (((-5, 3.0), (-7, 9.0), (-5, 2.0)), "120"),
        (("b", "a"), "10"),
        ((None, None), "01"),
    ],
)
def test_heap_pops_by_key_then_by_insertion_order(keys: tuple[object, ...], order: str) -> None:
    assert "".join(names(filled(*keys))) == order


def test_empty_heap_has_no_first_pod() -> None:
    heap = filled()
    assert heap.peek() is None
    assert not heap
    assert heap.pop() is None


def test_get_does_not_remove_the_pod() -> None:
    heap = filled(1)
    got = heap.get(pending("0").uid)
    assert got is not None and got.pod.name == "0"
    assert heap.get(pending("other").uid) is None
    assert len(heap) == 1


@given(st.lists(st.tuples(st.sampled_from(["push", "pop", "remove"]), st.integers(0, 7), st.integers(0, 3))))
def test_heap_behaves_like_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    heap = filled()
    model: list[tuple[int, int, str]] = []
    for arrival, (step, number, key) in enumerate(steps):
        name = str(number)
        if step == "push" and pending(name).uid not in heap:
            heap.push(key, queued(name))
            model.append((key, arrival, name))
            model.sort()
        elif step == "pop" and model:
            assert names(heap, 1) == [model.pop(0)[2]]
        elif step == "remove":
            assert (heap.remove(pending(name).uid) is None) == (name not in [entry[2] for entry in model])
            model = [entry for entry in model if entry[2] != name]
        first = heap.peek()
        assert (first.pod.name if first else None) == (model[0][2] if model else None)
        assert len(heap) == len(model)
        assert [queued.pod.name for queued in heap.iterate_sorted()] == [entry[2] for entry in model]
    assert names(heap) == [entry[2] for entry in model]


class Watched(QueuedPod):
    """A queued pod with a weak reference, to see whether it is still referenced."""

    __slots__ = ("__weakref__",)


def test_entries_of_removed_pods_are_dropped() -> None:
    heap = filled(0)
    gone = []
    for _ in range(100):
        passing = Watched(pending("passing"), 0.0)
        gone.append(weakref.ref(passing))
        heap.push(1, passing)
        heap.remove(passing.pod.uid)
        del passing
    assert sum(ref() is not None for ref in gone) <= 2


class Fragile:
    """A key whose comparisons fail whenever the script says so."""

    def __init__(self, value: int, fails: Callable[[], bool]) -> None:
        self.value = value
        self.fails = fails

    def __lt__(self, other: Fragile) -> bool:
        if self.fails():
            raise ZeroDivisionError
        return self.value < other.value


@pytest.mark.parametrize(
    "keys",
    [
        (1, "a", 0),
        ("a", 1, "b"),
        (3, None, 2, (1,), {}),
        ((-1, "a"), (-2, 3), (-1, 3)),
        # Only when the first has gone do the others meet.
        ((0, 5), (1, "a"), (1, 3)),
    ],
)
def test_incomparable_keys_are_reported_once_and_lose_no_pod(keys: tuple[object, ...]) -> None:
    reports: list[Exception] = []
    heap = filled(*keys, report=reports.append)
    assert sorted(names(heap)) == [str(number) for number in range(len(keys))]
    assert [type(report) for report in reports] == [TypeError]


def test_comparable_keys_keep_their_order_among_incomparable_ones() -> None:
    heap = filled((-1, "a"), (-2, 3), (-1, 3), (-2, "a"), (-9, 0), report=lambda error: None)
    assert names(heap) == ["4", "1", "3", "0", "2"]


def test_failing_comparison_while_dropping_entries_loses_no_pod() -> None:
    reports: list[Exception] = []
    heap = filled((0, 5), (1, "a"), (1, 3), (2, 0), report=reports.append)
    heap.remove(pending("0").uid)
    assert names(heap) == ["1", "2", "3"]
    assert len(reports) == 1


@given(
    st.lists(st.one_of(st.integers(0, 9), st.none()), max_size=30),
    st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_failing_comparison_at_any_time_loses_no_pod(steps: list[int | None], script: list[bool]) -> None:
    turns = iter(script)
    heap = Heap(lambda error: None)
    came: list[str] = []
    left: list[str] = []
    for number, step in enumerate(steps):
        if step is not None:
            came.append(str(number))
            heap.push(Fragile(step, lambda: next(turns, False)), queued(str(number)))
        elif heap:
            left += names(heap, 1)
        assert len(heap) == len(came) - len(left)
    assert sorted(left + names(heap)) == sorted(came)
