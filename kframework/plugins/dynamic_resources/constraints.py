"""Constraints on attributes that the devices of a claim must share, or must not share."""

from __future__ import annotations

from kframework.objects import DeviceAttribute, DeviceConstraint
from kframework.plugins.dynamic_resources.slices import PoolDevice


class Constraint:
    """A constraint while devices are chosen; a device it rejects stays rejected whatever is added later."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self.attribute: str = attribute
        self._requests = frozenset(requests)
        #: The values of the devices that were added.
        self.values: list[DeviceAttribute] = []

    def affects(self, request: str, subrequest: str) -> bool:
        requests = self._requests
        return not requests or request in requests or bool(subrequest and f"{request}/{subrequest}" in requests)

    def add(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        """Add a device for a request; return False, changing nothing, if that violates the constraint."""
        if not self.affects(request, subrequest):
            return True
        value = device.attribute(self.attribute)
        if value is None or not self._allows(value):
            return False
        self.values.append(value)
        return True

    def _allows(self, value: DeviceAttribute) -> bool:
        raise NotImplementedError

    def remove(self, request: str, subrequest: str) -> None:
        """Remove the device that was added last."""
        if self.affects(request, subrequest):
            self.values.pop()


class MatchAttribute(Constraint):
    """A constraint that all devices have the attribute, with the same type and value."""

    def _allows(self, value: DeviceAttribute) -> bool:
        return not self.values or (value == self.values[0] and _is_scalar(value))


class DistinctAttribute(Constraint):
    """A constraint that all devices have the attribute, each with a different value."""

    def _allows(self, value: DeviceAttribute) -> bool:
        return value not in self.values


def _is_scalar(value: DeviceAttribute) -> bool:
    fields = (value.int_value, value.bool_value, value.string_value, value.version_value)
    return any(each is not None for each in fields)


def create_constraint(constraint: DeviceConstraint) -> Constraint | None:
    """Return the checker of a constraint; None for an unknown kind."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.match_attribute, constraint.requests)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint.distinct_attribute, constraint.requests)
    return None
