"""All slices of the cluster, by the nodes that can reach them and by the pools that they are parts of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from kframework.objects import ResourceSlice
from kframework.plugins.dynamic_resources.pools import Pool, gather
from kframework.plugins.dynamic_resources.slices import PoolId, SliceView
from kframework.state.nodes import NodeInfo
from kframework.state.objects import ObjectStore


class Inventory:
    """The slices, kept current; `version` grows with every change of one."""

    def __init__(self, slices: ObjectStore[ResourceSlice]) -> None:
        self.version: int = 0
        #: By the name of the only node that reaches them, "" for all others; then by their own names.
        self._by_node: dict[str, dict[str, SliceView]] = {}
        self._by_pool: dict[PoolId, dict[str, SliceView]] = {}
        slices.follow(self._changed)

    def pools(self, node: NodeInfo) -> list[Pool]:
        """Gather the pools that a node can reach, in order; AllocationError for a selector that cannot be read."""
        return gather(node, self._candidates(node.name), self.of_pool)

    def of_pool(self, pool: PoolId) -> Sequence[SliceView]:
        """Return all slices of a pool, of whatever generation."""
        return tuple(self._by_pool.get(pool, {}).values())

    def _candidates(self, node_name: str) -> Iterable[SliceView]:
        return chain(self._by_node.get(node_name, {}).values(), self._by_node.get("", {}).values())

    def _changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        self.version += 1
        if old is not None:
            self._drop(SliceView(old))
        if new is not None:
            view = SliceView(new)
            self._by_node.setdefault(view.node_name, {})[view.name] = view
            self._by_pool.setdefault(view.pool, {})[view.name] = view

    def _drop(self, view: SliceView) -> None:
        del self._by_node[view.node_name][view.name]
        if not self._by_node[view.node_name]:
            del self._by_node[view.node_name]
        del self._by_pool[view.pool][view.name]
        if not self._by_pool[view.pool]:
            del self._by_pool[view.pool]

    def __repr__(self) -> str:
        return f"<Inventory {sum(map(len, self._by_node.values()))} slices of {len(self._by_pool)} pools>"
