"""An estimate of the nodes that pods need, by their requests, selectors and tolerations alone.

As many times as it can, a plan takes the node that holds the most pods for its price, each pod counted by its largest
share of a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import chain, combinations, islice
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kframework.objects import Node
from kframework.objects.node_selectors import required_node_affinity
from kframework.objects.requests import allocatable
from kframework.objects.taints import first_untolerated
from kframework.state.pod_templates import PodTemplate, Requests
from kframework.state.pods import PodInfo

#: The number of plans that are compared.
_MIXES = 64


class _PodClass(NamedTuple):
    """What counts of a pod: its requests, and the positions of the shapes that admit it."""

    requests: Requests
    shapes: frozenset[int]


def estimate_nodes(
    shapes: Sequence[Node],
    prices: Sequence[float],
    pods: Sequence[PodInfo],
    useless: Container[tuple[PodTemplate, int]],
) -> Counter[int]:
    """Return how many nodes of each shape, by its position, pods need; `useless` shapes do not help a template."""
    return _Estimate(shapes, prices, pods, useless).nodes() if pods and shapes else Counter()


class _Estimate:
    """The pods, in classes of those with the same requests that the same shapes admit, and what nodes offer them.

    The arrays are int64: `_demand` (classes x resources), `_offer` (shapes x resources), amounts in the units of
    requests.
    """

    def __init__(
        self,
        shapes: Sequence[Node],
        prices: Sequence[float],
        pods: Sequence[PodInfo],
        useless: Container[tuple[PodTemplate, int]],
    ) -> None:
        self._prices = prices
        counts = Counter[_PodClass]()
        for template, count in Counter(pod.template for pod in pods).items():
            admitting = frozenset(
                position
                for position, shape in enumerate(shapes)
                if (template, position) not in useless and _admits(shape, template)
            )
            counts[_PodClass(template.fit, admitting)] += count
        self._classes = list(counts)
        self._counts = list(counts.values())
        resources = list(dict.fromkeys(name for each in counts for name, _ in (*each.requests, ("pods", 1))))
        self._demand = _table([dict(each.requests) | {"pods": 1} for each in counts], resources)
        self._offer = _table([allocatable(_with_allocatable(shape)) for shape in shapes], resources)
        largest = np.maximum(self._offer.max(axis=0, initial=0), 1)
        #: The largest share of a node that a pod of each class takes.
        self._sizes = (self._demand / largest).max(axis=1, initial=0.0)
        self._order = np.argsort(-self._sizes, kind="stable").tolist()

    def nodes(self) -> Counter[int]:
        """Return the cheapest of several plans: with all shapes at once, or with one or two of them first."""
        shapes = range(len(self._prices))
        mixes = islice(chain([shapes], combinations(shapes, 1), combinations(shapes, 2)), _MIXES)
        return min(map(self._plan, mixes), key=self._price)

    def _price(self, planned: Counter[int]) -> float:
        return sum(self._prices[shape] * count for shape, count in planned.items())

    def _plan(self, preferred: Sequence[int]) -> Counter[int]:
        """Plan nodes of these shapes, and of the others for pods that they do not admit."""
        planned, left = Counter[int](), list(self._counts)
        for shapes in (preferred, range(len(self._prices))):
            while fills := [(shape, fill) for shape in shapes if (fill := self._fill(shape, left))]:
                shape, fill = min(fills, key=lambda each: self._prices[each[0]] / self._value(each[1]))
                times = min(left[index] // number for index, number in fill.items())
                planned[shape] += times
                for index, number in fill.items():
                    left[index] -= times * number
        return planned

    def _fill(self, shape: int, left: Sequence[int]) -> dict[int, int]:
        """Return the pods that fill a node, the largest first: their number by class."""
        free, fill = self._offer[shape].copy(), dict[int, int]()
        for index in self._order:
            if left[index] and shape in self._classes[index].shapes:
                demand = self._demand[index]
                needed = demand > 0
                number = min(left[index], int((free[needed] // demand[needed]).min()))
                if number > 0:
                    fill[index] = number
                    free -= number * demand
        return fill

    def _value(self, fill: Mapping[int, int]) -> float:
        return max(float(sum(self._sizes[index] * number for index, number in fill.items())), 1e-9)


def _table(rows: Sequence[Mapping[str, int]], resources: Sequence[str]) -> NDArray[np.int64]:
    return np.array([[row.get(name, 0) for name in resources] for row in rows], np.int64).reshape(-1, len(resources))


def _admits(shape: Node, template: PodTemplate) -> bool:
    """Return whether labels and taints of nodes of a shape allow pods of a template."""
    affinity = template.cached("capacity affinity", required_node_affinity)
    matches = affinity is None or affinity(shape.metadata.labels, shape.metadata.name)
    taint = first_untolerated(shape.spec.taints, template.spec.tolerations, ("NoSchedule", "NoExecute"))
    return matches and taint is None


def _with_allocatable(shape: Node) -> Node:
    return replace(shape, status=replace(shape.status, allocatable=shape.status.allocatable or shape.status.capacity))
