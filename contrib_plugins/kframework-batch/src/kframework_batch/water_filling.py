"""Water filling: divide an amount by weight, between a floor and a ceiling for each, exactly and in whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Claim(NamedTuple):
    """The minimum and maximum of one share, and the room for it in between."""

    weight: int
    floor: int
    ceiling: int


def fill(amount: int, claims: Sequence[Claim]) -> list[int]:
    """Return what each gets: level x weight, but no less than its floor and no more than its ceiling.

    The level is the one at which all together get the amount; all their ceilings, if that is less. Floors that are more
    than there is are cut down in proportion. Weights are positive, and no floor is above its ceiling.
    """
    floors = [claim.floor for claim in claims]
    if sum(floors) >= amount:
        return _divide(amount, floors)
    shares, rest, open_claims = floors, amount, dict(enumerate(claims))
    while open_claims:
        weights = sum(claim.weight for claim in open_claims.values())
        # Both in units of 1/weights: what floors take beyond the level, and what ceilings leave below it.
        lifted = {
            index: claim.floor * weights - rest * claim.weight
            for index, claim in open_claims.items()
            if claim.floor * weights > rest * claim.weight
        }
        cut = {
            index: rest * claim.weight - claim.ceiling * weights
            for index, claim in open_claims.items()
            if claim.ceiling * weights < rest * claim.weight
        }
        if not lifted and not cut:
            parts = _divide(rest, [claim.weight for claim in open_claims.values()])
            for index, part in zip(open_claims, parts, strict=True):
                shares[index] = part
            break
        # The level can but fall for the others when floors take more than ceilings leave, so these floors are final.
        balance = sum(lifted.values()) - sum(cut.values())
        for index in (*(lifted if balance >= 0 else ()), *(cut if balance <= 0 else ())):
            claim = open_claims.pop(index)
            shares[index] = claim.floor if index in lifted else claim.ceiling
            rest -= shares[index]
    return shares


def _divide(amount: int, weights: Sequence[int]) -> list[int]:
    """Divide an amount by weight; units that are left over go to the largest remainders, the first of equals."""
    whole = sum(weights)
    if not whole:
        return [0] * len(weights)
    parts = [amount * weight // whole for weight in weights]
    remainders = [amount * weight % whole for weight in weights]
    for index in sorted(range(len(weights)), key=lambda index: -remainders[index])[: amount - sum(parts)]:
        parts[index] += 1
    return parts
