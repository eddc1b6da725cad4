"""DeviceBinPacking: allocate devices where whole ones, and large partitions, stay free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from kframework import (
    MAX_SCORE,
    CycleState,
    Handle,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    Rows,
    Scores,
    Skip,
    Status,
    hookimpl,
)
from kframework.plugins.dynamic_resources.placements import (
    Allocations,
    ChosenDevice,
    DeviceId,
    DevicePlacement,
    Pool,
    PoolDevice,
    measure_rows,
    requests_devices,
)

#: The openness of an untouched card.
MAX_OPENNESS = 10_000

#: What a device takes of each counter of its card.
CounterNeeds = tuple[int, ...]


class Card(Protocol):
    """What can be taken as a whole or in parts."""

    devices: Sequence[PoolDevice]

    def openness(self, allocated: Allocations, chosen: Collection[ChosenDevice]) -> int:
        """Return how open it is, without its allocated devices and these: 0 to OPEN."""
        ...


class Shape(NamedTuple):
    """What cards of one make have in common: their counters, and by size which devices take how much of these.

    A device is known by its place on the card.
    """

    counters: CounterNeeds
    kinds: tuple[tuple[tuple[int, CounterNeeds], ...], ...]


@lru_cache(maxsize=1 << 14)
def openness(shape: Shape, taken: int) -> int:
    """Return how open a card is with some devices taken, a bit for each.

    For each size: how many devices of it could still be allocated side by side, as a share of how many could be on an
    untouched card. The mean of the sizes counts.
    """
    left = list(shape.counters)
    for kind in shape.kinds:
        for index, needs in kind:
            if taken >> index & 1:
                left = [amount - need for amount, need in zip(left, needs, strict=True)]
    shares = [
        MAX_OPENNESS * _count_disjoint(kind, left, taken) // most
        for kind in shape.kinds
        if (most := _count_disjoint(kind, shape.counters, 0))
    ]
    return sum(shares) // len(shares) if shares else 0


def _count_disjoint(kind: Sequence[tuple[int, CounterNeeds]], left: Sequence[int], taken: int) -> int:
    """Count devices of a size that can be had at the same time, each as soon as its turn comes."""
    number = 0
    for index, needs in kind:
        if not taken >> index & 1 and all(need <= amount for need, amount in zip(needs, left, strict=True)):
            left = [amount - need for amount, need in zip(left, needs, strict=True)]
            number += 1
    return number


class DividedCard(Card):
    """A card that is allocated as a whole, or cut up as its counters allow."""

    def __init__(self, devices: Sequence[PoolDevice], counters: Mapping[tuple[str, str], int]) -> None:
        self.devices = devices
        names = sorted({name for device in devices for name in device.consumes})
        totals = tuple(counters[name] for name in names)
        kinds: dict[int, list[tuple[int, CounterNeeds]]] = {}
        for index, device in enumerate(devices):
            needs = tuple(device.consumes.get(name, 0) for name in names)
            # How much of the card a device takes: the sum of its shares of all counters.
            size = sum(MAX_OPENNESS * need // total for need, total in zip(needs, totals, strict=True) if total)
            kinds.setdefault(size, []).append((index, needs))
        self.shape: Shape = Shape(totals, tuple(map(tuple, kinds.values())))

    def openness(self, allocated: Allocations, chosen: Collection[ChosenDevice]) -> int:
        new, taken = {each.device.id for each in chosen}, 0
        for index, device in enumerate(self.devices):
            if device.id in new or allocated.is_in_use(device.id):
                taken |= 1 << index
        return openness(self.shape, taken)


class SingleCard(Card):
    """A device that goes to one claim."""

    def __init__(self, device: PoolDevice) -> None:
        self.devices = (device,)

    def openness(self, allocated: Allocations, chosen: Collection[ChosenDevice]) -> int:
        return 0 if chosen or allocated.is_in_use(self.devices[0].id) else MAX_OPENNESS


class SharedCard(Card):
    """A device that several claims share: as open as its scarcest capacity."""

    def __init__(self, device: PoolDevice) -> None:
        self.devices = (device,)

    def openness(self, allocated: Allocations, chosen: Collection[ChosenDevice]) -> int:
        device, lowest = self.devices[0], MAX_OPENNESS
        taken = allocated.consumed_capacity(device.id)
        for name, amount in device.capacity.items():
            new = sum(each.amounts[name].nano for each in chosen if name in each.amounts)
            if amount:
                lowest = min(lowest, MAX_OPENNESS * (amount - taken.get(name, 0) - new) // amount)
        return lowest


def cards_of(pool: Pool) -> Iterator[Card]:
    """Find out which devices of a pool are one card: those that take of the same counters."""
    by_counters: dict[frozenset[str], list[PoolDevice]] = {}
    for device in pool.consumers:
        by_counters.setdefault(frozenset(name for name, _ in device.consumes), []).append(device)
    for devices in by_counters.values():
        yield DividedCard(devices, pool.counters)
    for device in pool.devices:
        if not device.consumes:
            yield SharedCard(device) if device.shared else SingleCard(device)


#: A raw score is made of two numbers, the second of this many bits: OPEN times the devices of all pools.
_BITS = 32


class _Cards(NamedTuple):
    """The cards of a pool, and which one each device belongs to."""

    all: Sequence[Card]
    by_device: Mapping[DeviceId, int]


class DeviceBinPacking(Plugin[PluginArgs]):
    """Score nodes such that whole devices, and large partitions of devices, stay free.

    For a pod whose claims are still to be allocated two things count, one after the other: how much less open the
    cards become from which its devices are taken (less is better), and how open all cards of their pools are then
    (less is better: what is partly used is used up first).
    """

    name: ClassVar[str] = "DeviceBinPacking"
    reads = "pods"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._cards: WeakKeyDictionary[Pool, _Cards] = WeakKeyDictionary()

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        # The devices of the cluster are nothing of the node; pods without claims or extended resources get none.
        may_ask = pod.spec.resource_claims or any("/" in resource for resource, _ in pod.on_node)
        return None if may_ask else ""

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        return None if requests_devices(state) else Skip

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return int(measure_rows(self.raw_score, state, node.table, np.array([node.row]))[0])

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return measure_rows(self.raw_score, state, nodes, rows)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        # Raw scores show which node is better, not by how much: spread their ranks evenly over 0..100.
        ordered = np.sort(scores)
        distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])]  # np.unique takes twenty times as long
        if len(distinct) == 1:
            return 0
        ranks: Scores = np.searchsorted(distinct, scores)
        return ranks * MAX_SCORE // (len(distinct) - 1)

    def raw_score(self, placement: DevicePlacement) -> int:
        """Return the raw score of a placement: nothing is best, and the more is lost the less it is."""
        lost = left = 0
        chosen = [each for of_claim in placement.chosen for each in of_claim if not each.option.admin]
        pools = {each.device.slice.pool for each in chosen}
        for pool in placement.pools:
            if pool.id not in pools:
                continue
            cards = self._cards_of(pool)
            of_card = defaultdict[int, list[ChosenDevice]](list)
            for each in chosen:
                if each.device.slice.pool == pool.id:
                    of_card[cards.by_device[each.device.id]].append(each)
            for index, card in enumerate(cards.all):
                taken = of_card.get(index, ())
                after = card.openness(placement.allocated, taken)
                left += after
                if taken:
                    lost += card.openness(placement.allocated, ()) - after
        return -(lost << _BITS) - left

    def _cards_of(self, pool: Pool) -> _Cards:
        cards = self._cards.get(pool)
        if cards is None:
            all_cards = tuple(cards_of(pool))
            by_device = {device.id: index for index, card in enumerate(all_cards) for device in card.devices}
            cards = self._cards[pool] = _Cards(all_cards, by_device)
        return cards
