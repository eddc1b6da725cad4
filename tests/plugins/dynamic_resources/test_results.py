"""What is written into a claim that has got its devices."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources.allocator import DeviceSearch
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.requests import request_options
from kframework.plugins.dynamic_resources.results import build_allocation
from kframework.plugins.dynamic_resources.slices import SliceView
from kframework.values.feature_gates import FeatureGates
from tests.plugins.dynamic_resources.worlds import InUse

ONE: dict[str, Any] = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
CONFIG = {"opaque": {"driver": "d", "parameters": {"a": 1}}}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
RACK = {"key": "rack", "operator": "Exists"}
HERE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}


def allocated(
    requests: list[dict[str, Any]],
    *,
    devices: int = 2,
    device: dict[str, Any] | None = None,
    spec: Any = None,
    minor: str = "1.37",
    **said: Any,
) -> AllocationResult:
    """Allocate what a claim asks for on the node n1."""
    published = {
        "driver": "d",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "devices": [{"name": f"x{number}", **(device or {})} for number in range(devices)],
        **(spec or {"allNodes": True}),
    }
    view = SliceView(msgspec.convert({"metadata": {"name": "s"}, "spec": published}, ResourceSlice))
    claim = msgspec.convert(
        {"metadata": {"name": "c", "namespace": "n"}, "spec": {"devices": {"requests": requests, **said}}},
        ResourceClaim,
    )
    classes = {
        name: msgspec.convert({"metadata": {"name": name}, "spec": {"config": [CONFIG]}}, DeviceClass)
        for name in ("gpu", "big")
    }
    asked = [[request_options(claim, request, classes) for request in claim.spec.devices.requests]]
    found = DeviceSearch([claim], asked, [Pool(view.pool, (view,))], InUse(), lambda *_: True).run(1000)
    assert found is not None
    return build_allocation(claim, found[0], "n1", lambda: "fresh", FeatureGates(minor))


def plain(result: AllocationResult) -> dict[str, Any]:
    written: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
    return written


def test_device_as_it_was_asked_for() -> None:
    tolerations = [{"key": "broken", "operator": "Exists"}]
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    request = {"name": "r", "exactly": {**ONE, "adminAccess": True, "tolerations": tolerations}}
    (result,) = plain(allocated([request], device=conditions))["devices"]["results"]
    assert result == {
        "request": "r",
        "driver": "d",
        "pool": "p",
        "device": "x0",
        "adminAccess": True,
        "tolerations": tolerations,
        **conditions,
    }


def test_share_has_an_id_and_what_it_consumes() -> None:
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4Gi"}}}
    request = {"name": "r", "firstAvailable": [{"name": "s", **ONE, "capacity": {"requests": {"memory": "1024Mi"}}}]}
    (result,) = plain(allocated([request], device=shared))["devices"]["results"]
    assert (result["request"], result["shareID"], result["consumedCapacity"]) == ("r/s", "fresh", {"memory": "1Gi"})
    assert (
        "shareID"
        not in plain(allocated([request | {"firstAvailable": [{"name": "s", **ONE}]}]))["devices"]["results"][0]
    )


@pytest.mark.parametrize(
    ("minor", "last"), [("1.36", [("FromClaim", ["a", "c"])] * 2), ("1.37", [("FromClaim", ["a", "c"])])]
)
def test_configuration_of_classes_is_written_once_and_that_of_the_claim_as_the_minor_does(
    minor: str, last: list[tuple[str, list[str]]]
) -> None:
    requests = [
        {"name": name, "exactly": {**ONE, "deviceClassName": within}}
        for name, within in (("a", "gpu"), ("b", "big"), ("c", "gpu"))
    ]
    said = [{**CONFIG, "requests": wanted} for wanted in ([], ["b"], ["a", "c"], ["other"])]
    written = plain(allocated(requests, devices=3, config=said, minor=minor))["devices"]["config"]
    assert [(each["source"], each.get("requests", [])) for each in written] == [
        ("FromClass", ["a", "c"]),
        ("FromClass", ["b"]),
        ("FromClaim", []),
        ("FromClaim", ["b"]),
        *last,
    ]
    assert all(each["opaque"] == CONFIG["opaque"] for each in written)


def test_configuration_for_all_requests_names_none_since_1_37() -> None:
    requests = [{"name": name, "exactly": ONE} for name in ("a", "b")]
    written = plain(allocated(requests, devices=2, config=[{**CONFIG, "requests": ["a", "b"]}]))["devices"]["config"]
    assert [(each["source"], each.get("requests", [])) for each in written] == [("FromClass", []), ("FromClaim", [])]


@pytest.mark.parametrize("named", ["r", "r/s"])
def test_way_is_meant_by_its_name_and_its_parents(named: str) -> None:
    request = {"name": "r", "firstAvailable": [{"name": "s", **ONE}, {"name": "t", **ONE}]}
    config = [{**CONFIG, "requests": [named]}, {**CONFIG, "requests": ["r/t"]}]
    written = plain(allocated([request], config=config, minor="1.36"))
    assert [each["requests"] for each in written["devices"]["config"]] == [["r/s"], [named]]
    written = plain(allocated([request], config=config))
    assert [each.get("requests", []) for each in written["devices"]["config"]] == [[], []]


@pytest.mark.parametrize(
    ("spec", "device", "selector"),
    [
        ({"allNodes": True}, {}, None),
        ({"nodeName": "n1"}, {}, HERE),
        ({"allNodes": True}, {"bindsToNode": True}, HERE),
        (
            {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [ZONE, RACK]}]}},
            {},
            {"nodeSelectorTerms": [{"matchExpressions": [ZONE, RACK]}]},
        ),
        ({"perDeviceNodeSelection": True}, {"nodeName": "n1"}, HERE),
        (
            {"perDeviceNodeSelection": True},
            {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}},
            {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]},
        ),
    ],
)
def test_from_where_it_can_be_used(spec: dict[str, Any], device: dict[str, Any], selector: object) -> None:
    request = {"name": "r", "exactly": {**ONE, "count": 2}}
    assert plain(allocated([request], spec=spec, device=device)).get("nodeSelector") == selector


def test_selector_of_two_terms_cannot_be_passed_on() -> None:
    spec = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {"matchExpressions": [RACK]}]}}
    with pytest.raises(AllocationError) as refused:
        allocated([{"name": "r", "exactly": ONE}], spec=spec)
    assert str(refused.value) == "create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms"
