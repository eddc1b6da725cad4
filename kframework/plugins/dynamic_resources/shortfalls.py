"""Explanations of missing devices: why a node's devices do not satisfy some claims, per way to satisfy a request.

The search checks cheap conditions first; this checks lasting ones first: a device that would not be selected is not
reported as in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np

from kframework.framework.suggestions import format_names, format_taint
from kframework.objects import DeviceAttribute, DeviceCapacity, DeviceConstraint, RawQuantity, ResourceClaim
from kframework.objects.label_selectors import SelectorError
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.allocator import BudgetExceeded, available_counters
from kframework.plugins.dynamic_resources.capacities import consumed_amounts, fits
from kframework.plugins.dynamic_resources.constraints import DistinctAttribute, MatchAttribute, create_constraint
from kframework.plugins.dynamic_resources.cycle import UNAVAILABLE, UNCREATED, ClaimsInCycle
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.feasibility import INVALID_POOLS, TOO_FEW
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.requests import ClaimsOptions, RequestOption, claim_key, claims_options
from kframework.plugins.dynamic_resources.slices import AppliedTaint, PoolDevice, PoolId
from kframework.state.nodes import NodeInfo

#: The step limit of the search for the first request that does not fit.
_STEPS = 20_000


class LossReason(Enum):
    """The reason a device is excluded, in the order of the checks; the words precede the details."""

    POOL = "in an invalid pool:"
    CLASS = "not of class"
    REACH = "not accessible from the node"
    SELECTOR = "not selected by"
    NO_CAPACITY = "without capacity"
    POLICY = "with a policy that forbids the requested"
    IN_USE = "in use by"
    CAPACITY = "with insufficient"
    COUNTERS = "with insufficient shared"
    TAINT = "tainted"
    CONSTRAINT = "violating"


class Loss(NamedTuple):
    """The reason why a request cannot have a device."""

    reason: LossReason
    detail: str = ""


class Shortfall(NamedTuple):
    """One way to satisfy a request, and the loss of each device examined: None if it is available.

    `needed` is the number of devices needed, at least one.
    """

    option: RequestOption
    needed: int
    verdicts: Mapping[PoolDevice, Loss | None]

    @property
    def available(self) -> list[PoolDevice]:
        """The devices available without competing requests."""
        return [device for device, loss in self.verdicts.items() if loss is None]

    @property
    def missing(self) -> int:
        return max(self.needed - len(self.available), 0)

    def devices_lost_to(self, reason: LossReason) -> list[PoolDevice]:
        return [device for device, loss in self.verdicts.items() if loss is not None and loss.reason is reason]

    @property
    def losses(self) -> Mapping[Loss, int]:
        """The number of devices for each loss, in the order of the checks."""
        counts = Counter(loss for loss in self.verdicts.values() if loss is not None)
        return dict(sorted(counts.items(), key=lambda item: list(LossReason).index(item[0].reason)))


class Shortfalls:
    """The missing devices of some claims on a node; AllocationError for invalid claims or pools."""

    def __init__(self, devices: Devices, claims: Sequence[ResourceClaim], node: NodeInfo) -> None:
        self.claims = claims
        self.node = node
        self._devices = devices
        self._pools: Sequence[Pool] = devices.pools_of(node)
        self._available = {
            pool.id: available_counters(pool, devices.allocated) for pool in self._pools if pool.is_usable
        }
        self._options: ClaimsOptions = claims_options(claims, devices.classes)
        #: By claim, request, and way.
        self.by_claim: list[list[list[Shortfall]]] = []
        for claim, requests in zip(claims, self._options, strict=True):
            shortfalls = [[self._shortfall(option) for option in options] for options in requests]
            self.by_claim.append(_apply_constraints(claim, shortfalls))

    @property
    def each_option(self) -> Iterator[Shortfall]:
        return chain.from_iterable(self.by_request)

    @property
    def by_request(self) -> Iterator[list[Shortfall]]:
        return chain.from_iterable(self.by_claim)

    def consumers(self, device: PoolDevice) -> list[PoolDevice]:
        """Return the devices in use that consume the same counters."""
        pool = next(pool for pool in self._pools if pool.id == device.slice.pool)
        return [each for each in pool.consumers if self._devices.allocated.is_in_use(each.id)]

    @property
    def incomplete_pools(self) -> list[PoolId]:
        """The pools that are not allocatable because their drivers are still publishing them."""
        return [pool.id for pool in self._pools if pool.incomplete]

    @property
    def are_met_alone(self) -> bool:
        return all(any(not each.missing for each in ways) for ways in self.by_request)

    def first_unmet_together(self) -> str:
        """Return the first request that has too few devices after earlier requests, "" if unknown."""
        for number, requests in enumerate(self._options):
            for count in range(1, len(requests) + 1):
                options = [*self._options[:number], requests[:count]]
                search = self._devices.search(self.claims[: number + 1], options, self.node, self._pools)
                try:
                    if search.run(_STEPS) is None:
                        return f"request {requests[count - 1][0].request} of claim {claim_key(self.claims[number])}"
                except BudgetExceeded:
                    return ""
        return ""

    def _shortfall(self, option: RequestOption) -> Shortfall:
        verdicts = {device: self._loss(option, device, pool) for pool in self._pools for device in pool.devices}
        # Devices that belong to another node are not counted, others that this node cannot access are.
        for device in chain.from_iterable(each.devices for each in self._devices.inventory.shared_slices):
            if device not in verdicts:
                verdicts[device] = self._class_loss(option, device) or Loss(LossReason.REACH)
        return Shortfall(option, _needed_devices(option, verdicts.values()), verdicts)

    def _loss(self, option: RequestOption, device: PoolDevice, pool: Pool) -> Loss | None:
        """Return why a device is not available to a request, without competing requests."""
        if pool.error:
            return Loss(LossReason.POOL, pool.error)
        if class_loss := self._class_loss(option, device):
            return class_loss
        if device.slice.per_device and not self._has_access(device):
            return Loss(LossReason.REACH)
        if clause := self._devices.selection.rejecting_clause(option.selectors, device):
            return Loss(LossReason.SELECTOR, clause)
        requested = device.requested_amounts(option.capacity)
        if capacity_loss := self._capacity_loss(requested, device.object.capacity):
            return capacity_loss
        if not option.admin and self._devices.allocated.is_dedicated(device.id):
            return Loss(
                LossReason.IN_USE, " and ".join(holder.text for holder in self._devices.holders.holders_of(device.id))
            )
        if amount_loss := self._amount_loss(requested, device) or self._counter_loss(device):
            return amount_loss
        return next(map(_taint_loss, option.untolerated(device)), None)

    def _class_loss(self, option: RequestOption, device: PoolDevice) -> Loss | None:
        device_class = option.device_class
        clause = self._devices.selection.rejecting_clause(device_class.spec.selectors, device)
        return Loss(LossReason.CLASS, device_class.metadata.name) if clause else None

    def _has_access(self, device: PoolDevice) -> bool:
        try:
            return device.access.matches(self.node)
        except SelectorError:
            return False

    def _capacity_loss(
        self, requested: Mapping[str, RawQuantity], capacities: Mapping[str, DeviceCapacity]
    ) -> Loss | None:
        """Return the requested capacities that a device does not have, or whose policies forbid the amounts."""
        missing = requested.keys() - capacities.keys()
        if missing:
            return Loss(LossReason.NO_CAPACITY, ", ".join(sorted(missing)))
        amounts = {name: {name: requested[name]} if name in requested else {} for name in capacities}
        steps = self._devices.capacity_steps
        forbidden = [
            name
            for name, amount in amounts.items()
            if consumed_amounts({name: capacities[name]}, amount, steps) is None
        ]
        return Loss(LossReason.POLICY, ", ".join(sorted(forbidden))) if forbidden else None

    def _amount_loss(self, requested: Mapping[str, RawQuantity], device: PoolDevice) -> Loss | None:
        """Return the capacities that the request consumes more of than the device has left."""
        amounts = consumed_amounts(device.object.capacity, requested, self._devices.capacity_steps) or {}
        consumed = self._devices.allocated.consumed_capacity(device.id)
        lacking = [name for name, amount in amounts.items() if not fits(device.capacity, consumed, {name: amount})]
        return Loss(LossReason.CAPACITY, ", ".join(sorted(lacking))) if lacking else None

    def _counter_loss(self, device: PoolDevice) -> Loss | None:
        """Return the pool's insufficient counters; none may be negative, even if the device consumes nothing of it."""
        if not device.consumes or (device.shared and self._devices.allocated.is_in_use(device.id)):
            return None
        available = self._available[device.slice.pool]
        lacking = [name for name, amount in available.items() if device.consumes.get(name, 0) > amount]
        return Loss(LossReason.COUNTERS, ", ".join("/".join(name) for name in sorted(lacking))) if lacking else None


