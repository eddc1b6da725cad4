"""Water filling, compared with the level that solves it exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.water_filling import Claim, fill


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    floor = draw(st.integers(0, 20))
    return Claim(draw(st.integers(1, 5)), floor, floor + draw(st.integers(0, 40)))


def at_level(claims: list[Claim], level: Fraction) -> list[Fraction]:
    return [min(max(level * claim.weight, Fraction(claim.floor)), Fraction(claim.ceiling)) for claim in claims]


def slowly(amount: int, claims: list[Claim]) -> list[Fraction]:
    """Find the level between two at which a floor is reached or a ceiling: there all grow in a straight line."""
    target = min(amount, sum(claim.ceiling for claim in claims))
    marks = sorted({Fraction(edge, claim.weight) for claim in claims for edge in (claim.floor, claim.ceiling)})
    below = max(mark for mark in [Fraction(0), *marks] if sum(at_level(claims, mark)) <= target)
    above = min((mark for mark in marks if sum(at_level(claims, mark)) >= target), default=below)
    low, high = sum(at_level(claims, below)), sum(at_level(claims, above))
    part = Fraction(target - low) / (high - low) if high > low else Fraction(0)
    return at_level(claims, below + part * (above - below))


@given(st.integers(0, 200), st.lists(claims(), max_size=6))
def test_fill_is_exact_in_whole_numbers(amount: int, claims: list[Claim]) -> None:
    floors = sum(claim.floor for claim in claims)
    shares = fill(amount, claims)
    assert sum(shares) == min(amount, sum(claim.ceiling for claim in claims))
    if floors <= amount:
        for share, claim, exact in zip(shares, claims, slowly(amount, claims), strict=True):
            assert claim.floor <= share <= claim.ceiling
            assert abs(share - exact) < 1
    else:
        for share, claim in zip(shares, claims, strict=True):
            assert abs(share - Fraction(amount * claim.floor, floors)) < 1


@given(st.integers(0, 200), st.lists(claims(), max_size=6))
def test_larger_amount_reduces_no_share(amount: int, claims: list[Claim]) -> None:
    # One unit may be rounded to another place.
    assert all(more >= less - 1 for less, more in zip(fill(amount, claims), fill(amount + 7, claims), strict=True))


@pytest.mark.parametrize(
    ("amount", "claims", "shares"),
    [
        (10, [], []),
        (0, [Claim(1, 0, 5), Claim(3, 2, 5)], [0, 0]),
        (10, [Claim(1, 0, 0), Claim(2, 0, 0)], [0, 0]),  # nobody wants any
        (9, [Claim(1, 0, 99), Claim(2, 0, 99)], [3, 6]),
        (9, [Claim(1, 0, 99), Claim(2, 0, 4)], [5, 4]),  # what one leaves is the other's
        (
            10,
            [Claim(1, 0, 9), Claim(1, 8, 9), Claim(1, 0, 9)],
            [1, 8, 1],
        ),  # a floor is not beside the share but part of it
        (10, [Claim(1, 0, 9), Claim(1, 0, 9), Claim(1, 0, 9)], [4, 3, 3]),  # the first of equals
        (5, [Claim(1, 6, 9), Claim(1, 4, 9)], [3, 2]),  # more is guaranteed than there is
        (1 << 60, [Claim(1, 0, 1 << 62), Claim(2, 0, 1 << 62)], [384307168202282325, 768614336404564651]),
    ],
)
def test_fill_gives_the_amounts_of_the_examples(amount: int, claims: list[Claim], shares: list[int]) -> None:
    assert fill(amount, claims) == shares
