"""Validation of devices that drivers publish, and of claims to them; CEL expressions are not compiled here."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.in_memory.schema.causes import Cause, duplicate, invalid, required, too_many, unsupported
from kframework.in_memory.schema.validation.containers import name_causes
from kframework.in_memory.store import Data
from kframework.objects.plain_data import entries, mapping, text, value
from kframework.objects.syntax import dns_label, dns_subdomain

_MAX_REQUESTS, _MAX_ALTERNATIVES = 32, 8
_MAX_DEVICES = 128
_LOCATIONS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_LOCATION = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_ONE_WAY = "exactly one of `exactly` or `firstAvailable` is required"


def claim_causes(spec: Data, path: str) -> Iterator[Cause]:
    """Yield problems of a claim's spec; its requests may be without their defaults."""
    requests = entries(spec, "devices.requests")
    yield from _set_causes(requests, f"{path}.devices.requests", _MAX_REQUESTS)
    known: set[str] = set()
    for index, request in enumerate(requests[:_MAX_REQUESTS]):
        location, name = f"{path}.devices.requests[{index}]", text(request, "name")
        exactly, alternatives = request.get("exactly"), entries(request, "firstAvailable")
        known |= {name, *(f"{name}/{text(each, 'name')}" for each in alternatives)}
        if exactly is not None and alternatives:
            yield invalid(location, None, f"{_ONE_WAY}, but multiple fields are set")
        elif alternatives:
            yield from _set_causes(alternatives, f"{location}.firstAvailable", _MAX_ALTERNATIVES)
            for position, each in enumerate(alternatives[:_MAX_ALTERNATIVES]):
                yield from _request_causes(each, f"{location}.firstAvailable[{position}]")
        elif isinstance(exactly, dict):
            yield from _request_causes(exactly, f"{location}.exactly")
        else:
            yield required(location, _ONE_WAY)
    for index, each in enumerate(entries(spec, "devices.constraints")):
        if not text(each, "matchAttribute") and not text(each, "distinctAttribute"):
            yield required(f"{path}.devices.constraints[{index}].matchAttribute")
    for field in ("constraints", "config"):
        for index, each in enumerate(entries(spec, f"devices.{field}")):
            names = value(each, "requests")
            for position, name in enumerate(map(str, names) if isinstance(names, list) else ()):
                if name not in known:
                    yield invalid(f"{path}.devices.{field}[{index}].requests[{position}]", name, _NO_REQUEST)


def _set_causes(named: list[Data], path: str, most: int) -> Iterator[Cause]:
    if len(named) > most:
        yield too_many(path, len(named), most)
        return
    names = [text(each, "name") for each in named]
    for index, name in enumerate(names):
        yield from name_causes(name, f"{path}[{index}].name", dns_label, set())
    yield from (duplicate(f"{path}[{index}]", name) for index, name in enumerate(names) if name in names[:index])


def _request_causes(request: Data, path: str) -> Iterator[Cause]:
    yield from name_causes(text(request, "deviceClassName"), f"{path}.deviceClassName", dns_subdomain, set())
    for index, selector in enumerate(entries(request, "selectors")):
        if not mapping(selector, "cel"):
            yield required(f"{path}.selectors[{index}].cel")
    for index, toleration in enumerate(entries(request, "tolerations")):
        if (operator := text(toleration, "operator", "Equal")) not in ("Equal", "Exists"):
            yield unsupported(f"{path}.tolerations[{index}].operator", operator, ("Equal", "Exists"))
    mode, count = text(request, "allocationMode", "ExactCount"), request.get("count", 0)
    if mode not in ("All", "ExactCount"):
        yield unsupported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
    elif mode == "All" and count:
        yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif isinstance(count, int) and count < 0:
        yield invalid(f"{path}.count", count, "must be greater than zero")


def slice_causes(spec: Data, path: str) -> Iterator[Cause]:
    """Yield problems of a ResourceSlice's spec."""
    yield from name_causes(text(spec, "driver"), f"{path}.driver", dns_subdomain, set())
    pool = text(spec, "pool.name")
    if not pool:
        yield required(f"{path}.pool.name")
    for part in pool.split("/") if pool else ():
        yield from (invalid(f"{path}.pool.name", part, each) for each in dns_subdomain(part))
    if isinstance(count := value(spec, "pool.resourceSliceCount"), int) and count <= 0:
        yield invalid(f"{path}.pool.resourceSliceCount", count, "must be greater than zero")
    locations = [field for field in _LOCATIONS if spec.get(field)]
    if not locations:
        yield required(path, _ONE_LOCATION)
    elif len(locations) > 1:
        yield invalid(
            path, f"{{{', '.join(f'`{each}`' for each in locations)}}}", f"{_ONE_LOCATION}, but multiple fields are set"
        )
    devices = entries(spec, "devices")
    yield from _set_causes(devices, f"{path}.devices", _MAX_DEVICES)
    for index, device in enumerate(devices[:_MAX_DEVICES]):
        for name, attribute in mapping(device, "attributes").items():
            location = f"{path}.devices[{index}].attributes[{name}]"
            given = list(attribute) if isinstance(attribute, dict) else []
            if len(given) != 1:
                yield invalid(location, attribute if given else "", "exactly one value must be specified")
        for number, taint in enumerate(entries(device, "taints")):
            if (effect := text(taint, "effect")) not in _EFFECTS:
                yield unsupported(f"{path}.devices[{index}].taints[{number}].effect", effect, _EFFECTS)
