"""All slices of the cluster, by the nodes that can access them and by their pools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from kframework.objects import DeviceTaintRule, ResourceSlice
from kframework.plugins.dynamic_resources.pools import Pool, Slices, gather_pools
from kframework.plugins.dynamic_resources.slices import PoolId, SliceView, selects_pool
from kframework.state.log import Log
from kframework.state.nodes import NodeInfo
from kframework.state.objects import ObjectStore, Stores

#: The minimum number of logged changes.
_MIN_LOG_SIZE = 64


class Inventory:
    """The slices, kept current; `log` lists the nodes whose slices change, "" if it may be any node.

    A rule that taints devices changes the slices that have them.
    """

    def __init__(self, slices: ObjectStore[ResourceSlice]) -> None:
        self.log: Log[str] = Log(_MIN_LOG_SIZE)
        #: By the name of the only node that can access them, "" for all others; then by their own names.
        self._by_node: dict[str, dict[str, SliceView]] = {}
        self._by_pool: dict[PoolId, dict[str, SliceView]] = {}
        #: The pools, dropped when one of their slices changes.
        self._pools: dict[PoolId, dict[tuple[Slices, Slices, bool], Pool]] = {}
        self._slices = slices
        self._rules: Iterable[DeviceTaintRule] = ()
        slices.follow(self._on_change)

    @classmethod
    def for_stores(cls, stores: Stores) -> Inventory:
        """Return the inventory of a cluster, with the taints of its rules; all callers share it."""
        inventory, rules = stores.objects(ResourceSlice).index(cls), stores.objects(DeviceTaintRule)
        if inventory._rules is not rules:
            inventory._rules = rules
            rules.follow(inventory._on_rule_change)
        return inventory

    @property
    def all_local(self) -> bool:
        """Whether every slice belongs to one named node."""
        return "" not in self._by_node

    def pools(self, node: NodeInfo) -> list[Pool]:
        """Return the pools that a node can access, in order; AllocationError for an invalid selector."""
        candidates = chain(self._by_node.get(node.name, {}).values(), self._by_node.get("", {}).values())
        return gather_pools(node, candidates, self.pool_slices, self._get_pool)

    @property
    def shared_slices(self) -> Iterator[SliceView]:
        """The slices that are not limited to one named node."""
        return (each for each in self._by_node.get("", {}).values() if not each.access.node_name)

    def pool_slices(self, pool: PoolId) -> Sequence[SliceView]:
        return tuple(self._by_pool.get(pool, {}).values())

    def __iter__(self) -> Iterator[SliceView]:
        return chain.from_iterable(each.values() for each in self._by_node.values())

    def _get_pool(self, id: PoolId, slices: Slices = (), others: Slices = (), *, incomplete: bool = False) -> Pool:
        """Create a pool once for all nodes that can access the same part of it."""
        cached, key = self._pools.setdefault(id, {}), (slices, others, incomplete)
        if key not in cached:
            cached[key] = Pool(id, slices, others, incomplete=incomplete)
        return cached[key]

    def _on_change(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None:
            pool = PoolId(old.spec.driver, old.spec.pool.name)
            removed = self._by_pool[pool].pop(old.metadata.name)
            if not self._by_pool[pool]:
                del self._by_pool[pool]
            del self._by_node[removed.node_name][removed.name]
            if not self._by_node[removed.node_name]:
                del self._by_node[removed.node_name]
            self._log_change(removed)
        if new is not None:
            view = SliceView(new, self._rules)
            self._by_node.setdefault(view.node_name, {})[view.name] = view
            self._by_pool.setdefault(view.pool, {})[view.name] = view
            self._log_change(view)

    def _on_rule_change(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        changed = [rule for rule in (old, new) if rule is not None]
        for each in self._slices:
            pool = PoolId(each.spec.driver, each.spec.pool.name)
            if any(selects_pool(rule, pool) for rule in changed):
                self._on_change(each, each)

    def _log_change(self, view: SliceView) -> None:
        """Log the affected nodes: a slice of one node may complete or replace the pool of others."""
        self._pools.pop(view.pool, None)
        self.log.limit = max(_MIN_LOG_SIZE, len(self._by_node))
        is_only_node = all(each.node_name == view.node_name for each in self.pool_slices(view.pool))
        self.log.append(view.node_name if is_only_node else "")
