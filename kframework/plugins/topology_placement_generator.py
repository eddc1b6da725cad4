"""TopologyPlacementGenerator: all pods of a PodGroup run on nodes with the same value of a label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kframework.framework.answers import GroupPlacement
from kframework.framework.events import ActionType, ClusterEvent, EventResource
from kframework.framework.plugin import Plugin, hookimpl
from kframework.objects import GenericPodGroup
from kframework.state.nodes import NodeTable
from kframework.state.topology import Topology
from kframework.values.status import Code, Status

_UNCLEAR = "cannot determine domain for already scheduled pods"


class TopologyPlacementGenerator(Plugin):
    """List the nodes of each domain of the group's topology constraint, or of the one where it has pods already."""

    name = "TopologyPlacementGenerator"

    @hookimpl
    def placement_generate(self, group: GenericPodGroup, nodes: NodeTable) -> Sequence[GroupPlacement] | Status | None:
        """List the domains by name."""
        constraints = group.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return None
        topology = nodes.label(constraints.topology[0].key)
        domains = self._domains_of_scheduled(group, nodes, topology)
        if isinstance(domains, Status):
            return domains
        order = nodes.order
        codes = topology.values[order]
        by_domain = order[np.argsort(codes, kind="stable")]
        found, starts = np.unique(np.sort(codes), return_index=True)
        rows = dict(zip(found.tolist(), np.split(by_domain, starts[1:]), strict=True)) if len(order) else {}
        placements = [
            GroupPlacement(name, rows[code])
            for code in rows
            if (name := topology.meanings[code]) is not None and name in (domains or (name,))
        ]
        return sorted(placements, key=lambda placement: placement.name)

    def _domains_of_scheduled(self, group: GenericPodGroup, nodes: NodeTable, topology: Topology) -> list[str] | Status:
        """Return the domain of the group's pods with nodes, none without such pods; an error if it is not one."""
        domains: dict[str, None] = {}
        for uid in self.handle.pod_groups.scheduled(group):
            pod = self.handle.pods[uid]
            row = nodes.row(pod.node_name)
            if row is None:
                return _error(f'getting node for pod {pod.key}: nodeinfo not found for node name "{pod.node_name}"')
            domain = topology.meanings[topology.cells[row]]
            if domain is None:
                return _error(f"no topology domain found for pod {pod.key}")
            domains[domain] = None
        if len(domains) > 1:
            return _error(f"more than 1 domain found for pod group: {', '.join(sorted(domains))}")
        return list(domains)

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)]


def _error(problem: str) -> Status:
    return Status(Code.ERROR, (f"{_UNCLEAR}: {problem}",))
