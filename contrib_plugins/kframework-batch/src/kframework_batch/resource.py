"""Amounts of resources, and how they compare: what tasks ask for, queues are due and nodes have left.

Amounts are whole numbers, milli-CPU for `cpu` and bytes or pieces for all else, so nothing is compared with an epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from kframework.objects import Quantity, ResourceList, parse_amounts


class Resource(dict[str, int]):
    """Amounts by the name of the resource; one that is missing is zero.

    `add` and `sub` change it in place and may leave it negative; `plus` and `minus` make a new one.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, quantities: ResourceList) -> Self:
        """Read the quantities of an object; a zero stays, since a limit of nothing is a limit. QuantityError."""
        return cls(parse_amounts(quantities))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it: a task that asks for nothing is best effort."""
        return not any(self.values())

    def add(self, other: Mapping[str, int]) -> None:
        for name, amount in other.items():
            self[name] = self.get(name, 0) + amount

    def sub(self, other: Mapping[str, int]) -> None:
        for name, amount in other.items():
            self[name] = self.get(name, 0) - amount

    def plus(self, other: Mapping[str, int]) -> Resource:
        total = Resource(self)
        total.add(other)
        return total

    def minus(self, other: Mapping[str, int]) -> Resource:
        rest = Resource(self)
        rest.sub(other)
        return rest

    def times(self, factor: float) -> Resource:
        return Resource((name, int(amount * factor)) for name, amount in self.items())

    def positive(self) -> Resource:
        return Resource((name, max(amount, 0)) for name, amount in self.items())

    def fits(self, room: Mapping[str, int]) -> bool:
        """Return whether all that this asks for is within the room; what the room does not name is not there."""
        return all(amount <= room.get(name, 0) for name, amount in self.items() if amount > 0)

    def at_most(self, limit: Mapping[str, int]) -> Resource:
        """Return it cut down to a limit; what the limit does not name is not limited."""
        return Resource((name, min(amount, limit.get(name, amount))) for name, amount in self.items())

    def at_least(self, floor: Mapping[str, int]) -> Resource:
        return Resource((name, max(self.get(name, 0), floor.get(name, 0))) for name in {**self, **floor})


def share(part: float, whole: int) -> float:
    """Return which share of the whole a part is: 0 of nothing if there is no part, else 1."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def dominant_share(allocated: Mapping[str, float], total: Mapping[str, int]) -> float:
    """Return the largest share over all resources that there are (dominant resource fairness, NSDI 2011)."""
    return max([share(allocated.get(name, 0), whole) for name, whole in total.items()], default=0.0)


def format_amounts(amounts: Mapping[str, int]) -> str:
    """List what is not zero, as `cpu 2, memory 8Gi`."""
    return ", ".join(f"{name} {format_quantity(name, amount)}" for name, amount in amounts.items() if amount)


def format_shortage(resource: str, requested: int, whole: int) -> str:
    """Say that less is left than requested; what is left is not named, so that a message holds while it varies."""
    return f"{format_amounts({resource: requested})} requested, more than is left of {format_quantity(resource, whole)}"


def format_quantity(resource: str, amount: int) -> str:
    """Write an amount of a resource: milli-CPU for `cpu`, whole units for all else."""
    if resource == "cpu":
        return str(Quantity(amount * 10**6))
    in_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return str(Quantity(amount * 10**9, "BinarySI" if in_bytes else "DecimalSI"))
