"""What devices of a claim must have in common, or may not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects import DeviceConstraint, ResourceSlice
from kframework.plugins.dynamic_resources.constraints import Constraint, create_constraint
from kframework.plugins.dynamic_resources.slices import PoolDevice, SliceView


def device(**attributes: object) -> PoolDevice:
    spec = {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "x", "attributes": attributes}]}
    return SliceView(msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)).devices[0]


def constraint(**said: Any) -> Constraint:
    found = create_constraint(msgspec.convert(said, DeviceConstraint))
    assert found is not None
    return found


ONE, TWO, TEXT = device(a={"int": 1}), device(a={"int": 2}), device(a={"string": "1"})
VERSION, YES = device(a={"version": "1.0.0"}), device(a={"bool": True})
QUALIFIED, FOREIGN = device(**{"d/a": {"int": 1}}), device(**{"e/a": {"int": 1}})
LIST = device(a={"ints": [1]})


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (ONE, ONE, True),
        (ONE, QUALIFIED, True),
        (ONE, TWO, False),
        (ONE, TEXT, False),
        (VERSION, VERSION, True),
        (YES, YES, True),
        (YES, ONE, False),
    ],
)
def test_values_match_or_differ_as_constrained(first: PoolDevice, second: PoolDevice, same: bool) -> None:
    match, distinct = constraint(matchAttribute="d/a"), constraint(distinctAttribute="d/a")
    assert match.add("r", "", first) and distinct.add("r", "", first)
    assert (match.add("r", "", second), distinct.add("r", "", second)) == (same, not same)


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
def test_device_without_the_attribute_is_rejected(kind: str) -> None:
    assert not constraint(**{kind: "d/a"}).add("r", "", FOREIGN)
    assert not constraint(**{kind: "d/b"}).add("r", "", ONE)


def test_lists_have_nothing_in_common() -> None:
    match = constraint(matchAttribute="d/a")
    assert match.add("r", "", LIST)
    assert not match.add("r", "", LIST)


def test_removed_device_does_not_count() -> None:
    match, distinct = constraint(matchAttribute="d/a"), constraint(distinctAttribute="d/a")
    for each in (match, distinct):
        assert each.add("r", "", ONE)
        each.remove("r", "")
    assert match.add("r", "", TWO) and distinct.add("r", "", ONE)
    assert distinct.add("r", "", TWO)
    distinct.remove("r", "")
    assert not distinct.add("r", "", ONE), "the first of the request still counts"


@pytest.mark.parametrize(
    ("requests", "request_", "subrequest", "concerned"),
    [
        ([], "r", "", True),
        (["r"], "r", "", True),
        (["q"], "r", "", False),
        (["r"], "r", "s", True),
        (["r/s"], "r", "s", True),
        (["r/t"], "r", "s", False),
    ],
)
def test_constraint_applies_to_its_requests(
    requests: list[str], request_: str, subrequest: str, concerned: bool
) -> None:
    match = constraint(matchAttribute="d/a", requests=requests)
    assert match.add(request_, subrequest, FOREIGN) is not concerned
    if not concerned:
        match.remove(request_, subrequest)


def test_constraint_of_another_kind_is_none() -> None:
    assert create_constraint(DeviceConstraint()) is None
