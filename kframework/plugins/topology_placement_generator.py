"""TopologyPlacementGenerator: all pods of a PodGroup run on nodes with the same value of a label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kframework.framework.answers import GroupPlacement
from kframework.framework.events import ActionType, ClusterEvent, EventResource
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, PluginArgs, hookimpl
from kframework.objects import GenericPodGroup
from kframework.state.log import LogReader
from kframework.state.nodes import NodeTable
from kframework.state.topology import Topology
from kframework.values.status import Code, Status

#: How many labels have their domains remembered.
_MAX_KEYS = 16

_UNCLEAR = "cannot determine domain for already scheduled pods"


class TopologyPlacementGenerator(Plugin):
    """List the nodes of each domain of the group's topology constraint, or of the one where it has pods already."""

    name = "TopologyPlacementGenerator"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._changes: LogReader[int] | None = None
        self._order: NDArray[np.int64] | None = None
        #: The domains of some labels, at most `_MAX_KEYS`.
        self._by_key: dict[str, Sequence[GroupPlacement]] = {}

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
        placements = self._placements(nodes, topology)
        return [each for each in placements if each.name in domains] if domains else placements

    def _placements(self, nodes: NodeTable, topology: Topology) -> Sequence[GroupPlacement]:
        """List the domains of a label by name; they last until a node changes."""
        if self._changes is None:
            self._changes = nodes.node_log.reader()
        if self._changes.read_new() != [] or nodes.order is not self._order:
            self._by_key.clear()
            self._order = nodes.order
        known = self._by_key.get(topology.key)
        if known is None:
            if len(self._by_key) == _MAX_KEYS:
                self._by_key.clear()
            known = self._by_key[topology.key] = _list_domains(nodes.order, topology)
        return known

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


def _list_domains(order: NDArray[np.int64], topology: Topology) -> tuple[GroupPlacement, ...]:
    codes = topology.values[order]
    by_domain = order[np.argsort(codes, kind="stable")]
    found, starts = np.unique(np.sort(codes), return_index=True)
    rows = zip(found.tolist(), np.split(by_domain, starts[1:]), strict=True) if len(order) else ()
    placements = [GroupPlacement(name, own) for code, own in rows if (name := topology.meanings[code]) is not None]
    return tuple(sorted(placements, key=lambda placement: placement.name))


def _error(problem: str) -> Status:
    return Status(Code.ERROR, (f"{_UNCLEAR}: {problem}",))
