"""Amounts of resources: milli-CPU, bytes and whole units, as the scheduler counts them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kframework.objects import Quantity

Amounts = Mapping[str, int]

#: What is not named in a `max` has no limit.
UNLIMITED = 1 << 63


def format_amounts(amounts: Amounts) -> dict[str, str]:
    """Write amounts as quantities, in Kubernetes' own form."""
    return {
        name: str(Quantity(amount * (10**6 if name == "cpu" else 10**9), "BinarySI" if name in _BYTES else "DecimalSI"))
        for name, amount in amounts.items()
    }


_BYTES = frozenset({"memory", "ephemeral-storage"})


def sum_amounts(parts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def first_excess(used: Amounts, request: Amounts, limits: Amounts, unnamed: int) -> str | None:
    """Return the first requested resource beyond its limit; `unnamed` is the limit of those that `limits` omits."""
    for name, amount in request.items():
        if amount > 0 and used.get(name, 0) + amount > limits.get(name, unnamed):
            return name
    return None
