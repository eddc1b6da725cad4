"""Claims to devices, templates and classes are read and written as resource.k8s.io/v1 has them."""

from __future__ import annotations

import msgspec

from kframework.objects import DeviceClass, ResourceClaim, ResourceClaimTemplate

SPEC = {
    "devices": {
        "requests": [
            {
                "name": "big",
                "exactly": {
                    "deviceClassName": "gpu",
                    "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                    "allocationMode": "ExactCount",
                    "count": 2,
                    "adminAccess": True,
                    "tolerations": [{"key": "broken", "operator": "Exists", "effect": "NoSchedule"}],
                    "capacity": {"requests": {"memory": "40Gi"}},
                },
            },
            {
                "name": "any",
                "firstAvailable": [
                    {"name": "large", "deviceClassName": "large", "allocationMode": "All"},
                    {"name": "small", "deviceClassName": "small", "count": 2},
                ],
            },
        ],
        "constraints": [{"requests": ["big"], "matchAttribute": "example.com/numa"}],
        "config": [{"requests": ["big"], "opaque": {"driver": "gpu.example.com", "parameters": {"mode": [1, {}]}}}],
    }
}
STATUS = {
    "allocation": {
        "devices": {
            "results": [
                {
                    "request": "any/small",
                    "driver": "gpu.example.com",
                    "pool": "n1",
                    "device": "gpu-0",
                    "bindingConditions": ["ready"],
                    "bindingFailureConditions": ["failed"],
                    "shareID": "share",
                    "consumedCapacity": {"memory": "1Gi"},
                }
            ],
            "config": [{"source": "FromClass", "opaque": {"driver": "gpu.example.com", "parameters": {"a": "b"}}}],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        },
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    },
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    "devices": [
        {
            "driver": "gpu.example.com",
            "pool": "n1",
            "device": "gpu-0",
            "shareID": "share",
            "conditions": [{"type": "ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "data": {"any": ["thing"]},
            "networkData": {"interfaceName": "eth1", "ips": ["10.0.0.1/24"], "hardwareAddress": "aa:bb"},
        }
    ],
}


def test_claim_goes_through_unchanged() -> None:
    written = {"metadata": {"name": "c"}, "spec": SPEC, "status": STATUS}
    claim = msgspec.convert(written, ResourceClaim)
    assert claim.spec.devices.requests[0].exactly is not None
    assert claim.spec.devices.requests[0].exactly.count == 2
    assert claim.status.allocation is not None
    assert claim.status.allocation.devices.results[0].share_id == "share"
    assert msgspec.json.decode(msgspec.json.encode(claim)) == written


def test_template_goes_through_unchanged() -> None:
    written = {"metadata": {"name": "t"}, "spec": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}}
    assert msgspec.json.decode(msgspec.json.encode(msgspec.convert(written, ResourceClaimTemplate))) == written


def test_class_goes_through_unchanged() -> None:
    written = {
        "metadata": {"name": "gpu"},
        "spec": {
            "selectors": [{"cel": {"expression": "true"}}],
            "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {}}}],
            "extendedResourceName": "example.com/gpu",
        },
    }
    found = msgspec.convert(written, DeviceClass)
    assert found.spec.extended_resource_name == "example.com/gpu"
    written["spec"]["config"][0]["opaque"].pop("parameters")  # type: ignore[index]  # plain data
    assert msgspec.json.decode(msgspec.json.encode(found)) == written
