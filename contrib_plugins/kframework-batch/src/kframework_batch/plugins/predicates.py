"""predicates: a task goes only where kube-scheduler's Filter plugins let it.

Resources are not among them: the actions compare them with what is free now, and with what will be.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from kframework import Status
from kframework.engine import PASS
from kframework_batch.hookspecs import Rows
from kframework_batch.plugin import BatchArguments, BatchPlugin, hookimpl

if TYPE_CHECKING:
    from kframework import NodeInfo
    from kframework_batch.session import Session
    from kframework_batch.task import TaskInfo

#: The core's plugin behind each switch, in kube-scheduler's order.
_SWITCHES = {
    "taint_toleration": "TaintToleration",
    "node_affinity": "NodeAffinity",
    "node_ports": "NodePorts",
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
    def filters(self) -> tuple[str, ...]:
        """The core's plugins to be asked, in order."""
        return ("NodeUnschedulable", *(name for switch, name in _SWITCHES.items() if getattr(self.arguments, switch)))

    def sign(self, session: Session, task: TaskInfo) -> Hashable | None:
        """Sign the task as the core does, if its memory alone answers."""
        return session.core.signature(task) if session.core.remembers(task) else None

    @hookimpl
    def pre_predicate(self, session: Session, task: TaskInfo) -> Status | None:
        """Say what PreFilter has against the task as a whole."""
        if session.core.remembers(task):
            return None
        return session.core.survey(task).rejected

    @hookimpl
    def predicate(self, session: Session, task: TaskInfo, node: NodeInfo) -> Status | None:
        """Ask about one node."""
        core = session.core
        if not core.remembers(task):
            return core.ask(task).ask(node.row)
        top = core.plan(task).cache
        rejection = PASS if top is None else top.rejections.cells[node.row]
        return None if rejection == PASS else core.ask(task).status(rejection)

    @hookimpl
    def predicate_nodes(self, session: Session, task: TaskInfo, rows: Rows) -> Rows:
        """Ask about many nodes; the codes are the core's rejections."""
        core = session.core
        top = core.plan(task).cache if core.remembers(task) else None
        rejections = core.survey(task).by_row if top is None else top.rejections.values
        return np.where(rejections[rows] == PASS, 0, rejections[rows])

    @hookimpl
    def predicate_status(self, session: Session, task: TaskInfo, code: int) -> Status:
        """Put a rejection into words."""
        core = session.core
        return core.ask(task).status(code) if core.remembers(task) else core.survey(task).words(code)
