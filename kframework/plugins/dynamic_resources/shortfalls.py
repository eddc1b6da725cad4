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
from kframework.objects import DeviceAttribute, DeviceConstraint, ResourceClaim
from kframework.objects.label_selectors import SelectorError
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.allocator import BudgetExceeded
from kframework.plugins.dynamic_resources.capacities import consumed, fits
from kframework.plugins.dynamic_resources.constraints import DistinctAttribute, MatchAttribute, made
from kframework.plugins.dynamic_resources.cycle import NOT_MADE_YET, UNAVAILABLE, ClaimsInCycle
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.feasibility import INVALID_POOLS, TOO_FEW
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.requests import Asked, AskedOfAll, asked_of_all, key_of
from kframework.plugins.dynamic_resources.slices import PoolDevice, PoolId
from kframework.state.nodes import NodeInfo

#: The step limit of the search for the request that has too little left.
_STEPS = 20_000


class Why(Enum):
    """The reason a device is excluded, in the order of the checks; the words precede the details."""

    POOL = "in a pool of which something is wrong:"
    CLASS = "not of class"
    REACH = "out of the node's reach"
    SELECTOR = "not selected by"
    IN_USE = "in use by"
    CAPACITY = "with too little left of"
    COUNTERS = "for which too little is left of the shared"
    TAINT = "tainted"
    CONSTRAINT = "that do not keep"


class Loss(NamedTuple):
    """The reason why a request cannot have a device."""

    why: Why
    what: str = ""


class Shortfall(NamedTuple):
    """One way to satisfy a request, and the loss of each device examined: None if it is available.

    `wanted` is the number of devices needed, at least one.
    """

    asked: Asked
    wanted: int
    verdicts: Mapping[PoolDevice, Loss | None]

    @property
    def left(self) -> list[PoolDevice]:
        """The devices available without competing requests."""
        return [device for device, loss in self.verdicts.items() if loss is None]

    @property
    def short(self) -> int:
        """The number of missing devices."""
        return max(self.wanted - len(self.left), 0)

    def lost_to(self, why: Why) -> list[PoolDevice]:
        """Return the devices that are lost to something of this kind."""
        return [device for device, loss in self.verdicts.items() if loss is not None and loss.why is why]

    @property
    def losses(self) -> Mapping[Loss, int]:
        """The number of devices for each loss, in the order of the checks."""
        counts = Counter(loss for loss in self.verdicts.values() if loss is not None)
        return dict(sorted(counts.items(), key=lambda item: list(Why).index(item[0].why)))


