"""predicates: a task goes only where kube-scheduler's Filter plugins let it.

Resources are not among them: the actions compare them with what is free now, and with what will be.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np
from pydantic import Field

from kframework import NodeInfo, Status
from kframework.engine import PASS
from kframework_batch.hookspecs import Rows
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, hookimpl
from kframework_batch.session_view import SessionView

#: The core's plugin behind each switch, in kube-scheduler's order.
_SWITCHES = {
    "taint_toleration": "TaintToleration",
    "node_affinity": "NodeAffinity",
    "node_ports": "NodePorts",
    "volume_restrictions": "VolumeRestrictions",
    "node_volume_limits": "NodeVolumeLimits",
    "volume_binding": "VolumeBinding",
    "volume_zone": "VolumeZone",
    "pod_topology_spread": "PodTopologySpread",
    "pod_affinity": "InterPodAffinity",
    "dynamic_resources": "DynamicResources",
}


class PredicatesArguments(BatchArguments):
    """Which Filter plugins are asked; `predicate.CacheEnable` is accepted, since remembered answers need no switch."""

    taint_toleration: bool = Field(True, alias="predicate.TaintTolerationEnable")
    node_affinity: bool = Field(True, alias="predicate.NodeAffinityEnable")
    node_ports: bool = Field(True, alias="predicate.NodePortsEnable")
    volume_restrictions: bool = Field(True, alias="predicate.VolumeRestrictionsEnable")
    node_volume_limits: bool = Field(True, alias="predicate.NodeVolumeLimitsEnable")
    volume_binding: bool = Field(True, alias="predicate.VolumeBindingEnable")
    volume_zone: bool = Field(True, alias="predicate.VolumeZoneEnable")
    pod_topology_spread: bool = Field(True, alias="predicate.PodTopologySpreadEnable")
    pod_affinity: bool = Field(True, alias="predicate.PodAffinityEnable")
    dynamic_resources: bool = Field(True, alias="predicate.DynamicResourceAllocationEnable")
    cache: bool = Field(False, alias="predicate.CacheEnable")


class Predicates(BatchPlugin):
    """Asks the core's Filter plugins."""

    name: ClassVar[str] = "predicates"
    Arguments: ClassVar[type[BatchArguments]] = PredicatesArguments

    arguments: PredicatesArguments

    @property
    def core_filters(self) -> tuple[str, ...]:
        return ("NodeUnschedulable", *(name for switch, name in _SWITCHES.items() if getattr(self.arguments, switch)))

    def sign(self, session: SessionView, task: TaskInfo) -> Hashable | None:
        """Sign the task as the core does, if its memory alone answers."""
        return session.core.sign(task)

    @hookimpl
    def pre_predicate(self, session: SessionView, task: TaskInfo) -> Status | None:
        return None if session.core.cached_answers(task) is not None else session.core.search(task).rejected

    @hookimpl
    def predicate(self, session: SessionView, task: TaskInfo, node: NodeInfo) -> Status | None:
        core = session.core
        memory = core.cached_answers(task)
        if memory is None:
            return core.new_search(task).filter_row(node.row)
        rejection = memory.rejections.cells[node.table.positions[node.row]]
        return None if rejection == PASS else core.new_search(task).status(rejection)

    @hookimpl
    def predicate_nodes(self, session: SessionView, task: TaskInfo, rows: Rows) -> Rows:
        """Filter many nodes; the codes are the core's rejections."""
        memory = session.core.cached_answers(task)
        if memory is None:
            rejections = session.core.search(task).by_row[rows]
        else:
            rejections = memory.rejections.values[session.nodes.positions[rows]]
        return np.where(rejections == PASS, 0, rejections)

    @hookimpl
    def predicate_status(self, session: SessionView, task: TaskInfo, code: int) -> Status:
        core = session.core
        known = core.cached_answers(task) is not None
        return core.new_search(task).status(code) if known else core.search(task).status_of(code)