def _taint_loss(applied: AppliedTaint) -> Loss:
    taint = format_taint(applied.taint)
    return Loss(LossReason.TAINT, f"by rule {applied.rule}: {taint}" if applied.rule else taint)


def _needed_devices(option: RequestOption, losses: Iterable[Loss | None]) -> int:
    """Return the number of devices needed: for a request of all, all that match, even if in use."""
    if not option.all:
        return option.count
    matching = (LossReason.IN_USE, LossReason.COUNTERS, LossReason.TAINT)
    return max(sum(loss is None or loss.reason in matching for loss in losses), 1)


def _apply_constraints(claim: ResourceClaim, shortfalls: list[list[Shortfall]]) -> list[list[Shortfall]]:
    for constraint in claim.spec.devices.constraints:
        checked = create_constraint(constraint)
        if not isinstance(checked, MatchAttribute | DistinctAttribute):
            continue
        affected = [
            each
            for options in shortfalls
            for each in options
            if checked.affects(each.option.request, each.option.subrequest)
        ]
        satisfying = {each.option: set(_satisfying_devices(checked, each, affected)) for each in affected}
        shortfalls = [
            [
                _with_constraint(each, satisfying[each.option], constraint) if each.option in satisfying else each
                for each in options
            ]
            for options in shortfalls
        ]
    return shortfalls


