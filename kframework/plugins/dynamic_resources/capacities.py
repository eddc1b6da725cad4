"""Consumption of a device's capacity by allocations (KEP-5075)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from kframework.objects import CapacityRequestPolicy, DeviceCapacity, RawQuantity
from kframework.objects.quantity import Quantity

#: Amounts of a device's capacities by qualified name.
Amounts = Mapping[str, Quantity]


def consumed_amounts(capacities: Mapping[str, DeviceCapacity], requested: Mapping[str, RawQuantity]) -> Amounts | None:
    """Return what a request consumes of each capacity; None if the device lacks one or its policy forbids the amount.

    A capacity that is not requested is consumed by the default of the device's policy, without one completely.
    """
    if not requested.keys() <= capacities.keys():
        return None
    amounts = dict[str, Quantity]()
    for name, capacity in capacities.items():
        policy, quantity = capacity.request_policy, requested.get(name)
        amount = _default(capacity) if quantity is None else _round_up(_parse(quantity), policy)
        if policy is not None and _violates(amount, policy):
            return None
        amounts[name] = amount
    return amounts


def fits(capacities: Mapping[str, int], in_use: Mapping[str, int], amounts: Amounts) -> bool:
    """Return whether the amounts fit into each capacity in addition to what is in use; all in nanos."""
    return all(in_use.get(name, 0) + amount.nano <= capacities[name] for name, amount in amounts.items())


@lru_cache(maxsize=4096)  # many devices are of few sizes
def _parse(quantity: RawQuantity) -> Quantity:
    return Quantity.parse(str(quantity))


def _default(capacity: DeviceCapacity) -> Quantity:
    policy = capacity.request_policy
    return _parse(capacity.value if policy is None or policy.default is None else policy.default)


def _round_up(quantity: Quantity, policy: CapacityRequestPolicy | None) -> Quantity:
    if policy is None:
        return quantity
    if policy.valid_range is not None and policy.valid_range.min is not None:
        lowest, step = _parse(policy.valid_range.min), policy.valid_range.step
        if quantity.cmp(lowest) < 0:
            return lowest
        size = 0 if step is None else _parse(step).value()
        if not size:
            return quantity
        steps = -(-(quantity.value() - lowest.value()) // size)
        return Quantity((lowest.value() + size * steps) * 10**9, "BinarySI")
    return next((each for each in map(_parse, policy.valid_values) if quantity.cmp(each) <= 0), quantity)


def _violates(amount: Quantity, policy: CapacityRequestPolicy) -> bool:
    if policy.default is not None and amount == _parse(policy.default):
        return False
    if policy.valid_range is not None:
        highest, step, lowest = policy.valid_range.max, policy.valid_range.step, policy.valid_range.min
        if highest is not None and amount.cmp(_parse(highest)) > 0:
            return True
        begin = 0 if lowest is None else _parse(lowest).value()
        size = 0 if step is None else _parse(step).value()
        return size != 0 and (amount.value() - begin) % size != 0
    return bool(policy.valid_values) and all(amount != _parse(each) for each in policy.valid_values)
