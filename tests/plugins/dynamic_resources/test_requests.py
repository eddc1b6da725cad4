"""What claims ask for, and what of that makes no sense."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects import DeviceClass, ResourceClaim
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.requests import RequestOption, request_options

CLASSES = {"gpu": msgspec.convert({"metadata": {"name": "gpu"}}, DeviceClass)}
WELL = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}


def ways(request: dict[str, Any]) -> tuple[RequestOption, ...]:
    said = {"metadata": {"name": "c", "namespace": "n"}, "spec": {"devices": {"requests": [{"name": "r", **request}]}}}
    claim = msgspec.convert(said, ResourceClaim)
    return request_options(claim, claim.spec.devices.requests[0], CLASSES)


def test_request_has_one_or_several_alternatives() -> None:
    (only,) = ways({"exactly": {**WELL, "count": 2, "adminAccess": True}})
    assert (only.name, only.count, only.admin, only.all) == ("r", 2, True, False)
    first, second = ways({"firstAvailable": [{"name": "a", **WELL}, {"name": "b", **WELL, "allocationMode": "All"}]})
    assert [(each.name, each.request, each.subrequest) for each in (first, second)] == [
        ("r/a", "r", "a"),
        ("r/b", "r", "b"),
    ]
    assert (first.admin, second.all) == (False, True)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({}, "claim n/c, request r: unknown request type"),
        (
            {"exactly": {**WELL, "selectors": [{"cel": {"expression": "true"}}, {}]}},
            "claim n/c, request r, selector #1: CEL expression empty (unsupported selector type?)",
        ),
        (
            {"exactly": {"allocationMode": "All"}},
            "claim n/c, request r: missing device class name (unsupported request type?)",
        ),
        (
            {"firstAvailable": [{**WELL, "name": "s", "deviceClassName": "fpga"}]},
            'claim n/c, request s: could not retrieve device class fpga: deviceclass.resource.k8s.io "fpga" not found',
        ),
        (
            {"exactly": {**WELL, "allocationMode": "Some"}},
            "claim n/c, request r: unsupported count mode Some",
        ),
    ],
)
def test_invalid_request_is_an_error(request_: dict[str, Any], text: str) -> None:
    with pytest.raises(AllocationError) as refused:
        ways(request_)
    assert str(refused.value) == text