class Shortfalls:
    """The missing devices of some claims on a node; AllocationError for invalid claims or pools."""

    def __init__(self, devices: Devices, claims: Sequence[ResourceClaim], node: NodeInfo) -> None:
        self.claims = claims
        self.node = node
        self._devices = devices
        self._pools: Sequence[Pool] = devices.pools_of(node)
        self._available = {pool.id: _counters_left(pool, devices) for pool in self._pools}
        self._asked: AskedOfAll = asked_of_all(claims, devices.classes)
        #: By claim, request, and way.
        self.of_claims: list[list[list[Shortfall]]] = []
        for claim, requests in zip(claims, self._asked, strict=True):
            found = [[self._shortfall(asked) for asked in ways] for ways in requests]
            self.of_claims.append(_constrained(claim, found))

    @property
    def every(self) -> Iterator[Shortfall]:
        """The shortfall of every way, by itself."""
        return chain.from_iterable(self.by_request)

    @property
    def by_request(self) -> Iterator[list[Shortfall]]:
        """The shortfalls of the ways of each request."""
        return chain.from_iterable(self.of_claims)

    def consumers(self, device: PoolDevice) -> list[PoolDevice]:
        """Return the devices in use that take of the same counters."""
        pool = next(pool for pool in self._pools if pool.id == device.slice.pool)
        return [each for each in pool.consumers if self._devices.allocated.is_in_use(each.id)]

    @property
    def unpublished(self) -> list[PoolId]:
        """The pools from which nothing is allocated, as their drivers are still at it."""
        return [pool.id for pool in self._pools if pool.incomplete]

    @property
    def are_met(self) -> bool:
        """Whether each request could be satisfied on its own."""
        return all(any(not each.short for each in ways) for ways in self.by_request)

    def first_unmet(self) -> str:
        """Return the first request that has too few devices after earlier requests, "" if unknown."""
        for number, requests in enumerate(self._asked):
            for count in range(1, len(requests) + 1):
                asked = [*self._asked[:number], requests[:count]]
                search = self._devices.search(self.claims[: number + 1], asked, self.node, self._pools)
                try:
                    if search.run(_STEPS) is None:
                        return f"request {requests[count - 1][0].request} of claim {key_of(self.claims[number])}"
                except BudgetExceeded:
                    return ""
        return ""

    def _shortfall(self, asked: Asked) -> Shortfall:
        verdicts = {device: self._loss(asked, device, pool) for pool in self._pools for device in pool.devices}
        # Devices that belong to another node are not counted, others out of this node's reach are.
        for device in chain.from_iterable(each.devices for each in self._devices.inventory.for_many):
            if device not in verdicts:
                verdicts[device] = self._class_loss(asked, device) or Loss(Why.REACH)
        return Shortfall(asked, _wanted(asked, verdicts.values()), verdicts)

    def _loss(self, asked: Asked, device: PoolDevice, pool: Pool) -> Loss | None:
        """Return why a device is not available to a request, without competing requests."""
        if pool.wrong:
            return Loss(Why.POOL, pool.wrong)
        if of_class := self._class_loss(asked, device):
            return of_class
        if device.slice.per_device and not self._reaches(device):
            return Loss(Why.REACH)
        if against := self._devices.selection.clause_against(asked.selectors, device):
            return Loss(Why.SELECTOR, against)
        if not asked.admin and self._devices.allocated.is_dedicated(device.id):
            return Loss(Why.IN_USE, " and ".join(holder.text for holder in self._devices.holders.of(device.id)))
        if too_little := self._capacity_loss(asked, device) or self._counter_loss(device):
            return too_little
        untolerated = asked.untolerated(device)
        return Loss(Why.TAINT, format_taint(untolerated[0])) if untolerated else None

    def _class_loss(self, asked: Asked, device: PoolDevice) -> Loss | None:
        of_class = asked.device_class
        against = self._devices.selection.clause_against(of_class.spec.selectors, device)
        return Loss(Why.CLASS, of_class.metadata.name) if against else None

    def _reaches(self, device: PoolDevice) -> bool:
        try:
            return device.reach.matches(self.node)
        except SelectorError:
            return False

    def _capacity_loss(self, asked: Asked, device: PoolDevice) -> Loss | None:
        amounts = consumed(device.object.capacity, asked.capacity)
        if amounts is None:
            missing = asked.capacity.keys() - device.object.capacity.keys()
            return Loss(Why.CAPACITY, ", ".join(sorted(missing or asked.capacity or device.object.capacity)))
        taken = self._devices.allocated.taken(device.id)
        lacking = [name for name, amount in amounts.items() if not fits(device.capacity, taken, {name: amount})]
        return Loss(Why.CAPACITY, ", ".join(sorted(lacking))) if lacking else None

    def _counter_loss(self, device: PoolDevice) -> Loss | None:
        """Return the pool's insufficient counters; none may be negative, even if the device consumes nothing of it."""
        if not device.consumes or (device.shared and self._devices.allocated.taken(device.id)):
            return None
        left = self._available[device.slice.pool]
        lacking = [name for name, amount in left.items() if device.consumes.get(name, 0) > amount]
        return Loss(Why.COUNTERS, ", ".join("/".join(name) for name in sorted(lacking))) if lacking else None


def _counters_left(pool: Pool, devices: Devices) -> dict[tuple[str, str], int]:
    left = dict(pool.counters)
    for device in pool.consumers if pool.usable else ():
        if devices.allocated.is_in_use(device.id):
            for counter, amount in device.consumes.items():
                left[counter] -= amount
    return left


def _wanted(asked: Asked, losses: Iterable[Loss | None]) -> int:
    """Return the number of devices needed: for a request of all, all that match, even if in use."""
    if not asked.all:
        return asked.count
    unasked = (Why.POOL, Why.CLASS, Why.REACH, Why.SELECTOR, Why.CAPACITY)
    return max(sum(loss is None or loss.why not in unasked for loss in losses), 1)


# -- what devices must have in common ------------------------------------------------------------------------------


def _constrained(claim: ResourceClaim, found: list[list[Shortfall]]) -> list[list[Shortfall]]:
    """Exclude devices by the constraints of a claim, one after another."""
    for constraint in claim.spec.devices.constraints:
        about = made(constraint)
        if not isinstance(about, MatchAttribute | DistinctAttribute):
            continue
        concerned = [
            each for ways in found for each in ways if about.affects(each.asked.request, each.asked.subrequest)
        ]
        kept = {each.asked: set(_kept(about, each, concerned)) for each in concerned}
        found = [
            [_keeping(each, kept[each.asked], constraint) if each.asked in kept else each for each in ways]
            for ways in found
        ]
    return found


