"""Nominations: pending pods for which room is kept on a node."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kframework.state.log import Log
from kframework.state.pods import PodInfo

#: So many changes are remembered at least; whoever looks less often looks at all nominations again.
_CHANGES = 1024


class Nominator:
    """Which pending pods are nominated to which node; a pod has at most one nomination.

    `log` has the names of the nodes whose nominated pods changed.
    """

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods_on: dict[str, dict[str, PodInfo]] = {}
        self.log: Log[str] = Log(_CHANGES)

    def put(self, pod: PodInfo, node_name: str) -> None:
        """Nominate the pod to a node, instead of any other; "" takes the nomination back."""
        self.remove(pod.uid)
        if node_name:
            self._node_of[pod.uid] = node_name
            self._pods_on.setdefault(node_name, {})[pod.uid] = pod
            self.log.append(node_name)

    def remove(self, uid: str) -> None:
        """Forget the pod's nomination, if it has one."""
        node_name = self._node_of.pop(uid, None)
        if node_name is not None:
            pods = self._pods_on[node_name]
            del pods[uid]
            if not pods:
                del self._pods_on[node_name]
            self.log.append(node_name)

    def node_of(self, uid: str) -> str:
        """Return the node to which the pod is nominated, "" if there is none."""
        return self._node_of.get(uid, "")

    def nominated_pods(self, pod: PodInfo) -> Iterator[tuple[str, list[PodInfo]]]:
        """List, by node, the other pods that were nominated there and are at least as important as this one."""
        for node_name in self._pods_on:
            others = self.beside(pod, node_name)
            if others:
                yield node_name, others

    def beside(self, pod: PodInfo, node_name: str) -> list[PodInfo]:
        """List the other pods that were nominated to a node and are at least as important as this one."""
        pods = self._pods_on.get(node_name)
        if pods is None:
            return []
        return [other for other in pods.values() if other.priority >= pod.priority and other.uid != pod.uid]

    @property
    def node_names(self) -> Collection[str]:
        """The nodes to which pods are nominated."""
        return self._pods_on.keys()

    def outranked(self, pod: PodInfo, node_name: str) -> list[PodInfo]:
        """List the pods nominated to a node that are less important than this one."""
        return [other for other in self._pods_on.get(node_name, {}).values() if other.priority < pod.priority]

    def __len__(self) -> int:
        return len(self._node_of)

    def __repr__(self) -> str:
        return f"<Nominator {len(self)} pods on {len(self._pods_on)} nodes>"
