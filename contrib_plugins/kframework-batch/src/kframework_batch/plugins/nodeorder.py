"""nodeorder: scores nodes by kube-scheduler's Score plugins."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from kframework import NodeInfo, PluginError, Status
from kframework_batch.hookspecs import Rows
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, hookimpl
from kframework_batch.session_view import SessionView

#: The core's plugin behind each weight.
_WEIGHTS = {
    "tainttoleration": "TaintToleration",
    "nodeaffinity": "NodeAffinity",
    "leastrequested": "NodeResourcesFit",
    "mostrequested": "MostAllocated",
    "podtopologyspread": "PodTopologySpread",
    "podaffinity": "InterPodAffinity",
    "balancedresource": "NodeResourcesBalancedAllocation",
    "imagelocality": "ImageLocality",
}


class NodeOrderArguments(BatchArguments):
    """What each Score plugin weighs; 0 leaves it out."""

    leastrequested: int = Field(1, alias="leastrequested.weight", ge=0)
    mostrequested: int = Field(0, alias="mostrequested.weight", ge=0)
    nodeaffinity: int = Field(2, alias="nodeaffinity.weight", ge=0)
    podaffinity: int = Field(2, alias="podaffinity.weight", ge=0)
    balancedresource: int = Field(1, alias="balancedresource.weight", ge=0)
    tainttoleration: int = Field(3, alias="tainttoleration.weight", ge=0)
    imagelocality: int = Field(1, alias="imagelocality.weight", ge=0)
    podtopologyspread: int = Field(2, alias="podtopologyspread.weight", ge=0)


class NodeOrder(BatchPlugin):
    """Asks the core's Score plugins.

    Where the core's memory answers, scores that are the same on all nodes once normalised are left out: they decide
    nothing.
    """

    name: ClassVar[str] = "nodeorder"
    Arguments: ClassVar[type[BatchArguments]] = NodeOrderArguments

    arguments: NodeOrderArguments

    @property
    def core_scores(self) -> Mapping[str, int]:
        weights = {name: int(getattr(self.arguments, argument)) for argument, name in _WEIGHTS.items()}
        return {name: weight for name, weight in weights.items() if weight}

    def sign(self, session: SessionView, task: TaskInfo) -> Hashable | None:
        """Sign the task as the core does, if its memory alone answers."""
        return session.core.sign(task)

    @hookimpl
    def node_order(self, session: SessionView, task: TaskInfo, node: NodeInfo) -> float:
        memory = session.core.cached_answers(task)
        if memory is not None:
            return float(memory.totals.cells[node.table.positions[node.row]])
        return float(self.node_order_nodes(session, task, np.array([node.row]))[0])

    @hookimpl
    def node_order_nodes(self, session: SessionView, task: TaskInfo, rows: Rows) -> NDArray[np.float64]:
        """Score many nodes; PluginError for what a Score plugin did wrong."""
        memory = session.core.cached_answers(task)
        if memory is not None:
            return memory.totals.values[session.nodes.positions[rows]].astype(np.float64)
        totals = session.core.search(task).score(rows)
        if isinstance(totals, Status):
            raise PluginError(totals.message, plugin=totals.plugin, hook="score")
        return totals.astype(np.float64)
