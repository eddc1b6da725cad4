"""The allocator: it chooses a node's devices for a pod's claims (kube-scheduler's `incubating` one, its default).

The search goes depth first through claims, requests and devices in their order, and takes the first solution; there is
no scoring. It is a stack of generators: each makes a choice and yields the next generator, is resumed if that failed,
and then undoes the choice. So its depth is not limited, and it can be stopped after any number of steps. A long search
records the states that lead to no solution, because the same devices in another order lead to them again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from kframework.objects import ResourceClaim
from kframework.plugins.dynamic_resources.capacities import Amounts, StepRules, consumed_amounts, fits, fractional_steps
from kframework.plugins.dynamic_resources.constraints import Constraint, create_constraint
from kframework.plugins.dynamic_resources.errors import AllocationError, InvalidPools
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.requests import MAX_RESULTS, ClaimsOptions, RequestOption, claim_key
from kframework.plugins.dynamic_resources.slices import DeviceId, PoolDevice, PoolId


class Allocations(Protocol):
    """Which devices are allocated already, or about to be."""

    def is_dedicated(self, device: DeviceId) -> bool:
        """Return whether the device is allocated exclusively."""

    def is_in_use(self, device: DeviceId) -> bool:
        """Return whether the device or a share of it is allocated."""

    def consumed_capacity(self, device: DeviceId) -> Mapping[str, int]:
        """Return how much of its capacities is in use, in nanos."""


#: The number of steps after which a search records dead ends: most searches are shorter than it takes to record them.
_SHORT_SEARCH = 256

#: Returns whether the selectors of a class and a claim match a device; raises AllocationError.
DeviceMatcher = Callable[[RequestOption, PoolDevice], bool]


class ChosenDevice(NamedTuple):
    """A device for a request; `amounts` are what it consumes of a shared device."""

    option: RequestOption
    device: PoolDevice
    amounts: Amounts


class BudgetExceeded(AllocationError):
    """Raised when the search has used up its steps."""

    def __init__(self) -> None:
        super().__init__("timed out trying to allocate devices")


class _TooMany(Exception):
    """Raised when a request would exceed the number of devices of a claim."""


class _Next(NamedTuple):
    """A wrapper of the next generator, so that None can mean that the search is complete."""

    choices: Iterator[_Next | None]


Choices = Iterator[_Next | None]


class DeviceSearch:
    """One search for the devices of some claims among the pools of a node."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        claims_options: ClaimsOptions,
        pools: Sequence[Pool],
        allocated: Allocations,
        matches: DeviceMatcher,
        steps: StepRules = fractional_steps,
    ) -> None:
        self._options = claims_options
        self._pools = {pool.id: pool for pool in pools}
        self._devices: Sequence[PoolDevice] = tuple(
            chain.from_iterable(pool.devices for pool in pools if pool.is_usable)
        )
        self._allocated = allocated
        self._matches = matches
        self._capacity_steps = steps
        self._chosen: list[list[ChosenDevice]] = [[] for _ in claims]
        self._constraints = [self._constraints_of(claim) for claim in claims]
        #: The claims that get an exclusive device in this search, and what they consume of shared ones.
        self._users: dict[DeviceId, set[int]] = {}
        self._shares: dict[DeviceId, list[Amounts]] = {}
        self._consumed: dict[PoolId, dict[tuple[str, str], int]] = {}
        self._available: dict[PoolId, dict[tuple[str, str], int]] = {}
        self._all: dict[RequestOption, Sequence[PoolDevice]] = {}
        self._dead_ends: set[Hashable] = set()
        self.steps: int = 0
        for requests in claims_options:
            minimum = 0
            for options in requests:
                for option in options:
                    if option.all:
                        self._all[option] = self._find_all(option, pools)
                minimum += min(map(self._count_of, options))
            if minimum > MAX_RESULTS:
                key = claim_key(requests[0][0].claim)
                text = f"number of requested devices {minimum} exceeds the claim limit of {MAX_RESULTS}"
                raise AllocationError(f"claim {key}: {text}")

    def _count_of(self, option: RequestOption) -> int:
        return len(self._all[option]) if option.all else option.count

    def _find_all(self, option: RequestOption, pools: Sequence[Pool]) -> Sequence[PoolDevice]:
        for pool in pools:
            if not pool.is_usable:
                state = "being updated" if pool.incomplete else "invalid"
                raise option.error(f"asks for all devices, but resource pool {pool.id} is currently {state}")
        matching = (device for device in self._devices if self._matches(option, device))
        return [device for device in matching if self._amounts(option, device) is not None]

    # -- the search ----------------------------------------------------------------------------------------------------

    def run(self, budget: int | None) -> list[list[ChosenDevice]] | None:
        """Return the devices of each claim, None if there is no solution.

        Raises AllocationError, InvalidPools if an invalid pool might have helped, and BudgetExceeded after this many
        steps, None for no limit.
        """
        result = self._first_matching(self._options[0][0][0]) if self._is_simple else self._search(budget)
        if result is None and any(pool.error for pool in self._pools.values()):
            raise InvalidPools
        return result

    @property
    def _is_simple(self) -> bool:
        """Whether the first matching devices are the answer, because no choice among them excludes another."""
        if len(self._options) != 1 or len(self._options[0]) != 1 or len(self._options[0][0]) != 1:
            return False
        counted = self._options[0][0][0].all or any(pool.consumers for pool in self._pools.values())
        return not counted and not self._constraints[0]

    def _first_matching(self, option: RequestOption) -> list[list[ChosenDevice]] | None:
        """Return the first matching devices; each is checked once, so none is taken twice by this search."""
        chosen, missing = list[ChosenDevice](), option.count
        is_dedicated = self._allocated.is_dedicated
        for device in self._devices:
            if not missing:
                break
            if (option.admin or not is_dedicated(device.id)) and self._matches(option, device):
                amounts = self._amounts(option, device)
                if amounts is not None and option.tolerates(device):
                    chosen.append(ChosenDevice(option, device, amounts if device.shared else {}))
                    missing -= 1
        return None if missing else [chosen]

    def _search(self, budget: int | None) -> list[list[ChosenDevice]] | None:
        stack: list[Choices] = [self._choose_for_claim(0)]
        signal: _TooMany | None = None
        while stack:
            if budget is not None and self.steps > budget:
                raise BudgetExceeded
            self.steps += 1
            try:
                next_choices = next(stack[-1]) if signal is None else _throw(stack[-1], signal)
            except StopIteration:
                stack.pop()
                signal = None
            except _TooMany as too_many:
                stack.pop()
                signal = too_many
            else:
                if next_choices is None:
                    return [list(chosen) for chosen in self._chosen]
                signal = None
                stack.append(next_choices.choices)
        return None

    def _choose_for_claim(self, claim: int) -> Choices:
        if claim == len(self._options):
            yield None
            return
        try:
            yield _Next(self._choose_for_request(claim, 0))
        except _TooMany:
            # With other devices for the earlier claims, other ways may be chosen here.
            if claim == 0:
                raise

    def _choose_for_request(self, claim: int, request: int) -> Choices:
        if request == len(self._options[claim]):
            yield _Next(self._choose_for_claim(claim + 1))
            return
        state = self._state(claim, request) if self.steps > _SHORT_SEARCH else None
        if state in self._dead_ends:
            return
        options = self._options[claim][request]
        too_many: _TooMany | None = None
        failed = False
        for option in options:
            try:
                yield _Next(self._choose_device(claim, request, option, 0, 0))
            except _TooMany as signal:
                too_many = signal
            else:
                failed = True
        if too_many is not None and not failed:
            raise too_many
        if state is not None:
            self._dead_ends.add(state)

    def _state(self, claim: int, request: int) -> Hashable:
        """Return all that decides whether the requests from this one on can be satisfied."""
        chosen, may_administer = self._chosen[claim], any(each.admin for each in chain(*self._options[claim]))
        return (
            claim,
            request,
            len(chosen),
            frozenset((device, len(users)) for device, users in self._users.items() if users),
            # Admin access is granted to each device once per claim.
            frozenset(each.device.id for each in chosen) if may_administer else (),
            frozenset((id, *sorted(self._used_capacity(id).items())) for id, shares in self._shares.items() if shares),
            tuple(frozenset(constraint.values) for constraint in self._constraints[claim]),
        )

    def _choose_device(self, claim: int, request: int, option: RequestOption, allocated: int, begin: int) -> Choices:
        """Choose one more device behind the last one, so that each set of devices is tried once."""
        devices, count = self._devices, self._count_of(option)
        if option.all:
            devices, begin = self._all[option], allocated
            if not devices:
                return
        if allocated == count:
            yield _Next(self._choose_for_request(claim, request + 1))
            return
        if len(self._chosen[claim]) + count - allocated > MAX_RESULTS:
            raise _TooMany
        indexes = [allocated] if option.all else range(begin, len(devices))
        for index in indexes:
            self.steps += 1
            if self._allocate(claim, option, devices[index]):
                try:
                    yield _Next(self._choose_device(claim, request, option, allocated + 1, index + 1))
                finally:
                    self._undo_last(claim)

    # -- one device ----------------------------------------------------------------------------------------------------

    def _allocate(self, claim: int, option: RequestOption, device: PoolDevice) -> bool:
        """Allocate a device to a claim if possible; AllocationError if a constraint excludes one of all devices."""
        users = self._users.get(device.id, ())
        # Admin access only requires that its own claim does not have the device already.
        in_use = claim in users if option.admin else users or self._allocated.is_dedicated(device.id)
        if in_use or not self._matches(option, device):
            return False
        amounts = self._amounts(option, device)
        if amounts is None or not self._counters_suffice(device) or not option.tolerates(device):
            return False
        if not self._constraints_allow(claim, option, device):
            if option.all:
                text = f"cannot add device {device.id} because a claim constraint would not be satisfied"
                raise option.error(text)
            return False
        self._chosen[claim].append(ChosenDevice(option, device, amounts if device.shared else {}))
        self._count(device, 1)
        if device.shared:
            self._shares.setdefault(device.id, []).append(amounts)
        else:
            self._users.setdefault(device.id, set()).add(claim)
        return True

    def _undo_last(self, claim: int) -> None:
        chosen = self._chosen[claim].pop()
        device = chosen.device
        for constraint in self._constraints[claim]:
            constraint.remove(chosen.option.request, chosen.option.subrequest)
        if device.shared:
            self._shares[device.id].pop()
        else:
            self._users[device.id].discard(claim)
        self._count(device, -1)

    def _amounts(self, option: RequestOption, device: PoolDevice) -> Amounts | None:
        """Return what the device's capacities would lose; None if they have less left."""
        if not option.capacity and not device.object.capacity:
            return {}
        amounts = device.content.default_amounts
        if option.capacity:
            amounts = consumed_amounts(
                device.object.capacity, device.requested_amounts(option.capacity), self._capacity_steps
            )
        if not amounts:
            return amounts
        return amounts if fits(device.content.capacity, self._used_capacity(device.id), amounts) else None

    def _used_capacity(self, device: DeviceId) -> dict[str, int]:
        used = dict(self._allocated.consumed_capacity(device))
        for share in self._shares.get(device, ()):
            for name, amount in share.items():
                used[name] = used.get(name, 0) + amount.nano
        return used

    def _constraints_of(self, claim: ResourceClaim) -> list[Constraint]:
        constraints = []
        for index, each in enumerate(claim.spec.devices.constraints):
            constraint = create_constraint(each)
            if constraint is None:
                text = f"constraint #{index}: empty constraint (unsupported constraint type?)"
                raise AllocationError(f"claim {claim_key(claim)}, {text}")
            constraints.append(constraint)
        return constraints

    def _constraints_allow(self, claim: int, option: RequestOption, device: PoolDevice) -> bool:
        constraints = self._constraints[claim]
        for index, constraint in enumerate(constraints):
            if not constraint.add(option.request, option.subrequest, device):
                for before in constraints[:index]:
                    before.remove(option.request, option.subrequest)
                return False
        return True

    # -- counters ------------------------------------------------------------------------------------------------------

    def _counters_suffice(self, device: PoolDevice) -> bool:
        """Whether the pool's shared counters suffice; further shares of a device consume nothing more."""
        if not device.consumes or self._consumes_nothing_more(device):
            return True
        pool = device.slice.pool
        available, consumed = self._available_counters(pool), self._consumed_counters(pool)
        needed = device.consumes
        return all(consumed.get(counter, 0) + needed.get(counter, 0) <= amount for counter, amount in available.items())

    def _consumes_nothing_more(self, device: PoolDevice) -> bool:
        return device.shared and (self._allocated.is_in_use(device.id) or bool(self._shares.get(device.id)))

    def _consumed_counters(self, pool: PoolId) -> dict[tuple[str, str], int]:
        return self._consumed.setdefault(pool, {})

    def _available_counters(self, id: PoolId) -> dict[tuple[str, str], int]:
        available = self._available.get(id)
        if available is None:
            available = self._available[id] = available_counters(self._pools[id], self._allocated)
        return available

    def _count(self, device: PoolDevice, sign: int) -> None:
        """Count the counters of a device that gets its first user, or loses its last."""
        if device.consumes and not self._consumes_nothing_more(device):
            consumed = self._consumed_counters(device.slice.pool)
            for counter, amount in device.consumes.items():
                consumed[counter] = consumed.get(counter, 0) + sign * amount


def available_counters(pool: Pool, allocated: Allocations) -> dict[tuple[str, str], int]:
    """Return what allocated devices leave of a pool's counters; it may be negative."""
    available = dict(pool.counters)
    for device in pool.consumers:
        if allocated.is_in_use(device.id):
            for counter, amount in device.consumes.items():
                available[counter] -= amount
    return available


def _throw(choices: Choices, signal: _TooMany) -> _Next | None:
    """Resume choices with a signal instead of a plain failure."""
    assert hasattr(choices, "throw")
    result: _Next | None = choices.throw(signal)
    return result
