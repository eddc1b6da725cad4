"""What a plugin may suggest about a claim to devices of a pod that it rejects, or about the claim's template."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kframework.framework.suggestions import Change, written
from kframework.objects import (
    CELSelector,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

#: What a request asks for, in one way or the only one.
Way = ExactDeviceRequest | DeviceSubRequest


class ClaimChange(Change, frozen=True):
    """A change of a claim (`namespace/name`) that the pending pod uses."""

    claim: str

    def on_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim as it is after the change."""
        raise NotImplementedError


class RequestChange(ClaimChange, frozen=True):
    """A change of one of a claim's requests; one of several ways to satisfy it is called `request/way`."""

    request: str

    @property
    def _where(self) -> str:
        return f"request {self.request} of claim {self.claim}"

    def _on_request(self, claim: ResourceClaim, change: Callable[[Way], Way]) -> ResourceClaim:
        requests = tuple(self._changed(request, change) for request in claim.spec.devices.requests)
        return _devices(claim, requests=requests)

    def _changed(self, request: DeviceRequest, change: Callable[[Way], Way]) -> DeviceRequest:
        if request.name == self.request and request.exactly is not None:
            return replace(request, exactly=change(request.exactly))
        ways = tuple(
            change(way) if f"{request.name}/{way.name}" == self.request else way for way in request.first_available
        )
        return replace(request, first_available=ways)


class TolerateDevices(RequestChange, frozen=True, tag="tolerateDevices"):
    """Let a request put up with a taint of devices."""

    taint: DeviceTaint

    @property
    def text(self) -> str:
        return f"let {self._where} tolerate {written(self.taint)}"

    def on_claim(self, claim: ResourceClaim) -> ResourceClaim:
        taint = self.taint
        operator = "Equal" if taint.value else "Exists"
        toleration = DeviceToleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)
        return self._on_request(claim, lambda way: replace(way, tolerations=(*way.tolerations, toleration)))


class LowerCount(RequestChange, frozen=True, tag="lowerCount"):
    """Let a request ask for so many devices less."""

    amount: int
    to: int

    @property
    def text(self) -> str:
        return f"lower the count in {self._where} from {self.to + self.amount} to {self.to}"

    def with_amount(self, amount: int) -> LowerCount:
        return replace(self, amount=amount, to=self.to + self.amount - amount)

    def on_claim(self, claim: ResourceClaim) -> ResourceClaim:
        return self._on_request(claim, lambda way: replace(way, count=self.to))


class DropClause(RequestChange, frozen=True, tag="dropClause"):
    """Take a clause out of a selector of a request; `rest` is what is left of it, "" for nothing."""

    clause: str
    selector: str
    rest: str

    @property
    def text(self) -> str:
        return f"drop {self.clause} from {self._where}"

    def on_claim(self, claim: ResourceClaim) -> ResourceClaim:
        def without(way: Way) -> Way:
            kept = (self._left(each) for each in way.selectors)
            return replace(way, selectors=tuple(each for each in kept if each is not None))

        return self._on_request(claim, without)

    def _left(self, selector: DeviceSelector) -> DeviceSelector | None:
        if selector.cel is None or selector.cel.expression != self.selector:
            return selector
        return DeviceSelector(cel=CELSelector(expression=self.rest)) if self.rest else None


class DropConstraint(ClaimChange, frozen=True, tag="dropConstraint"):
    """Take a constraint out of a claim."""

    constraint: DeviceConstraint

    @property
    def text(self) -> str:
        return f"drop {constraint_in_words(self.constraint)} from claim {self.claim}"

    def on_claim(self, claim: ResourceClaim) -> ResourceClaim:
        constraints = claim.spec.devices.constraints
        return _devices(claim, constraints=tuple(each for each in constraints if each != self.constraint))


def constraint_in_words(constraint: DeviceConstraint) -> str:
    """Name a constraint by what it is about."""
    if constraint.match_attribute is not None:
        return f"matchAttribute {constraint.match_attribute}"
    return f"distinctAttribute {constraint.distinct_attribute}"


def _devices(claim: ResourceClaim, **fields: object) -> ResourceClaim:
    return replace(claim, spec=replace(claim.spec, devices=replace(claim.spec.devices, **fields)))
