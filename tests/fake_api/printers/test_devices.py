"""The rows of claims to devices, slices and classes."""

from __future__ import annotations

import pytest

from kframework.fake_api.printers.devices import DEVICES
from kframework.objects import ApiObject, DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice, kind_of

Document = dict[str, object]

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
METADATA: Document = {"name": "a", "creationTimestamp": "2026-01-01T00:55:00Z"}


def cells(kind: type[ApiObject], document: Document) -> tuple[object, ...]:
    described = kind_of(kind)
    return DEVICES[described.api_version, described.name].cells(document, NOW)


@pytest.mark.parametrize(
    ("deleted", "status", "state"),
    [
        (False, {}, "pending"),
        (False, {"allocation": {"devices": {}}}, "allocated"),
        (False, {"allocation": {"devices": {}}, "reservedFor": [{"name": "p"}]}, "allocated,reserved"),
        (True, {"allocation": {"devices": {}}, "reservedFor": [{"name": "p"}]}, "deleted,allocated,reserved"),
        (True, {}, "deleted"),
    ],
)
def test_a_claim_says_how_far_it_is(deleted: bool, status: Document, state: str) -> None:
    metadata = METADATA | ({"deletionTimestamp": "2026-01-01T00:59:00Z"} if deleted else {})
    assert cells(ResourceClaim, {"metadata": metadata, "status": status}) == ("a", state, "5m")


def test_a_slice_says_whose_devices_it_tells_of() -> None:
    spec = {"nodeName": "n1", "driver": "gpu.example.com", "pool": {"name": "n1-gpus"}}
    assert cells(ResourceSlice, {"metadata": METADATA, "spec": spec}) == ("a", "n1", "gpu.example.com", "n1-gpus", "5m")
    spec.pop("nodeName")
    assert cells(ResourceSlice, {"metadata": METADATA, "spec": spec})[1] == ""


@pytest.mark.parametrize("kind", [DeviceClass, ResourceClaimTemplate])
def test_of_others_the_name_is_enough(kind: type[ApiObject]) -> None:
    assert cells(kind, {"metadata": METADATA}) == ("a", "5m")
