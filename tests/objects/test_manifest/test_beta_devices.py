"""What was written for v1beta1 and v1beta2 is read as v1."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.objects import ResourceClaim, ResourceSlice
from kframework.objects.manifest import convert_version, read

BETA1 = "resource.k8s.io/v1beta1"
REQUEST = {"name": "r", "deviceClassName": "gpu", "count": 2, "adminAccess": True}
EXACTLY = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2, "adminAccess": True}}
EITHER = {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}


@pytest.mark.parametrize(
    ("kind", "beta", "v1"),
    [
        ("ResourceClaim", {"devices": {"requests": [REQUEST]}}, {"devices": {"requests": [EXACTLY]}}),
        ("ResourceClaim", {"devices": {"requests": [EITHER]}}, {"devices": {"requests": [EITHER]}}),
        ("ResourceClaim", {"devices": {"requests": ["nonsense"]}}, {"devices": {"requests": ["nonsense"]}}),
        ("ResourceClaim", {"devices": "nonsense"}, {"devices": "nonsense"}),
        (
            "ResourceClaimTemplate",
            {"spec": {"devices": {"requests": [REQUEST]}}},
            {"spec": {"devices": {"requests": [EXACTLY]}}},
        ),
        (
            "ResourceSlice",
            {"driver": "d", "devices": [{"name": "gpu-0", "basic": {"attributes": {"a": {"int": 1}}}}]},
            {"driver": "d", "devices": [{"name": "gpu-0", "attributes": {"a": {"int": 1}}}]},
        ),
        ("DeviceClass", {"selectors": []}, {"selectors": []}),
    ],
)
def test_v1beta1_objects_become_v1(kind: str, beta: object, v1: object) -> None:
    read_as = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": v1}
    assert convert_version(BETA1, kind, {"apiVersion": BETA1, "kind": kind, "spec": beta}) == (
        "resource.k8s.io/v1",
        read_as,
    )


@pytest.mark.parametrize(("version", "kind"), [("v1beta2", "ResourceClaim"), ("v1alpha3", "DeviceTaintRule")])
def test_other_versions_differ_in_their_name_alone(version: str, kind: str) -> None:
    assert convert_version(f"resource.k8s.io/{version}", kind, {"spec": 1}) == (
        "resource.k8s.io/v1",
        {"spec": 1, "apiVersion": "resource.k8s.io/v1"},
    )


def test_all_else_is_left_alone() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod"}
    assert convert_version("v1", "Pod", pod) == ("v1", pod)
    assert convert_version("v1", "Pod", pod)[1] is pod


def test_cluster_files_hold_any_of_them(tmp_path: Path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text(
        "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c}\n"
        "spec: {devices: {requests: [{name: r, deviceClassName: gpu}]}}\n---\n"
        "apiVersion: resource.k8s.io/v1beta2\nkind: ResourceSlice\nmetadata: {name: s}\nspec: {driver: d}\n"
    )
    claim, published = read([str(file)]).objects
    assert isinstance(claim, ResourceClaim) and isinstance(published, ResourceSlice)
    assert claim.spec.devices.requests[0].exactly is not None
    assert claim.spec.devices.requests[0].exactly.device_class_name == "gpu"
    assert published.spec.driver == "d"
