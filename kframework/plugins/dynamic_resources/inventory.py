"""All slices of the cluster, by the nodes that can reach them and by the pools that they are parts of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from kframework.objects import ResourceSlice
from kframework.plugins.dynamic_resources.pools import Pool, Slices, gather
from kframework.plugins.dynamic_resources.slices import PoolId, SliceView
from kframework.state.log import Log
from kframework.state.nodes import NodeInfo
from kframework.state.objects import ObjectStore

#: The minimum number of logged changes.
_FEWEST = 64


class Inventory:
    """The slices, kept current; `log` lists the nodes whose slices change, "" if it may be any node."""

    def __init__(self, slices: ObjectStore[ResourceSlice]) -> None:
        self.log: Log[str] = Log(_FEWEST)
        #: By the name of the only node that reaches them, "" for all others; then by their own names.
        self._by_node: dict[str, dict[str, SliceView]] = {}
        self._by_pool: dict[PoolId, dict[str, SliceView]] = {}
        #: The pools that were gathered since a slice of theirs changed.
        self._made: dict[PoolId, dict[tuple[Slices, Slices, bool], Pool]] = {}
        slices.follow(self._changed)

    @property
    def all_local(self) -> bool:
        """Whether every slice belongs to one named node."""
        return "" not in self._by_node

    def pools(self, node: NodeInfo) -> list[Pool]:
        """Return the pools that a node can access, in order; AllocationError for an invalid selector."""
        candidates = chain(self._by_node.get(node.name, {}).values(), self._by_node.get("", {}).values())
        return gather(node, candidates, self.of_pool, self._pool)

    @property
    def for_many(self) -> Iterator[SliceView]:
        """The slices that do not name the only node that reaches them."""
        return (each for each in self._by_node.get("", {}).values() if not each.reach.node_name)

    def of_pool(self, pool: PoolId) -> Sequence[SliceView]:
        """Return all slices of a pool, of any generation."""
        return tuple(self._by_pool.get(pool, {}).values())

    def __iter__(self) -> Iterator[SliceView]:
        return chain.from_iterable(each.values() for each in self._by_node.values())

    def _pool(self, id: PoolId, slices: Slices = (), others: Slices = (), *, incomplete: bool = False) -> Pool:
        """Make a pool once for all nodes that reach the same of it."""
        made, key = self._made.setdefault(id, {}), (slices, others, incomplete)
        if key not in made:
            made[key] = Pool(id, slices, others, incomplete=incomplete)
        return made[key]

    def _changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None:
            pool = PoolId(old.spec.driver, old.spec.pool.name)
            gone = self._by_pool[pool].pop(old.metadata.name)
            if not self._by_pool[pool]:
                del self._by_pool[pool]
            del self._by_node[gone.node_name][gone.name]
            if not self._by_node[gone.node_name]:
                del self._by_node[gone.node_name]
            self._note(gone)
        if new is not None:
            view = SliceView(new)
            self._by_node.setdefault(view.node_name, {})[view.name] = view
            self._by_pool.setdefault(view.pool, {})[view.name] = view
            self._note(view)

    def _note(self, view: SliceView) -> None:
        """Log the affected nodes: a slice of one node may complete or replace the pool of others."""
        self._made.pop(view.pool, None)
        self.log.limit = max(_FEWEST, len(self._by_node))
        alone = all(each.node_name == view.node_name for each in self.of_pool(view.pool))
        self.log.append(view.node_name if alone else "")
