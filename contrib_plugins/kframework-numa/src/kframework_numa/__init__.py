"""NodeResourceTopologyMatch: place pods where the topology manager of the node can align them with NUMA zones."""

from __future__ import annotations

from kframework_numa.node_resource_topology import NodeResourceTopology
from kframework_numa.node_resource_topology_match import NodeResourceTopologyMatch

__all__ = ["NodeResourceTopology", "NodeResourceTopologyMatch"]
