"""Devices that are offered: classes, slices, and claims that have some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kframework.objects import DeviceClass, ResourceClaim, ResourceSlice

__all__ = ["DRIVER", "claim_with_devices", "device_class", "resource_slice"]

#: The driver of all devices here; a pool has the name of its only slice.
DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", backs: str | None = None, *, model: str = "", version: int = 1) -> DeviceClass:
    """Make a class, of the devices of a model if one is named."""
    expression = f"device.attributes['{DRIVER}'].model == '{model}'"
    spec = {"extendedResourceName": backs, "selectors": [{"cel": {"expression": expression}}] if model else []}
    return msgspec.convert({"metadata": _metadata(name, version), "spec": spec}, DeviceClass)


def resource_slice(
    name: str, devices: Mapping[str, str] | Sequence[Mapping[str, object]], *, version: int = 1, **said: Any
) -> ResourceSlice:
    """Make a slice: of devices by name with their models, or as they are written."""
    if isinstance(devices, Mapping):
        devices = [{"name": each, "attributes": {"model": {"string": model}}} for each, model in devices.items()]
    pool = {"name": name, "generation": version, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "devices": list(devices), **said}
    return msgspec.convert({"metadata": _metadata(name, version), "spec": spec}, ResourceSlice)


def claim_with_devices(name: str, *devices: str, version: int = 1) -> ResourceClaim:
    """Make a claim that has devices, each written `pool/device`."""
    results = [
        {"request": "r", "driver": DRIVER, **dict(zip(("pool", "device"), each.split("/"), strict=True))}
        for each in devices
    ]
    status = {"allocation": {"devices": {"results": results}}} if results else {}
    metadata = {"namespace": "default", **_metadata(name, version)}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


def _metadata(name: str, version: int) -> dict[str, str]:
    return {"name": name, "resourceVersion": str(version)}
