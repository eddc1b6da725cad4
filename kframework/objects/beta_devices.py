"""Objects of resource.k8s.io/v1beta1 and v1beta2 as v1 has them, which is all that an API server of 1.36 serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_V1 = "resource.k8s.io/v1"

#: What v1beta1 says of a request itself, and v1 of what is asked for exactly.
_EXACTLY = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")

#: An object as YAML or JSON gives it.
Plain = Mapping[Any, object]


def as_v1(api_version: str, kind: str, data: Plain) -> tuple[str, Plain]:
    """Return an object and its apiVersion as v1 has them; all else as it is, and what has not the form expected."""
    match api_version:
        case "resource.k8s.io/v1beta2":
            return _V1, {**data, "apiVersion": _V1}
        case "resource.k8s.io/v1beta1":
            return _V1, {**_of_beta1(kind, data), "apiVersion": _V1}
    return api_version, data


def _of_beta1(kind: str, data: Plain) -> Plain:
    match kind:
        case "ResourceClaim":
            return _with(data, "spec", _claim_spec)
        case "ResourceClaimTemplate":
            return _with(data, "spec", lambda spec: _with(spec, "spec", _claim_spec))
        case "ResourceSlice":
            return _with(data, "spec", lambda spec: _with_each(spec, "devices", _device))
    return data


def _claim_spec(spec: Plain) -> Plain:
    return _with(spec, "devices", lambda devices: _with_each(devices, "requests", _request))


def _request(request: Plain) -> Plain:
    exactly = {field: request[field] for field in _EXACTLY if field in request}
    rest = {field: value for field, value in request.items() if field not in exactly}
    return {**rest, "exactly": exactly} if exactly else request


def _device(device: Plain) -> Plain:
    basic = device.get("basic")
    return {"name": device.get("name"), **basic} if isinstance(basic, Mapping) else device


def _with(data: Plain, field: str, change: Callable[[Plain], Plain]) -> Plain:
    below = data.get(field)
    return {**data, field: change(below)} if isinstance(below, Mapping) else data


def _with_each(data: Plain, field: str, change: Callable[[Plain], Plain]) -> Plain:
    items = data.get(field)
    if not isinstance(items, list):
        return data
    return {**data, field: [change(item) if isinstance(item, Mapping) else item for item in items]}
