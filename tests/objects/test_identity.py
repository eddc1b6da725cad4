"""Results are remembered for the same objects, not for equal ones."""

from __future__ import annotations

import gc

import pytest

from kframework.objects.identity import IdentityDict, cached_by_identity


class Value:
    """A value that must be known only as long as it is referenced."""


def test_result_is_computed_once_for_the_same_arguments() -> None:
    calls: list[tuple[object, object]] = []

    def compute(one: object, other: object) -> int:
        calls.append((one, other))
        return len(calls)

    cached = cached_by_identity(compute)
    one, same = [1], [1]
    assert [cached(one, None), cached(one, None), cached(same, None), cached(one, one)] == [1, 1, 2, 3]


def test_no_result_is_taken_for_that_of_another_object_however_many_there_were() -> None:
    cached = cached_by_identity(lambda one: one[0])
    assert [cached([number]) for number in range(3000)] == list(range(3000))


@pytest.mark.usefixtures("frozen_heap")
def test_value_is_known_by_its_key_while_it_is_referenced() -> None:
    known = IdentityDict[list[int], Value]()
    key, value = [1], Value()
    known.put(key, value)
    assert known.get(key) is value
    assert known.get([1]) is None
    del value
    gc.collect()
    assert known.get(key) is None


def test_number_of_known_values_is_limited() -> None:
    known, value = IdentityDict[list[int], Value](), Value()
    keys = [[number] for number in range(3000)]
    for key in keys:
        known.put(key, value)
    found = [known.get(key) for key in keys]
    assert found[-1] is value
    assert 0 < sum(each is value for each in found) <= 1024
