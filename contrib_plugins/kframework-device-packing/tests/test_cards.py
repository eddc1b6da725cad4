"""How open cards are, compared with counting slowly."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_device_packing.packing import MAX_OPENNESS, Shape, openness

#: Four slices: as a whole, in halves, in quarters. A device that must begin at a slice takes of that slice's counter.
HALVED = Shape(
    (1, 1, 1, 1),
    (
        ((0, (1, 1, 1, 1)),),
        ((1, (1, 1, 0, 0)), (2, (0, 0, 1, 1))),
        ((3, (1, 0, 0, 0)), (4, (0, 1, 0, 0)), (5, (0, 0, 1, 0)), (6, (0, 0, 0, 1))),
    ),
)


def bits(places: Collection[int]) -> int:
    return sum(1 << index for index in places)


@pytest.mark.parametrize(
    ("taken", "share"),
    [
        ((), 1),
        ((0,), 0),
        ((1,), (0 + 1 / 2 + 2 / 4) / 3),
        ((3,), (0 + 1 / 2 + 3 / 4) / 3),
        ((3, 4), (0 + 1 / 2 + 2 / 4) / 3),
        ((3, 5), (0 + 0 + 2 / 4) / 3),  # as much is left, and no half any more
        ((1, 5, 6), 0),
    ],
)
def test_openness_of_a_card_counts_what_fits_at_the_same_time(taken: tuple[int, ...], share: float) -> None:
    assert openness(HALVED, bits(taken)) == pytest.approx(MAX_OPENNESS * share, abs=1)


#: As the README cuts a card up: slices and gigabytes.
SIZES = [(1, 10, 7), (2, 20, 3), (3, 40, 2), (7, 80, 1)]


@pytest.mark.parametrize(("taken", "percent"), [((), 100), ((0,), 59), ((0, 1), 47), ((10,), 43), ((12,), 0)])
def test_openness_of_the_cards_in_the_readme(taken: tuple[int, ...], percent: int) -> None:
    places = iter(range(sum(number for _, _, number in SIZES)))
    kinds = tuple(tuple((next(places), size[:2]) for _ in range(size[2])) for size in SIZES)
    assert round(openness(Shape((7, 80), kinds), bits(taken)) * 100 / MAX_OPENNESS) == percent


@given(
    counters=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=3),
    drawn=st.sets(st.integers(0, 11), max_size=4),
)
def test_openness_equals_the_slow_count(
    counters: tuple[int, int], sizes: list[tuple[int, int, int]], drawn: set[int]
) -> None:
    needs = [(first, second) for first, second, number in sizes for _ in range(number)]
    kinds, index = [], 0
    for first, second, number in sizes:
        kinds.append(tuple((index + each, (first, second)) for each in range(number)))
        index += number
    taken = {each for each in drawn if each < index}
    shares = [
        MAX_OPENNESS * slowly(counters, needs, [each for each, _ in kind], taken) // most
        for kind in kinds
        if (most := slowly(counters, needs, [each for each, _ in kind], set()))
    ]
    expected = sum(shares) // len(shares) if shares else 0
    assert openness(Shape(counters, tuple(kinds)), bits(taken)) == expected


def slowly(counters: tuple[int, int], needs: list[tuple[int, int]], kind: list[int], taken: set[int]) -> int:
    """Try every set of devices of a size, the largest first."""
    free = [index for index in kind if index not in taken]
    for number in range(len(free), 0, -1):
        for chosen in combinations(free, number):
            users = [needs[index] for index in (*chosen, *taken)]
            if all(sum(each[counter] for each in users) <= counters[counter] for counter in (0, 1)):
                return number
    return 0
