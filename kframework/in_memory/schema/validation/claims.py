"""Validation of claims to devices; CEL expressions are not compiled here."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.in_memory.schema.causes import Cause, duplicate, invalid, required, too_many, unsupported
from kframework.in_memory.schema.validation.pods import name_causes
from kframework.in_memory.store import Data
from kframework.objects.plain_data import entries, mapping, text, value
from kframework.objects.syntax import dns_label, dns_subdomain

_MAX_REQUESTS, _MAX_ALTERNATIVES = 32, 8
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
    mode, count = text(request, "allocationMode", "ExactCount"), request.get("count", 0)
    if mode not in ("All", "ExactCount"):
        yield unsupported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
    elif mode == "All" and count:
        yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif isinstance(count, int) and count < 0:
        yield invalid(f"{path}.count", count, "must be greater than zero")
