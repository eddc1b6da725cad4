"""Slices are read and written as resource.k8s.io/v1 has them."""

from __future__ import annotations

import msgspec

from kframework.objects import DeviceAttribute, ResourceSlice


def test_slice_goes_through_unchanged() -> None:
    written = {
        "metadata": {"name": "n1-gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 2},
            "perDeviceNodeSelection": True,
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {
                        "count": {"int": 0},
                        "fast": {"bool": False},
                        "model": {"string": ""},
                        "driverVersion": {"version": "1.2.3"},
                        "numa": {"ints": [0, 1]},
                    },
                    "capacity": {
                        "memory": {
                            "value": "80Gi",
                            "requestPolicy": {
                                "default": "1Gi",
                                "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"},
                            },
                        }
                    },
                    "consumesCounters": [{"counterSet": "gpu-0", "counters": {"slices": {"value": "7"}}}],
                    "nodeName": "n1",
                    "taints": [{"key": "broken", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}],
                    "bindsToNode": True,
                    "bindingConditions": ["ready"],
                    "bindingFailureConditions": ["failed"],
                    "allowMultipleAllocations": True,
                }
            ],
            "sharedCounters": [{"name": "gpu-0", "counters": {"slices": {"value": "7"}}}],
        },
    }
    published = msgspec.convert(written, ResourceSlice)
    assert published.spec.devices[0].attributes["count"] == DeviceAttribute(int_value=0)
    assert published.spec.devices[0].attributes["model"] == DeviceAttribute(string_value="")
    assert msgspec.json.decode(msgspec.json.encode(published)) == written
