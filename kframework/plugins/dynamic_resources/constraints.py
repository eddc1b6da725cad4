"""Constraints on attributes that the devices of a claim must share, or must not share."""

from __future__ import annotations

from kframework.objects import DeviceAttribute, DeviceConstraint
from kframework.plugins.dynamic_resources.slices import PoolDevice


class Constraint:
    """A constraint while devices are chosen: once it refuses a device, it does so however many more there are."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self.attribute: str = attribute
        self._requests = frozenset(requests)
        self._values: list[DeviceAttribute] = []

    def affects(self, request: str, subrequest: str) -> bool:
        """Return whether it applies to a request, or to one of its alternatives."""
        named = self._requests
        return not named or request in named or bool(subrequest and f"{request}/{subrequest}" in named)

    def add(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        """Take a device in that a request is to get; False if that may not be, and then nothing has changed."""
        raise NotImplementedError

    def remove(self, request: str, subrequest: str) -> None:
        """Remove the device that was added last."""
        if self.affects(request, subrequest):
            self._values.pop()


class MatchAttribute(Constraint):
    """A constraint that all devices have the attribute, with the same type and value."""

    def add(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        if not self.affects(request, subrequest):
            return True
        value = device.attribute(self.attribute)
        if value is None or (self._values and (value != self._values[0] or not _is_scalar(value))):
            return False
        self._values.append(value)
        return True


class DistinctAttribute(Constraint):
    """A constraint that all devices have the attribute, each with a different value."""

    def add(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        if not self.affects(request, subrequest):
            return True
        value = device.attribute(self.attribute)
        if value is None or value in self._values:
            return False
        self._values.append(value)
        return True


def _is_scalar(value: DeviceAttribute) -> bool:
    fields = (value.int_value, value.bool_value, value.string_value, value.version_value)
    return any(each is not None for each in fields)


def made(constraint: DeviceConstraint) -> Constraint | None:
    """Return the constraint to choose devices by; None for one of an unknown kind."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.match_attribute, constraint.requests)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint.distinct_attribute, constraint.requests)
    return None
