"""Consumption of a device's capacity by allocations (KEP-5075)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from kframework.objects import CapacityRange, CapacityRequestPolicy, DeviceCapacity, RawQuantity
from kframework.objects.quantity import Quantity, nano

#: Amounts of a device's capacities by qualified name.
Amounts = Mapping[str, Quantity]

_WHOLE, _MILLI = 10**9, 10**6  # in nanos
_MAX_INT64 = 2**63 - 1


class StepRule(NamedTuple):
    """How the steps of a range are counted: in these units, in nanos, with results in this format."""

    unit: int
    format: str


#: Returns the rule for a range.
StepRules = Callable[[CapacityRange], StepRule]


def whole_steps(valid_range: CapacityRange) -> StepRule:
    """Count the steps of any range in whole units, to which all its bounds are rounded up."""
    return StepRule(_WHOLE, "BinarySI")


def fractional_steps(valid_range: CapacityRange) -> StepRule:
    """Count steps in milli units if all bounds are whole numbers of them, else in whole units."""
    bounds = [nano(each) for each in (valid_range.min, valid_range.max, valid_range.step) if each is not None]
    are_milli = all(each % _MILLI == 0 and each // _MILLI <= _MAX_INT64 for each in bounds)
    return StepRule(_MILLI if are_milli else _WHOLE, _parse(valid_range.step or "0").format)


def consumed_amounts(
    capacities: Mapping[str, DeviceCapacity],
    requested: Mapping[str, RawQuantity],
    steps: StepRules = fractional_steps,
) -> Amounts | None:
    """Return what a request consumes of each capacity; None if the device lacks one or its policy forbids the amount.

    A capacity that is not requested is consumed by the default of the device's policy, without one completely.
    """
    if not requested.keys() <= capacities.keys():
        return None
    amounts = dict[str, Quantity]()
    for name, capacity in capacities.items():
        policy, quantity = capacity.request_policy, requested.get(name)
        amount = _default(capacity) if quantity is None else _round_up(_parse(quantity), policy, steps)
        if policy is not None and _violates(amount, policy, steps):
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


def _round_up(quantity: Quantity, policy: CapacityRequestPolicy | None, steps: StepRules) -> Quantity:
    if policy is None:
        return quantity
    if policy.valid_range is not None and policy.valid_range.min is not None:
        lowest = _parse(policy.valid_range.min)
        if quantity.cmp(lowest) < 0:
            return lowest
        unit, format = steps(policy.valid_range)
        begin, size = _count(lowest, unit), _count(_parse(policy.valid_range.step or "0"), unit)
        if not size or (unit == _MILLI and quantity.nano % unit):
            return quantity
        return Quantity((begin - (begin - _count(quantity, unit)) // size * size) * unit, format)
    return next((each for each in map(_parse, policy.valid_values) if quantity.cmp(each) <= 0), quantity)


def _violates(amount: Quantity, policy: CapacityRequestPolicy, steps: StepRules) -> bool:
    if policy.default is not None and amount == _parse(policy.default):
        return False
    if policy.valid_range is not None:
        highest, step, lowest = policy.valid_range.max, policy.valid_range.step, policy.valid_range.min
        if highest is not None and amount.cmp(_parse(highest)) > 0:
            return True
        unit = steps(policy.valid_range).unit
        size = _count(_parse(step or "0"), unit)
        is_finer = unit == _MILLI and amount.nano % unit != 0
        return size != 0 and (is_finer or (_count(amount, unit) - _count(_parse(lowest or "0"), unit)) % size != 0)
    return bool(policy.valid_values) and all(amount != _parse(each) for each in policy.valid_values)


def _count(quantity: Quantity, unit: int) -> int:
    """Return a quantity in units, rounded up."""
    return -(-quantity.nano // unit)
