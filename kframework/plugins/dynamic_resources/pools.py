"""The pools of devices that a node can access, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from kframework.objects.label_selectors import SelectorError
from kframework.objects.quantity import nano
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.slices import Counters, PoolDevice, PoolId, SliceView
from kframework.state.nodes import NodeInfo

#: All slices of a pool, of any generation.
SlicesOf = Callable[[PoolId], Sequence[SliceView]]
Slices = tuple[SliceView, ...]
#: Creates a pool from the slices that a node can access and those that only others can.
PoolFactory = Callable[..., "Pool"]


class Pool:
    """The part of a pool that a node can access.

    `devices` are those that may be allocated, in order; `counters` are shared by the whole pool, in nanos, and
    `consumers` are the devices that consume them, on any node. Nothing is allocated from a pool that is `incomplete`,
    because its driver is still publishing it, or has an error (`error`).
    """

    def __init__(
        self,
        id: PoolId,
        slices: Slices = (),
        others: Slices = (),
        *,
        incomplete: bool = False,
    ) -> None:
        self.id: PoolId = id
        self.incomplete: bool = incomplete
        #: Whether only one node can access it, and whether access differs by device.
        self.local: bool = all(each.node_name for each in slices)
        self.per_device: bool = any(each.per_device for each in slices)
        ordered = sorted(slices, key=lambda each: each.name)
        self.devices: tuple[PoolDevice, ...] = tuple(chain.from_iterable(each.devices for each in ordered))
        consumers = chain(self.devices, chain.from_iterable(each.devices for each in others))
        self.consumers: tuple[PoolDevice, ...] = tuple(
            device for device in consumers if device.object.consumes_counters
        )
        self.counters: Counters = {
            (shared.name, name): nano(counter.value)
            for each in ordered
            for shared in each.counter_sets
            for name, counter in shared.counters.items()
        }
        #: Whether some device has binding conditions: such pools are tried last.
        self.has_binding_conditions: bool = any(device.object.binding_conditions for device in self.devices)
        self.error: str = "" if incomplete else _find_error(self, ordered)

    @property
    def is_usable(self) -> bool:
        """Whether devices may be allocated from it."""
        return not (self.incomplete or self.error)


def gather_pools(
    node: NodeInfo, candidates: Iterable[SliceView], slices_of: SlicesOf, create: PoolFactory = Pool
) -> list[Pool]:
    """Return the pools of these slices that a node can access; AllocationError for an invalid selector.

    Only the latest generation of a pool counts. One that is being replaced is omitted; one with missing slices is
    incomplete.
    """
    by_pool: dict[PoolId, list[SliceView]] = {}
    for each in candidates:
        if _is_accessible(each, node):
            known = by_pool.setdefault(each.pool, [])
            if known and each.generation > known[0].generation:
                known.clear()
            if not known or each.generation == known[0].generation:
                known.append(each)
    pools = filter(None, (_create_pool(id, tuple(slices), slices_of, create) for id, slices in sorted(by_pool.items())))
    return sorted(pools, key=lambda pool: pool.has_binding_conditions)


def _is_accessible(each: SliceView, node: NodeInfo) -> bool:
    try:
        return each.is_accessible_from(node)
    except SelectorError as error:
        raise AllocationError(
            f"gather pool information: failed to perform node selection for slice {each.name}: {error}"
        ) from error


def _create_pool(id: PoolId, slices: Slices, slices_of: SlicesOf, create: PoolFactory) -> Pool | None:
    """Return the part of a pool that a node can access; None for one whose driver is replacing it."""
    expected, generation = slices[0].slices_in_pool, slices[0].generation
    if len(slices) == expected:
        return create(id, slices)
    all_slices = slices_of(id)
    if any(each.generation > generation for each in all_slices):
        return None
    current = [each for each in all_slices if each.generation == generation]
    if len(current) != expected:
        return create(id, incomplete=True)
    accessible = frozenset(slices)
    return create(id, slices, tuple(each for each in current if each not in accessible))


def _find_error(pool: Pool, slices: Iterable[SliceView]) -> str:
    names = set[str]()
    for device in pool.devices:
        if device.id.device in names:
            return f"duplicate device name {device.id.device}"
        names.add(device.id.device)
    sets = set[str]()
    for shared in chain.from_iterable(each.counter_sets for each in slices):
        if shared.name in sets:
            return f"duplicate counter set name {shared.name}"
        sets.add(shared.name)
    for device in pool.consumers:
        for counter_set, counter in device.consumes:
            if counter_set not in sets:
                return f"counter set {counter_set} not found"
            if (counter_set, counter) not in pool.counters:
                return f"counter {counter} not found in counter set {counter_set}"
    return ""
