"""What an agent sees of nodes and pods: amounts of resources, as numbers from 0 to 1.

An environment and a Score plugin compute them in the same way, so a trained scorer meets the numbers of its training.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kframework.errors import InputError
from kframework.objects import Node, NodeStatus, RawQuantity
from kframework.objects.requests import allocatable
from kframework.state.nodes import NodeTable
from kframework.state.pods import PodInfo
from kframework.values.scores import Rows


class Features:
    """The resources that an agent sees, with the amount of each that becomes 1; what exceeds it becomes 1, too.

    The amounts are quantities, such as `{"cpu": 64, "memory": "256Gi", "pods": 110}`. Raises InputError for an amount
    that is not positive, and for an unknown resource.

    Attributes:
        resources: the resources, in the order of all columns.
    """

    def __init__(self, amounts: Mapping[str, RawQuantity]) -> None:
        ones = allocatable(Node(status=NodeStatus(allocatable=dict(amounts))))
        if unusable := [name for name in amounts if ones.get(name, 0) <= 0]:
            raise InputError(f"features: {unusable[0]}: write a resource with a positive amount, such as cpu: 64")
        self.resources: tuple[str, ...] = tuple(amounts)
        self._ones = np.array([ones[name] for name in self.resources], np.float64)

    def encode_nodes(self, nodes: NodeTable, rows: Rows) -> NDArray[np.float32]:
        """Return a line for each row: the allocatable amount of each resource, then the free amount of each."""
        offered = np.stack([nodes.allocatable(name)[rows] for name in self.resources], axis=1)
        requested = np.stack([nodes.requested(name)[rows] for name in self.resources], axis=1)
        return np.hstack([self._scaled(offered), self._scaled(offered - requested)])

    def encode_pod(self, pod: PodInfo) -> NDArray[np.float32]:
        """Return the amount of each resource that a pod requests; of `pods` it is one."""
        requests = {"pods": 1, **dict(pod.template.fit)}
        return self._scaled(np.array([requests.get(name, 0) for name in self.resources]))

    def _scaled(self, amounts: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.clip(amounts / self._ones, 0.0, 1.0).astype(np.float32)