def _satisfying_devices(
    constraint: MatchAttribute | DistinctAttribute, shortfall: Shortfall, affected: Sequence[Shortfall]
) -> Iterator[PoolDevice]:
    """Yield the devices that satisfy a constraint: those of the best value, or one of each value."""
    if isinstance(constraint, MatchAttribute):
        value = _best_value(constraint.attribute, affected)
        if value is not None:
            yield from (device for device in shortfall.available if device.attribute(constraint.attribute) == value)
        return
    seen = list[DeviceAttribute]()
    for device in shortfall.available:
        value = device.attribute(constraint.attribute)
        if value is not None and value not in seen:
            seen.append(value)
            yield device


def _best_value(attribute: str, affected: Sequence[Shortfall]) -> DeviceAttribute | None:
    """Return the value that satisfies the most requests, or else the most devices."""

    def satisfied(value: DeviceAttribute) -> tuple[int, int]:
        counts = [sum(device.attribute(attribute) == value for device in each.available) for each in affected]
        needed = [each.needed for each in affected]
        return (
            sum(count >= need for count, need in zip(counts, needed, strict=True)),
            sum(min(count, need) for count, need in zip(counts, needed, strict=True)),
        )

    values = dict.fromkeys(device.attribute(attribute) for each in affected for device in each.available)
    return max((value for value in values if value is not None), key=satisfied, default=None)


def _with_constraint(shortfall: Shortfall, satisfying: set[PoolDevice], constraint: DeviceConstraint) -> Shortfall:
    loss = Loss(LossReason.CONSTRAINT, format_constraint(constraint))
    verdicts = {
        device: loss if before is None and device not in satisfying else before
        for device, before in shortfall.verdicts.items()
    }
    return shortfall._replace(verdicts=verdicts)


def format_constraint(constraint: DeviceConstraint) -> str:
    if constraint.match_attribute is not None:
        return f"matchAttribute {constraint.match_attribute}"
    return f"distinctAttribute {constraint.distinct_attribute}"


#: The maximum number of holders, and of different losses of one kind, that are named.
_MAX_NAMED = 4


def explain_shortfalls(devices: Devices, claims: ClaimsInCycle, node: NodeInfo) -> list[str]:
    row = np.array([node.row])
    answer = int(claims.rejections(node.table, row)[0])
    if answer == UNAVAILABLE:
        return [_format_unusable(claim) for claim in claims.unusable_claims(node.table, row)]
    if answer not in (TOO_FEW, INVALID_POOLS):
        return []
    try:
        return list(format_shortfalls(Shortfalls(devices, claims.claims_to_allocate(node), node)))
    except AllocationError as problem:
        return [str(problem)]


def _format_unusable(claim: ResourceClaim) -> str:
    devices = [f"{result.pool}/{result.device}" for result in results_of(claim)]
    return f"{format_claim(claim)} is allocated to devices that this node cannot access: {format_names(devices)}"


def format_shortfalls(shortfalls: Shortfalls) -> Iterator[str]:
    """Yield the lines; continuation lines are indented."""
    for shortfall in shortfalls.each_option:
        option, available, total = shortfall.option, len(shortfall.available), len(shortfall.verdicts)
        needed = f"{'all of ' if option.all else ''}{shortfall.needed}"
        devices = f"{available} of {total} device{'' if total == 1 else 's'}" if total else "none"
        yield f"{option.name} of {format_claim(option.claim)} requests {needed}: {devices} available"
        yield from (f"  {line}" for line in _format_losses(shortfall.losses))
    yield from (f"pool {pool}: incomplete, its driver is still publishing it" for pool in shortfalls.incomplete_pools)
    if shortfalls.are_met_alone:
        unmet = shortfalls.first_unmet_together()
        detail = f": {unmet} does not fit after the earlier ones" if unmet else ""
        yield f"each request can be satisfied alone, but not all together{detail}"


def format_claim(claim: ResourceClaim) -> str:
    is_uncreated = claim.metadata.name == UNCREATED
    return "the pod's extended resources" if is_uncreated else f"claim {claim_key(claim)}"


def _format_losses(losses: Mapping[Loss, int]) -> Iterator[str]:
    for reason, group in groupby(losses.items(), key=lambda item: item[0].reason):
        details = sorted(((loss.detail, count) for loss, count in group), key=lambda item: (-item[1], item[0]))
        if reason is LossReason.IN_USE:
            named = ", ".join(f"{holders} ({count})" for holders, count in details[:_MAX_NAMED])
            rest = len(details) - _MAX_NAMED
            holders = details[0][0] if len(details) == 1 else f"{named}{f' and {rest} more' if rest > 0 else ''}"
            yield f"{sum(count for _, count in details)} {reason.value} {holders}"
            continue
        yield from (
            f"{count} {' '.join(filter(None, (reason.value, detail)))}" for detail, count in details[:_MAX_NAMED]
        )
        rest = sum(count for _, count in details[_MAX_NAMED:])
        if rest:
            yield f"{rest} {reason.value} others"
