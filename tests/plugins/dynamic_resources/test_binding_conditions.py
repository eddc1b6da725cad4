"""Devices are ready once their drivers have said so, of every condition, and nothing of a failure."""

from __future__ import annotations

import msgspec
import pytest

from kframework.clock import seconds_of
from kframework.objects import ResourceClaim
from kframework.plugins.dynamic_resources.binding_conditions import (
    devices_with_conditions,
    find_failure,
    has_timed_out,
    is_ready,
)

ALLOCATED = "2026-01-01T00:00:00Z"
CONDITIONS = {"bindingConditions": ["one", "two"], "bindingFailureConditions": ["lost", "broken"]}


def a_claim(*told: tuple[str, dict[str, str]], time: str | None = ALLOCATED, plain: bool = False) -> ResourceClaim:
    """Make a claim with x and y, to be made ready unless `plain`, and z; `told` are devices and their conditions."""
    made_ready = {} if plain else CONDITIONS
    results = [
        {"request": "r", "driver": "d", "pool": "p", "device": name, **(made_ready if name in "xy" else {})}
        for name in "xyz"
    ]
    devices = [
        {
            "driver": "d",
            "pool": "p",
            "device": device,
            "conditions": [
                {"type": kind, "status": status, "reason": "Why", "message": 'a "b"'}
                for kind, status in conditions.items()
            ],
        }
        for device, conditions in told
    ]
    allocation = {"devices": {"results": results}, "allocationTimestamp": time}
    return msgspec.convert(
        {"metadata": {"name": "c"}, "status": {"allocation": allocation, "devices": devices}}, ResourceClaim
    )


READY = {"one": "True", "two": "True"}
LOST = 'device binding failed: claim=c, reason=Why, message="a \\"b\\""'


@pytest.mark.parametrize(
    ("claim", "ready", "problem"),
    [
        (a_claim(), False, ""),
        (a_claim(plain=True), True, ""),
        (a_claim(("x", READY)), False, ""),
        (a_claim(("x", READY), ("y", READY)), True, ""),
        (a_claim(("x", READY), ("y", READY | {"two": "False"})), False, ""),
        (a_claim(("x", READY), ("y", {"one": "True"})), False, ""),
        (a_claim(("x", READY), ("z", READY)), False, ""),
        (a_claim(("x", READY), ("y", READY | {"lost": "False"})), True, ""),
        (a_claim(("x", {"broken": "True"})), False, LOST),
        (a_claim(("x", READY), ("y", {"lost": "True"})), False, LOST),
        # Behind one that is not ready nobody is asked.
        (a_claim(("y", {"lost": "True"})), False, ""),
        (a_claim(("x", READY | {"other": "True"}), ("y", READY)), True, ""),
        (ResourceClaim(), False, ""),
    ],
)
def test_conditions_of_drivers_decide_readiness(claim: ResourceClaim, ready: bool, problem: str) -> None:
    assert (is_ready(claim), find_failure(claim)) == (ready, problem)


def test_devices_with_conditions_must_become_ready() -> None:
    assert [result.device for result in devices_with_conditions(a_claim())] == ["x", "y"]
    assert devices_with_conditions(a_claim(plain=True)) == []
    assert devices_with_conditions(ResourceClaim()) == []


@pytest.mark.parametrize(
    ("claim", "after", "late"),
    [
        (a_claim(), 600, False),
        (a_claim(), 601, True),
        (a_claim(time=None), 1e9, False),
        (a_claim(plain=True), 1e9, False),
        (ResourceClaim(), 1e9, False),
    ],
)
def test_claim_times_out_after_its_limit(claim: ResourceClaim, after: float, late: bool) -> None:
    assert has_timed_out(claim, seconds_of(ALLOCATED) + after, 600) is late
