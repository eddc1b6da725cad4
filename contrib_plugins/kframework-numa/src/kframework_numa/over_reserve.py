"""The cache that keeps what is not yet reported.

A report comes seconds after a pod has taken its zone, and until then it shows room that is gone. So the last report is
kept that included all pods of its node, and pods that came after it count in every zone, whichever they are in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from kframework import Handle, NodeInfo, PendingPod, PodInfo
from kframework_numa.claims import claim_of, sum_amounts
from kframework_numa.fingerprint import fingerprint, hash_pod
from kframework_numa.node_resource_topology import NodeResourceTopology
from kframework_numa.reports import Reports
from kframework_numa.topology import NumaTopology

#: How many pods of a node a report may lack for the others to be found, after a start.
MOST_UNREPORTED = 16

#: Later than any start.
_NOT_STARTED = "9"


class _Base(NamedTuple):
    """The report that counts, and the uids of the pods whose amounts are taken off in it."""

    topology: NumaTopology
    included: frozenset[str]


class Memory:
    """What reports came, and which of them counts: an index of their store, so a reload does not end it.

    All instances of the plugin update it alike: a report is taken in by the first one that sees it.
    """

    def __init__(self) -> None:
        self.latest: dict[str, NodeResourceTopology] = {}
        self.bases: dict[str, _Base] = {}
        #: The newest reports that did not match the pods when they came.
        self.unmatched: dict[str, NumaTopology] = {}


def memories(reports: Iterable[NodeResourceTopology]) -> defaultdict[str, Memory]:
    """Build the index: a memory for each method of fingerprints."""
    return defaultdict(Memory)


class OverReserve(Reports):
    """The last reports that are known to include the pods of their nodes, less what later pods may have taken."""

    def __init__(self, handle: Handle, method: str) -> None:
        self._method = method
        #: The pods of each node by uid.
        self._pods: defaultdict[str, dict[str, PodInfo]] = defaultdict(dict)
        self._memory = handle.objects(NodeResourceTopology).index(memories)[method]
        for pod in handle.pods.values():
            self._pods[pod.node_name][pod.uid] = pod
        super().__init__(handle)
        handle.on_pod_change(self._on_pod_change)

    def topology(self, node: NodeInfo) -> NumaTopology | None:
        base = self._memory.bases.get(node.name)
        if base is None:
            return None
        amounts = sum_amounts(claim_of(pod).total for pod in node.pods if pod.uid not in base.included)
        return base.topology.without(amounts) if amounts else base.topology

    # -- reports ---------------------------------------------------------------------------------------------------

    def receive(self, report: NodeResourceTopology, topology: NumaTopology) -> None:
        super().receive(report, topology)
        node_name, latest = report.metadata.name, self._memory.latest
        if latest.get(node_name) == report:
            return
        latest[node_name] = report
        if not topology.fingerprint or self._matches(node_name, topology):
            self._accept(node_name, topology)
            return
        self._memory.unmatched[node_name] = topology
        base = self._memory.bases.get(node_name)
        # Of a later report than the first, the settings count at once.
        self._memory.bases[node_name] = (
            _Base(topology, self._reported_pods(node_name, topology))
            if base is None
            else base._replace(topology=topology._replace(zones=base.topology.zones, resources=base.topology.resources))
        )

    def forget(self, node_name: str) -> None:
        super().forget(node_name)
        self._memory.latest.pop(node_name, None)
        self._memory.bases.pop(node_name, None)
        self._memory.unmatched.pop(node_name, None)

    def _accept(self, node_name: str, topology: NumaTopology) -> None:
        self._memory.unmatched.pop(node_name, None)
        self._memory.bases[node_name] = _Base(topology, frozenset(self._pods[node_name]))

    def _reported_pods(self, node_name: str, topology: NumaTopology) -> frozenset[str]:
        """Return the pods that a node's first report includes after a start: all but the youngest, or none if unknown.

        Pods that the node has not seen yet have no start, and are the youngest.
        """
        pods = sorted(self._pods[node_name].values(), key=lambda pod: pod.start_time or _NOT_STARTED)
        for number in range(len(pods) - 1, max(len(pods) - MOST_UNREPORTED, 0) - 1, -1):
            if self._is_of(topology, pods[:number]):
                return frozenset(pod.uid for pod in pods[:number])
        return frozenset()

    def _matches(self, node_name: str, topology: NumaTopology) -> bool:
        return self._is_of(topology, self._pods[node_name].values())

    def _is_of(self, topology: NumaTopology, pods: Iterable[PodInfo]) -> bool:
        """Return whether a report includes these pods, and no others."""
        if self._counts_exclusive_only(topology):
            pods = (pod for pod in pods if claim_of(pod).is_exclusive(topology.resources))
        return fingerprint(hash_pod(pod.namespace, pod.name) for pod in pods) == topology.fingerprint

    def _counts_exclusive_only(self, topology: NumaTopology) -> bool:
        if self._method == "Autodetect":
            return topology.fingerprint_method == "with-exclusive-resources"
        return self._method == "OnlyExclusiveResources"

    # -- pods ------------------------------------------------------------------------------------------------------

    def _on_pod_change(self, old: PodInfo | None, new: PodInfo | None) -> None:
        if old is not None:
            self._pods[old.node_name].pop(old.uid, None)
        if new is not None:
            self._pods[new.node_name][new.uid] = new
        changed = new or old
        assert changed is not None
        # A report that is older than a pod of this scheduler cannot include it, even if the pod has a namesake.
        if not isinstance(new, PendingPod):
            self._look_again(changed.node_name)
        if isinstance(old, PendingPod | None) and self._includes(changed):
            self._handle.invalidate(changed.node_name)

    def _look_again(self, node_name: str) -> None:
        topology = self._memory.unmatched.get(node_name)
        if topology is not None and self._matches(node_name, topology):
            self._accept(node_name, topology)

    def _includes(self, pod: PodInfo) -> bool:
        base = self._memory.bases.get(pod.node_name)
        return base is not None and pod.uid in base.included
