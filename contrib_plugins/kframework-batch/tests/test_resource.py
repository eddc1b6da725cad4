"""Amounts of resources: what is missing is zero, except in a limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.resource import Resource, dominant_share, format_amounts, share

from kframework.objects.quantity import QuantityError

amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(-5, 5)).map(Resource)
names = ("cpu", "memory", "gpu")


def test_quantities_are_parsed_as_milli_cpu_and_whole_units() -> None:
    read = Resource.parse({"cpu": "1500m", "memory": "1Ki", "nvidia.com/gpu": 2, "pods": "0"})
    assert read == {"cpu": 1500, "memory": 1024, "nvidia.com/gpu": 2, "pods": 0}


def test_invalid_quantity_is_rejected() -> None:
    with pytest.raises(QuantityError, match="'lots' is not a quantity"):
        Resource.parse({"cpu": "lots"})


@pytest.mark.parametrize(
    ("resource", "empty"), [(Resource(), True), (Resource(cpu=0), True), (Resource(cpu=0, memory=1), False)]
)
def test_zero_amounts_are_empty(resource: Resource, empty: bool) -> None:
    assert resource.is_empty is empty


@given(amounts, amounts)
def test_sums_and_differences_are_computed_per_resource(left: Resource, right: Resource) -> None:
    before = dict(left)
    plus, minus = left.plus(right), left.minus(right)
    assert left == before, "a new one was made"
    for name in names:
        assert plus.get(name, 0) == left.get(name, 0) + right.get(name, 0)
        assert minus.get(name, 0) == left.get(name, 0) - right.get(name, 0)
    left.add(right)
    assert left == plus
    left.sub(right)
    left.sub(right)
    assert {name: left.get(name, 0) for name in names} == {name: minus.get(name, 0) for name in names}


@given(amounts, amounts)
def test_bounds_are_compared_by_resource(left: Resource, right: Resource) -> None:
    cut, raised = left.at_most(right), left.at_least(right)
    for name in names:
        assert cut.get(name, 0) == (
            min(left.get(name, 0), right[name]) if name in left and name in right else left.get(name, 0)
        )
        if name in left or name in right:
            assert raised[name] == max(left.get(name, 0), right.get(name, 0))


@pytest.mark.parametrize(
    ("asked", "room", "fits"),
    [
        ({"cpu": 1}, {"cpu": 1}, True),
        ({"cpu": 2}, {"cpu": 1}, False),
        ({"gpu": 1}, {"cpu": 1}, False),
        ({"gpu": 0}, {"cpu": 1}, True),
        ({}, {"cpu": -1}, True),
        ({"memory": 1}, {"cpu": -1, "memory": 1}, True),
    ],
)
def test_missing_resource_in_room_does_not_fit(asked: dict[str, int], room: dict[str, int], fits: bool) -> None:
    assert Resource(asked).fits(room) is fits


def test_times_is_rounded_down() -> None:
    assert Resource(cpu=3, memory=10).times(1.25) == {"cpu": 3, "memory": 12}


def test_positive_replaces_negative_amounts_with_zero() -> None:
    assert Resource(cpu=-3, memory=2).positive() == {"cpu": 0, "memory": 2}


@pytest.mark.parametrize(("part", "whole", "expected"), [(0, 0, 0.0), (3, 0, 1.0), (1, 4, 0.25), (6, 4, 1.5)])
def test_share_is_a_part_of_the_whole_and_of_nothing_zero_or_one(part: int, whole: int, expected: float) -> None:
    assert share(part, whole) == expected


def test_dominant_share_is_the_largest_share() -> None:
    total = {"cpu": 100, "memory": 10, "gpu": 0}
    assert dominant_share({"cpu": 20, "memory": 5, "unheard-of": 9}, total) == 0.5
    assert dominant_share({"gpu": 1}, total) == 1.0
    assert dominant_share({}, {}) == 0.0


def test_amounts_of_zero_are_not_listed() -> None:
    assert format_amounts({"cpu": 1500, "memory": 0, "gpu": 2}) == "cpu 1500m, gpu 2"
