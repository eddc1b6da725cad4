"""Nodes with NUMA zones, and pods for them, for tests of this plugin and of those that run beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from kframework.engine import MemoryCluster
from kframework.objects import ObjectMeta, Pod, RawQuantity, milli
from kframework.testing import make_container, make_pod, patch
from kframework_numa.fingerprint import fingerprint, hash_pod
from kframework_numa.node_resource_topology import (
    NodeResourceTopology,
    TopologyAttribute,
    TopologyZone,
    ZoneCost,
    ZoneResource,
)

Amounts = Mapping[str, RawQuantity]

#: The configuration that scheduler-plugins publishes, with its cache off.
PUBLISHED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: NodeResourceTopologyMatch
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args:
      cacheResyncPeriodSeconds: 0
      scoringStrategy:
        type: "LeastAllocated"
"""
#: The same with the cache, as operators of NUMA-aware schedulers set it up.
WITH_CACHE = PUBLISHED.replace("PeriodSeconds: 0", "PeriodSeconds: 5")


def report(
    node_name: str,
    *available: Amounts,
    allocatable: Sequence[Amounts] = (),
    policy: str = "single-numa-node",
    scope: str = "container",
    fingerprint: str = "",
    costs: Sequence[Sequence[int]] = (),
    **attributes: str,
) -> NodeResourceTopology:
    """Make a report of zones with these amounts available; all of that is allocatable unless it is given."""
    settings = {"topologyManagerPolicy": policy, "topologyManagerScope": scope, **attributes}
    if fingerprint:
        settings["nodeTopologyPodsFingerprint"] = fingerprint
    zones = (
        TopologyZone(
            name=f"node-{number}",
            type="Node",
            costs=tuple(ZoneCost(name=f"node-{other}", value=value) for other, value in enumerate(costs[number]))
            if costs
            else (),
            resources=tuple(
                ZoneResource(name=name, allocatable=allocatable[number][name] if allocatable else left, available=left)
                for name, left in amounts.items()
            ),
        )
        for number, amounts in enumerate(available)
    )
    return NodeResourceTopology(
        metadata=ObjectMeta(name=node_name, uid=f"topology-{node_name}"),
        zones=tuple(zones),
        attributes=tuple(TopologyAttribute(name=name, value=value) for name, value in settings.items()),
    )


def guaranteed_pod(
    name: str,
    *containers: Amounts,
    init: Sequence[Amounts] = (),
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    """Make a pod whose containers have limits that equal their requests; memory is added where it is missing."""
    main, first = (
        [
            make_container(f"{kind}-{number}", requests=amounts, limits=amounts)
            for number, amounts in enumerate({"memory": "64Mi", **each} for each in group)
        ]
        for kind, group in (("main", containers), ("init", init))
    )
    return make_pod(name, annotations=annotations or {}, containers=main, init_containers=first)


def publish(new: NodeResourceTopology) -> Callable[[MemoryCluster], object]:
    """Return the action by which an agent replaces its report, for a Scenario."""
    return patch(new, {field: msgspec.to_builtins(getattr(new, field)) for field in ("zones", "attributes")})


class Kubelets:
    """Nodes that give each container the CPUs of its first zone that fits, and refuse pods that fit none.

    Their agents report what is left when `publish` is called, so a report is as old as that.
    """

    def __init__(self, zones: Mapping[str, Sequence[int]]) -> None:
        self.zones = zones
        #: The uids of admitted pods with their nodes, and the CPUs that they have in each zone.
        self._taken: dict[str, tuple[str, Counter[int]]] = {}
        self.refused: list[str] = []
        self.admitted: int = 0

    @property
    def used_cpus(self) -> int:
        """The CPUs that admitted pods have."""
        return sum(taken.total() for _, taken in self._taken.values())

    def reports(self) -> list[NodeResourceTopology]:
        """Return the reports of the empty nodes."""
        return [self._report(node_name, ()) for node_name in self.zones]

    def admit(self, cluster: MemoryCluster) -> None:
        """Let go of pods that have ended, take in those that were bound, and refuse those that cannot be aligned."""
        pods = {pod.metadata.uid: pod for pod in cluster.objects(Pod) if pod.spec.node_name and not _has_ended(pod)}
        self._taken = {uid: taken for uid, taken in self._taken.items() if uid in pods}
        for uid, pod in pods.items():
            if uid in self._taken:
                continue
            taken = self._align(pod)
            if taken is None:
                self.refused.append(pod.metadata.name)
                failed = {"status": {"phase": "Failed", "reason": "TopologyAffinityError"}}
                cluster.merge(Pod, pod.metadata.name, failed, pod.metadata.namespace)
            else:
                self.admitted += 1
                self._taken[uid] = pod.spec.node_name, taken

    def _align(self, pod: Pod) -> Counter[int] | None:
        free, taken = self._free(pod.spec.node_name), Counter[int]()
        for container in pod.spec.containers:
            cpus = milli(container.resources.requests["cpu"]) // 1000
            zone = next((number for number, left in enumerate(free) if left - taken[number] >= cpus), None)
            if zone is None:
                return None
            taken[zone] += cpus
        return taken

    def _free(self, node_name: str) -> list[int]:
        taken = [used for name, used in self._taken.values() if name == node_name]
        return [cpus - sum(used[number] for used in taken) for number, cpus in enumerate(self.zones[node_name])]

    def publish(self, cluster: MemoryCluster) -> None:
        """Report what is left in each zone, with the fingerprint of the admitted pods."""
        for node_name in self.zones:
            pods = [pod for pod in cluster.objects(Pod) if self._taken.get(pod.metadata.uid, ("",))[0] == node_name]
            publish(self._report(node_name, pods))(cluster)

    def _report(self, node_name: str, pods: Iterable[Pod]) -> NodeResourceTopology:
        hashes = (hash_pod(pod.metadata.namespace, pod.metadata.name) for pod in pods)
        amounts: list[Amounts] = [{"cpu": cpus, "memory": "64Gi"} for cpus in self._free(node_name)]
        return report(node_name, *amounts, fingerprint=fingerprint(hashes))


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")
