"""The allocator: it chooses a node's devices for a pod's claims (kube-scheduler's `incubating` one, its default).

The search goes depth first through claims, requests and devices in their order, and takes the first solution; there is
no scoring. It is a stack of generators: each makes a choice and yields the next generator, is resumed if that failed,
and then undoes the choice. So its depth is not limited, and it can be stopped after any number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from kframework.objects import ResourceClaim
from kframework.plugins.dynamic_resources.capacities import Amounts, consumed, fits
from kframework.plugins.dynamic_resources.constraints import Constraint, made
from kframework.plugins.dynamic_resources.errors import AllocationError, InvalidPools
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.requests import MAX_RESULTS, Asked, AskedOfAll, key_of
from kframework.plugins.dynamic_resources.slices import DeviceId, PoolDevice, PoolId


class Allocated(Protocol):
    """Which devices are allocated already, or about to be."""

    def is_dedicated(self, device: DeviceId) -> bool:
        """Return whether the device is allocated exclusively."""
        ...

    def is_in_use(self, device: DeviceId) -> bool:
        """Return whether the device or a share of it is allocated."""
        ...

    def taken(self, device: DeviceId) -> Mapping[str, int]:
        """Return how much of its capacities is in use, in nanos."""
        ...


#: Returns whether the selectors of a class and a claim match a device; raises AllocationError.
Selects = Callable[[Asked, PoolDevice], bool]


class Chosen(NamedTuple):
    """A device for a request; `amounts` are what it consumes of a shared device."""

    asked: Asked
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


class Search:
    """One search for the devices of some claims among the pools of a node."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        asked: AskedOfAll,
        pools: Sequence[Pool],
        allocated: Allocated,
        selects: Selects,
    ) -> None:
        self._asked = asked
        self._pools = {pool.id: pool for pool in pools}
        self._devices: Sequence[PoolDevice] = tuple(chain.from_iterable(pool.devices for pool in pools if pool.usable))
        self._allocated = allocated
        self._selects = selects
        self._chosen: list[list[Chosen]] = [[] for _ in claims]
        self._constraints = [self._constraints_of(claim) for claim in claims]
        #: The claims that get an exclusive device in this search, and what they consume of shared ones.
        self._users: dict[DeviceId, set[int]] = {}
        self._shares: dict[DeviceId, list[Amounts]] = {}
        self._consumed: dict[PoolId, dict[tuple[str, str], int]] = {}
        self._available: dict[PoolId, dict[tuple[str, str], int]] = {}
        #: The devices of requests for all devices.
        self._all: dict[Asked, Sequence[PoolDevice]] = {}
        self.steps: int = 0
        for requests in asked:
            fewest = 0
            for ways in requests:
                for way in ways:
                    if way.all:
                        self._all[way] = self._find_all(way, pools)
                fewest += min(map(self._count_of, ways))
            if fewest > MAX_RESULTS:
                key = key_of(requests[0][0].claim)
                text = f"number of requested devices {fewest} exceeds the claim limit of {MAX_RESULTS}"
                raise AllocationError(f"claim {key}: {text}")

    def _count_of(self, asked: Asked) -> int:
        return len(self._all[asked]) if asked.all else asked.count

    def _find_all(self, asked: Asked, pools: Sequence[Pool]) -> Sequence[PoolDevice]:
        for pool in pools:
            if not pool.usable:
                state = "being updated" if pool.incomplete else "invalid"
                raise asked.problem(f"asks for all devices, but resource pool {pool.id} is currently {state}")
        wanted = (device for device in self._devices if self._selects(asked, device))
        return [device for device in wanted if self._amounts(asked, device) is not None]

    # -- the search ------------------------------------------------------------------------------------------------

    def run(self, budget: int | None) -> list[list[Chosen]] | None:
        """Return the devices of each claim, None if there is no solution.

        Raises AllocationError, InvalidPools if an invalid pool might have helped, and BudgetExceeded after this many
        steps, None for no limit.
        """
        found = self._first_ones(self._asked[0][0][0]) if self._is_simple else self._searched(budget)
        if found is None and any(pool.wrong for pool in self._pools.values()):
            raise InvalidPools
        return found

    @property
    def _is_simple(self) -> bool:
        """Whether the first matching devices are the answer, because no choice among them excludes another."""
        if len(self._asked) != 1 or len(self._asked[0]) != 1 or len(self._asked[0][0]) != 1:
            return False
        counted = self._asked[0][0][0].all or any(pool.consumers for pool in self._pools.values())
        return not counted and not self._constraints[0]

    def _first_ones(self, asked: Asked) -> list[list[Chosen]] | None:
        """Return the first matching devices; each is checked once, so none is taken twice by this search."""
        chosen = list[Chosen]()
        is_dedicated = self._allocated.is_dedicated
        for device in self._devices:
            if len(chosen) == asked.count:
                break
            if (asked.admin or not is_dedicated(device.id)) and self._selects(asked, device):
                amounts = self._amounts(asked, device)
                if amounts is not None and asked.tolerates(device):
                    chosen.append(Chosen(asked, device, amounts if device.shared else {}))
        return [chosen] if len(chosen) == asked.count else None

    def _searched(self, budget: int | None) -> list[list[Chosen]] | None:
        stack: list[Choices] = [self._of_claim(0)]
        signal: _TooMany | None = None
        while stack:
            if budget is not None and self.steps > budget:
                raise BudgetExceeded
            self.steps += 1
            try:
                deeper = next(stack[-1]) if signal is None else _thrown(stack[-1], signal)
            except StopIteration:
                stack.pop()
                signal = None
            except _TooMany as too_many:
                stack.pop()
                signal = too_many
            else:
                if deeper is None:
                    return [list(chosen) for chosen in self._chosen]
                signal = None
                stack.append(deeper.choices)
        return None

    def _of_claim(self, claim: int) -> Choices:
        if claim == len(self._asked):
            yield None
            return
        try:
            yield _Next(self._of_request(claim, 0))
        except _TooMany:
            # With other devices for the earlier claims, other ways may be chosen here.
            if claim == 0:
                raise

    def _of_request(self, claim: int, request: int) -> Choices:
        if request == len(self._asked[claim]):
            yield _Next(self._of_claim(claim + 1))
            return
        ways = self._asked[claim][request]
        too_many: _TooMany | None = None
        failed = False
        for asked in ways:
            try:
                yield _Next(self._of_device(claim, request, asked, 0, 0))
            except _TooMany as signal:
                too_many = signal
            else:
                failed = True
        if too_many is not None and not failed:
            raise too_many

    def _of_device(self, claim: int, request: int, asked: Asked, taken: int, begin: int) -> Choices:
        """Choose one more device behind the last one, so that each set of devices is tried once."""
        devices, count = self._devices, self._count_of(asked)
        if asked.all:
            devices, begin = self._all[asked], taken
            if not devices:
                return
        if taken == count:
            yield _Next(self._of_request(claim, request + 1))
            return
        if len(self._chosen[claim]) + count - taken > MAX_RESULTS:
            raise _TooMany
        places = [taken] if asked.all else range(begin, len(devices))
        for place in places:
            self.steps += 1
            if self._take(claim, asked, devices[place]):
                try:
                    yield _Next(self._of_device(claim, request, asked, taken + 1, place + 1))
                finally:
                    self._give_back(claim)

    # -- one device ------------------------------------------------------------------------------------------------

    def _take(self, claim: int, asked: Asked, device: PoolDevice) -> bool:
        """Allocate a device to a claim if possible; AllocationError if a constraint excludes one of all devices."""
        users = self._users.get(device.id, ())
        # Admin access only requires that its own claim does not have the device already.
        in_use = claim in users if asked.admin else users or self._allocated.is_dedicated(device.id)
        if in_use or not self._selects(asked, device):
            return False
        amounts = self._amounts(asked, device)
        if amounts is None or not self._counters_suffice(device) or not asked.tolerates(device):
            return False
        if not self._constraints_allow(claim, asked, device):
            if asked.all:
                why = f"cannot add device {device.id} because a claim constraint would not be satisfied"
                raise asked.problem(why)
            return False
        self._chosen[claim].append(Chosen(asked, device, amounts if device.shared else {}))
        self._count(device, 1)
        if device.shared:
            self._shares.setdefault(device.id, []).append(amounts)
        else:
            self._users.setdefault(device.id, set()).add(claim)
        return True

    def _give_back(self, claim: int) -> None:
        """Take the device back that the claim got last."""
        chosen = self._chosen[claim].pop()
        device = chosen.device
        for constraint in self._constraints[claim]:
            constraint.remove(chosen.asked.request, chosen.asked.subrequest)
        if device.shared:
            self._shares[device.id].pop()
        else:
            self._users[device.id].discard(claim)
        self._count(device, -1)

    def _amounts(self, asked: Asked, device: PoolDevice) -> Amounts | None:
        """Return what the device's capacities would lose; None if they have less left."""
        if not asked.capacity and not device.object.capacity:
            return {}
        amounts = consumed(device.object.capacity, asked.capacity) if asked.capacity else device.default_amounts
        if not amounts:
            return amounts
        in_use = dict(self._allocated.taken(device.id))
        for share in self._shares.get(device.id, ()):
            for name, amount in share.items():
                in_use[name] = in_use.get(name, 0) + amount.nano
        return amounts if fits(device.capacity, in_use, amounts) else None

    def _constraints_of(self, claim: ResourceClaim) -> list[Constraint]:
        constraints = []
        for index, each in enumerate(claim.spec.devices.constraints):
            constraint = made(each)
            if constraint is None:
                text = f"constraint #{index}: empty constraint (unsupported constraint type?)"
                raise AllocationError(f"claim {key_of(claim)}, {text}")
            constraints.append(constraint)
        return constraints

    def _constraints_allow(self, claim: int, asked: Asked, device: PoolDevice) -> bool:
        constraints = self._constraints[claim]
        for index, constraint in enumerate(constraints):
            if not constraint.add(asked.request, asked.subrequest, device):
                for before in constraints[:index]:
                    before.remove(asked.request, asked.subrequest)
                return False
        return True

    # -- counters --------------------------------------------------------------------------------------------------

    def _counters_suffice(self, device: PoolDevice) -> bool:
        """Whether the pool's shared counters suffice; further shares of a device consume nothing more."""
        if not device.consumes or self._takes_nothing_more(device):
            return True
        pool = device.slice.pool
        available, taken = self._left(pool), self._taken(pool)
        needed = device.consumes
        return all(taken.get(counter, 0) + needed.get(counter, 0) <= left for counter, left in available.items())

    def _takes_nothing_more(self, device: PoolDevice) -> bool:
        return device.shared and (self._allocated.is_in_use(device.id) or bool(self._shares.get(device.id)))

    def _taken(self, pool: PoolId) -> dict[tuple[str, str], int]:
        """Return what devices allocated in this search consume of the pool's counters."""
        return self._consumed.setdefault(pool, {})

    def _left(self, id: PoolId) -> dict[tuple[str, str], int]:
        """Return what allocated devices leave of the pool's counters; it may be negative."""
        left = self._available.get(id)
        if left is None:
            pool = self._pools[id]
            left = self._available[id] = dict(pool.counters)
            for device in pool.consumers:
                if self._allocated.is_in_use(device.id):
                    for counter, amount in device.consumes.items():
                        left[counter] -= amount
        return left

    def _count(self, device: PoolDevice, sign: int) -> None:
        """Count the counters of a device that gets its first user, or loses its last."""
        if device.consumes and not self._takes_nothing_more(device):
            taken = self._taken(device.slice.pool)
            for counter, amount in device.consumes.items():
                taken[counter] = taken.get(counter, 0) + sign * amount


def _thrown(choices: Choices, signal: _TooMany) -> _Next | None:
    """Resume choices with a signal instead of a plain failure."""
    assert hasattr(choices, "throw")
    result: _Next | None = choices.throw(signal)
    return result
