"""Aligning a pod with zones, as the topology manager of a node does when it admits the pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from kframework_numa.claims import Amounts, ZoneClaim, is_device
from kframework_numa.topology import NumaTopology, Zone


def misalignment(claim: ZoneClaim, topology: NumaTopology, of_node: Callable[[str], int]) -> str | None:
    """Return why the node would refuse the pod with TopologyAffinityError, None if it would admit it.

    `of_node` returns how much the node has of a device, in zones or not.
    """
    if topology.scope == "pod":
        return None if _find_zones(claim.total, topology, of_node) is not None else "cannot align pod"
    for container in claim.containers:
        found = _find_zones(container.amounts, topology, of_node)
        if found is None:
            return f"cannot align {container.name}"
        if container.stays:
            topology = take(container.amounts, topology, found)
    return None


def _find_zones(amounts: Amounts, topology: NumaTopology, of_node: Callable[[str], int]) -> Sequence[Zone] | None:
    """Return the zones that the policy lets a container have, none for one that needs none, or None."""
    zonal: dict[str, int] = {}
    for name, amount in amounts.items():
        if name in topology.resources:
            zonal[name] = amount
        elif not is_device(name) or not of_node(name):
            return None
    if not zonal:
        return ()
    width = 1 if topology.policy == "single-numa-node" else _least_width(zonal, topology.zones)
    return None if width is None else next(fitting(zonal, topology.zones, width), None)


def _least_width(amounts: Amounts, zones: Sequence[Zone]) -> int | None:
    """Return how many zones the amounts would need on the empty node: the policy `restricted` allows no more."""
    empty = [zone._replace(available=zone.allocatable) for zone in zones]
    return next((width for width in range(1, len(zones) + 1) if any(fitting(amounts, empty, width))), None)


def fitting(amounts: Amounts, zones: Sequence[Zone], width: int) -> Iterator[tuple[Zone, ...]]:
    """List the sets of `width` zones that have the amounts available, those of low numbers first."""
    for chosen in combinations(zones, width):
        if all(sum(zone.available.get(name, 0) for zone in chosen) >= amount for name, amount in amounts.items()):
            yield chosen


def take(amounts: Amounts, topology: NumaTopology, chosen: Sequence[Zone]) -> NumaTopology:
    """Return the topology without the amounts, which are taken from the chosen zones in order."""
    left = dict(amounts)
    rest: dict[int, Mapping[str, int]] = {}
    for zone in chosen:
        taken = {name: min(left.get(name, 0), available) for name, available in zone.available.items()}
        rest[zone.number] = {name: available - taken[name] for name, available in zone.available.items()}
        left = {name: amount - taken.get(name, 0) for name, amount in left.items()}
    zones = tuple(zone._replace(available=rest.get(zone.number, zone.available)) for zone in topology.zones)
    return topology._replace(zones=zones)
