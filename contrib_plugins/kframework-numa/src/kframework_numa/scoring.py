"""The four strategies by which nodes are preferred."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from statistics import fmean, variance

from kframework import MAX_SCORE
from kframework_numa.alignment import fitting, take
from kframework_numa.claims import Amounts, ZoneClaim
from kframework_numa.topology import NumaTopology, Zone

#: The distance that firmware gives where it knows none.
_UNKNOWN_DISTANCE = 255

ZoneScore = Callable[[Amounts, Amounts, Mapping[str, int]], int]


def score_zones(claim: ZoneClaim, topology: NumaTopology, score: ZoneScore, weights: Mapping[str, int]) -> int:
    """Score a node by the worst of the zones that fit, a container at a time in the scope of containers."""
    if topology.policy != "single-numa-node":
        return 0
    if topology.scope == "pod":
        return _worst(claim.total, topology.zones, score, weights)
    each = (_worst(container.amounts, topology.zones, score, weights) for container in claim.containers)
    return int(fmean(each))


def _worst(amounts: Amounts, zones: Sequence[Zone], score: ZoneScore, weights: Mapping[str, int]) -> int:
    scores = (score(amounts, zone.available, weights) for zone in zones)
    return min(filter(None, scores), default=0)


def least_allocated(amounts: Amounts, available: Amounts, weights: Mapping[str, int]) -> int:
    """Prefer zones that have much left after the pod."""
    scores = {name: MAX_SCORE * (1 - used) for name, used in _fractions(amounts, available) if used <= 1}
    return _weighted_mean(weights, scores, amounts)


def most_allocated(amounts: Amounts, available: Amounts, weights: Mapping[str, int]) -> int:
    """Prefer zones that have little left after the pod."""
    scores = {name: MAX_SCORE * used for name, used in _fractions(amounts, available) if used <= 1}
    return _weighted_mean(weights, scores, amounts)


def balanced_allocation(amounts: Amounts, available: Amounts, weights: Mapping[str, int]) -> int:
    """Prefer zones where the pod takes equal shares of all resources; all of what the zone does not report."""
    shares = [used if name in available else 1.0 for name, used in _fractions(amounts, available)]
    if any(share > 1 for share in shares):
        return 0
    return int(MAX_SCORE * (1 - (variance(shares) if len(shares) > 1 else 0)))


def _fractions(amounts: Amounts, available: Amounts) -> list[tuple[str, float]]:
    """Return the share that the pod takes of what is available; more than 1 where there is nothing."""
    return [(name, amount / available[name] if available.get(name) else 2.0) for name, amount in amounts.items()]


def _weighted_mean(weights: Mapping[str, int], scores: Mapping[str, float], amounts: Amounts) -> int:
    total = sum(weights.get(name, 1) for name in amounts)
    # Each is rounded down before they are weighted, as in scheduler-plugins; 1e-9 makes up for binary fractions.
    weighted = sum(int(score + 1e-9) * weights.get(name, 1) for name, score in scores.items())
    return weighted // total if total else 0


def least_numa_nodes(claim: ZoneClaim, topology: NumaTopology) -> int:
    """Score a node by how few zones the pod needs, and whether none are nearer to each other."""
    needs = [claim.total] if topology.scope == "pod" else [container.amounts for container in claim.containers]
    most, all_near = 0, True
    for amounts in needs:
        zonal = {name: amount for name, amount in amounts.items() if name in topology.resources}
        if not zonal:
            continue
        chosen = _nearest(zonal, topology.zones)
        if chosen is None:
            return 0
        most = max(most, len(chosen))
        all_near = all_near and _distance(chosen) == _least_distance(topology.zones, len(chosen))
        topology = take(zonal, topology, chosen)
    if most == 0:
        return MAX_SCORE
    step = MAX_SCORE // topology.max_zones
    return max(0, MAX_SCORE - most * step + (step // 2 if all_near else 0))


def _nearest(amounts: Amounts, zones: Sequence[Zone]) -> tuple[Zone, ...] | None:
    """Return the fewest zones that fit, of those the nearest to each other."""
    for width in range(1, len(zones) + 1):
        nearest = min(fitting(amounts, zones, width), key=_distance, default=None)
        if nearest is not None:
            return nearest
    return None


def _least_distance(zones: Sequence[Zone], width: int) -> float:
    return min(_distance(chosen) for chosen in combinations(zones, width))


def _distance(zones: Sequence[Zone]) -> float:
    return fmean(one.costs.get(other.number, _UNKNOWN_DISTANCE) for one in zones for other in zones)


ZONE_SCORES: Mapping[str, ZoneScore] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}
