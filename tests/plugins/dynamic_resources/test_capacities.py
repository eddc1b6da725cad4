"""How much of a device's capacity an allocation consumes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects import DeviceCapacity
from kframework.objects.quantity import Quantity, nano
from kframework.plugins.dynamic_resources.capacities import consumed_amounts, fits, fractional_steps, whole_steps

RANGE = {"min": "1Gi", "max": "8Gi", "step": "2Gi"}


def capacity(**policy: object) -> dict[str, DeviceCapacity]:
    said: dict[str, Any] = {"value": "10Gi"}
    if policy:
        said["requestPolicy"] = policy
    return {"memory": msgspec.convert(said, DeviceCapacity)}


@pytest.mark.parametrize(
    ("policy", "asked", "amount"),
    [
        ({}, None, "10Gi"),
        ({}, "3Gi", "3Gi"),
        ({}, "30Gi", "30Gi"),
        ({"default": "2Gi"}, None, "2Gi"),
        ({"default": "2Gi"}, "3Gi", "3Gi"),
        ({"default": "1Gi", "validRange": {"min": "1Gi"}}, "1Mi", "1Gi"),
        ({"default": "1Gi", "validRange": {"min": "1Gi"}}, "1500Mi", "1500Mi"),
        ({"default": "1Gi", "validRange": RANGE}, "1500Mi", "3Gi"),
        ({"default": "1Gi", "validRange": RANGE}, "3Gi", "3Gi"),
        ({"default": "1Gi", "validRange": RANGE}, "8Gi", None),
        ({"default": "1Gi", "validRange": {"max": "8Gi", "step": "2Gi"}}, "3Gi", None),
        ({"default": "3Gi", "validRange": {"max": "2Gi"}}, None, "3Gi"),
        ({"default": "1Gi", "validValues": ["1Gi", "4Gi"]}, "2Gi", "4Gi"),
        ({"default": "1Gi", "validValues": ["1Gi", "4Gi"]}, "5Gi", None),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "0"}}, "1500Mi", "1500Mi"),
    ],
)
def test_consumed_amount_follows_the_policy(policy: dict[str, object], asked: str | None, amount: str | None) -> None:
    found = consumed_amounts(capacity(**policy), {} if asked is None else {"memory": asked})
    assert found == (None if amount is None else {"memory": Quantity.parse(amount)})


HALVES = {"min": "500m", "max": "2", "step": "250m"}
FINER = {"min": "500u", "max": "2", "step": "1"}


@pytest.mark.parametrize(
    ("valid_range", "asked", "fractional", "whole"),
    [
        (HALVES, "100m", "500m", "500m"),
        (HALVES, "500m", "500m", "1"),
        (HALVES, "501m", "750m", "1"),
        (HALVES, "1800m", "2", "2"),
        (HALVES, "2001m", None, None),
        # Finer than the unit in which steps are counted.
        (HALVES, "500001u", None, "1"),
        ({"min": "1", "step": "2"}, "1500m", "3", "3"),
        ({"min": "1", "step": "1"}, "1024", "1024", "1Ki"),
        # Bounds that are no milli units are counted in whole ones, as always.
        (FINER, "1200m", "2", "2"),
        ({"min": "10P", "step": "500m"}, "10000000000000001", "10000000000000001", "10000000000000001"),
    ],
)
def test_steps_may_be_fractions_of_a_unit(
    valid_range: dict[str, str], asked: str, fractional: str | None, whole: str | None
) -> None:
    given = capacity(default="0", validRange=valid_range)
    for rules, amount in ((fractional_steps, fractional), (whole_steps, whole)):
        found = consumed_amounts(given, {"memory": asked}, rules)
        assert (None if found is None else str(found["memory"])) == amount


def test_missing_capacity_cannot_be_requested() -> None:
    assert consumed_amounts(capacity(), {"cores": "1"}) is None
    assert consumed_amounts({}, {}) == {}


@pytest.mark.parametrize(("in_use", "room"), [("0", True), ("7Gi", True), ("8Gi", False)])
def test_remaining_capacity_limits_requests(in_use: str, room: bool) -> None:
    assert (
        fits(
            {name: nano(each.value) for name, each in capacity().items()},
            {"memory": nano(in_use)},
            {"memory": Quantity.parse("3Gi")},
        )
        is room
    )
