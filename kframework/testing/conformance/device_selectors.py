"""Kind `cel`: a selector of devices, compiled and put to one device."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kframework.cel.errors import CelError
from kframework.objects import ApiStruct
from kframework.plugins.dynamic_resources.selectors.device import Device
from kframework.plugins.dynamic_resources.selectors.selector import compile_selector
from kframework.testing.conformance.cases import Fact, beside


class Capacity(ApiStruct, frozen=True, kw_only=True):
    """An amount of something that a device has."""

    value: str


class RecordedDevice(ApiStruct, frozen=True, kw_only=True):
    """A device as in a slice, and its driver."""

    driver: str
    attributes: dict[str, dict[str, object]] = msgspec.field(default_factory=dict)
    capacity: dict[str, Capacity] = msgspec.field(default_factory=dict)
    allow_multiple_allocations: bool = False


class SelectorOfDevices(ApiStruct, frozen=True, kw_only=True):
    """The expression and the device."""

    expression: str
    device: RecordedDevice


def compare_selector_of_devices(given: SelectorOfDevices, recorded: dict[str, object]) -> Iterator[Fact]:
    """Compare whether it compiles and matches; of an error only the fact counts, and the cost is for information."""
    got = _answer(given)
    if "error" in got and "error" in recorded:
        got["error"] = recorded["error"]
    yield from beside({name: value for name, value in recorded.items() if name != "cost"}, got)


def device_of(recorded: RecordedDevice) -> Device:
    """Return a recorded device as selectors see it."""
    capacity = {name: amount.value for name, amount in recorded.capacity.items()}
    return Device(recorded.driver, recorded.attributes, capacity, recorded.allow_multiple_allocations)


def _answer(given: SelectorOfDevices) -> dict[str, object]:
    try:
        selector = compile_selector(given.expression)
    except CelError as error:
        return {"compile": "error", "error": str(error)}
    try:
        return {"compile": "ok", "result": selector.matches(device_of(given.device))}
    except CelError as error:
        return {"compile": "ok", "error": str(error)}
