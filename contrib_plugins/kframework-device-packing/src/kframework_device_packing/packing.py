"""DeviceBinPacking: allocate devices where whole ones, and large partitions, stay free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar, NamedTuple
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
    Chosen,
    DeviceId,
    Placement,
    Pool,
    asks_for_devices,
    measured,
)
from kframework_device_packing.cards import Card, cards_by_device, cards_of

#: A raw score is made of two numbers, the second of which takes so many bits: OPEN times the devices of all pools.
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
        return None if asks_for_devices(state) else Skip

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return int(measured(self.damage, state, node.table, np.array([node.row]))[0])

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return measured(self.damage, state, nodes, rows)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        # Raw scores say which node is better, not by how much: spread their ranks evenly over 0..100.
        ordered = np.sort(scores)
        distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])]  # np.unique takes twenty times as long
        if len(distinct) == 1:
            return 0
        ranks: Scores = np.searchsorted(distinct, scores)
        return ranks * MAX_SCORE // (len(distinct) - 1)

    def damage(self, placement: Placement) -> int:
        """Return the raw score of a placement: nothing is best, and the more is lost the less it is."""
        lost = left = 0
        chosen = [each for of_claim in placement.chosen for each in of_claim if not each.asked.admin]
        concerned = {each.device.slice.pool for each in chosen}
        for pool in placement.pools:
            if pool.id not in concerned:
                continue
            cards = self._cards_of(pool)
            of_card = defaultdict[int, list[Chosen]](list)
            for each in chosen:
                if each.device.slice.pool == pool.id:
                    of_card[cards.by_device[each.device.id]].append(each)
            for place, card in enumerate(cards.all):
                taken = of_card.get(place, ())
                after = card.openness(placement.allocated, taken)
                left += after
                if taken:
                    lost += card.openness(placement.allocated, ()) - after
        return -(lost << _BITS) - left

    def _cards_of(self, pool: Pool) -> _Cards:
        known = self._cards.get(pool)
        if known is None:
            cards = tuple(cards_of(pool))
            known = self._cards[pool] = _Cards(cards, cards_by_device(cards))
        return known
