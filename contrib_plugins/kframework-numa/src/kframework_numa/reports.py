"""The newest report of each node, as it is."""

from __future__ import annotations

import logging

from kframework import Handle, NodeInfo
from kframework_numa.node_resource_topology import NodeResourceTopology
from kframework_numa.topology import NumaTopology, parse_topology

_log = logging.getLogger(__name__)


class Reports:
    """The topologies of nodes by name, kept current by every change of a report."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.by_node: dict[str, NumaTopology] = {}
        for report in handle.objects(NodeResourceTopology):
            self._on_change(None, report)
        handle.on_change(NodeResourceTopology, self._on_change)

    def topology(self, node: NodeInfo) -> NumaTopology | None:
        """Return the zones of a node with what pods can have of them, None if nothing is reported."""
        return self.by_node.get(node.name)

    def _on_change(self, old: NodeResourceTopology | None, new: NodeResourceTopology | None) -> None:
        report = new or old
        assert report is not None
        name = report.metadata.name
        if new is None:
            self.forget(name)
        else:
            try:
                self.receive(new, parse_topology(new))
            except ValueError as problem:
                _log.warning("NodeResourceTopology %s is ignored: %s; correct it", name, problem)
        self._handle.invalidate(name)

    def receive(self, report: NodeResourceTopology, topology: NumaTopology) -> None:
        """Take a new report in."""
        self.by_node[report.metadata.name] = topology

    def forget(self, node_name: str) -> None:
        """Forget a node, which is reported no more."""
        self.by_node.pop(node_name, None)