def _kept(
    about: MatchAttribute | DistinctAttribute, shortfall: Shortfall, concerned: Sequence[Shortfall]
) -> Iterator[PoolDevice]:
    """Yield the devices that satisfy a constraint: those of the best value, or one of each value."""
    if isinstance(about, MatchAttribute):
        value = _best_value(about.attribute, concerned)
        if value is not None:
            yield from (device for device in shortfall.left if device.attribute(about.attribute) == value)
        return
    seen = list[DeviceAttribute]()
    for device in shortfall.left:
        value = device.attribute(about.attribute)
        if value is not None and value not in seen:
            seen.append(value)
            yield device


def _best_value(attribute: str, concerned: Sequence[Shortfall]) -> DeviceAttribute | None:
    """Return the value that satisfies the most requests, or else the most devices."""

    def got(value: DeviceAttribute) -> tuple[int, int]:
        counts = [sum(device.attribute(attribute) == value for device in each.left) for each in concerned]
        wanted = [each.wanted for each in concerned]
        return (
            sum(count >= want for count, want in zip(counts, wanted, strict=True)),
            sum(min(count, want) for count, want in zip(counts, wanted, strict=True)),
        )

    values = dict.fromkeys(device.attribute(attribute) for each in concerned for device in each.left)
    return max((value for value in values if value is not None), key=got, default=None)


def _keeping(shortfall: Shortfall, kept: set[PoolDevice], constraint: DeviceConstraint) -> Shortfall:
    loss = Loss(Why.CONSTRAINT, format_constraint(constraint))
    verdicts = {
        device: loss if before is None and device not in kept else before
        for device, before in shortfall.verdicts.items()
    }
    return shortfall._replace(verdicts=verdicts)


def format_constraint(constraint: DeviceConstraint) -> str:
    """Name a constraint by its attribute."""
    if constraint.match_attribute is not None:
        return f"matchAttribute {constraint.match_attribute}"
    return f"distinctAttribute {constraint.distinct_attribute}"


#: The maximum number of holders, and of different losses of one kind, that are named.
_NAMED = 4


def explained(devices: Devices, claims: ClaimsInCycle, node: NodeInfo) -> list[str]:
    """Return the reasons behind the rejection of a node."""
    row = np.array([node.row])
    answer = int(claims.answers(node.table, row)[0])
    if answer == UNAVAILABLE:
        return [_elsewhere(claim) for claim in claims.unusable(node.table, row)]
    if answer not in (TOO_FEW, INVALID_POOLS):
        return []
    try:
        return list(in_words(Shortfalls(devices, claims.to_allocate(node), node)))
    except AllocationError as problem:
        return [str(problem)]


def _elsewhere(claim: ResourceClaim) -> str:
    held = [f"{result.pool}/{result.device}" for result in results_of(claim)]
    return f"{claim_in_words(claim)} has its devices already, and not for this node: {format_names(held)}"


def in_words(shortfalls: Shortfalls) -> Iterator[str]:
    """Yield the lines; continuation lines are indented."""
    for shortfall in shortfalls.every:
        asked, left, total = shortfall.asked, len(shortfall.left), len(shortfall.verdicts)
        wanted = f"{'all of ' if asked.all else ''}{shortfall.wanted}"
        there = f"{left} of {total} device{'' if total == 1 else 's'}" if total else "none"
        yield f"{asked.name} of {claim_in_words(asked.claim)} wants {wanted}: {there} can be had"
        yield from (f"  {line}" for line in _losses(shortfall.losses))
    yield from (f"pool {pool}: its driver is still publishing it" for pool in shortfalls.unpublished)
    if shortfalls.are_met:
        unmet = shortfalls.first_unmet()
        beside = f": for {unmet} the others before it leave too little" if unmet else ""
        yield f"each request could be satisfied alone, but not all of them together{beside}"


def claim_in_words(claim: ResourceClaim) -> str:
    """Return the name of a claim, or what it would be created for."""
    made_up = claim.metadata.name == NOT_MADE_YET
    return "the pod's extended resources" if made_up else f"claim {key_of(claim)}"


def _losses(losses: Mapping[Loss, int]) -> Iterator[str]:
    for why, group in groupby(losses.items(), key=lambda item: item[0].why):
        several = sorted(((loss.what, count) for loss, count in group), key=lambda item: (-item[1], item[0]))
        if why is Why.IN_USE:
            named = ", ".join(f"{who} ({count})" for who, count in several[:_NAMED])
            rest = len(several) - _NAMED
            who = several[0][0] if len(several) == 1 else f"{named}{f' and {rest} more' if rest > 0 else ''}"
            yield f"{sum(count for _, count in several)} {why.value} {who}"
            continue
        yield from (f"{count} {' '.join(filter(None, (why.value, what)))}" for what, count in several[:_NAMED])
        rest = sum(count for _, count in several[_NAMED:])
        if rest:
            yield f"{rest} {why.value} others"
